//! The sandbox data plane: routes requests with a routing key to the fork of a service, all others to its baseline.
//! Independent of Kubernetes objects, Terraform and AWS.

pub mod h2_body;
pub mod key;
pub mod local_transport;
pub mod proxy;
pub mod request_body;
pub mod table;
pub mod tunnel;
