//! What is shipped to run the operator in a cluster: the manifests as kubectl renders them, the rights that they give,
//! the image's recipe. Nothing here needs a cluster, a network or a container engine.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on stops, and says where"
)]

mod admission;
mod clusterctl;
mod flags;
mod image;
pub(crate) mod overlays;
mod permissions;
mod pod;
mod policies;

use crate::rbac;
