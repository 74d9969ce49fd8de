//! What all controllers need before they look at an object: whose it is, and whether it is to be left alone; and after:
//! when it is looked at again.

pub mod applied;
pub mod board;
pub mod cluster;
pub mod context;
pub mod drive;
pub mod family;
pub mod gate;
pub mod httproutes;
pub mod identity;
pub mod meter;
pub mod outpost;
pub mod policy;
pub mod propagation;
pub mod step;
pub mod unreadable;
pub mod workspace;

pub use context::{Context, Settings};
pub use meter::{End, Meter, Thing};
