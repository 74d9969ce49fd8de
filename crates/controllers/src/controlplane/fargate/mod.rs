//! Additional Fargate profiles: builds their workspaces and computes their status. Pure.
//!
//! A changed profile is rotated by the run of its workspace; this module only reads its current name in EKS.

mod build;
mod rerun_backoff;
mod status;

#[cfg(test)]
mod tests;

pub(crate) use self::{
    build::{apply_name, build_profile_workspace},
    rerun_backoff::{RerunSchedule, next_rerun},
    status::{
        ManagedProfile, ProfileAssessment, ProfileState, assess_profile, eks_name, profile_conditions,
        unmanaged_profiles,
    },
};
