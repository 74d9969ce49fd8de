//! Watches: from where they start, what a selector makes appear and vanish, and how they end.

use std::time::Instant;

use conformance::{Case, Context, Outcome, Patch, Req, WIDGETS, Widgets, briefly, cases};
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
    Ok(c.must(Req::get(format!("{CM}?limit=1"))).await?.version())
}

async fn from_a_version_comes_what_is_later(c: &mut Context) -> Outcome {
    let first = c.make(CM, cm("a")).await?;
    c.make(CM, cm("b")).await?;
    let mut watch = c.watch(&format!("{CM}?watch=true&resourceVersion={}", first.version())).await?;
    c.must(Req::patch(Patch::Merge, format!("{CM}/a"), json!({ "data": { "k": "new" } }))).await?;
    c.must(Req::delete(format!("{CM}/b"))).await?;
    c.saw("code", watch.code);
    let events = watch.take(3).await?;
    c.saw("events", seen(&events));
    Ok(())
}

async fn without_a_version_come_those_that_are_there(c: &mut Context) -> Outcome {
    for name in ["a", "b"] {
        c.make(CM, cm(name)).await?;
    }
    let mut watch = c.watch(&format!("{CM}?watch=true")).await?;
    let events = watch.take(3).await?;
    c.saw("events", briefly(&events));
    c.make(CM, cm("c")).await?;
    c.saw("then", briefly(&watch.take(1).await?));
    Ok(())
}

async fn at_version_zero_come_those_that_are_there(c: &mut Context) -> Outcome {
    c.make(CM, cm("a")).await?;
    c.until(&format!("{CM}?resourceVersion=0"), |list| list.names() == json!(["a", "kube-root-ca.crt"]))
        .await?;
    let mut watch = c.watch(&format!("{CM}?watch=1&resourceVersion=0")).await?;
    c.saw("events", briefly(&watch.take(2).await?));
    Ok(())
}

async fn events_carry_the_whole_object(c: &mut Context) -> Outcome {
    let version = now(c).await?;
    let made = c.make(CM, cm("a")).await?;
    let mut watch = c.watch(&format!("{CM}?watch=true&resourceVersion={version}")).await?;
    let event = watch.next().await?;
    c.saw("event", event.clone());
    c.saw("same as the answer", event["object"] == made.body);
    Ok(())
}

async fn a_selector_makes_objects_appear_and_vanish(c: &mut Context) -> Outcome {
    let version = now(c).await?;
    let mut watch =
        c.watch(&format!("{CM}?watch=true&labelSelector=in%3Dyes&resourceVersion={version}")).await?;
    c.make(CM, labelled("a", json!({ "in": "no" }))).await?;
    let label = |value: Value| {
        Req::patch(Patch::Merge, format!("{CM}/a"), json!({ "metadata": { "labels": { "in": value } } }))
    };
    c.must(label(json!("yes"))).await?;
    c.must(Req::patch(Patch::Merge, format!("{CM}/a"), json!({ "data": { "k": "v" } }))).await?;
    c.must(label(json!("no"))).await?;
    c.must(Req::patch(Patch::Merge, format!("{CM}/a"), json!({ "data": { "k": "w" } }))).await?;
    c.must(label(json!("yes"))).await?;
    c.must(Req::delete(format!("{CM}/a"))).await?;
    let events = watch.take(5).await?;
    c.saw("events", seen(&events));
    Ok(())
}

async fn a_selected_object_that_vanishes_carries_the_new_labels_not(c: &mut Context) -> Outcome {
    let made = c.make(CM, labelled("a", json!({ "in": "yes" }))).await?;
    let mut watch =
        c.watch(&format!("{CM}?watch=true&labelSelector=in&resourceVersion={}", made.version())).await?;
    let changed = c
        .must(Req::patch(
            Patch::Merge,
            format!("{CM}/a"),
            json!({ "metadata": { "labels": { "in": null } } }),
        ))
        .await?;
    let event = watch.next().await?;
    c.saw("type", event["type"].clone());
    c.saw("labels", event["object"]["metadata"]["labels"].clone());
    c.saw(
        "version of the change",
        event["object"]["metadata"]["resourceVersion"] == changed.at("/metadata/resourceVersion"),
    );
    Ok(())
}

