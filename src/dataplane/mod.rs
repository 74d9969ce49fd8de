//! Sandboxes outside of the operator: what a router and a developer's machine run.
//!
//! | room | is |
//! |---|---|
//! | [`router`] | the data plane of one namespace, `capt router` |
//! | [`tunnel`] | what the gateway of a router asks and tells the API server |
//! | [`import`] | files of Signadot as objects of ours, `capt import` |
//! | [`watched`] | what routes are made of, as watches tell it |
//! | [`connect`] | the agent of a developer's machine, `capt connect` |

pub mod connect;
pub mod import;
pub mod router;
pub mod tunnel;
pub mod watched;

/// Annotation of a router's Lease: the ports at which it listens for Services, as `20001,20002`.
pub const LISTENERS_ANNOTATION: &str = "sandbox.capt.x-k8s.io/listeners";
/// Annotation of the Service that keeps another's selector: how often somebody took the other one back.
pub const REVERTS_ANNOTATION: &str = "sandbox.capt.x-k8s.io/reverts";
/// What the label of the routers' Leases and pods says.
pub const ROUTER: &str = "router";
