//! Fault injection and the request log.

use std::time::Duration;

use embedded_kube::{
    auth,
    cluster::EmbeddedKube,
    fault_injection::{Effect, Fault},
    request::Verb,
};
use futures::{StreamExt, TryStreamExt};
use http::Request;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    Api, Client,
    api::{ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams},
};
use serde_json::json;

use super::{MAPS, config_map, get, listening, memory, over_tls, post};

fn maps(client: &Client) -> Api<ConfigMap> {
    Api::default_namespaced(client.clone())
}

fn object(name: &str) -> ConfigMap {
    serde_json::from_value(config_map(name)).unwrap()
}

#[tokio::test]
async fn the_second_write_fails_and_says_when_to_come_again() {
    let kube = memory().await;
    let id =
        kube.faults().add(Fault::throttle(|call| call.targets("configmaps") && call.is_write(), 3).nth(2));
    let codes = [
        post(&kube.client(), MAPS, &config_map("a")).await,
        post(&kube.client(), MAPS, &config_map("b")).await,
        post(&kube.client(), MAPS, &config_map("c")).await,
    ];
    assert_eq!(codes.each_ref().map(|answer| answer.code), [201, 429, 201]);
    assert_eq!(codes[1].headers["retry-after"], "3");
    assert_eq!(kube.faults().trigger_count(id), 1);
}

#[tokio::test]
async fn a_connection_dropped_after_the_write_leaves_the_write() {
    for kube in [memory().await, listening().await] {
        let client = if kube.kubeconfig().is_some() { over_tls(&kube, None).await } else { kube.client() };
        let creates = |effect| Fault::new(|call| call.verb == Verb::Create, effect).times(1);
        kube.faults().add(creates(Effect::DropBefore));
        kube.faults().add(creates(Effect::DropAfter));
        let (before, after) = (object("before"), object("after"));
        let lost = maps(&client).create(&PostParams::default(), &before).await.unwrap_err();
        assert!(!matches!(lost, kube::Error::Api(_)), "{lost:?}");
        assert!(maps(&client).get_opt("before").await.unwrap().is_none());
        assert!(maps(&client).create(&PostParams::default(), &after).await.is_err());
        assert!(maps(&client).get_opt("after").await.unwrap().is_some());
    }
}

#[tokio::test]
async fn a_delay_delays() {
    let kube = memory().await;
    let time = Duration::from_millis(80);
    kube.faults().add(Fault::new(|call| call.verb == Verb::List, Effect::Delay(time)));
    let start = std::time::Instant::now();
    assert_eq!(get(&kube.client(), MAPS).await.code, 200);
    assert!(start.elapsed() >= time);
}

async fn watch_of(
    client: &Client,
) -> impl futures::Stream<Item = kube::Result<WatchEvent<ConfigMap>>> + Unpin {
    maps(client).watch(&WatchParams::default(), "0").await.unwrap().boxed()
}

#[tokio::test]
async fn watches_break_on_request_and_new_ones_work() {
    for kube in [memory().await, listening().await] {
        let client = if kube.kubeconfig().is_some() { over_tls(&kube, None).await } else { kube.client() };
        let mut watch = watch_of(&client).await;
        maps(&client).create(&PostParams::default(), &object("seen")).await.unwrap();
        assert!(matches!(watch.try_next().await.unwrap(), Some(WatchEvent::Added(_))));
        kube.faults().break_watches();
        let end = tokio::time::timeout(super::PATIENCE, watch.next()).await.unwrap();
        assert!(matches!(end, None | Some(Err(_))), "{end:?}");
        let mut again = watch_of(&client).await;
        assert!(matches!(again.try_next().await.unwrap(), Some(WatchEvent::Added(_))));
    }
}

#[tokio::test]
async fn a_watch_breaks_after_so_many_events() {
    let kube = memory().await;
    let client = kube.client();
    for name in ["a", "b", "c"] {
        maps(&client).create(&PostParams::default(), &object(name)).await.unwrap();
    }
    kube.faults().add(Fault::new(|call| call.verb == Verb::Watch, Effect::BreakWatchAfter(2)).times(1));
    let events: Vec<_> = watch_of(&client).await.collect().await;
    assert_eq!(events.iter().filter(|event| event.is_ok()).count(), 2, "{events:?}");
}

