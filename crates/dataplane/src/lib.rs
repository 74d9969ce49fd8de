//! The data plane of sandboxes: what the routers and the developers' machines run, outside of the operator.
//!
//! | module | does |
//! |---|---|
//! | [`router`] | the router of one namespace, `capt router` |
//! | [`tunnel`] | API server access of a router's tunnel gateway: authorization, session status, certificates |
//! | [`import`] | converts Signadot files to our objects, `capt import` |
//! | [`route_inputs`] | watches the inputs of the route table |
//! | [`connect`] | the agent on a developer's machine, `capt connect` |

pub mod connect;
pub mod import;
pub mod route_inputs;
pub mod router;
pub mod tunnel;

/// Annotation of a router's Lease: the ports on which it listens for Services, as `20001,20002`.
pub const LISTENERS_ANNOTATION: &str = "sandbox.capt.x-k8s.io/listeners";
/// Annotation of a base Service: how often its Service was reverted by other clients.
pub const REVERTS_ANNOTATION: &str = "sandbox.capt.x-k8s.io/reverts";
/// Label value of the routers' Leases and pods.
pub const ROUTER_LABEL_VALUE: &str = "router";
