//! Routing-key conflicts: the oldest object that claims a key holds it. Pure.

use capt_kinds::sandbox::{Sandbox, conditions::reasons, names};
use kube::core::ObjectMeta;
use sandbox::{rejection::Rejection, routes::OwnerKind};

/// An object that claims the same routing key.
pub(super) type Claimant = (OwnerKind, ObjectMeta);

/// Rejects a routing key that an older object holds.
pub(super) fn check_routing_key(object: &Sandbox, key: &str, rivals: &[Claimant]) -> Result<(), Rejection> {
    let ours = precedence(OwnerKind::Sandbox, &object.metadata);
    let is_older =
        |(kind, meta): &&Claimant| meta.uid != object.metadata.uid && precedence(*kind, meta) < ours;
    let older = rivals.iter().filter(is_older);
    let Some((kind, rival)) = older.min_by_key(|(kind, meta)| precedence(*kind, meta)) else { return Ok(()) };
    let (namespace, name) = (rival.namespace.as_deref().unwrap_or_default(), rival.name.as_deref());
    let name = name.unwrap_or_default();
    let message = format!("routing key {key:?} is held by the older {kind:?} {namespace}/{name}");
    Err(Rejection::new(reasons::ROUTING_KEY_CONFLICT, message))
}

/// Whether a terminating Sandbox has released its routing key: our finalizer is removed. Foreign finalizers may still keep the
/// object.
pub(super) fn has_released_key(meta: &ObjectMeta) -> bool {
    let is_held = meta.finalizers.iter().flatten().any(|it| it == names::FINALIZER);
    meta.deletion_timestamp.is_some() && !is_held
}

/// Whether a Sandbox waits for its routing key to be released.
pub(super) fn is_waiting_for_key(object: &Sandbox) -> bool {
    let conditions = object.status.iter().flat_map(|it| &it.conditions);
    conditions.into_iter().any(|it| it.reason == reasons::ROUTING_KEY_CONFLICT)
        && object.metadata.deletion_timestamp.is_none()
}

/// Sort key: creation time, then name. Must match the order in `sandbox::routes`.
fn precedence(kind: OwnerKind, meta: &ObjectMeta) -> (Option<i64>, Option<&str>, Option<&str>, OwnerKind) {
    let at = meta.creation_timestamp.as_ref().map(|it| it.0.as_second());
    (at, meta.namespace.as_deref(), meta.name.as_deref(), kind)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sandbox(name: &str, created: &str) -> Sandbox {
        serde_json::from_value(json!({
            "apiVersion": "sandbox.capt.x-k8s.io/v1alpha1", "kind": "Sandbox",
            "metadata": {"name": name, "namespace": "shop", "uid": name, "creationTimestamp": created},
            "spec": {"routingKey": "abc"},
        }))
        .unwrap()
    }

    fn rivals(all: &[&Sandbox]) -> Vec<Claimant> {
        all.iter().map(|it| (OwnerKind::Sandbox, it.metadata.clone())).collect()
    }

    #[test]
    fn the_older_one_keeps_the_key() {
        let (one, two) = (sandbox("one", "2026-11-17T05:00:00Z"), sandbox("two", "2026-11-17T06:00:00Z"));
        let all = rivals(&[&one, &two]);
        assert_eq!(check_routing_key(&one, "abc", &all), Ok(()));
        let refusal = check_routing_key(&two, "abc", &all).unwrap_err();
        assert_eq!(refusal.reason, "RoutingKeyConflict");
        assert!(refusal.message.contains("Sandbox shop/one"), "{}", refusal.message);
    }

    #[test]
    fn of_twins_the_first_by_name_keeps_it() {
        let (one, two) = (sandbox("a", "2026-11-17T05:00:00Z"), sandbox("b", "2026-11-17T05:00:00Z"));
        let all = rivals(&[&one, &two]);
        assert_eq!(check_routing_key(&one, "abc", &all), Ok(()));
        assert!(check_routing_key(&two, "abc", &all).is_err());
    }

    #[test]
    fn a_group_is_a_rival_like_any_other() {
        let one = sandbox("one", "2026-11-17T06:00:00Z");
        let group = |created: &str| [(OwnerKind::RouteGroup, sandbox("group", created).metadata)];
        let refusal = check_routing_key(&one, "abc", &group("2026-11-17T05:00:00Z")).unwrap_err();
        assert!(refusal.message.contains("RouteGroup shop/group"), "{}", refusal.message);
        assert_eq!(check_routing_key(&one, "abc", &group("2026-11-17T07:00:00Z")), Ok(()));
    }

    #[test]
    fn who_goes_has_the_key_until_its_forks_are_gone() {
        let mut meta = sandbox("one", "2026-11-17T05:00:00Z").metadata;
        assert!(!has_released_key(&meta));
        meta.deletion_timestamp = meta.creation_timestamp.clone();
        meta.finalizers = Some(vec![names::FINALIZER.to_owned(), "example.com/held".to_owned()]);
        assert!(!has_released_key(&meta));
        meta.finalizers = Some(vec!["example.com/held".to_owned()]);
        assert!(has_released_key(&meta));
    }
}
