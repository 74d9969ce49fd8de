//! A gateway between terraform and its providers.
//!
//! Terraform is told by `TF_REATTACH_PROVIDERS` that its provider is running already, at a unix socket of ours. What it
//! asks there is answered from memory where the answer cannot differ, and passed on to a provider that all runs with
//! the same program, environment and configuration share.
//!
//! | module | is |
//! |---|---|
//! | [`wire`] | protobuf, gRPC and the calls of the protocol, as bytes; pure |
//! | [`plugin`] | providers as processes; the only module that starts any |
//! | [`pool`] | who gets which process |
//! | [`serve`] | the sockets that terraform talks to |
//! | [`cache`] | answers that cannot differ |
//! | [`journal`] | what was applied, on disk before terraform hears of it |
//! | [`package`] | a provider on disk, and whether it is what was locked |
//! | [`probe`] | whether a workspace is as it was, without terraform |
//! | [`gateway`] | all of it together |
//! | [`admin`] | how a run is registered from another process |

pub mod admin;
pub mod cache;
pub mod clock;
pub mod counters;
pub mod digest;
pub mod disk;
pub mod gateway;
pub mod journal;
pub mod package;
pub mod plugin;
pub mod pool;
pub mod probe;
pub mod serve;
pub mod wire;
