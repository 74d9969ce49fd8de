//! All suites of the command and the operator in one binary, so that they are linked once. docs/testing.md says what each
//! of them needs and how to run a part.

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
mod server;
mod system;
mod tour;
