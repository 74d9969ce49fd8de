//! The request handlers on an in-memory store, without HTTP.

mod selections;

use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use super::*;
use crate::{
    kinds,
    object::MetaAccessor,
    request::{ObjectBody, RequestOptions, User, WatchEvent, WatchEventType},
    store::{HistoryLimits, Precondition, StoreLocation},
};

async fn server() -> RequestHandler {
    let store = Store::open(StoreLocation::Memory, HistoryLimits::default()).await.unwrap();
    let server = RequestHandler::new(store, Arc::new(Registry::new(kinds::resources())));
    object(
        server
            .handle(
                ask(&server, Verb::Create, "namespaces", "").with(json!({"metadata": {"name": "default"}})),
            )
            .await,
    );
    server
}

fn ask(server: &RequestHandler, verb: Verb, plural: &str, name: &str) -> Request {
    let resource =
        server.registry().catalogue().values().find(|one| one.id.plural == plural).cloned().unwrap();
    let namespace = if resource.namespaced { "default" } else { "" };
    Request {
        user: User::default(),
        agent: "tester/1.0".into(),
        verb,
        resource,
        namespace: namespace.into(),
        name: name.into(),
        subresource: String::new(),
        options: RequestOptions::default(),
        body: Bytes::new(),
        content_type: "application/json".into(),
        create_denied: None,
    }
}

impl Request {
    #[expect(clippy::needless_pass_by_value, reason = "a body is written in place")]
    fn with(mut self, body: Value) -> Self {
        self.body = body.to_string().into();
        self
    }

    fn of_type(mut self, content_type: &str) -> Self {
        self.content_type = content_type.into();
        self
    }

    fn options(mut self, set: impl FnOnce(&mut RequestOptions)) -> Self {
        set(&mut self.options);
        self
    }
}

fn object(reply: ApiResult<Reply>) -> Value {
    match reply.unwrap() {
        Reply::Object { object, .. } => object.value(),
        Reply::List(_) | Reply::Watch(_) => panic!("not one object"),
    }
}

fn names(reply: ApiResult<Reply>) -> (Vec<String>, String) {
    match reply.unwrap() {
        Reply::List(list) => {
            (list.items.iter().map(|item| item.value().name().to_owned()).collect(), list.continue_token)
        }
        Reply::Object { .. } | Reply::Watch(_) => panic!("not a list"),
    }
}

async fn config_map(server: &RequestHandler, name: &str, metadata: Value) -> Value {
    let mut body = json!({"metadata": {"name": name}, "data": {"a": "1"}});
    if let (Some(all), Some(more)) = (body["metadata"].as_object_mut(), metadata.as_object()) {
        all.extend(more.clone());
    }
    object(server.handle(ask(server, Verb::Create, "configmaps", "").with(body)).await)
}

#[tokio::test]
async fn a_created_object_is_there_with_uid_and_version() {
    let server = server().await;
    let made = config_map(&server, "a", json!({})).await;
    assert!(!made.uid().is_empty());
    assert_eq!(object(server.handle(ask(&server, Verb::Get, "configmaps", "a")).await), made);
    let again = server
        .handle(ask(&server, Verb::Create, "configmaps", "").with(json!({"metadata": {"name": "a"}})))
        .await;
    assert_eq!(again.err().unwrap().message(), "configmaps \"a\" already exists");
}

#[tokio::test]
async fn a_generated_name_has_five_letters_more() {
    let server = server().await;
    let body = json!({"metadata": {"generateName": "pre-"}});
    let made = object(server.handle(ask(&server, Verb::Create, "configmaps", "").with(body)).await);
    assert_eq!(made.name().len(), "pre-".len() + 5);
}

