//! Drift checks: whether, when and with which goal.

use super::*;

/// Drift mode, whether applying is allowed, and the goal of a drift check.
const GOALS: [(DriftMode, bool, Goal); 6] = [
    (DriftMode::Off, true, Goal::DetectDrift),
    (DriftMode::Off, false, Goal::DetectDrift),
    (DriftMode::Detect, true, Goal::DetectDrift),
    (DriftMode::Detect, false, Goal::DetectDrift),
    (DriftMode::Correct, true, Goal::CorrectDrift),
    (DriftMode::Correct, false, Goal::DetectDrift),
];

#[test]
fn drift_is_checked_when_it_is_due_and_corrected_where_that_is_allowed() {
    let times = [(Some(CHECKED), Some(600)), (Some(-999), Some(1)), (Some(-1000), None), (None, None)];
    for (mode, allowed, goal) in GOALS {
        check(times.map(|(checked, wait)| {
            let scene = settled().inputs(resolved(HASH, allowed)).drift(mode).checked(checked);
            let expected = match wait {
                _ if mode == DriftMode::Off => Decision::Idle(None),
                Some(seconds) => idle(seconds),
                None => start(goal.clone(), RunPriority::Drift),
            };
            (format!("{mode:?}, apply: {allowed}, checked: {checked:?}"), scene, expected)
        }));
    }
}

#[test]
fn a_check_that_did_not_end_well_is_repeated_as_a_check() {
    for (mode, allowed, goal) in GOALS {
        let again = || start(goal.clone(), RunPriority::Retry);
        let scene = |scene: Scene| scene.applied(Some(HASH)).inputs(resolved(HASH, allowed)).drift(mode);
        let failed = |retry_in| scene(failed(RunOperation::Check, at(retry_in)));
        let interrupted = scene(ended(RunOperation::Check, RunPhase::Interrupted));
        check([
            (format!("{mode:?}, apply: {allowed}, failed"), failed(-30), again()),
            (format!("{mode:?}, apply: {allowed}, failed, too early"), failed(30), idle(30)),
            (format!("{mode:?}, apply: {allowed}, interrupted"), interrupted, again()),
        ]);
    }
    let never_applied = failed(RunOperation::Check, at(-30)).applied(None);
    check([("a check of inputs that were never applied", never_applied, apply(RunPriority::Retry))]);
}

#[test]
fn a_new_disk_is_restored_at_once_whatever_the_drift_mode() {
    for (mode, allowed, goal) in GOALS {
        check([Some(CHECKED), Some(-1000), None].map(|checked| {
            let scene = settled().inputs(resolved(HASH, allowed)).drift(mode).checked(checked);
            let expected = start(goal.clone(), RunPriority::Retry);
            (format!("{mode:?}, apply: {allowed}, checked: {checked:?}"), scene.without_directory(), expected)
        }));
    }
}

#[test]
fn drift_checks_are_spread_over_a_tenth_of_the_interval_by_the_first_bytes_of_the_hash() {
    let table =
        [("", 950_000), ("04a5", 950_000), ("00d6", 975_000), ("0521", 1_000_000), ("04a4", 1_049_900)];
    for (hash, millis) in table {
        assert_eq!(jittered_interval(&INTERVAL, hash), Duration::from_millis(millis), "{hash}");
        let double = jittered_interval(&(INTERVAL * 2), hash);
        assert_eq!(double, Duration::from_millis(2 * millis), "{hash}, twice the interval");
    }
    assert_eq!(jittered_interval(&INTERVAL, "0521ffff"), INTERVAL, "only four bytes count");
    let with_hash = |hash: &str| {
        let run_hash = Some(hash.to_owned());
        let scene = settled().inputs(resolved(hash, true)).applied(Some(hash));
        scene.status(|status| status.run.as_mut().unwrap().inputs_hash = run_hash)
    };
    check([("early", with_hash("04a5"), idle(550)), ("middle", with_hash("00d6"), idle(575))]);
}
