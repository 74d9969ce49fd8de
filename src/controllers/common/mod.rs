//! What all controllers need before they look at an object: whose it is, and whether it is to be left alone.

pub mod cluster;
pub mod gate;
pub mod identity;