#[tokio::test]
async fn frozen_reads_show_the_past_until_thawed() {
    let kube = memory().await;
    let api = maps(&kube.client());
    api.create(&PostParams::default(), &object("old")).await.unwrap();
    kube.faults().freeze_reads();
    let patch = Patch::Merge(json!({"data": {"a": "new"}}));
    api.patch("old", &PatchParams::default(), &patch).await.unwrap();
    api.create(&PostParams::default(), &object("young")).await.unwrap();
    assert_eq!(api.list(&ListParams::default()).await.unwrap().items.len(), 1);
    assert_eq!(api.get("old").await.unwrap().data.unwrap()["a"], "b");
    assert!(api.get_opt("young").await.unwrap().is_none());
    kube.faults().thaw_reads();
    assert_eq!(api.get("old").await.unwrap().data.unwrap()["a"], "new");
    assert_eq!(api.list(&ListParams::default()).await.unwrap().items.len(), 2);
}

#[tokio::test]
async fn an_expired_history_ends_old_watches_with_gone() {
    let kube = memory().await;
    let api = maps(&kube.client());
    let first = api.create(&PostParams::default(), &object("x")).await.unwrap();
    let version = first.metadata.resource_version.unwrap();
    api.create(&PostParams::default(), &object("y")).await.unwrap();
    kube.faults().expire_history();
    let answer = get(&kube.client(), &format!("{MAPS}?watch=1&resourceVersion={version}")).await;
    assert!(answer.text.contains("\"code\":410"), "{} {}", answer.code, answer.text);
}

#[tokio::test]
async fn the_log_keeps_little_of_each_text_and_nothing_of_those_who_are_nobody() {
    let kube = listening().await;
    let long = "ä".repeat(2000);
    let ask = || Request::get("/healthz").header("user-agent", long.as_bytes());
    for token in ["", "wrong"] {
        super::send(&over_tls(&kube, Some(token)).await, ask(), "").await;
    }
    assert_eq!(kube.request_log().all(), []);
    let admin = over_tls(&kube, None).await;
    super::send(&admin, ask(), "").await;
    get(&admin, &format!("{MAPS}/{0}?fieldManager={0}", "x".repeat(1000))).await;
    let logged = kube.request_log().all();
    assert_eq!(logged.iter().map(|one| one.code).collect::<Vec<_>>(), [200, 404]);
    assert_eq!(logged[0].agent, "ä".repeat(128));
    assert_eq!((logged[1].name.len(), logged[1].field_manager.len()), (256, 256));
}

#[tokio::test]
async fn a_log_that_is_turned_off_stays_empty() {
    let kube = EmbeddedKube::builder().controllers(false).request_log(false).start().await.unwrap();
    assert_eq!(get(&kube.client(), MAPS).await.code, 200);
    assert_eq!(kube.request_log().all(), []);
}

#[tokio::test]
async fn the_log_says_who_wrote_what_and_keeps_no_secrets() {
    let kube: EmbeddedKube = memory().await;
    let client = kube.client_with_agent(auth::admin(), "shopkeeper/1");
    let secret: Secret =
        serde_json::from_value(json!({"metadata": {"name": "till"}, "stringData": {"password": "hunter2"}}))
            .unwrap();
    let api: Api<Secret> = Api::default_namespaced(client.clone());
    api.create(&PostParams::default(), &secret).await.unwrap();
    let apply = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"labels": {"a": "b"}}});
    api.patch("till", &PatchParams::apply("keeper").force(), &Patch::Apply(apply)).await.unwrap();
    let dry = Request::delete("/api/v1/namespaces/default/secrets/till?dryRun=All");
    super::send(&client, dry, "").await;
    get(&client, "/api/v1/namespaces/default/secrets/none").await;

    let writes = kube.request_log().writes_by("shopkeeper");
    assert_eq!(
        writes.iter().map(|one| (one.verb, one.code)).collect::<Vec<_>>(),
        [(Some(Verb::Create), 201), (Some(Verb::Patch), 200)]
    );
    assert_eq!(writes[1].field_manager, "keeper");
    assert_eq!(writes[1].patch_type, "application/apply-patch+yaml");
    assert_eq!((writes[1].namespace.as_str(), writes[1].name.as_str()), ("default", "till"));
    let last = kube.request_log().all().pop().unwrap();
    assert_eq!((last.code, last.user.as_str()), (404, "kubernetes-admin"));
    assert!(!format!("{:?}", kube.request_log().all()).contains("hunter2"));
}
