//! Deletion: what runs is cancelled or awaited, then everything is destroyed, then the finalizer is removed.

use terraform_driver::classify::{FailureClass, TerraformFailure};

use super::*;

#[test]
fn a_deletion_cancels_a_run_without_changes_unless_it_is_the_destroy() {
    let table = [
        (RunOperation::Apply, RunPhase::Pending, true),
        (RunOperation::Apply, RunPhase::Initializing, true),
        (RunOperation::Apply, RunPhase::Planning, true),
        (RunOperation::Apply, RunPhase::Applying, false),
        (RunOperation::Check, RunPhase::Pending, true),
        (RunOperation::Check, RunPhase::Planning, true),
        (RunOperation::Destroy, RunPhase::Pending, false),
        (RunOperation::Destroy, RunPhase::Planning, false),
        (RunOperation::Destroy, RunPhase::Destroying, false),
    ];
    for (operation, phase, cancelled) in table {
        check(all_scenes().into_iter().map(|(name, scene)| {
            let expected = if cancelled { Decision::CancelRun } else { Decision::AwaitRun };
            let scene = scene.deleting().running(operation, phase);
            (format!("{name}, {operation:?} {phase:?}"), scene, expected)
        }));
    }
}

#[test]
fn a_deleted_object_goes_when_its_resources_are_gone_or_are_to_stay() {
    let destroyed = |scene: Scene| scene.finished(RunOperation::Destroy, RunResult::Destroyed);
    let rows = || {
        [
            ("no finalizer", settled().without_finalizer()),
            ("no finalizer, dependents", settled().without_finalizer().dependents(&["nodes"])),
            ("retained", settled().retained()),
            ("retained, dependents", settled().retained().dependents(&["nodes"])),
            ("retained, destroy failed", failed_destroy(30).retained()),
            ("destroyed", destroyed(ended(RunOperation::Destroy, RunPhase::Succeeded))),
            ("destroyed, dependents", destroyed(settled()).dependents(&["nodes"])),
            ("destroyed, rerun requested", destroyed(settled()).requested(-10)),
        ]
    };
    check(rows().map(|(name, scene)| (name, scene.deleting(), Decision::RemoveFinalizer)));
    let kept =
        rows().into_iter().map(|(name, Scene { facts, status })| (name, decide(&facts, &status, now())));
    for (name, found) in kept {
        assert!(!matches!(found, Decision::RemoveFinalizer), "{name}, not deleted: {found:?}");
    }
}

#[test]
fn a_destroy_waits_for_dependents_and_for_its_own_retry_only() {
    let dependents = |names: &str| {
        let message = format!("waiting for dependents to be deleted: {names}");
        Decision::Wait(ConditionReason::new("WaitingForDependents", message), None)
    };
    let retry_in = |seconds| {
        let reason = ConditionReason::new("Deleting", "no route to host");
        Decision::Wait(reason, Some(Duration::from_secs(seconds)))
    };
    let with_old_error =
        |phase| failed_destroy(30).status(|status| status.run.as_mut().unwrap().phase = phase);
    let failure = TerraformFailure {
        class: FailureClass::Network,
        code: None,
        address: None,
        message: "no route to host".to_owned(),
    };
    let here = failed_destroy(30).finished(RunOperation::Destroy, RunResult::Failed(failure));
    let without_error = failed_destroy(30).status(|status| status.last_error = None);
    let rows = vec![
        ("one dependent", settled().dependents(&["nodes"]), dependents("nodes")),
        ("two dependents", settled().dependents(&["apps", "nodes"]), dependents("apps, nodes")),
        ("dependents, retry waits", failed_destroy(30).dependents(&["nodes"]), dependents("nodes")),
        ("retry waits", failed_destroy(30), retry_in(30)),
        ("retry waits, one second left", failed_destroy(1), retry_in(1)),
        ("retry waits, failed in this process", here, retry_in(30)),
        ("retry in time", failed_destroy(0), Decision::StartDestroy),
        ("retry late", failed_destroy(-30), Decision::StartDestroy),
        ("destroy failed, error unknown", without_error, Decision::StartDestroy),
        ("destroy interrupted", with_old_error(RunPhase::Interrupted), Decision::StartDestroy),
        ("the process ended meanwhile", with_old_error(RunPhase::Destroying), Decision::StartDestroy),
        ("apply failed, retry waits", failed_apply(30), Decision::StartDestroy),
        ("nothing has run", fresh(), Decision::StartDestroy),
        ("up to date", settled(), Decision::StartDestroy),
        ("blocked", blocked(), Decision::StartDestroy),
        ("no directory", settled().without_directory(), Decision::StartDestroy),
        ("observe only, not retained", settled().observe_only(), Decision::StartDestroy),
    ];
    check(rows.into_iter().map(|(name, scene, expected)| (name, scene.deleting(), expected)));
}

