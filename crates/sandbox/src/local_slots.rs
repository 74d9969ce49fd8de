//! Which local workload replaces a baseline in a Sandbox. Shared by the controller, which reports conflicts, and the route table,
//! so that operator and routers agree.

use capt_kinds::sandbox::{DisconnectPolicy, LocalWorkload, Sandbox, conditions::reasons};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;

use crate::rejection::Rejection;

/// Checks whether a local workload may replace its baseline: only one per Sandbox and baseline, the oldest.
pub fn check_slot<'a>(
    local: &LocalWorkload,
    sandbox: &Sandbox,
    all: impl IntoIterator<Item = &'a LocalWorkload>,
) -> Result<(), Rejection> {
    check_fork_coexistence(local, sandbox)?;
    let is_before = |it: &&LocalWorkload| {
        has_same_slot(it, local)
            && it.metadata.deletion_timestamp.is_none()
            && check_fork_coexistence(it, sandbox).is_ok()
            && precedence(it) < precedence(local)
    };
    match all.into_iter().filter(is_before).min_by_key(|it| precedence(it)) {
        None => Ok(()),
        Some(older) => Err(Rejection::new(
            reasons::BASELINE_TAKEN,
            format!(
                "the older LocalWorkload {} already replaces {} in Sandbox {}: delete one of them",
                older.name_any(),
                local.spec.from.name,
                local.spec.sandbox_ref.name
            ),
        )),
    }
}

/// Sort key, oldest first. An object without a creation time is the youngest: it is not stored yet.
pub fn precedence(local: &LocalWorkload) -> (bool, Option<&Time>, Option<&str>, Option<&str>) {
    let metadata = &local.metadata;
    let born = metadata.creation_timestamp.as_ref();
    (born.is_none(), born, metadata.namespace.as_deref(), metadata.name.as_deref())
}

fn has_same_slot(one: &LocalWorkload, other: &LocalWorkload) -> bool {
    one.metadata.namespace == other.metadata.namespace
        && one.spec.sandbox_ref == other.spec.sandbox_ref
        && one.spec.from.name == other.spec.from.name
}

/// The same rule as the CEL rule for `spec.local` of a Sandbox.
fn check_fork_coexistence(local: &LocalWorkload, sandbox: &Sandbox) -> Result<(), Rejection> {
    let (spec, from) = (&local.spec, &local.spec.from.name);
    let is_forked = sandbox.spec.forks.iter().any(|it| it.fork_of.name == *from);
    if !is_forked || spec.over.is_some() || spec.disconnect_policy == DisconnectPolicy::Fork {
        return Ok(());
    }
    let message = format!(
        "spec.from: {from:?} is forked by Sandbox {} too: that needs override or disconnectPolicy Fork",
        spec.sandbox_ref.name
    );
    Err(Rejection::new(reasons::INVALID_SPEC, message))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn local(name: &str, born: &str, spec: &Value) -> LocalWorkload {
        let mut object = json!({
            "apiVersion": "sandbox.capt.x-k8s.io/v1alpha1", "kind": "LocalWorkload",
            "metadata": {"name": name, "namespace": "shop", "creationTimestamp": born},
            "spec": {"sandboxRef": {"name": "pr-1"}, "from": {"name": "cart"}, "mappings": []},
        });
        object["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        serde_json::from_value(object).unwrap()
    }

    fn sandbox(forks: &Value) -> Sandbox {
        serde_json::from_value(json!({
            "apiVersion": "sandbox.capt.x-k8s.io/v1alpha1", "kind": "Sandbox",
            "metadata": {"name": "pr-1", "namespace": "shop"}, "spec": {"forks": forks},
        }))
        .unwrap()
    }

    const EARLY: &str = "2026-11-17T05:00:00Z";
    const LATE: &str = "2026-11-17T06:00:00Z";

    #[test]
    fn the_older_of_two_for_one_baseline_has_the_place_and_the_younger_is_told_whose_it_is() {
        let [old, young] = [local("zebra", EARLY, &json!({})), local("ant", LATE, &json!({}))];
        let sandbox = sandbox(&json!([]));
        for all in [[&old, &young], [&young, &old]] {
            assert_eq!(check_slot(&old, &sandbox, all), Ok(()));
            let refusal = check_slot(&young, &sandbox, all).unwrap_err();
            assert_eq!(refusal.reason, "BaselineTaken");
            assert!(refusal.message.contains("zebra"), "{}", refusal.message);
        }
    }

    #[test]
    fn of_two_that_are_as_old_the_first_by_name_has_the_place() {
        let [one, other] = [local("ant", EARLY, &json!({})), local("zebra", EARLY, &json!({}))];
        let sandbox = sandbox(&json!([]));
        assert_eq!(check_slot(&one, &sandbox, [&other, &one]), Ok(()));
        assert!(check_slot(&other, &sandbox, [&other, &one]).is_err());
    }

    #[rstest]
    #[case::of_another_sandbox(json!({"sandboxRef": {"name": "pr-2"}}), false)]
    #[case::of_another_baseline(json!({"from": {"name": "web"}}), false)]
    #[case::that_is_being_deleted(json!({}), true)]
    fn an_older_one_is_in_nobodys_way(#[case] spec: Value, #[case] is_going: bool) {
        let mut old = local("old", EARLY, &spec);
        old.metadata.deletion_timestamp = is_going.then(|| Time(EARLY.parse().unwrap()));
        let young = local("young", LATE, &json!({}));
        assert_eq!(check_slot(&young, &sandbox(&json!([])), [&old, &young]), Ok(()));
    }

    #[rstest]
    #[case(json!({}), false)]
    #[case(json!({"disconnectPolicy": "Baseline"}), false)]
    #[case(json!({"disconnectPolicy": "Fork"}), true)]
    #[case(json!({"override": {"exceptStatus": [404]}}), true)]
    fn beside_a_fork_it_says_what_the_fork_is_for(#[case] spec: Value, #[case] is_placed: bool) {
        let sandbox = sandbox(&json!([{"forkOf": {"name": "cart"}}]));
        let [old, young] =
            [local("old", EARLY, &spec), local("young", LATE, &json!({"disconnectPolicy": "Fork"}))];
        assert_eq!(check_slot(&old, &sandbox, [&old]).is_ok(), is_placed);
        let stands_back = check_slot(&young, &sandbox, [&old, &young]).is_err();
        assert_eq!(stands_back, is_placed, "one without a place takes it from nobody");
    }
}
