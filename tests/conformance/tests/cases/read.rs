//! get, list, selectors, pages, and what a resource version means for a read.

use conformance::{Case, Context, Outcome, Req, WIDGETS, Widgets, cases};
use serde_json::json;

use super::{CM, cm, labelled};

pub(crate) fn cases() -> Vec<Case> {
    cases!["read":
        get_an_object,
        get_what_is_not_there,
        get_in_a_namespace_that_is_not_there,
        get_at_a_resource_version_that_is_not_a_number,
        get_at_resource_version_zero,
        get_at_a_resource_version_of_the_future,
        list_is_sorted_by_name,
        list_of_nothing_has_no_items_and_a_version,
        list_across_namespaces,
        list_by_label_equality,
        list_by_label_sets,
        list_by_label_existence,
        list_by_field_name,
        list_by_field_namespace,
        list_by_a_field_that_is_not_selectable,
        list_pods_by_phase_and_node,
        list_secrets_by_type,
        list_in_pages,
        list_in_pages_of_a_selection,
        list_pages_show_one_moment,
        list_with_a_limit_above_the_count,
        list_with_a_negative_limit,
        list_at_an_exact_version_shows_the_past,
        list_not_older_than_a_version,
        list_with_a_match_but_no_version,
        list_with_a_match_that_is_none,
        list_exact_at_version_zero,
        list_continue_and_exact_version_exclude_each_other,
        get_pretty_is_the_same_object,
        item_kinds_are_left_out_of_lists,
    ]
}

async fn get_an_object(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    c.get("get", &format!("{CM}/a")).await?;
    Ok(())
}

async fn get_what_is_not_there(c: &mut Context) -> Outcome {
    c.get("get", &format!("{CM}/nobody")).await?;
    c.get("cluster-scoped", "/api/v1/namespaces/nobody-{id}").await?;
    c.get("other group", "/apis/apps/v1/namespaces/{ns}/deployments/nobody").await?;
    Ok(())
}

async fn get_in_a_namespace_that_is_not_there(c: &mut Context) -> Outcome {
    c.get("get", "/api/v1/namespaces/nowhere-{id}/configmaps/a").await?;
    c.get("list", "/api/v1/namespaces/nowhere-{id}/configmaps").await?;
    Ok(())
}

async fn get_at_a_resource_version_that_is_not_a_number(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    c.get("get", &format!("{CM}/a?resourceVersion=abc")).await?;
    c.get("list", &format!("{CM}?resourceVersion=abc")).await?;
    c.get("list of a negative", &format!("{CM}?resourceVersion=-1")).await?;
    Ok(())
}

async fn get_at_resource_version_zero(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    c.wait_until(&format!("{CM}/a?resourceVersion=0"), |answer| answer.code == 200).await?;
    c.get("get", &format!("{CM}/a?resourceVersion=0")).await?;
    c.get("list", &format!("{CM}?resourceVersion=0")).await?;
    Ok(())
}

async fn get_at_a_resource_version_of_the_future(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    let answer = c.get("get", &format!("{CM}/a?resourceVersion=999999999")).await?;
    c.record("cause", answer.value_at("/details/causes/0/reason"));
    c.get("list", &format!("{CM}?resourceVersion=999999999&resourceVersionMatch=NotOlderThan")).await?;
    Ok(())
}

async fn list_is_sorted_by_name(c: &mut Context) -> Outcome {
    for name in ["b", "c", "a", "a.b", "a-b", "a1"] {
        c.create(CM, cm(name)).await?;
    }
    let list = c.get("list", CM).await?;
    c.record("names", list.item_names());
    Ok(())
}

async fn list_of_nothing_has_no_items_and_a_version(c: &mut Context) -> Outcome {
    let list = c.get("list", CM).await?;
    c.record("has a version", !list.resource_version().is_empty());
    Ok(())
}

async fn list_across_namespaces(c: &mut Context) -> Outcome {
    let second = json!({ "metadata": { "name": "{ns}-b" } });
    c.create("/api/v1/namespaces", second).await?;
    c.create(CM, labelled("x", json!({ "case": "{id}" }))).await?;
    c.create("/api/v1/namespaces/{ns}-b/configmaps", labelled("a", json!({ "case": "{id}" }))).await?;
    c.get("list", "/api/v1/configmaps?labelSelector=case%3D{id}").await?;
    Ok(())
}

async fn three_labelled(c: &mut Context) -> Outcome {
    c.create(CM, labelled("one", json!({ "tier": "web", "env": "prod" }))).await?;
    c.create(CM, labelled("two", json!({ "tier": "db", "env": "test" }))).await?;
    c.create(CM, labelled("three", json!({ "tier": "", "zone": "a" }))).await?;
    c.create(CM, cm("none")).await?;
    Ok(())
}

async fn select(c: &mut Context, selectors: &[(&str, &str)]) -> Outcome {
    for (name, selector) in selectors {
        let list = c.send(Req::get(format!("{CM}?labelSelector={selector}"))).await?;
        let seen = if list.is_ok() { list.item_names() } else { list.to_transcript() };
        c.record(name, seen);
    }
    Ok(())
}

