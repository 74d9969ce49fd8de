//! An embeddable Kubernetes API server backed by `SQLite`, for one or more logical clusters in one process.
//!
//! | module | purpose |
//! |---|---|
//! | [`cluster`] | the public handle: builder, in-process client, listener, kubeconfig |
//! | `http_server` | HTTP: path parsing, content negotiation, encoding, TLS |
//! | `auth` | authentication, impersonation, RBAC |
//! | `handlers` | request handlers: get, list, watch, create, update, patch, delete |
//! | `patch` | the four patch types and managed fields |
//! | `registry` | the served resources |
//! | `kinds` | built-in kinds: defaults, validation, printer columns |
//! | `types` | the table of built-in types: fields, list types, merge keys, protobuf |
//! | `schema`, `crd` | custom resources: schemas, CEL, versions, the CRD controller |
//! | `discovery`, `openapi` | API discovery and `OpenAPI` documents |
//! | `decode` | decoding of request bodies |
//! | `controllers` | garbage collector, namespaces, Deployment → `ReplicaSet` → Pod → `EndpointSlice` |
//! | `selectors` | label and field selectors |
//! | `store` | ordered, durable storage of objects, with watches |
//! | `fsync` | durable directory entries |
//! | `fault_injection` | injected faults and the request log, for tests |
//! | `quantity` | Kubernetes quantities |
//! | `go_syntax_error` | Go's error texts for malformed JSON |
//! | `object`, `shape`, `status_error`, `request`, `hex` | types and helpers shared by all modules |
//!
//! Behaviour and error texts follow kube-apiserver ("the real server" in comments); `docs/conformance.md` lists the cases.

#![allow(unreachable_pub, reason = "most modules are private; `pub` marks what other modules may use")]

pub mod auth;
mod clock;
pub mod cluster;
mod controllers;
mod crd;
mod decode;
mod discovery;
pub mod fault_injection;
mod fsync;
mod go_syntax_error;
mod handlers;
mod hex;
mod http_server;
mod kinds;
pub mod object;
mod openapi;
mod patch;
mod quantity;
mod registry;
pub mod request;
mod schema;
mod selectors;
mod shape;
pub mod status_error;
mod store;
mod types;
