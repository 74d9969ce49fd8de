//! Sandboxes: a fork of one service, reached only by the requests that carry its key.
//!
//! | room | what it does |
//! |---|---|
//! | [`api`] | the kinds Sandbox, `RouteGroup` and `LocalWorkload`: fields, schema, rules, words |
//! | [`validate`] | whether a spec can be followed, without an API server |
//! | [`fork`], [`service`] | from a baseline to its fork and the fork's Services |
//! | [`refuse`], [`around`] | what cannot be forked, and what around it would be misled |
//! | [`fargate`] | where a fork's pods would run |
//! | [`readiness`] | whether a fork is ready, and why not, in words |
//! | [`local_place`], [`local_status`] | which local workloads have a place, and what is said of their sessions |
//! | [`routes`] | from objects to the route table, for controllers and routers alike |
//! | [`mesh`] | the same routes as `HTTPRoute` objects, for a mesh |
//! | [`condition`], [`phase`], [`ttl`] | what is said of an object, and when it is over |
//! | [`target`], [`labels`], [`digest`], [`template`], [`refusal`] | small words that all of them share |
//!
//! Everything here is a pure function: no client, no clock, no I/O. The controllers, the routers and the command line ask
//! the same functions and so agree.

pub mod api;
pub mod around;
pub mod condition;
pub mod digest;
pub mod fargate;
pub mod fork;
pub mod labels;
pub mod local_place;
pub mod local_status;
pub mod mesh;
pub mod phase;
pub mod readiness;
pub mod refusal;
pub mod refuse;
pub mod routes;
pub mod service;
pub mod target;
pub mod template;
pub mod ttl;
pub mod validate;
