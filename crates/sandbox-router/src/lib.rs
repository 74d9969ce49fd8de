//! The data plane of sandboxes: requests that carry a routing key go to the fork of a service, all others to the service
//! itself. Knows nothing of Kubernetes objects, Terraform or AWS.

pub mod body;
pub mod key;
pub mod locals;
pub mod proxy;
pub mod streams;
pub mod table;
pub mod tunnel;