#[test]
fn a_destroy_needs_no_inputs() {
    let inputs = || {
        let reasons = (missing_secret(), invalid_spec());
        [
            RunInputs::NotRead,
            RunInputs::Waiting(reasons.0),
            RunInputs::Invalid(reasons.1),
            resolved(HASH, true),
        ]
    };
    for scene in [fresh, settled, interrupted, blocked] {
        let rows = inputs().map(|inputs| scene().inputs(inputs).deleting());
        check(rows.into_iter().enumerate().map(|(index, scene)| (index, scene, Decision::StartDestroy)));
    }
}

#[test]
fn only_a_destroy_whose_success_is_known_or_recorded_ends_a_deletion() {
    let blocking = RunResult::Blocked { reasons: Vec::new(), hash: PLAN.to_owned() };
    let differing = RunResult::Differs { addresses: Vec::new() };
    let results = [RunResult::Unchanged, RunResult::Applied, differing, blocking, RunResult::Interrupted];
    for result in results {
        let scene = || settled().finished(RunOperation::Apply, result.clone());
        check([
            (format!("{result:?}, deleted"), scene().deleting(), Decision::StartDestroy),
            (format!("{result:?}, kept"), scene(), idle(600)),
        ]);
    }
    let restarted = ended(RunOperation::Destroy, RunPhase::Succeeded).deleting();
    check([("a new process destroys again", restarted, Decision::StartDestroy)]);
    let recorded = |phase| {
        let scene = ended(RunOperation::Destroy, phase).without_directory().deleting();
        scene.status(|status| status.applied = Some(false))
    };
    check([
        ("a new process goes on with the release", recorded(RunPhase::Succeeded), Decision::RemoveFinalizer),
        ("it failed", recorded(RunPhase::Failed), Decision::StartDestroy),
        ("it was interrupted", recorded(RunPhase::Interrupted), Decision::StartDestroy),
    ]);
}

#[test]
fn m2_a_state_is_released_only_after_the_status_says_that_everything_is_destroyed() {
    let destroyed = settled().finished(RunOperation::Destroy, RunResult::Destroyed).deleting();
    let unrecorded = destroyed.with(|facts| facts.is_run_recorded = false);
    check([("not recorded", unrecorded, Decision::RecordRun)]);
    let retained = settled().finished(RunOperation::Apply, RunResult::Applied).retained().deleting();
    let retained = retained.with(|facts| facts.is_run_recorded = false);
    check([("retained", retained, Decision::RemoveFinalizer)]);
}

#[test]
fn an_object_that_does_not_own_the_workspace_never_destroys_it() {
    check(all_scenes().into_iter().map(|(name, scene)| {
        let owner = Some("WorkspaceTemplateApply team/demo".to_owned());
        (name, scene.with(|facts| facts.other_owner = owner).deleting(), Decision::RemoveFinalizer)
    }));
}

#[test]
fn c5_a_destroy_without_its_identity_waits_and_one_of_nothing_does_not() {
    let why = || ConditionReason::new(reasons::WAITING_FOR_IDENTITY, "CAPTIdentity team does not exist");
    let lost = |scene: Scene| {
        scene.deleting().with(|facts| facts.destroy_identity = DestroyIdentity::Unavailable(why()))
    };
    let waits = || Decision::Wait(why(), Some(IDENTITY_RETRY));
    check([
        ("applied".to_owned(), lost(settled()), waits()),
        ("failed before".to_owned(), lost(failed_apply(-10)), waits()),
        ("a directory is there".to_owned(), lost(fresh()).with(|facts| facts.has_directory = true), waits()),
        ("nothing ever ran".to_owned(), lost(fresh()), Decision::StartDestroy),
        ("retained".to_owned(), lost(settled()).retained(), Decision::RemoveFinalizer),
    ]);
}
