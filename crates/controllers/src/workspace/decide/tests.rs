//! Tables of situations and the decision for each.

mod deletion;
mod drift;
mod scene;

use jiff::SignedDuration;

use self::scene::{
    CHECKED, HASH, INTERVAL, PLAN, STARTED, Scene, all_scenes, at, blocked, check, ended, failed,
    failed_apply, failed_destroy, fresh, interrupted, invalid_spec, missing_secret, now, resolved, settled,
};
use super::*;

const EARLY: [RunPhase; 3] = [RunPhase::Pending, RunPhase::Initializing, RunPhase::Planning];
const OPERATIONS: [RunOperation; 3] = [RunOperation::Apply, RunOperation::Check, RunOperation::Destroy];

fn start(goal: Goal, priority: RunPriority) -> Decision {
    Decision::StartRun { goal, priority }
}

fn apply(priority: RunPriority) -> Decision {
    start(Goal::Apply { approved: None }, priority)
}

fn idle(seconds: u64) -> Decision {
    Decision::Idle(Some(Duration::from_secs(seconds)))
}

#[test]
fn a_paused_object_starts_nothing_and_only_a_run_without_changes_is_cancelled() {
    for deleting in [false, true] {
        let scenes = || {
            all_scenes().into_iter().map(move |(name, scene)| {
                (
                    format!("{name}, deleting: {deleting}"),
                    scene.with(|facts| facts.deleting = deleting).paused(),
                )
            })
        };
        check(scenes().map(|(name, scene)| (name, scene, Decision::Pause)));
        for result in [RunResult::Interrupted, RunResult::Destroyed] {
            check(scenes().map(|(name, scene)| {
                let scene = scene.finished(RunOperation::Destroy, result.clone());
                (format!("{name}, after {result:?}"), scene, Decision::Pause)
            }));
        }
        for operation in OPERATIONS {
            for phase in EARLY {
                check(scenes().map(|(name, scene)| {
                    let name = format!("{name}, {operation:?} {phase:?}");
                    (name, scene.running(operation, phase), Decision::CancelRun)
                }));
            }
            for phase in [RunPhase::Applying, RunPhase::Destroying] {
                check(scenes().map(|(name, scene)| {
                    let name = format!("{name}, {operation:?} {phase:?}");
                    (name, scene.running(operation, phase), Decision::Pause)
                }));
            }
        }
    }
}

#[test]
fn a_run_in_progress_is_awaited_whatever_else_is_new() {
    for operation in OPERATIONS {
        for phase in EARLY.into_iter().chain([RunPhase::Applying, RunPhase::Destroying]) {
            check(all_scenes().into_iter().map(|(name, scene)| {
                let name = format!("{name}, {operation:?} {phase:?}");
                (name, scene.running(operation, phase), Decision::AwaitRun)
            }));
        }
    }
}

#[test]
fn the_finalizer_is_added_before_anything_else_happens() {
    check(
        all_scenes()
            .into_iter()
            .map(|(name, scene)| (name, scene.without_finalizer(), Decision::AddFinalizer)),
    );
}

#[test]
fn without_inputs_nothing_is_started_whatever_the_last_run_was() {
    let scenes = || {
        let requested = settled().requested(-10);
        [fresh(), settled(), failed_apply(-30), interrupted(), blocked().approved(PLAN), requested]
    };
    check(scenes().map(|scene| ("not read", scene.inputs(RunInputs::NotRead), Decision::AwaitRun)));
    check(scenes().map(|scene| {
        let scene = scene.inputs(RunInputs::Waiting(missing_secret()));
        ("missing", scene, Decision::Wait(missing_secret(), None))
    }));
    check(scenes().map(|scene| {
        let scene = scene.inputs(RunInputs::Invalid(invalid_spec()));
        ("invalid", scene, Decision::Reject(invalid_spec()))
    }));
}

#[test]
fn the_last_run_decides_what_follows() {
    let checked = || ended(RunOperation::Check, RunPhase::Succeeded);
    let unfinished = |phase| ended(RunOperation::Apply, phase);
    let (change, retry) = (RunPriority::Change, RunPriority::Retry);
    check(vec![
        ("nothing has run", fresh(), apply(change)),
        ("nothing has run here", fresh().with(|facts| facts.has_directory = true), apply(change)),
        ("succeeded", settled(), idle(600)),
        ("succeeded, inputs changed", settled().changed(), apply(change)),
        ("checked after an apply", checked(), idle(600)),
        ("checked, never applied", checked().applied(None), apply(retry)),
        ("checked, other inputs applied", checked().applied(Some("before")), apply(retry)),
        ("inputs of the run unknown", settled().status(forget_inputs), apply(change)),
        ("a destroy of an earlier object", ended(RunOperation::Destroy, RunPhase::Succeeded), apply(change)),
        ("interrupted", interrupted(), apply(retry)),
        ("interrupted, inputs changed", interrupted().changed(), apply(change)),
        ("the process ended while pending", unfinished(RunPhase::Pending), apply(retry)),
        ("the process ended while planning", unfinished(RunPhase::Planning), apply(retry)),
        ("the process ended while applying", unfinished(RunPhase::Applying), apply(retry)),
    ]);
}

fn forget_inputs(status: &mut WorkspaceTemplateApplyStatus) {
    status.run.as_mut().unwrap().inputs_hash = None;
}

