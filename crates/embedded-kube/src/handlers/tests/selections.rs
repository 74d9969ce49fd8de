//! Requests restricted by label, field or name.

use pretty_assertions::assert_eq;

use super::*;

#[tokio::test]
async fn a_selection_with_a_limit_is_continued_where_it_ended() {
    let server = server().await;
    for (name, tier) in [("a", "x"), ("b", "y"), ("c", "x"), ("d", "x")] {
        config_map(&server, name, json!({"labels": {"tier": tier}})).await;
    }
    let page = |token: String| {
        ask(&server, Verb::List, "configmaps", "").options(|options| {
            options.limit = Some(2);
            options.label_selector = "tier=x".into();
            options.continue_token = token;
        })
    };
    let (first, token) = names(server.handle(page(String::new())).await);
    assert_eq!(first, ["a", "c"]);
    assert_eq!(names(server.handle(page(token)).await), (vec!["d".to_owned()], String::new()));
}

#[tokio::test]
async fn a_collection_goes_by_selector() {
    let server = server().await;
    config_map(&server, "a", json!({"labels": {"tier": "x"}})).await;
    config_map(&server, "b", json!({})).await;
    let gone =
        ask(&server, Verb::DeleteCollection, "configmaps", "").options(|o| o.label_selector = "tier".into());
    assert_eq!(names(server.handle(gone).await).0, ["a"]);
    assert_eq!(names(server.handle(ask(&server, Verb::List, "configmaps", "")).await).0, ["b"]);
}

#[tokio::test]
async fn objects_appear_in_a_selection_and_vanish_from_it() {
    let server = server().await;
    let watch = ask(&server, Verb::Watch, "configmaps", "").options(|options| {
        options.label_selector = "tier=x".into();
        options.resource_version = server.store().revision().to_string();
    });
    let Reply::Watch(mut events) = server.handle(watch).await.unwrap() else { panic!("not a watch") };
    config_map(&server, "a", json!({})).await;
    for label in [json!("x"), Value::Null] {
        let body = json!({"metadata": {"labels": {"tier": label}}});
        let patch =
            ask(&server, Verb::Patch, "configmaps", "a").with(body).of_type("application/merge-patch+json");
        object(server.handle(patch).await);
    }
    let (added, deleted): (WatchEvent, WatchEvent) =
        (events.next().await.unwrap(), events.next().await.unwrap());
    assert_eq!((added.event_type, deleted.event_type), (WatchEventType::Added, WatchEventType::Deleted));
    assert_eq!(deleted.object.value().label("tier"), Some("x"));
    assert_eq!(deleted.object.value().resource_version(), server.store().revision().to_string());
}

#[tokio::test]
async fn a_list_shows_what_its_labels_and_fields_mean_now() {
    let server = server().await;
    for (name, tier) in [("a", "x"), ("b", "y"), ("c", "x")] {
        config_map(&server, name, json!({"labels": {"tier": tier}})).await;
    }
    let body = json!({"metadata": {"labels": {"tier": "x"}}});
    let patch =
        ask(&server, Verb::Patch, "configmaps", "b").with(body).of_type("application/merge-patch+json");
    object(server.handle(patch).await);
    object(server.handle(ask(&server, Verb::Delete, "configmaps", "c")).await);
    let list = async |labels: &str, fields: &str| {
        let request = ask(&server, Verb::List, "configmaps", "").options(|options| {
            options.label_selector = labels.into();
            options.field_selector = fields.into();
        });
        names(server.handle(request).await).0
    };
    assert_eq!(list("tier=x", "").await, ["a", "b"]);
    assert_eq!(list("tier=y", "").await, [""; 0]);
    assert_eq!(list("tier in (x),tier!=y", "metadata.name!=a").await, ["b"]);
    assert_eq!(list("tier notin (z)", "metadata.name=b,metadata.namespace=default").await, ["b"]);
    assert_eq!(list("", "metadata.namespace=other").await, [""; 0]);
}

#[tokio::test]
async fn a_watch_of_one_name_hears_of_that_name_alone() {
    let server = server().await;
    let watch = ask(&server, Verb::Watch, "configmaps", "").options(|options| {
        options.field_selector = "metadata.name=a".into();
        options.resource_version = server.store().revision().to_string();
    });
    let Reply::Watch(mut events) = server.handle(watch).await.unwrap() else { panic!("not a watch") };
    for name in ["a-1", "b", "a"] {
        config_map(&server, name, json!({})).await;
    }
    object(server.handle(ask(&server, Verb::Delete, "configmaps", "a-1")).await);
    object(server.handle(ask(&server, Verb::Delete, "configmaps", "a")).await);
    let seen = [events.next().await.unwrap(), events.next().await.unwrap()];
    assert_eq!(
        seen.each_ref().map(|event| event.event_type),
        [WatchEventType::Added, WatchEventType::Deleted]
    );
    assert!(seen.iter().all(|event| event.object.value().name() == "a"));
}
