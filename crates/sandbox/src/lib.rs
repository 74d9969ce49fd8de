//! Sandboxes: forks of workloads that receive only the requests that carry their routing key.
//!
//! | module | does |
//! |---|---|
//! | [`validate`] | validates specs without an API server |
//! | [`fork`], [`service`] | builds the fork of a baseline and its Services |
//! | [`unsupported`], [`namespace_context`] | unsupported baselines, and the namespace objects that affect a fork |
//! | [`fargate`] | where a fork's pods are scheduled |
//! | [`readiness`] | whether a fork is ready, and why not |
//! | [`local_slots`], [`local_status`] | conflicts between local workloads, and the status of their sessions |
//! | [`routes`] | builds the route table from objects, for controllers and routers alike |
//! | [`mesh`] | the same routes as `HTTPRoute` objects, for a service mesh |
//! | [`condition`], [`phase`], [`ttl`] | conditions, phase and expiry of an object |
//! | [`target`], [`labels`], [`digest`], [`template`], [`refusal`] | shared types |
//!
//! Pure functions only: no client, no clock, no I/O. The controllers, the routers and the command line call the same functions
//! and therefore agree.

pub mod condition;
pub mod digest;
pub mod fargate;
pub mod fork;
pub mod labels;
pub mod local_slots;
pub mod local_status;
pub mod mesh;
pub mod namespace_context;
pub mod phase;
pub mod readiness;
pub mod rejection;
pub mod routes;
pub mod service;
pub mod target;
pub mod template;
pub mod ttl;
pub mod unsupported;
pub mod validate;
