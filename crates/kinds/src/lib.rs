//! The kinds of capt as Rust types: fields, schemas, CEL rules, condition types and reasons. Data only.
//!
//! | module | kinds |
//! |---|---|
//! | [`api`] | the Cluster API kinds `CAPTCluster` and `CAPTControlPlane`, and the Terraform kinds |
//! | [`sandbox`] | `Sandbox`, `RouteGroup` and `LocalWorkload` |

pub mod api;
pub mod sandbox;
