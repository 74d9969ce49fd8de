//! The contract of Cluster API on a real kube-apiserver, with a real garbage collector: the operator in this process, as the
//! service account of `deploy/` and with its rules.
//!
//! `cargo test -p capt --test contract -- [FILTER…] [--list] [--serial]`

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test that cannot go on stops, and says where"
)]

#[path = "../sandbox/fake_node.rs"]
mod fake_node;
#[path = "../operator/in_process_operator.rs"]
mod in_process_operator;
#[path = "../operator/local_aws.rs"]
#[allow(dead_code, reason = "the tests of the operator use more of it")]
mod local_aws;
#[path = "../operator/log_capture.rs"]
mod log_capture;
#[path = "../operator/ports.rs"]
mod ports;
#[path = "../rbac/mod.rs"]
#[allow(dead_code, unused_imports, reason = "tests/deploy uses more of it, and runs its tests")]
mod rbac;
#[path = "../sandbox/takeover.rs"]
mod takeover;
#[path = "../sandbox/test_namespace.rs"]
mod test_namespace;

mod audit;
mod capi;
mod case_namespace;
mod cluster;
mod deletion;
mod fake_capi_core;
mod harness;
mod host;
mod initialization_latch;
mod permissions;
mod preconditions;
mod sandboxes;
mod suite;
mod webhook;

use std::process::ExitCode;

use suite::{Group, cases};

fn groups() -> Vec<Group> {
    let contract = Group {
        name: "contract",
        parallel: cases![
            preconditions::p3_nothing_runs_before_a_cluster_owns_it,
            preconditions::p3_a_control_plane_waits_for_its_infrastructure,
            preconditions::p15_a_pause_stops_everything_until_it_ends,
            deletion::p10_everything_deleted_at_once_goes_in_order,
            deletion::p10_a_foreground_deletion_goes_in_order,
            deletion::p28_a_namespace_goes_after_what_was_made_from_it,
            permissions::an_identity_and_a_config_map_are_used,
            sandboxes::f2_f5_f12_a_fork_lives_beside_its_baseline_and_ends_in_time,
            sandboxes::f3_f4_a_service_is_check_takeover_and_restore,
            sandboxes::a_mesh_gets_the_routes_of_a_group,
            sandboxes::f8_what_a_fork_cannot_share_or_be_taken_for_is_refused,
            webhook::webhook_a_bad_template_is_refused_with_our_words,
            webhook::webhook_what_is_registered_is_what_was_applied,
        ],
        serial: cases![
            initialization_latch::p2_what_was_once_provisioned_stays_provisioned,
            webhook::webhook_another_replica_answers_for_the_first_and_nobody_fails_open,
        ],
        last: cases![permissions::p1_no_cluster_was_ever_written],
    };
    let capi = Group {
        name: "capi",
        parallel: cases![capi::p18_capi_core_leads_a_cluster_through_its_life_by_an_exact_kubeconfig],
        serial: Vec::new(),
        last: cases![
            permissions::p1_no_cluster_was_ever_written,
            permissions::no_request_was_refused_and_every_right_was_used,
        ],
    };
    vec![contract, capi]
}

fn main() -> ExitCode {
    suite::main(groups())
}
