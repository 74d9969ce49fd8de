//! Fargate profiles beside the cluster's own: their workspaces, and what is said of them. Pure.
//!
//! A changed profile is rotated inside of its workspace's run; here only the name that it has in EKS at present is read.

mod build;
mod poke;
mod status;

#[cfg(test)]
mod tests;

pub use self::{
    build::{apply_name, workspace},
    poke::{Poke, poke},
    status::{Judged, Profile, Standing, conditions, eks_name, judge, strangers},
};