async fn list_by_label_equality(c: &mut Context) -> Outcome {
    three_labelled(c).await?;
    select(
        c,
        &[
            ("equal", "tier%3Dweb"),
            ("double equal", "tier%3D%3Dweb"),
            ("not equal", "tier!%3Dweb"),
            ("two", "tier%3Dweb,env%3Dprod"),
            ("two that exclude each other", "tier%3Dweb,env%3Dtest"),
            ("empty value", "tier%3D"),
        ],
    )
    .await
}

async fn list_by_label_sets(c: &mut Context) -> Outcome {
    three_labelled(c).await?;
    select(
        c,
        &[
            ("in", "tier%20in%20(web,db)"),
            ("notin", "tier%20notin%20(web,db)"),
            ("in one with spaces", "tier%20in%20(%20web%20)"),
            ("in with an empty value", "tier%20in%20(web,)"),
            ("greater than", "tier%20gt%201"),
            ("in nothing", "tier%20in%20()"),
        ],
    )
    .await
}

async fn list_by_label_existence(c: &mut Context) -> Outcome {
    three_labelled(c).await?;
    select(
        c,
        &[("exists", "env"), ("does not exist", "!env"), ("both", "tier,!zone"), ("empty selector", "")],
    )
    .await
}

async fn list_by_field_name(c: &mut Context) -> Outcome {
    three_labelled(c).await?;
    for (name, selector) in [
        ("equal", "metadata.name%3Done"),
        ("not equal", "metadata.name!%3Done"),
        ("nobody", "metadata.name%3Dnobody"),
        ("two", "metadata.name!%3Done,metadata.name!%3Dtwo"),
    ] {
        let list = c.send(Req::get(format!("{CM}?fieldSelector={selector}"))).await?;
        c.record(name, list.item_names());
    }
    Ok(())
}

async fn list_by_field_namespace(c: &mut Context) -> Outcome {
    c.create(CM, labelled("a", json!({ "case": "{id}" }))).await?;
    let all = "/api/v1/configmaps?labelSelector=case%3D{id}&fieldSelector=metadata.namespace";
    let inside = c.send(Req::get(format!("{all}%3D{{ns}}"))).await?;
    c.record("inside", inside.item_names());
    let outside = c.send(Req::get(format!("{all}!%3D{{ns}}"))).await?;
    c.record("outside", outside.item_names());
    Ok(())
}

async fn list_by_a_field_that_is_not_selectable(c: &mut Context) -> Outcome {
    c.get("list", &format!("{CM}?fieldSelector=data.k%3Dv")).await?;
    c.get("malformed", &format!("{CM}?fieldSelector=nonsense")).await?;
    c.get("deployments", "/apis/apps/v1/namespaces/{ns}/deployments?fieldSelector=spec.replicas%3D1").await?;
    Ok(())
}

async fn list_pods_by_phase_and_node(c: &mut Context) -> Outcome {
    let pods = "/api/v1/namespaces/{ns}/pods";
    for (name, node) in [("bound", Some("node-{id}")), ("free", None)] {
        let mut pod = json!({ "metadata": { "name": name }, "spec": { "containers": [{ "name": "c", "image": "i" }] } });
        if let Some(node) = node {
            pod["spec"]["nodeName"] = json!(node);
        }
        c.create(pods, pod).await?;
    }
    for selector in
        ["status.phase%3DPending", "status.phase%3DRunning", "spec.nodeName%3Dnode-{id}", "spec.nodeName%3D"]
    {
        let list = c.send(Req::get(format!("{pods}?fieldSelector={selector}"))).await?;
        c.record(selector, list.item_names());
    }
    Ok(())
}

async fn list_secrets_by_type(c: &mut Context) -> Outcome {
    let secrets = "/api/v1/namespaces/{ns}/secrets";
    c.create(secrets, json!({ "metadata": { "name": "plain" } })).await?;
    c.create(secrets, json!({ "metadata": { "name": "own" }, "type": "example.com/own" })).await?;
    for selector in ["type%3DOpaque", "type%3Dexample.com/own", "type!%3DOpaque"] {
        let list = c.send(Req::get(format!("{secrets}?fieldSelector={selector}"))).await?;
        c.record(selector, list.item_names());
    }
    Ok(())
}

async fn list_in_pages(c: &mut Context) -> Outcome {
    for name in ["a", "b", "c", "d", "e"] {
        c.create(CM, cm(name)).await?;
    }
    let mut path = format!("{CM}?limit=2");
    for page in ["first", "second", "third"] {
        let list = c.send(Req::get(path.clone())).await?;
        c.record(page, json!({ "names": list.item_names(), "metadata": list.value_at("/metadata") }));
        let token = list.str_at("/metadata/continue");
        if token.is_empty() {
            break;
        }
        path = format!("{CM}?limit=2&continue={token}");
    }
    Ok(())
}

