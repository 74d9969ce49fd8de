//! Runs terraform or tofu as a supervised child.

pub mod classify;
pub mod clock;
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
pub mod state;
pub mod substitute;
pub mod workspace;
