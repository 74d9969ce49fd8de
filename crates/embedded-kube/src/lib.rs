//! A Kubernetes API server in a library, on `SQLite`, for one or many logical clusters in one process.
//!
//! | room | what it does |
//! |---|---|
//! | [`cluster`] | the handle: builder, in-process client, listener, kubeconfig |
//! | `front` | HTTP: paths, negotiation, encoding, TLS |
//! | `auth` | who asks, and what they may |
//! | `verbs` | what a request means: get, list, watch, create, update, patch, delete |
//! | `patch` | the four kinds of patches, and who manages which field |
//! | `registry` | what is served now |
//! | `kinds` | built-in kinds: defaults, checks, columns |
//! | `types` | the table of built-in types: fields, list types, merge keys, protobuf |
//! | `schema`, `crd` | custom resources: schemas, CEL, versions, establishment |
//! | `discovery`, `openapi` | what clients ask to find their way |
//! | `decode` | bodies of requests into values |
//! | `controllers` | garbage collector, namespaces, Deployment → `ReplicaSet` → Pod → `EndpointSlice` |
//! | `selectors` | which objects a request is about: label and field selectors |
//! | `store` | one ordered, durable history of objects |
//! | `durable` | names in directories that survive a power cut |
//! | `faults` | trouble on request, and a log of requests, for tests |
//! | `object`, `shape`, `failure`, `request`, `hex` | words and small tools that all of them share |

#![allow(unreachable_pub, reason = "the rooms are private; `pub` in them is what other rooms may use")]

pub mod auth;
mod clock;
pub mod cluster;
mod controllers;
mod crd;
mod decode;
mod discovery;
mod durable;
pub mod failure;
pub mod faults;
mod front;
mod hex;
mod kinds;
pub mod object;
mod openapi;
mod patch;
mod registry;
pub mod request;
mod schema;
mod selectors;
mod shape;
mod store;
mod types;
mod verbs;