async fn one_object_by_its_name(c: &mut Context) -> Outcome {
    let version = now(c).await?;
    let mut watch = c
        .watch(&format!("{CM}?watch=true&fieldSelector=metadata.name%3Db&resourceVersion={version}"))
        .await?;
    c.make(CM, cm("a")).await?;
    c.make(CM, cm("b")).await?;
    c.must(Req::delete(format!("{CM}/a"))).await?;
    c.must(Req::delete(format!("{CM}/b"))).await?;
    c.saw("events", briefly(&watch.take(2).await?));
    Ok(())
}

const INITIAL: &str =
    "watch=true&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan";

fn is_bookmark(event: &Value) -> bool {
    event["type"] == "BOOKMARK"
}

async fn initial_events_end_with_a_bookmark(c: &mut Context) -> Outcome {
    for name in ["b", "a"] {
        c.make(CM, cm(name)).await?;
    }
    let mut watch = c.watch(&format!("{CM}?{INITIAL}")).await?;
    let mut events = watch.through(is_bookmark).await?;
    let bookmark = events.pop().unwrap_or_default();
    c.saw("events", briefly(&events));
    c.saw("bookmark", bookmark);
    c.make(CM, cm("c")).await?;
    c.saw("then", briefly(&watch.take(1).await?));
    Ok(())
}

async fn initial_events_of_nothing(c: &mut Context) -> Outcome {
    let mut watch = c.watch(&format!("{CM}?{INITIAL}")).await?;
    let events = watch.through(is_bookmark).await?;
    c.saw("events", events);
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
    c.saw("code", watch.code);
    let events = watch.rest().await?;
    c.saw("events", events);
    Ok(())
}

async fn a_version_that_is_no_number(c: &mut Context) -> Outcome {
    c.get("letters", &format!("{CM}?watch=true&resourceVersion=abc")).await?;
    Ok(())
}

async fn a_version_that_is_too_old(c: &mut Context) -> Outcome {
    Widgets::open().serve(c).await?;
    let mut watch = c.watch(&format!("{WIDGETS}?watch=true&resourceVersion=1")).await?;
    c.saw("code", watch.code);
    let event = watch.next().await?;
    c.saw("event", event);
    c.saw("ends", watch.rest().await?);
    Ok(())
}

async fn a_list_of_a_version_that_is_too_old(c: &mut Context) -> Outcome {
    Widgets::open().serve(c).await?;
    c.get("list", &format!("{WIDGETS}?resourceVersion=1&resourceVersionMatch=Exact")).await?;
    Ok(())
}

async fn a_timeout_ends_the_watch(c: &mut Context) -> Outcome {
    c.make(CM, cm("a")).await?;
    let started = Instant::now();
    let mut watch = c.watch(&format!("{CM}?watch=true&timeoutSeconds=2")).await?;
    let events = watch.rest().await?;
    c.saw("events", briefly(&events));
    let took = started.elapsed().as_secs_f32();
    c.saw("did not end before its time", took >= 1.5);
    c.get("a timeout that is none", &format!("{CM}?watch=true&timeoutSeconds=soon")).await?;
    Ok(())
}

async fn a_finalizer_is_a_modification_then_a_deletion(c: &mut Context) -> Outcome {
    let mut held = cm("a");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let made = c.make(CM, held).await?;
    let mut watch = c.watch(&format!("{CM}?watch=true&resourceVersion={}", made.version())).await?;
    c.must(Req::delete(format!("{CM}/a"))).await?;
    c.must(Req::patch(Patch::Merge, format!("{CM}/a"), json!({ "metadata": { "finalizers": null } })))
        .await?;
    let events = watch.take(2).await?;
    c.saw("events", events);
    Ok(())
}

