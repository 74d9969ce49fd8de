//! Runs terraform or tofu as a supervised child process, and reads what it writes.
//!
//! | step | modules |
//! |---|---|
//! | find the engine and the providers | [`engine`], [`providers`] |
//! | instantiate a template, parse its module source, render the files | [`substitute`], [`source`], [`render`] |
//! | write the workspace directory, lock it | [`workspace`] |
//! | build the environment and the command lines | [`environment`], [`command`] |
//! | run and supervise a command | [`run`] (caller side), [`shim`] (supervisor process), [`exec`] (process calls) |
//! | read the event stream and the saved plan, guard the plan | [`events`], [`planfile`], [`plan`] |
//! | read, snapshot and recover the state; read outputs | [`state`], [`output`] |
//! | classify failures for retries | [`classify`] |
//!
//! The crate knows nothing of Kubernetes. It never reads the environment of its own process.

pub mod classify;
pub mod command;
pub mod engine;
pub mod environment;
pub mod events;
pub mod exec;
pub mod hex;
pub mod output;
pub mod plan;
pub mod planfile;
pub mod providers;
pub mod render;
pub mod run;
pub mod shim;
pub mod source;
pub mod state;
pub mod substitute;
pub mod workspace;

pub use capt_util::clock;
