//! `capt`: creates EKS clusters with Fargate from Kubernetes objects by running Terraform.
//!
//! Modules, from the pure core to the process edges. `tests/architecture.rs` enforces which module may use which.
//!
//! | module | responsibility |
//! |---|---|
//! | [`api`] | custom resources: fields, schemas, CEL rules, condition types and reasons. Data only |
//! | [`model`] | validation: specs in, `Validated…` values or field errors with a remedy out. Pure |
//! | [`manifest`] | manifests from files: strict parsing and cross-object checks. Pure |
//! | [`workspaces`] | the Terraform workspaces that the objects require, their inputs and dependencies. Pure |
//! | [`modules`] | the Terraform modules embedded in the binary |
//! | [`pipeline`] | the run pipeline of one workspace: render, init, plan, guard, apply, destroy |
//! | [`runs`] | terraform runs of the operator: scheduling, per-workspace serialisation, state backup |
//! | [`oneshot`] | plan, apply and destroy of a set of workspaces from the command line |
//! | [`aws`] | EKS and STS calls; the only user of the AWS SDK |
//! | [`gateway`] | the provider gateway: long-lived provider processes shared by all runs of a data directory |
//! | [`k8s`] | the Kubernetes client: deadlines, retries, patches, events, leases, state in Secrets |
//! | [`controllers`] | the controllers, one folder per kind |
//! | [`dataplane`] | the sandbox data plane: the router process and the developer's tunnel client |
//! | [`certificate`] | serving certificates: issued, shared between replicas, renewed |
//! | [`server`] | HTTP endpoints: liveness, readiness, metrics, log level, admission webhook |
//! | [`telemetry`] | logging and metrics; uses no other module of this crate |
//! | [`operator`] | wires controllers, runs, servers and leader election into one future |
//! | [`local`] | background processes of a developer's machine: local AWS, embedded Kubernetes API, `capt up` |
//! | [`cli`] | the command line, one file per subcommand |
//! | [`config`] | the process environment; the only reader of environment variables |
//! | [`error`] | error classes and the retry policy they imply |

pub mod api;
pub mod aws;
pub mod certificate;
pub mod cli;
pub mod config;
pub mod controllers;
pub mod dataplane;
pub mod error;
pub mod gateway;
pub mod k8s;
pub mod local;
pub mod manifest;
pub mod model;
pub mod modules;
pub mod oneshot;
pub mod operator;
pub mod pipeline;
pub mod runs;
pub mod server;
pub mod telemetry;
pub mod workspaces;