#[tokio::test]
async fn an_old_version_is_a_conflict_and_no_version_is_not() {
    let server = server().await;
    let first = config_map(&server, "a", json!({})).await;
    let mut second = first.clone();
    second["data"]["a"] = "2".into();
    let second = object(server.handle(ask(&server, Verb::Update, "configmaps", "a").with(second)).await);
    assert_ne!(second.resource_version(), first.resource_version());
    let mut late = first.clone();
    late["data"]["a"] = "3".into();
    let refused = server.handle(ask(&server, Verb::Update, "configmaps", "a").with(late.clone())).await;
    assert_eq!(refused.err().unwrap().reason(), "Conflict");
    late["metadata"].as_object_mut().unwrap().shift_remove("resourceVersion");
    let third = object(server.handle(ask(&server, Verb::Update, "configmaps", "a").with(late)).await);
    assert_eq!(third["data"]["a"], "3");
}

#[tokio::test]
async fn an_update_that_changes_nothing_writes_nothing() {
    let server = server().await;
    let first = config_map(&server, "a", json!({})).await;
    let same = object(server.handle(ask(&server, Verb::Update, "configmaps", "a").with(first.clone())).await);
    assert_eq!(same.resource_version(), first.resource_version());
}

#[tokio::test]
async fn a_dry_run_leaves_nothing_behind() {
    let server = server().await;
    let dry = |request: Request| request.options(|options| options.dry_run = vec!["All".into()]);
    let body = json!({"metadata": {"name": "a"}});
    object(server.handle(dry(ask(&server, Verb::Create, "configmaps", "").with(body))).await);
    assert_eq!(server.handle(ask(&server, Verb::Get, "configmaps", "a")).await.err().unwrap().code(), 404);
    config_map(&server, "b", json!({})).await;
    let before = server.store().revision();
    object(server.handle(dry(ask(&server, Verb::Delete, "configmaps", "b"))).await);
    assert_eq!(server.store().revision(), before);
}

#[tokio::test]
async fn pages_show_one_snapshot() {
    let server = server().await;
    for name in ["a", "b", "c", "d"] {
        config_map(&server, name, json!({})).await;
    }
    let page = |token: String| {
        ask(&server, Verb::List, "configmaps", "").options(|options| {
            options.limit = Some(2);
            options.continue_token = token;
        })
    };
    let (first, token) = names(server.handle(page(String::new())).await);
    assert_eq!(first, ["a", "b"]);
    object(server.handle(ask(&server, Verb::Delete, "configmaps", "d")).await);
    let (rest, end) = names(server.handle(page(token)).await);
    assert_eq!((rest, end), (vec!["c".to_owned(), "d".to_owned()], String::new()));
}

#[tokio::test]
async fn a_finalizer_keeps_an_object_until_it_leaves() {
    let server = server().await;
    config_map(&server, "a", json!({"finalizers": ["x.io/y"]})).await;
    let kept = object(server.handle(ask(&server, Verb::Delete, "configmaps", "a")).await);
    assert!(kept.is_terminating());
    let body = json!({"metadata": {"finalizers": null}});
    let patch =
        ask(&server, Verb::Patch, "configmaps", "a").with(body).of_type("application/merge-patch+json");
    object(server.handle(patch).await);
    assert_eq!(server.handle(ask(&server, Verb::Get, "configmaps", "a")).await.err().unwrap().code(), 404);
}

#[tokio::test]
async fn preconditions_of_a_delete_are_kept() {
    let server = server().await;
    config_map(&server, "a", json!({})).await;
    let body = json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "other"}});
    let refused = server.handle(ask(&server, Verb::Delete, "configmaps", "a").with(body)).await;
    assert_eq!(refused.err().unwrap().reason(), "Conflict");
    assert!(server.handle(ask(&server, Verb::Get, "configmaps", "a")).await.is_ok());
}

#[tokio::test]
async fn a_watch_can_begin_with_everything_there_is() {
    let server = server().await;
    config_map(&server, "a", json!({})).await;
    let watch = ask(&server, Verb::Watch, "configmaps", "").options(|options| {
        options.send_initial_events = Some(true);
        options.resource_version_match = "NotOlderThan".into();
        options.bookmarks = true;
        options.timeout_seconds = Some(1);
    });
    let Reply::Watch(events) = server.handle(watch).await.unwrap() else { panic!("not a watch") };
    let seen: Vec<WatchEvent> = events.take(2).collect().await;
    assert_eq!(
        seen.iter().map(|event| event.event_type).collect::<Vec<_>>(),
        [WatchEventType::Added, WatchEventType::Bookmark]
    );
    let ObjectBody::Value(mark) = &seen[1].object else { panic!("a bookmark is made for its reply") };
    assert_eq!(mark.pointer("/metadata/annotations/k8s.io~1initial-events-end"), Some(&json!("true")));
}

