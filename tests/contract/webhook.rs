//! The admission webhook as `deploy/webhook` has it: registered by the operator, called by a real API server, seen by kubectl.

use std::sync::Arc;

use k8s_openapi::api::{admissionregistration::v1::ValidatingWebhookConfiguration, core::v1::Secret};
use kube::Api;
use serde_json::{Value, json};

use crate::{
    case_namespace::{CaseNamespace, template},
    harness::{CommandOutput, ContractHarness, NAMESPACE},
};

const NAME: &str = "validate.capt.x-k8s.io";
const CERTIFICATES: &str = "capt-webhook-certificates";

async fn apply(place: &CaseNamespace, object: &Value) -> CommandOutput {
    place.kubectl(&["apply", "-f", "-"], &object.to_string()).await
}

#[track_caller]
fn assert_refused(said: &CommandOutput) {
    assert!(!said.ok, "it was admitted: {said:?}");
    let ours = format!("admission webhook \"{NAME}\" denied the request");
    assert!(said.stderr.contains(&ours) && said.stderr.contains("does not parse"), "{said:?}");
}

/// Waits until the API server uses the new configuration.
async fn wait_until_refused(place: &CaseNamespace, name: &str) {
    let bad = template(name, "locals {");
    place
        .wait_for("a bad template is refused", async || {
            let said = place.kubectl(&["apply", "--dry-run=server", "-f", "-"], &bad.to_string()).await;
            !said.ok
        })
        .await;
}

pub(crate) async fn webhook_a_bad_template_is_refused_with_our_words(world: Arc<ContractHarness>) {
    let place = CaseNamespace::create(world, "webhook").await;
    wait_until_refused(&place, "early").await;
    assert_refused(&apply(&place, &template("bad", "locals {")).await);
    apply(&place, &template("good", "locals {}")).await.expect_success();
    let selectors = json!([{"namespace": "apps"}]);
    let profiles = json!([{"name": "a", "selectors": selectors}, {"name": "b", "selectors": selectors}]);
    let object = json!({
        "apiVersion": "controlplane.cluster.x-k8s.io/v1beta1", "kind": "CAPTControlPlane",
        "metadata": {"name": "twice"}, "spec": {"version": "v1.33.0", "additionalFargateProfiles": profiles},
    });
    let said = apply(&place, &object).await;
    assert!(said.ok && said.stderr.contains("Warning: "), "profiles that want the same pods: {said:?}");
}

pub(crate) async fn webhook_what_is_registered_is_what_was_applied(world: Arc<ContractHarness>) {
    let place = CaseNamespace::create(world, "webhook-registered").await;
    wait_until_refused(&place, "early").await;
    let all: Api<ValidatingWebhookConfiguration> = Api::all(place.harness.admin.clone());
    let mut live = serde_json::to_value(all.get(NAME).await.unwrap()).unwrap()["webhooks"].take();
    let bundle = live[0]["clientConfig"].as_object_mut().unwrap().shift_remove("caBundle").unwrap();
    live[0].as_object_mut().unwrap().retain(|name, _| !name.ends_with("Selector"));
    let shipped = place.harness.manifests.iter().find(|it| it["kind"] == "ValidatingWebhookConfiguration");
    assert_eq!(live, shipped.unwrap()["webhooks"]);
    assert_eq!(bundle, webhook_authority(&place).await, "replicas share the authority that is registered");
}

pub(crate) async fn webhook_another_replica_answers_for_the_first_and_nobody_fails_open(
    world: Arc<ContractHarness>,
) {
    let place = CaseNamespace::create(world, "webhook-replicas").await;
    wait_until_refused(&place, "early").await;
    // The second one does not lead, and answers with the certificate of the first.
    let before = webhook_authority(&place).await;
    let (second, port) = place.harness.start_second_operator().await;
    place.harness.set_webhook_port(port).await;
    place.harness.stop_operator().await;
    wait_until_refused(&place, "early").await;
    assert_eq!(webhook_authority(&place).await, before);
    assert_refused(&apply(&place, &template("bad", "locals {")).await);
    second.stop().await;
    // Without an operator the webhook fails open, quickly.
    let all: Api<ValidatingWebhookConfiguration> = Api::all(place.harness.admin.clone());
    let webhooks = all.get(NAME).await.unwrap().webhooks.unwrap();
    assert!(webhooks.iter().all(|it| it.timeout_seconds.is_some_and(|it| it <= 5)), "{webhooks:?}");
    apply(&place, &template("bad", "locals {")).await.expect_success();
    // Corrupt the certificates. They are reissued, and the caBundle is updated.
    let spoil = "{\"stringData\":{\"tls.crt\":\"garbage\"}}";
    place
        .harness
        .kubectl(&["-n", NAMESPACE, "patch", "secret", CERTIFICATES, "-p", spoil], "")
        .await
        .expect_success();
    place.harness.start_operator().await;
    wait_until_refused(&place, "late").await;
    assert_ne!(webhook_authority(&place).await, before);
}

/// The authority that replicas share.
async fn webhook_authority(place: &CaseNamespace) -> Value {
    let secrets: Api<Secret> = Api::namespaced(place.harness.admin.clone(), NAMESPACE);
    let secret = serde_json::to_value(secrets.get(CERTIFICATES).await.unwrap()).unwrap();
    secret["data"]["ca.crt"].clone()
}