async fn list_in_pages_of_a_selection(c: &mut Context) -> Outcome {
    for name in ["a", "b", "c", "d"] {
        c.create(CM, labelled(name, json!({ "odd": if matches!(name, "a" | "c") { "yes" } else { "no" } })))
            .await?;
    }
    let list = c.send(Req::get(format!("{CM}?limit=1&labelSelector=odd%3Dyes"))).await?;
    c.record("first", json!({ "names": list.item_names(), "metadata": list.value_at("/metadata") }));
    let token = list.str_at("/metadata/continue");
    let list = c.send(Req::get(format!("{CM}?limit=5&labelSelector=odd%3Dyes&continue={token}"))).await?;
    c.record("second", json!({ "names": list.item_names(), "metadata": list.value_at("/metadata") }));
    Ok(())
}

async fn list_pages_show_one_moment(c: &mut Context) -> Outcome {
    for name in ["a", "b", "d"] {
        c.create(CM, cm(name)).await?;
    }
    let first = c.send(Req::get(format!("{CM}?limit=1"))).await?;
    c.create(CM, cm("c")).await?;
    c.send_ok(Req::delete(format!("{CM}/d"))).await?;
    let token = first.str_at("/metadata/continue");
    let second = c.send(Req::get(format!("{CM}?limit=10&continue={token}"))).await?;
    c.record("the rest", second.item_names());
    c.record("same version", first.resource_version() == second.resource_version());
    Ok(())
}

async fn list_with_a_limit_above_the_count(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    let list = c.get("list", &format!("{CM}?limit=500")).await?;
    c.record("no more", list.str_at("/metadata/continue").is_empty());
    Ok(())
}

async fn list_with_a_negative_limit(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    c.get("negative", &format!("{CM}?limit=-1")).await?;
    c.get("no number", &format!("{CM}?limit=few")).await?;
    Ok(())
}

async fn list_at_an_exact_version_shows_the_past(c: &mut Context) -> Outcome {
    let first = c.create(CM, cm("a")).await?;
    c.create(CM, cm("b")).await?;
    let version = first.resource_version();
    let list = c.send(Req::get(format!("{CM}?resourceVersion={version}&resourceVersionMatch=Exact"))).await?;
    c.record("names", list.item_names());
    c.record("the list has that version", list.resource_version() == version);
    Ok(())
}

async fn list_not_older_than_a_version(c: &mut Context) -> Outcome {
    let first = c.create(CM, cm("a")).await?;
    let second = c.create(CM, cm("b")).await?;
    let path =
        format!("{CM}?resourceVersion={}&resourceVersionMatch=NotOlderThan", second.resource_version());
    let list = c.send(Req::get(path)).await?;
    c.record("names", list.item_names());
    let older = c.send(Req::get(format!("{CM}?resourceVersion={}", first.resource_version()))).await?;
    c.record(
        "has at least the first",
        older.item_names().as_array().is_some_and(|names| names.contains(&json!("a"))),
    );
    Ok(())
}

async fn list_with_a_match_but_no_version(c: &mut Context) -> Outcome {
    c.get("exact", &format!("{CM}?resourceVersionMatch=Exact")).await?;
    c.get("not older", &format!("{CM}?resourceVersionMatch=NotOlderThan")).await?;
    Ok(())
}

async fn list_with_a_match_that_is_none(c: &mut Context) -> Outcome {
    c.get("list", &format!("{CM}?resourceVersion=1&resourceVersionMatch=Nearly")).await?;
    Ok(())
}

async fn list_exact_at_version_zero(c: &mut Context) -> Outcome {
    c.get("list", &format!("{CM}?resourceVersion=0&resourceVersionMatch=Exact")).await?;
    Ok(())
}

async fn list_continue_and_exact_version_exclude_each_other(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    c.create(CM, cm("b")).await?;
    let first = c.send(Req::get(format!("{CM}?limit=1"))).await?;
    let token = first.str_at("/metadata/continue");
    let version = first.resource_version();
    c.send_and_record(
        "with a match",
        Req::get(format!(
            "{CM}?limit=1&continue={token}&resourceVersion={version}&resourceVersionMatch=Exact"
        )),
    )
    .await?;
    c.send_and_record(
        "with a version",
        Req::get(format!("{CM}?limit=1&continue={token}&resourceVersion={version}")),
    )
    .await?;
    c.send_and_record(
        "with version zero",
        Req::get(format!("{CM}?limit=1&continue={token}&resourceVersion=0")),
    )
    .await?;
    Ok(())
}

async fn get_pretty_is_the_same_object(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    c.get("pretty", &format!("{CM}/a?pretty=true")).await?;
    Ok(())
}

async fn item_kinds_are_left_out_of_lists(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    let list = c.send_ok(Req::get(CM)).await?;
    c.record("list kind", list.value_at("/kind"));
    c.record("item kind", list.value_at("/items/0/kind"));
    Widgets::open().install(c).await?;
    c.create(
        WIDGETS,
        json!({ "apiVersion": "{id}.example.com/v1", "kind": "Widget", "metadata": { "name": "w" } }),
    )
    .await?;
    let list = c.send_ok(Req::get(WIDGETS)).await?;
    c.record("custom list kind", list.value_at("/kind"));
    c.record("custom item kind", list.value_at("/items/0/kind"));
    Ok(())
}
