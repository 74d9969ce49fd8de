//! `capt`: creates EKS clusters with Fargate from Kubernetes objects by running Terraform.
//!
//! This crate is the command. `tests/architecture.rs` enforces which crate and which module may use which.
//!
//! | module | responsibility |
//! |---|---|
//! | [`cli`] | the command line, one file per subcommand |
//! | [`operator`] | wires controllers, runs, servers and leader election into one future |
//! | [`server`] | HTTP endpoints: liveness, readiness, metrics, log level, admission webhook |
//! | [`telemetry`] | logging and metrics; uses no other module and none of our crates but the driver |
//! | [`local`] | background processes of a developer's machine: local AWS, embedded Kubernetes API, `capt up` |
//! | [`aws_mode`] | the AWS that a command uses: the local one, or an account |

pub mod aws_mode;
pub mod cli;
pub mod local;
pub mod operator;
pub mod server;
pub mod telemetry;