#[tokio::test]
async fn a_watch_from_forgotten_history_ends_with_gone() {
    let server = server().await;
    config_map(&server, "a", json!({})).await;
    server.store().expire_history();
    let watch =
        ask(&server, Verb::Watch, "configmaps", "").options(|options| options.resource_version = "1".into());
    let Reply::Watch(events) = server.handle(watch).await.unwrap() else { panic!("not a watch") };
    let seen: Vec<WatchEvent> = events.collect().await;
    assert_eq!(seen.len(), 1);
    assert_eq!(
        (seen[0].event_type, seen[0].object.value()["code"].clone()),
        (WatchEventType::Error, json!(410))
    );
}

#[tokio::test]
async fn nothing_is_made_in_a_namespace_that_ends() {
    let server = server().await;
    let missing = Request { namespace: "nowhere".into(), ..ask(&server, Verb::Create, "configmaps", "") };
    let refused = server.handle(missing.with(json!({"metadata": {"name": "a"}}))).await;
    assert_eq!(refused.err().unwrap().message(), "namespaces \"nowhere\" not found");
    object(
        server
            .handle(ask(&server, Verb::Create, "namespaces", "").with(json!({"metadata": {"name": "short"}})))
            .await,
    );
    let ending = object(server.handle(ask(&server, Verb::Delete, "namespaces", "short")).await);
    assert_eq!(ending["status"]["phase"], "Terminating");
    let late = Request { namespace: "short".into(), ..ask(&server, Verb::Create, "configmaps", "") };
    let refused = server.handle(late.with(json!({"metadata": {"name": "a"}}))).await.err().unwrap();
    assert_eq!(refused.details().unwrap().causes[0].reason, "NamespaceTerminating");
}

async fn deployment(server: &RequestHandler) {
    let template =
        json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"replicas": 3, "selector": {"matchLabels": {"a": "b"}}, "template": template});
    let body = json!({"metadata": {"name": "d"}, "spec": spec});
    object(server.handle(ask(server, Verb::Create, "deployments", "").with(body)).await);
}

#[tokio::test]
async fn a_scale_of_a_wrong_type_is_refused_and_scales_nothing() {
    let server = server().await;
    deployment(&server).await;
    let scale = |verb, body: Value| {
        let request =
            Request { subresource: "scale".into(), ..ask(&server, verb, "deployments", "d").with(body) };
        if verb == Verb::Patch { request.of_type("application/merge-patch+json") } else { request }
    };
    let wrong = [
        scale(Verb::Patch, json!({"spec": {"replicas": "5"}})),
        scale(Verb::Update, json!({"metadata": {"name": "d"}, "spec": {"replicas": 2.5}})),
        scale(Verb::Update, json!({"metadata": {"name": "d"}, "spec": {"replicas": 4_294_967_299_i64}})),
        scale(Verb::Update, json!({"kind": "ConfigMap", "metadata": {"name": "d"}})),
    ];
    for request in wrong {
        assert_eq!(server.handle(request).await.err().unwrap().code(), 400);
    }
    let kept = object(server.handle(ask(&server, Verb::Get, "deployments", "d")).await);
    assert_eq!(kept["spec"]["replicas"], 3);
}

#[tokio::test]
async fn an_eviction_keeps_its_preconditions() {
    let server = server().await;
    let body = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    object(server.handle(ask(&server, Verb::Create, "pods", "").with(body)).await);
    let evict = |options: Value| Request {
        subresource: "eviction".into(),
        ..ask(&server, Verb::Create, "pods", "p")
            .with(json!({"metadata": {"name": "p"}, "deleteOptions": options}))
    };
    let foreign = server.handle(evict(json!({"preconditions": {"uid": "other"}}))).await;
    assert_eq!(foreign.err().unwrap().reason(), "Conflict");
    object(server.handle(evict(json!({"dryRun": ["All"]}))).await);
    assert!(server.handle(ask(&server, Verb::Get, "pods", "p")).await.is_ok());
}