#[test]
fn a_failed_run_is_retried_at_its_time_and_at_once_with_other_inputs() {
    let (change, retry) = (RunPriority::Change, RunPriority::Retry);
    let soon = now() + SignedDuration::from_millis(1500);
    let without_error = failed_apply(30).status(|status| status.last_error = None);
    check(vec![
        ("early", failed_apply(30), idle(30)),
        (
            "a little early",
            failed(RunOperation::Apply, soon),
            Decision::Idle(Some(Duration::from_millis(1500))),
        ),
        ("one second early", failed_apply(1), idle(1)),
        ("in time", failed_apply(0), apply(retry)),
        ("late", failed_apply(-30), apply(retry)),
        ("the error is unknown", without_error, apply(retry)),
        ("early, inputs changed", failed_apply(30).changed(), apply(change)),
        ("late, inputs changed", failed_apply(-30).changed(), apply(change)),
        ("early, no drift checks", failed_apply(30).drift(DriftMode::Off), idle(30)),
        ("early, no directory", failed_apply(30).without_directory(), idle(30)),
        ("late, no directory", failed_apply(-30).without_directory(), apply(retry)),
        ("early, plan approved", failed_apply(30).approved(PLAN), idle(30)),
    ]);
}

#[test]
fn only_the_plan_that_is_blocked_can_be_approved() {
    let with_approval = |priority| start(Goal::Apply { approved: Some(PLAN.to_owned()) }, priority);
    let (change, retry) = (RunPriority::Change, RunPriority::Retry);
    let without_plan = || blocked().status(|status| status.plan = None);
    check(vec![
        ("not approved", blocked(), idle(600)),
        ("approved", blocked().approved(PLAN), with_approval(change)),
        ("another plan approved", blocked().approved("plan-0"), idle(600)),
        ("no plan", without_plan(), idle(600)),
        ("no plan, but an approval", without_plan().approved(PLAN), idle(600)),
        ("approved, inputs changed", blocked().approved(PLAN).changed(), apply(change)),
        ("approved, rerun requested", blocked().approved(PLAN).requested(-10), apply(change)),
        ("approved, drift check due", blocked().approved(PLAN).checked(None), with_approval(change)),
        ("approved, no directory", blocked().approved(PLAN).without_directory(), with_approval(change)),
        ("approved long ago", settled().approved(PLAN), idle(600)),
        ("approved, then interrupted", interrupted().approved(PLAN), apply(retry)),
        ("approved, observe only", blocked().approved(PLAN).observe_only(), start(Goal::DetectDrift, change)),
        ("not approved, check due", blocked().checked(None), start(Goal::CorrectDrift, RunPriority::Drift)),
        ("not approved, no checks", blocked().drift(DriftMode::Off), Decision::Idle(None)),
        ("not approved, no directory", blocked().without_directory(), start(Goal::CorrectDrift, retry)),
    ]);
}

#[test]
fn a_requested_run_starts_once_and_does_not_wait() {
    let scenes = || {
        let off = settled().drift(DriftMode::Off);
        [settled(), off, failed_apply(30), failed_apply(-30), interrupted(), blocked()]
    };
    for newer in [STARTED + 1, -10, 0] {
        let rows = scenes().map(|scene| (newer, scene.requested(newer), apply(RunPriority::Change)));
        check(rows);
    }
    for older in [STARTED, STARTED - 1] {
        let retry = || apply(RunPriority::Retry);
        let as_before = [idle(600), Decision::Idle(None), idle(30), retry(), retry(), idle(600)];
        check(scenes().into_iter().zip(as_before).map(|(scene, it)| (older, scene.requested(older), it)));
    }
    let unknown_start = settled().status(|status| status.run.as_mut().unwrap().started_at = None);
    let change = RunPriority::Change;
    check([
        ("the first run", fresh().requested(-10), apply(change)),
        ("unknown start", unknown_start.requested(-10), apply(change)),
        ("older, inputs changed", settled().changed().requested(STARTED - 1), apply(change)),
        ("newer, observe only", settled().observe_only().requested(-10), start(Goal::DetectDrift, change)),
        ("newer, no directory", settled().without_directory().requested(-10), apply(change)),
    ]);
}

#[test]
fn what_is_only_observed_is_never_applied() {
    let check_of = |priority| start(Goal::DetectDrift, priority);
    let (change, retry) = (RunPriority::Change, RunPriority::Retry);
    let checked = || ended(RunOperation::Check, RunPhase::Succeeded).applied(None);
    check([
        ("nothing has run", fresh().observe_only(), check_of(change)),
        ("checked", checked().observe_only(), idle(600)),
        ("checked, no drift checks", checked().observe_only().drift(DriftMode::Off), Decision::Idle(None)),
        ("inputs changed", checked().inputs(resolved("changed", false)), check_of(change)),
        ("interrupted", interrupted().observe_only(), check_of(retry)),
        ("failed", failed_apply(30).observe_only(), idle(30)),
        ("retry due", failed_apply(-30).observe_only(), check_of(retry)),
        ("blocked", blocked().observe_only(), idle(600)),
    ]);
}

#[test]
fn a_time_that_has_passed_is_no_time_to_wait() {
    assert_eq!(duration_between(at(0), at(5)), Duration::from_secs(5));
    assert_eq!(duration_between(at(5), at(0)), Duration::ZERO);
}

#[test]
fn no_run_replaces_one_whose_result_is_not_in_the_status() {
    for (name, scene) in all_scenes() {
        let decision = decide(&scene.facts, &scene.status, now());
        let starts = matches!(decision, Decision::StartRun { .. } | Decision::StartDestroy);
        let unrecorded = scene.with(|facts| facts.is_run_recorded = false);
        let instead = decide(&unrecorded.facts, &unrecorded.status, now());
        if starts {
            assert!(matches!(instead, Decision::RecordRun), "{name}: {instead:?}");
        } else {
            assert_eq!(format!("{instead:?}"), format!("{decision:?}"), "{name}");
        }
    }
}
