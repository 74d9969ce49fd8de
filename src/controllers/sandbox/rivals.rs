//! Who has a routing key that two objects ask for: the older one. Pure.

use kube::{ResourceExt as _, core::ObjectMeta};
use sandbox::{
    api::{Sandbox, conditions::reasons},
    refusal::Refusal,
};

/// Refuses a key that an older Sandbox has.
pub(super) fn check(object: &Sandbox, key: &str, all: &[(ObjectMeta, String)]) -> Result<(), Refusal> {
    let ours = age(&object.metadata);
    let older = all
        .iter()
        .filter(|(meta, other)| other == key && meta.uid != object.metadata.uid && age(meta) < ours);
    let Some((rival, _)) = older.min_by_key(|(meta, _)| age(meta)) else { return Ok(()) };
    let (namespace, name) = (rival.namespace.as_deref().unwrap_or_default(), rival.name.as_deref());
    let name = name.unwrap_or_default();
    let message = format!("the key {key:?} is the one of Sandbox {namespace}/{name}, which is older");
    debug_assert_ne!((Some(namespace), name), (object.namespace().as_deref(), object.name_any().as_str()));
    Err(Refusal::new(reasons::ROUTING_KEY_CONFLICT, message))
}

/// The order of age: by time, and among twins by name.
fn age(meta: &ObjectMeta) -> (Option<i64>, Option<&str>, Option<&str>) {
    let at = meta.creation_timestamp.as_ref().map(|it| it.0.as_second());
    (at, meta.namespace.as_deref(), meta.name.as_deref())
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

    #[test]
    fn the_older_one_keeps_the_key() {
        let (one, two) = (sandbox("one", "2026-11-17T05:00:00Z"), sandbox("two", "2026-11-17T06:00:00Z"));
        let all = [(one.metadata.clone(), "abc".to_owned()), (two.metadata.clone(), "abc".to_owned())];
        assert_eq!(check(&one, "abc", &all), Ok(()));
        let refusal = check(&two, "abc", &all).unwrap_err();
        assert_eq!(refusal.reason, "RoutingKeyConflict");
        assert!(refusal.message.contains("shop/one"), "{}", refusal.message);
        assert_eq!(check(&two, "other", &all), Ok(()));
    }

    #[test]
    fn of_twins_the_first_by_name_keeps_it() {
        let (one, two) = (sandbox("a", "2026-11-17T05:00:00Z"), sandbox("b", "2026-11-17T05:00:00Z"));
        let all = [(one.metadata.clone(), "abc".to_owned()), (two.metadata.clone(), "abc".to_owned())];
        assert_eq!(check(&one, "abc", &all), Ok(()));
        assert!(check(&two, "abc", &all).is_err());
    }
}
