//! The engine: runs Terraform for workspaces. Knows neither the Kubernetes API nor the command line.
//!
//! | module | responsibility |
//! |---|---|
//! | [`pipeline`] | the run pipeline of one workspace: render, init, plan, guard, apply, destroy |
//! | [`runs`] | terraform runs of the operator: scheduling, per-workspace serialisation, state backup |
//! | [`oneshot`] | plan, apply and destroy of a set of workspaces from the command line |
//! | [`gateway`] | the provider gateway: long-lived provider processes shared by all runs of a data directory |
//! | [`aws`] | EKS and STS calls; the only user of the AWS SDK |
//! | [`daemon_files`] | record, log and lock of a background process |
//! | [`process_env`] | the process environment; the only reader of environment variables |

pub mod aws;
pub mod daemon_files;
pub mod gateway;
pub mod oneshot;
pub mod pipeline;
pub mod process_env;
pub mod runs;
