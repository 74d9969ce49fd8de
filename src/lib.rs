//! `capt`: EKS clusters with Fargate from Kubernetes objects, by running Terraform itself.
//!
//! The map of this tree:
//!
//! | module | is |
//! |---|---|
//! | [`api`] | the kinds: fields, schema, rules, the words of their status |
//! | [`model`] | what the kinds mean: validated values, verdicts with a remedy |
//! | [`manifest`] | objects from files, strictly, and a verdict on all of them at once |
//! | [`blueprint`] | objects to workspaces: which there are, what goes in, what waits for what |
//! | [`modules`] | the Terraform modules in the binary |
//! | [`work`] | the work on one workspace: render, plan, guard, apply, destroy |
//! | [`runs`] | runs of terraform in the operator: one at a time for each workspace |
//! | [`oneshot`] | plan, apply and destroy of workspaces from the command line |
//! | [`aws`] | the only user of the AWS SDK |
//! | [`gateway`] | running providers, shared by all runs, as a background process |
//! | [`k8s`] | the only writer to the Kubernetes API |
//! | [`operator`] | controllers, runs and server, wired into one future |
//! | [`local`] | the local AWS as a background process |
//! | [`operator`] | controllers, runs, server and leadership as one |
//! | [`controllers`] | the controllers, one folder a kind |
//! | [`certificate`] | certificates of our servers: made, shared by replicas, renewed |
//! | [`telemetry`] | logs and metrics, for everybody |
//! | [`sandbox`] | what a router and a developer's machine run |
//! | [`server`] | live, ready, metrics, and the admission webhook |
//! | [`cli`] | one file a subcommand |
//! | [`config`] | the only reader of the environment |
//! | [`error`] | what an error means for the next attempt |

pub mod api;
pub mod aws;
pub mod blueprint;
pub mod certificate;
pub mod cli;
pub mod config;
pub mod controllers;
pub mod error;
pub mod gateway;
pub mod k8s;
pub mod local;
pub mod manifest;
pub mod model;
pub mod modules;
pub mod oneshot;
pub mod operator;
pub mod runs;
pub mod sandbox;
pub mod server;
pub mod telemetry;
pub mod work;
