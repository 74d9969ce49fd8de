//! Which takeover a Service or its namespace requests, if it is possible. Pure.

use capt_kinds::sandbox::names;
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt as _;
use sandbox::service::{TakeoverMode, takeover_blocker, takeover_mode};

/// The requested mode: the Service's annotation, else that of its namespace, which supports only `enabled`. None for a Service
/// that cannot be taken over.
pub(super) fn requested_mode(service: &Service, is_namespace_routed: bool) -> Option<TakeoverMode> {
    let own = service.annotations();
    let word = if own.contains_key(names::ROUTING_ANNOTATION) {
        takeover_mode(own)
    } else {
        is_namespace_routed.then_some(TakeoverMode::Enabled)
    };
    word.filter(|_| takeover_blocker(service).is_none())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn service(annotations: &Value, spec: &Value) -> Service {
        serde_json::from_value(json!({
            "metadata": {"name": "cart", "namespace": "shop", "annotations": annotations}, "spec": spec,
        }))
        .unwrap()
    }

    #[test]
    fn the_annotation_of_a_service_precedes_that_of_its_namespace() {
        let spec = json!({"selector": {"app": "cart"}, "ports": [{"port": 80}], "clusterIP": "10.0.0.1"});
        let with = |word: &str| service(&json!({ names::ROUTING_ANNOTATION: word }), &spec);
        let plain = service(&json!({}), &spec);
        assert_eq!(requested_mode(&plain, false), None);
        assert_eq!(requested_mode(&plain, true), Some(TakeoverMode::Enabled));
        assert_eq!(requested_mode(&with("while-active"), true), Some(TakeoverMode::WhileActive));
        assert_eq!(requested_mode(&with("enabled"), false), Some(TakeoverMode::Enabled));
        assert_eq!(requested_mode(&with("disabled"), true), None);
    }

    #[test]
    fn a_service_without_pods_of_its_own_is_not_taken_over() {
        let external = json!({"type": "ExternalName", "externalName": "example.com"});
        let annotations = json!({ names::ROUTING_ANNOTATION: "enabled" });
        for spec in [external, json!({"ports": [{"port": 80}]})] {
            assert_eq!(requested_mode(&service(&annotations, &spec), true), None, "{spec}");
        }
    }
}
