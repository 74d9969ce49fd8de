//! Sandboxes on the embedded Kubernetes API, or on a real one with `CAPT_TEST_KUBE=real`: the real controllers as the service
//! account of `deploy/`, and a node that plays the kubelet. Properties have the numbers of the design.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that cannot go on stops, and says where"
)]

mod bad_input;
mod baseline;
mod chaos;
mod chaos_services;
mod clock;
mod clusters;
mod follow;
mod keys;
mod life;
mod load;
mod looks;
mod mesh;
mod mortal;
mod node;
mod outposts;
mod patches;
mod quiet;
mod refusals;
mod restore;
mod rivals;
mod routes;
mod routing;
mod settings;
mod shop;
mod takeover;
mod town;
mod traffic;
mod trouble;
mod ttl;
mod uninstall;
mod upkeep;
mod world;

use crate::{connect::network, operator::account, server};