#[tokio::test]
async fn extreme_numbers_panic_nobody() {
    let server = server().await;
    config_map(&server, "a", json!({"generation": i64::MAX, "finalizers": ["x.io/y"]})).await;
    assert!(object(server.handle(ask(&server, Verb::Delete, "configmaps", "a")).await).is_terminating());
    let watch = ask(&server, Verb::Watch, "configmaps", "").options(|o| o.timeout_seconds = Some(u64::MAX));
    assert!(server.handle(watch).await.is_ok());
}

#[tokio::test]
async fn nothing_is_written_into_a_namespace_that_went_while_it_was_checked() {
    let server = server().await;
    let request = ask(&server, Verb::Create, "configmaps", "");
    let new =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}});
    let key = "/namespaces//default";
    let guards = server.admit(&request, "a").unwrap();
    let mut namespace = server.store.get(key).unwrap().document.value();
    namespace["metadata"]["labels"] = json!({"a": "b"});
    let changed = Some(crate::object::Draft::from_value(&namespace).unwrap());
    server.store.write(key, Precondition::Any, changed).await.unwrap();
    assert!(
        server.insert(&request, &new, guards.clone(), false).await.unwrap().is_some(),
        "still a namespace"
    );
    server.store.write("/configmaps/default/a", Precondition::Any, None).await.unwrap();
    server.store.write(key, Precondition::Any, None).await.unwrap();
    let refused = server.insert(&request, &new, guards, false).await.unwrap_err();
    assert_eq!((refused.code(), refused.message()), (404, r#"namespaces "default" not found"#));
    assert!(server.store.get("/configmaps/default/a").is_none());
}

#[tokio::test]
async fn nothing_is_written_of_a_kind_whose_definition_ends_while_it_is_checked() {
    let server = server().await;
    let mut definition = crate::crd::tests::created(crate::crd::tests::sample());
    let key = "apiextensions.k8s.io/customresourcedefinitions//foos.example.com";
    let write = async |crd: &Value| {
        server
            .store
            .write(key, Precondition::Any, Some(crate::object::Draft::from_value(crd).unwrap()))
            .await
            .unwrap();
    };
    write(&definition).await;
    let owner = crate::status_error::GroupResource::new("example.com", "foos");
    server.registry().replace(&owner, crate::crd::tests::served(&definition, 1));
    let request = ask(&server, Verb::Create, "foos", "");
    let new = json!({"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "a", "namespace": "default"}});
    let guards = server.admit(&request, "a").unwrap();
    definition["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    write(&definition).await;
    let refused = server.insert(&request, &new, guards.clone(), false).await.unwrap_err();
    assert_eq!(
        (refused.code(), refused.message()),
        (
            403,
            r#"foos.example.com "a" is forbidden: create not allowed while custom resource definition is terminating"#
        )
    );
    server.store.write(key, Precondition::Any, None).await.unwrap();
    assert_eq!(server.insert(&request, &new, guards, false).await.unwrap_err().code(), 404);
}

#[tokio::test]
async fn a_watch_ends_when_its_definition_changes() {
    let server = server().await;
    let definition = crate::crd::tests::created(crate::crd::tests::sample());
    let owner = crate::status_error::GroupResource::new("example.com", "foos");
    let serve = |since| server.registry().replace(&owner, crate::crd::tests::served(&definition, since));
    serve(1);
    let Ok(Reply::Watch(mut events)) = server.handle(ask(&server, Verb::Watch, "foos", "")).await else {
        panic!("no watch")
    };
    assert!(futures::poll!(events.next()).is_pending(), "it waits");
    serve(1);
    assert!(futures::poll!(events.next()).is_pending(), "the schema is the same");
    serve(9);
    let end = tokio::time::timeout(std::time::Duration::from_mins(2), events.next()).await;
    assert!(end.expect("it ends").is_none());
}
