//! The admission webhook as `deploy/webhook` has it: registered by the operator, called by a real API server, seen by kubectl.

use std::sync::Arc;

use k8s_openapi::api::{admissionregistration::v1::ValidatingWebhookConfiguration, core::v1::Secret};
use kube::Api;
use serde_json::{Value, json};

use crate::{
    place::{Place, template},
    world::{NAMESPACE, Said, World},
};

const NAME: &str = "validate.capt.x-k8s.io";
const CERTIFICATES: &str = "capt-webhook-certificates";

async fn apply(place: &Place, object: &Value) -> Said {
    place.kubectl(&["apply", "-f", "-"], &object.to_string()).await
}

#[track_caller]
fn is_refused(said: &Said) {
    assert!(!said.ok, "it was admitted: {said:?}");
    let ours = format!("admission webhook \"{NAME}\" denied the request");
    assert!(said.stderr.contains(&ours) && said.stderr.contains("does not parse"), "{said:?}");
}

/// As soon as the API server was told, and has believed it.
async fn until_refused(place: &Place, name: &str) {
    let bad = template(name, "locals {");
    place
        .eventually("a bad template is refused", async || {
            let said = place.kubectl(&["apply", "--dry-run=server", "-f", "-"], &bad.to_string()).await;
            !said.ok
        })
        .await;
}

pub(crate) async fn webhook_a_bad_template_is_refused_with_our_words(world: Arc<World>) {
    let place = Place::make(world, "webhook").await;
    until_refused(&place, "early").await;
    is_refused(&apply(&place, &template("bad", "locals {")).await);
    apply(&place, &template("good", "locals {}")).await.good();
    let selectors = json!([{"namespace": "apps"}]);
    let profiles = json!([{"name": "a", "selectors": selectors}, {"name": "b", "selectors": selectors}]);
    let object = json!({
        "apiVersion": "controlplane.cluster.x-k8s.io/v1beta1", "kind": "CAPTControlPlane",
        "metadata": {"name": "twice"}, "spec": {"version": "v1.33.0", "additionalFargateProfiles": profiles},
    });
    let said = apply(&place, &object).await;
    assert!(said.ok && said.stderr.contains("Warning: "), "profiles that want the same pods: {said:?}");
}

pub(crate) async fn webhook_what_is_registered_is_what_was_applied(world: Arc<World>) {
    let place = Place::make(world, "webhook-registered").await;
    until_refused(&place, "early").await;
    let all: Api<ValidatingWebhookConfiguration> = Api::all(place.world.admin.clone());
    let mut live = serde_json::to_value(all.get(NAME).await.unwrap()).unwrap()["webhooks"].take();
    let bundle = live[0]["clientConfig"].as_object_mut().unwrap().shift_remove("caBundle").unwrap();
    live[0].as_object_mut().unwrap().retain(|name, _| !name.ends_with("Selector"));
    let shipped = place.world.deployed.iter().find(|it| it["kind"] == "ValidatingWebhookConfiguration");
    assert_eq!(live, shipped.unwrap()["webhooks"]);
    assert_eq!(bundle, authority(&place).await, "replicas share the authority that is registered");
}

pub(crate) async fn webhook_another_replica_answers_for_the_first_and_nobody_fails_open(world: Arc<World>) {
    let place = Place::make(world, "webhook-replicas").await;
    until_refused(&place, "early").await;
    // The second one does not lead, and answers with the certificate of the first.
    let before = authority(&place).await;
    let (second, port) = place.world.another_operator().await;
    place.world.point_webhook_at(port).await;
    place.world.stop_operator().await;
    until_refused(&place, "early").await;
    assert_eq!(authority(&place).await, before);
    is_refused(&apply(&place, &template("bad", "locals {")).await);
    second.stop().await;
    // Nobody is there: whatever the CRDs admit is admitted, and soon.
    let all: Api<ValidatingWebhookConfiguration> = Api::all(place.world.admin.clone());
    let webhooks = all.get(NAME).await.unwrap().webhooks.unwrap();
    assert!(webhooks.iter().all(|it| it.timeout_seconds.is_some_and(|it| it <= 5)), "{webhooks:?}");
    apply(&place, &template("bad", "locals {")).await.good();
    // Somebody spoils the certificates meanwhile. They are made anew, and the API server is told.
    let spoil = "{\"stringData\":{\"tls.crt\":\"garbage\"}}";
    place.world.kubectl(&["-n", NAMESPACE, "patch", "secret", CERTIFICATES, "-p", spoil], "").await.good();
    place.world.start_operator().await;
    until_refused(&place, "late").await;
    assert_ne!(authority(&place).await, before);
}

/// The authority that replicas share.
async fn authority(place: &Place) -> Value {
    let secrets: Api<Secret> = Api::namespaced(place.world.admin.clone(), NAMESPACE);
    let secret = serde_json::to_value(secrets.get(CERTIFICATES).await.unwrap()).unwrap();
    secret["data"]["ca.crt"].clone()
}
