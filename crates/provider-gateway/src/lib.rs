//! A gateway between Terraform and its providers.
//!
//! `TF_REATTACH_PROVIDERS` makes Terraform connect to a unix socket of the gateway instead of starting a provider. The
//! gateway answers calls from its cache where the response cannot differ, and forwards the rest to provider processes
//! that are shared by all runs with the same program, environment and configuration.
//!
//! | module | is |
//! |---|---|
//! | [`wire`] | protobuf, gRPC and call classification on raw bytes; pure |
//! | [`plugin`] | provider processes; the only module that starts processes |
//! | [`pool`] | assignment of processes to configurations |
//! | [`serve`] | the sockets that Terraform connects to |
//! | [`cache`] | response cache |
//! | [`journal`] | applied changes, on disk before Terraform gets the response |
//! | [`package`] | provider packages on disk and their verification against the lock file |
//! | [`probe`] | drift probes without Terraform |
//! | [`replay`] | what a journal has and a state lacks |
//! | [`gateway`] | the gateway as a whole |
//! | [`admin`] | registration of runs from another process |

pub mod admin;
pub mod counters;
pub mod digest;
pub mod gateway;
pub mod journal;
pub mod package;
pub mod plugin;
pub mod pool;
pub mod private_fs;
pub mod probe;
mod random_token;
pub mod replay;
pub mod response_cache;
pub mod serve;
pub mod wire;

pub use capt_util::clock;
