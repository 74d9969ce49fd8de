use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use capt_kinds::api::WorkspaceTemplateApply;
use embedded_kube::fault_injection::{ApiCall, Effect, Fault, RequestRecord};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};

use super::{AGENT, World, config};
use crate::{
    error::ErrorClass,
    k8s::{CallMetrics, CallOutcome},
};

#[derive(Default)]
struct Notes(Mutex<Vec<(&'static str, CallOutcome)>>);

impl CallMetrics for Notes {
    fn record(&self, verb: &'static str, outcome: CallOutcome) {
        self.0.lock().unwrap().push((verb, outcome));
    }
}

/// The server's own controllers have business with `ConfigMaps` too.
fn is_ours(call: &ApiCall) -> bool {
    call.targets("configmaps") && call.agent == AGENT
}

#[tokio::test]
async fn a_call_that_nobody_answers_ends_and_every_call_is_counted() {
    let world = World::start().await;
    let notes = Arc::new(Notes::default());
    let kube = world.kube.clone().with_metrics(notes.clone());
    assert!(kube.get::<ConfigMap>(Some("shop"), "none").await.unwrap().is_none());
    assert!(kube.get_metadata::<Namespace>(None, "shop").await.unwrap().is_some());
    let bad = serde_json::from_value::<ConfigMap>(config("Not a name")).unwrap();
    assert_eq!(kube.create(&bad).await.unwrap_err().class(), ErrorClass::Invalid);

    let slow = |call: &ApiCall| is_ours(call) && call.is_write();
    // Longer than any test lasts: what ends, ends without an answer.
    world.server.faults().add(Fault::new(slow, Effect::Delay(Duration::from_hours(1))));
    let hasty = kube.with_deadline(Duration::from_millis(200));
    let error =
        hasty.create(&serde_json::from_value::<ConfigMap>(config("cart")).unwrap()).await.unwrap_err();
    assert_eq!((error.class(), error.category()), (ErrorClass::Transient, "TimedOut"));
    assert_eq!(error.to_string(), "no response to create ConfigMap shop/cart within 0.2 s");
    assert_eq!(
        *notes.0.lock().unwrap(),
        [
            ("get", CallOutcome::Ok),
            ("get", CallOutcome::Ok),
            ("create", CallOutcome::Failed),
            ("create", CallOutcome::TimedOut)
        ]
    );
}

#[tokio::test]
async fn a_busy_server_is_asked_again_but_not_for_ever() {
    let world = World::start().await;
    let asked = || {
        let ours = |entry: &RequestRecord| entry.agent == AGENT && entry.resource == "configmaps";
        let count = world.server.request_log().matching(ours).len();
        world.server.request_log().clear();
        count
    };
    world.server.faults().add(Fault::fail(is_ours, 503).times(2));
    assert!(world.kube.get::<ConfigMap>(Some("shop"), "none").await.unwrap().is_none());
    assert_eq!(asked(), 3);

    let busy = world.server.faults().add(Fault::throttle(is_ours, 3600));
    let kube = world.kube.clone().with_deadline(Duration::from_millis(300));
    let error = kube.get::<ConfigMap>(Some("shop"), "none").await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Transient, "{error}");
    // A busy machine may let the deadline pass before the server hears of it.
    let heard = world.server.faults().remove(busy);
    assert!(heard <= 1, "it was asked {heard} times");

    let failing = world.server.faults().add(Fault::fail(is_ours, 500));
    let error = world.kube.get::<ConfigMap>(Some("shop"), "none").await.unwrap_err();
    let heard = world.server.faults().remove(failing);
    assert_eq!((error.category(), heard), ("Trouble", 1), "a server that failed may have done something");
}

#[tokio::test]
async fn a_broken_connection_is_transient_and_a_missing_kind_is_named() {
    let world = World::start().await;
    world.server.faults().add(Fault::new(is_ours, Effect::DropBefore));
    let error = world.kube.get::<ConfigMap>(Some("shop"), "none").await.unwrap_err();
    assert_eq!((error.class(), error.category()), (ErrorClass::Transient, "Unreachable"));

    let error = world.kube.get::<WorkspaceTemplateApply>(Some("shop"), "vpc").await.unwrap_err();
    assert_eq!((error.class(), error.category()), (ErrorClass::Transient, "NoKind"), "{error}");
}

#[tokio::test]
async fn a_long_list_comes_in_pages_and_is_whole() {
    let world = World::start().await;
    for number in 0..510 {
        let mut object = config(&format!("c{number}"));
        object["metadata"]["labels"] = serde_json::json!({"odd": (number % 2).to_string()});
        world.make::<ConfigMap>(object).await;
    }
    world.server.request_log().clear();
    let all: Vec<ConfigMap> = world.kube.list(Some("shop"), "odd").await.unwrap();
    assert_eq!(
        (all.len(), world.server.request_log().matching(|entry| entry.agent == AGENT).len()),
        (510, 2)
    );
    assert_eq!(world.kube.list_metadata::<ConfigMap>(None, "odd=1").await.unwrap().len(), 255);
}