async fn a_deletion_has_a_version_of_its_own(c: &mut Context) -> Outcome {
    let made = c.make(CM, cm("a")).await?;
    let mut watch = c.watch(&format!("{CM}?watch=true&resourceVersion={}", made.version())).await?;
    c.must(Req::delete(format!("{CM}/a"))).await?;
    let event = watch.next().await?;
    c.saw("type", event["type"].clone());
    c.saw("newer", event["object"]["metadata"]["resourceVersion"] != made.at("/metadata/resourceVersion"));
    c.saw("data", event["object"]["data"].clone());
    Ok(())
}

async fn custom_resources_are_watched(c: &mut Context) -> Outcome {
    Widgets::open().serve(c).await?;
    let version = c.must(Req::get(WIDGETS)).await?.version();
    let mut watch = c.watch(&format!("{WIDGETS}?watch=true&resourceVersion={version}")).await?;
    c.make(WIDGETS, w(json!({ "metadata": { "name": "w" } }))).await?;
    c.must(Req::patch(Patch::Merge, format!("{WIDGETS}/w/status"), json!({ "status": { "a": 1 } }))).await?;
    c.must(Req::delete(format!("{WIDGETS}/w"))).await?;
    let events = watch.take(3).await?;
    c.saw("events", events);
    Ok(())
}

async fn watch_as(c: &mut Context, accept: &str) -> Outcome {
    let made = c.make(CM, cm("a")).await?;
    c.make(CM, cm("b")).await?;
    let path = format!("{CM}?watch=true&timeoutSeconds=1&resourceVersion={}", made.version());
    let answer = c.send(Req::get(path).header("accept", accept)).await?;
    c.saw("type", answer.content_type.clone());
    c.saw("events", answer.body);
    Ok(())
}

async fn metadata_only(c: &mut Context) -> Outcome {
    watch_as(c, "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1").await
}

async fn a_table(c: &mut Context) -> Outcome {
    watch_as(c, "application/json;as=Table;g=meta.k8s.io;v=v1").await
}

async fn the_old_way_in_the_path(c: &mut Context) -> Outcome {
    let made = c.make(CM, cm("a")).await?;
    c.make(CM, cm("b")).await?;
    let path = format!(
        "/api/v1/watch/namespaces/{{ns}}/configmaps?resourceVersion={}&timeoutSeconds=1",
        made.version()
    );
    let mut watch = c.watch(&path).await?;
    c.saw("code", watch.code);
    c.saw("events", briefly(&watch.rest().await?));
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
        c.make(CM, cm(name)).await?;
    }
    let mut watch = c.watch(&format!("{CM}?watch=true&limit=1&timeoutSeconds=1")).await?;
    c.saw("events", briefly(&watch.rest().await?));
    Ok(())
}

async fn all_namespaces(c: &mut Context) -> Outcome {
    let version = now(c).await?;
    c.make("/api/v1/namespaces", json!({ "metadata": { "name": "{ns}-b" } })).await?;
    c.make(CM, labelled("a", json!({ "case": "{id}" }))).await?;
    c.make("/api/v1/namespaces/{ns}-b/configmaps", labelled("b", json!({ "case": "{id}" }))).await?;
    let path = format!("/api/v1/configmaps?watch=true&labelSelector=case%3D{{id}}&resourceVersion={version}");
    let mut watch = c.watch(&path).await?;
    c.saw("events", briefly(&watch.take(2).await?));
    Ok(())
}

async fn a_namespace_by_name(c: &mut Context) -> Outcome {
    let version = now(c).await?;
    let path = format!(
        "/api/v1/namespaces?watch=true&fieldSelector=metadata.name%3D{{ns}}-b&resourceVersion={version}"
    );
    let mut watch = c.watch(&path).await?;
    c.make("/api/v1/namespaces", json!({ "metadata": { "name": "{ns}-b" } })).await?;
    let event = watch.next().await?;
    c.saw("event", event);
    Ok(())
}
