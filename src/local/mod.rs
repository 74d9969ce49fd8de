//! Background processes of a developer's machine: the local AWS, the embedded Kubernetes API, and `capt up`.

pub mod admin;
pub mod aws_daemon;
pub mod aws_server;
mod eks_hosts;
pub mod embedded_api;
pub mod up_daemon;
pub mod venv;
