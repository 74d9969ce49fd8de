//! Watches: from where they start, what a selector makes appear and vanish, and how they end.

use std::time::Instant;

use conformance::{Case, Context, Outcome, PatchType, Req, WIDGETS, Widgets, cases, summarise_events};
use serde_json::{Value, json};

use super::{CM, cm, labelled, w};

pub(crate) fn cases() -> Vec<Case> {
    cases!["watch":
        from_a_version_comes_what_is_later,
        without_a_version_come_those_that_are_there,
        at_version_zero_come_those_that_are_there,
        events_carry_the_whole_object,
        a_selector_makes_objects_appear_and_vanish,
        a_selected_object_that_vanishes_carries_the_new_labels_not,
        one_object_by_its_name,
        initial_events_end_with_a_bookmark,
        initial_events_of_nothing,
        initial_events_need_a_match,
        initial_events_with_a_wrong_match,
        initial_events_on_a_list,
        a_version_of_the_future,
        a_version_that_is_no_number,
        a_version_that_is_too_old,
        a_list_of_a_version_that_is_too_old,
        a_timeout_ends_the_watch,
        a_finalizer_is_a_modification_then_a_deletion,
        a_deletion_has_a_version_of_its_own,
        custom_resources_are_watched,
        metadata_only,
        a_table,
        the_old_way_in_the_path,
        a_version_match_without_initial_events,
        a_limit_is_ignored,
        all_namespaces,
        a_namespace_by_name,
    ]
}

fn seen(events: &[Value]) -> Value {
    events
        .iter()
        .map(|event| {
            json!({ "type": event["type"], "name": event["object"]["metadata"]["name"], "labels": event["object"]["metadata"]["labels"],
                "data": event["object"]["data"] })
        })
        .collect()
}

async fn now(c: &Context) -> Result<String, anyhow::Error> {
    Ok(c.send_ok(Req::get(format!("{CM}?limit=1"))).await?.resource_version())
}

async fn from_a_version_comes_what_is_later(c: &mut Context) -> Outcome {
    let first = c.create(CM, cm("a")).await?;
    c.create(CM, cm("b")).await?;
    let mut watch = c.watch(&format!("{CM}?watch=true&resourceVersion={}", first.resource_version())).await?;
    c.send_ok(Req::patch(PatchType::Merge, format!("{CM}/a"), json!({ "data": { "k": "new" } }))).await?;
    c.send_ok(Req::delete(format!("{CM}/b"))).await?;
    c.record("code", watch.code);
    let events = watch.take_events(3).await?;
    c.record("events", seen(&events));
    Ok(())
}

async fn without_a_version_come_those_that_are_there(c: &mut Context) -> Outcome {
    for name in ["a", "b"] {
        c.create(CM, cm(name)).await?;
    }
    let mut watch = c.watch(&format!("{CM}?watch=true")).await?;
    let events = watch.take_events(3).await?;
    c.record("events", summarise_events(&events));
    c.create(CM, cm("c")).await?;
    c.record("then", summarise_events(&watch.take_events(1).await?));
    Ok(())
}

async fn at_version_zero_come_those_that_are_there(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    c.wait_until(&format!("{CM}?resourceVersion=0"), |list| {
        list.item_names() == json!(["a", "kube-root-ca.crt"])
    })
    .await?;
    let mut watch = c.watch(&format!("{CM}?watch=1&resourceVersion=0")).await?;
    c.record("events", summarise_events(&watch.take_events(2).await?));
    Ok(())
}

async fn events_carry_the_whole_object(c: &mut Context) -> Outcome {
    let version = now(c).await?;
    let made = c.create(CM, cm("a")).await?;
    let mut watch = c.watch(&format!("{CM}?watch=true&resourceVersion={version}")).await?;
    let event = watch.next_event().await?;
    c.record("event", event.clone());
    c.record("same as the answer", event["object"] == made.body);
    Ok(())
}

async fn a_selector_makes_objects_appear_and_vanish(c: &mut Context) -> Outcome {
    let version = now(c).await?;
    let mut watch =
        c.watch(&format!("{CM}?watch=true&labelSelector=in%3Dyes&resourceVersion={version}")).await?;
    c.create(CM, labelled("a", json!({ "in": "no" }))).await?;
    let label = |value: Value| {
        Req::patch(PatchType::Merge, format!("{CM}/a"), json!({ "metadata": { "labels": { "in": value } } }))
    };
    c.send_ok(label(json!("yes"))).await?;
    c.send_ok(Req::patch(PatchType::Merge, format!("{CM}/a"), json!({ "data": { "k": "v" } }))).await?;
    c.send_ok(label(json!("no"))).await?;
    c.send_ok(Req::patch(PatchType::Merge, format!("{CM}/a"), json!({ "data": { "k": "w" } }))).await?;
    c.send_ok(label(json!("yes"))).await?;
    c.send_ok(Req::delete(format!("{CM}/a"))).await?;
    let events = watch.take_events(5).await?;
    c.record("events", seen(&events));
    Ok(())
}

