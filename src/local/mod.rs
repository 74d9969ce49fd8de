//! Background processes of a developer's machine: the local AWS, the embedded Kubernetes API, and `capt up`.

pub mod admin;
pub mod aws_daemon;
pub mod aws_record;
#[cfg(feature = "local")]
pub mod aws_server;
#[cfg(feature = "local")]
mod eks_hosts;
#[cfg(feature = "local")]
pub mod embedded_api;
pub mod up_daemon;
pub mod venv;
