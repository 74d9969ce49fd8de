//! The real controller against an in-process API server. The tests act as Cluster API; fakes replace the workspace controller and
//! EKS.

mod deletion;
mod eks;
mod fake_eks;
mod harness;
mod lifecycle;
mod profiles;