async fn a_selected_object_that_vanishes_carries_the_new_labels_not(c: &mut Context) -> Outcome {
    let made = c.create(CM, labelled("a", json!({ "in": "yes" }))).await?;
    let mut watch = c
        .watch(&format!("{CM}?watch=true&labelSelector=in&resourceVersion={}", made.resource_version()))
        .await?;
    let changed = c
        .send_ok(Req::patch(
            PatchType::Merge,
            format!("{CM}/a"),
            json!({ "metadata": { "labels": { "in": null } } }),
        ))
        .await?;
    let event = watch.next_event().await?;
    c.record("type", event["type"].clone());
    c.record("labels", event["object"]["metadata"]["labels"].clone());
    c.record(
        "version of the change",
        event["object"]["metadata"]["resourceVersion"] == changed.value_at("/metadata/resourceVersion"),
    );
    Ok(())
}

async fn one_object_by_its_name(c: &mut Context) -> Outcome {
    let version = now(c).await?;
    let mut watch = c
        .watch(&format!("{CM}?watch=true&fieldSelector=metadata.name%3Db&resourceVersion={version}"))
        .await?;
    c.create(CM, cm("a")).await?;
    c.create(CM, cm("b")).await?;
    c.send_ok(Req::delete(format!("{CM}/a"))).await?;
    c.send_ok(Req::delete(format!("{CM}/b"))).await?;
    c.record("events", summarise_events(&watch.take_events(2).await?));
    Ok(())
}

const INITIAL: &str =
    "watch=true&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan";

fn is_bookmark(event: &Value) -> bool {
    event["type"] == "BOOKMARK"
}

async fn initial_events_end_with_a_bookmark(c: &mut Context) -> Outcome {
    for name in ["b", "a"] {
        c.create(CM, cm(name)).await?;
    }
    let mut watch = c.watch(&format!("{CM}?{INITIAL}")).await?;
    let mut events = watch.events_through(is_bookmark).await?;
    let bookmark = events.pop().unwrap_or_default();
    c.record("events", summarise_events(&events));
    c.record("bookmark", bookmark);
    c.create(CM, cm("c")).await?;
    c.record("then", summarise_events(&watch.take_events(1).await?));
    Ok(())
}

async fn initial_events_of_nothing(c: &mut Context) -> Outcome {
    let mut watch = c.watch(&format!("{CM}?{INITIAL}")).await?;
    let events = watch.events_through(is_bookmark).await?;
    c.record("events", events);
    Ok(())
}

async fn initial_events_need_a_match(c: &mut Context) -> Outcome {
    c.get("no match", &format!("{CM}?watch=true&sendInitialEvents=true&allowWatchBookmarks=true")).await?;
    c.get("no match, false", &format!("{CM}?watch=true&sendInitialEvents=false")).await?;
    Ok(())
}

async fn initial_events_with_a_wrong_match(c: &mut Context) -> Outcome {
    let path = "watch=true&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersion=1&resourceVersionMatch=Exact";
    c.get("exact", &format!("{CM}?{path}")).await?;
    Ok(())
}

async fn initial_events_on_a_list(c: &mut Context) -> Outcome {
    c.get("list", &format!("{CM}?sendInitialEvents=true&resourceVersionMatch=NotOlderThan")).await?;
    Ok(())
}

async fn a_version_of_the_future(c: &mut Context) -> Outcome {
    let mut watch = c.watch(&format!("{CM}?watch=true&resourceVersion=999999999&timeoutSeconds=5")).await?;
    c.record("code", watch.code);
    let events = watch.remaining_events().await?;
    c.record("events", events);
    Ok(())
}

async fn a_version_that_is_no_number(c: &mut Context) -> Outcome {
    c.get("letters", &format!("{CM}?watch=true&resourceVersion=abc")).await?;
    Ok(())
}

async fn a_version_that_is_too_old(c: &mut Context) -> Outcome {
    Widgets::open().install(c).await?;
    let mut watch = c.watch(&format!("{WIDGETS}?watch=true&resourceVersion=1")).await?;
    c.record("code", watch.code);
    let event = watch.next_event().await?;
    c.record("event", event);
    c.record("ends", watch.remaining_events().await?);
    Ok(())
}

async fn a_list_of_a_version_that_is_too_old(c: &mut Context) -> Outcome {
    Widgets::open().install(c).await?;
    c.get("list", &format!("{WIDGETS}?resourceVersion=1&resourceVersionMatch=Exact")).await?;
    Ok(())
}

async fn a_timeout_ends_the_watch(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    let started = Instant::now();
    let mut watch = c.watch(&format!("{CM}?watch=true&timeoutSeconds=2")).await?;
    let events = watch.remaining_events().await?;
    c.record("events", summarise_events(&events));
    let took = started.elapsed().as_secs_f32();
    c.record("did not end before its time", took >= 1.5);
    c.get("a timeout that is none", &format!("{CM}?watch=true&timeoutSeconds=soon")).await?;
    Ok(())
}

