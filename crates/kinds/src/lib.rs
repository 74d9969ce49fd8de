//! The kinds of capt as Rust types: fields, schemas, CEL rules, condition types and reasons. Data only.
//!
//! | module | kinds |
//! |---|---|
//! | [`api`] | the Cluster API kinds `CAPTCluster` and `CAPTControlPlane`, and the Terraform kinds |
//! | [`sandbox`] | `Sandbox`, `RouteGroup` and `LocalWorkload` |
//!
//! Module [`grant`] decides which of them may refer to objects of other namespaces.

pub mod api;
pub mod grant;
pub mod sandbox;
