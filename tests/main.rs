//! All suites of the command line and the operator in one binary, so that they are linked once. docs/testing.md describes what
//! each of them needs and how to run a part.

mod admitted;
mod api_verdicts;
mod architecture;
mod cli;
mod connect;
mod crds_fresh;
mod deploy;
mod modules_match;
mod operator;
mod rbac;
mod sandbox;
mod system;
mod tenancy;
mod test_kube;
mod tour;