async fn a_finalizer_is_a_modification_then_a_deletion(c: &mut Context) -> Outcome {
    let mut held = cm("a");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let made = c.create(CM, held).await?;
    let mut watch = c.watch(&format!("{CM}?watch=true&resourceVersion={}", made.resource_version())).await?;
    c.send_ok(Req::delete(format!("{CM}/a"))).await?;
    c.send_ok(Req::patch(PatchType::Merge, format!("{CM}/a"), json!({ "metadata": { "finalizers": null } })))
        .await?;
    let events = watch.take_events(2).await?;
    c.record("events", events);
    Ok(())
}

async fn a_deletion_has_a_version_of_its_own(c: &mut Context) -> Outcome {
    let made = c.create(CM, cm("a")).await?;
    let mut watch = c.watch(&format!("{CM}?watch=true&resourceVersion={}", made.resource_version())).await?;
    c.send_ok(Req::delete(format!("{CM}/a"))).await?;
    let event = watch.next_event().await?;
    c.record("type", event["type"].clone());
    c.record(
        "newer",
        event["object"]["metadata"]["resourceVersion"] != made.value_at("/metadata/resourceVersion"),
    );
    c.record("data", event["object"]["data"].clone());
    Ok(())
}

async fn custom_resources_are_watched(c: &mut Context) -> Outcome {
    Widgets::open().install(c).await?;
    let version = c.send_ok(Req::get(WIDGETS)).await?.resource_version();
    let mut watch = c.watch(&format!("{WIDGETS}?watch=true&resourceVersion={version}")).await?;
    c.create(WIDGETS, w(json!({ "metadata": { "name": "w" } }))).await?;
    c.send_ok(Req::patch(PatchType::Merge, format!("{WIDGETS}/w/status"), json!({ "status": { "a": 1 } })))
        .await?;
    c.send_ok(Req::delete(format!("{WIDGETS}/w"))).await?;
    let events = watch.take_events(3).await?;
    c.record("events", events);
    Ok(())
}

async fn watch_as(c: &mut Context, accept: &str) -> Outcome {
    let made = c.create(CM, cm("a")).await?;
    c.create(CM, cm("b")).await?;
    let path = format!("{CM}?watch=true&timeoutSeconds=1&resourceVersion={}", made.resource_version());
    let answer = c.send(Req::get(path).header("accept", accept)).await?;
    c.record("type", answer.content_type.clone());
    c.record("events", answer.body);
    Ok(())
}

async fn metadata_only(c: &mut Context) -> Outcome {
    watch_as(c, "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1").await
}

async fn a_table(c: &mut Context) -> Outcome {
    watch_as(c, "application/json;as=Table;g=meta.k8s.io;v=v1").await
}

async fn the_old_way_in_the_path(c: &mut Context) -> Outcome {
    let made = c.create(CM, cm("a")).await?;
    c.create(CM, cm("b")).await?;
    let path = format!(
        "/api/v1/watch/namespaces/{{ns}}/configmaps?resourceVersion={}&timeoutSeconds=1",
        made.resource_version()
    );
    let mut watch = c.watch(&path).await?;
    c.record("code", watch.code);
    c.record("events", summarise_events(&watch.remaining_events().await?));
    Ok(())
}

async fn a_version_match_without_initial_events(c: &mut Context) -> Outcome {
    let version = now(c).await?;
    c.get("match", &format!("{CM}?watch=true&resourceVersion={version}&resourceVersionMatch=NotOlderThan"))
        .await?;
    Ok(())
}

async fn a_limit_is_ignored(c: &mut Context) -> Outcome {
    for name in ["a", "b"] {
        c.create(CM, cm(name)).await?;
    }
    let mut watch = c.watch(&format!("{CM}?watch=true&limit=1&timeoutSeconds=1")).await?;
    c.record("events", summarise_events(&watch.remaining_events().await?));
    Ok(())
}

async fn all_namespaces(c: &mut Context) -> Outcome {
    let version = now(c).await?;
    c.create("/api/v1/namespaces", json!({ "metadata": { "name": "{ns}-b" } })).await?;
    c.create(CM, labelled("a", json!({ "case": "{id}" }))).await?;
    c.create("/api/v1/namespaces/{ns}-b/configmaps", labelled("b", json!({ "case": "{id}" }))).await?;
    let path = format!("/api/v1/configmaps?watch=true&labelSelector=case%3D{{id}}&resourceVersion={version}");
    let mut watch = c.watch(&path).await?;
    c.record("events", summarise_events(&watch.take_events(2).await?));
    Ok(())
}

async fn a_namespace_by_name(c: &mut Context) -> Outcome {
    let version = now(c).await?;
    let path = format!(
        "/api/v1/namespaces?watch=true&fieldSelector=metadata.name%3D{{ns}}-b&resourceVersion={version}"
    );
    let mut watch = c.watch(&path).await?;
    c.create("/api/v1/namespaces", json!({ "metadata": { "name": "{ns}-b" } })).await?;
    let event = watch.next_event().await?;
    c.record("event", event);
    Ok(())
}
