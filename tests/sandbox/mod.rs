//! Sandboxes on the embedded Kubernetes API, or on a real one with `CAPT_TEST_KUBE=real`: the real controllers with the service
//! account of `deploy/`, and a fake node. docs/testing.md lists the property ids in test names.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that cannot go on stops, and says where"
)]

mod bad_input;
mod baseline;
mod baseline_sync;
mod crash_client;
mod crash_recovery;
mod crash_recovery_services;
mod env_settings;
mod fake_node;
mod fault_injection;
mod fork_drift;
mod harness;
mod idle_writes;
mod key_conflicts;
mod lifecycle;
mod load;
mod mesh;
mod patches;
mod reconcile_counts;
mod rejections;
mod remote_clusters;
mod remote_lifecycle;
mod route_status;
mod routed_harness;
mod routing;
mod routing_keys;
mod takeover;
mod takeover_restore;
mod test_clock;
mod test_namespace;
pub(crate) mod traffic;
mod ttl;
mod uninstall;

use crate::{connect::network, operator::service_account, test_kube};
