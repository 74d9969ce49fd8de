//! What the API server is told.

use super::*;

fn service() -> WebhookTarget {
    WebhookTarget::Service { namespace: "capt-system".into(), name: "capt-webhook".into(), port: 443 }
}

#[test]
fn the_configuration_fails_open_and_names_our_kinds_alone() {
    let told = serde_json::to_value(webhook_configuration(&service(), "PEM", None)).unwrap();
    assert_eq!(told["metadata"]["name"], "validate.capt.x-k8s.io");
    let webhook = &told["webhooks"][0];
    assert_eq!(webhook["name"], "validate.capt.x-k8s.io");
    assert_eq!(webhook["failurePolicy"], "Ignore");
    assert_eq!(webhook["sideEffects"], "None");
    assert_eq!(webhook["timeoutSeconds"], 5);
    assert_eq!(webhook["admissionReviewVersions"], json!(["v1"]));
    assert_eq!(webhook["clientConfig"]["caBundle"], "UEVN");
    let service =
        json!({"namespace": "capt-system", "name": "capt-webhook", "path": "/validate", "port": 443});
    assert_eq!(webhook["clientConfig"]["service"], service);
    let rules = webhook["rules"].as_array().unwrap();
    let mut resources: Vec<String> = Vec::new();
    for rule in rules {
        assert_eq!(rule["operations"], json!(["CREATE", "UPDATE"]));
        assert_eq!(rule["apiVersions"], json!(["v1beta1"]));
        for resource in rule["resources"].as_array().unwrap() {
            resources.push(format!(
                "{}.{}",
                resource.as_str().unwrap(),
                rule["apiGroups"][0].as_str().unwrap()
            ));
        }
    }
    resources.sort();
    let mut ours: Vec<String> =
        capt_kinds::api::cluster_crds().into_iter().filter_map(|it| it.metadata.name).collect();
    ours.sort();
    assert_eq!(resources, ours);
}

#[test]
fn what_capt_writes_itself_is_not_reviewed() {
    let user = "system:serviceaccount:capt-system:capt\"";
    let told = serde_json::to_value(webhook_configuration(&service(), "PEM", Some(user))).unwrap();
    let conditions = told["webhooks"][0]["matchConditions"].as_array().unwrap().clone();
    assert_eq!(conditions[0]["expression"], "!has(object.metadata.deletionTimestamp)");
    let expected = "request.userInfo.username != \"system:serviceaccount:capt-system:capt\\\"\"";
    assert_eq!(conditions[1]["expression"], expected);
}

#[test]
fn an_address_is_told_as_it_is_and_the_certificate_is_for_its_host() {
    let target = WebhookTarget::Url("https://127.0.0.1:9443/".to_owned());
    let told = serde_json::to_value(webhook_configuration(&target, "PEM", None)).unwrap();
    assert_eq!(told["webhooks"][0]["clientConfig"]["url"], "https://127.0.0.1:9443/validate");
    assert_eq!(target.certificate_names(), ["127.0.0.1"]);
    assert_eq!(WebhookTarget::Url("https://[::1]:9443".to_owned()).certificate_names(), ["::1"]);
    assert!(service().certificate_names().contains(&"capt-webhook.capt-system.svc".to_owned()));
}
