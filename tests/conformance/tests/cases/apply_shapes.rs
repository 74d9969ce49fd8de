//! Server-side apply and the shapes of fields: lists of maps, sets, atomic lists and maps, defaults.

use conformance::{Case, Context, Outcome, PatchType, Req, WIDGETS, Widgets, cases};
use serde_json::{Value, json};

use super::{
    CM, DEPLOYMENTS, PODS,
    apply::{applies, data},
    cm, deployment, w,
};

pub(crate) fn cases() -> Vec<Case> {
    cases!["apply":
        list_of_maps_merges_by_key,
        list_of_maps_removes_an_item,
        list_of_maps_with_a_key_missing,
        list_of_maps_with_a_key_twice,
        list_that_is_a_set,
        list_that_is_atomic,
        map_that_is_atomic,
        struct_that_is_granular,
        containers_are_a_list_of_maps,
        ports_have_two_keys,
        env_of_two_managers,
        finalizers_are_a_set,
        owner_references_are_applied,
        apply_to_a_custom_resource_with_preserved_fields,
        defaults_have_no_owner_in_apply,
        apply_null_values,
    ]
}

fn listed(kind: &str, keys: &[&str]) -> Widgets {
    let item = json!({ "type": "object", "required": keys,
        "properties": { "name": { "type": "string" }, "zone": { "type": "string" }, "value": { "type": "integer" } } });
    let mut list = json!({ "type": "array", "x-kubernetes-list-type": kind, "items": item });
    if kind == "map" {
        list["x-kubernetes-list-map-keys"] = json!(keys);
    }
    Widgets::spec(json!({ "list": list }))
}

fn list(items: Value) -> Value {
    w(json!({ "metadata": { "name": "w" }, "spec": { "list": items } }))
}

pub(super) async fn widget_applies(c: &mut Context, steps: &[(&str, Value)]) -> Outcome {
    c.keep_managed_fields();
    for (index, (manager, body)) in steps.iter().enumerate() {
        c.apply(&format!("{} by {manager}", index + 1), manager, &format!("{WIDGETS}/w"), body.clone())
            .await?;
    }
    Ok(())
}

async fn list_of_maps_merges_by_key(c: &mut Context) -> Outcome {
    listed("map", &["name"]).install(c).await?;
    widget_applies(
        c,
        &[
            ("one", list(json!([{ "name": "a", "value": 1 }, { "name": "b", "value": 1 }]))),
            ("two", list(json!([{ "name": "c", "value": 3 }, { "name": "b", "zone": "z" }]))),
            ("two", list(json!([{ "name": "b", "value": 2 }]))),
        ],
    )
    .await
}

async fn list_of_maps_removes_an_item(c: &mut Context) -> Outcome {
    listed("map", &["name"]).install(c).await?;
    widget_applies(
        c,
        &[
            ("one", list(json!([{ "name": "a", "value": 1 }, { "name": "b", "value": 1 }]))),
            ("one", list(json!([{ "name": "b", "value": 1 }]))),
            ("one", list(json!([]))),
        ],
    )
    .await
}

async fn list_of_maps_with_a_key_missing(c: &mut Context) -> Outcome {
    listed("map", &["name"]).install(c).await?;
    widget_applies(c, &[("one", list(json!([{ "value": 1 }])))]).await
}

async fn list_of_maps_with_a_key_twice(c: &mut Context) -> Outcome {
    listed("map", &["name"]).install(c).await?;
    widget_applies(c, &[("one", list(json!([{ "name": "a", "value": 1 }, { "name": "a", "value": 2 }])))])
        .await
}

async fn list_that_is_a_set(c: &mut Context) -> Outcome {
    let set = json!({ "type": "array", "x-kubernetes-list-type": "set", "items": { "type": "string" } });
    Widgets::spec(json!({ "list": set })).install(c).await?;
    widget_applies(
        c,
        &[
            ("one", list(json!(["a", "b"]))),
            ("two", list(json!(["c", "b"]))),
            ("one", list(json!(["a"]))),
            ("two", list(json!(["b", "b"]))),
        ],
    )
    .await
}

async fn list_that_is_atomic(c: &mut Context) -> Outcome {
    listed("atomic", &["name"]).install(c).await?;
    widget_applies(
        c,
        &[
            ("one", list(json!([{ "name": "a" }]))),
            ("two", list(json!([{ "name": "a" }]))),
            ("two", list(json!([{ "name": "b" }]))),
        ],
    )
    .await
}

async fn map_that_is_atomic(c: &mut Context) -> Outcome {
    let map = json!({ "type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": { "type": "string" } });
    Widgets::spec(json!({ "list": map })).install(c).await?;
    widget_applies(
        c,
        &[
            ("one", list(json!({ "a": "1", "b": "2" }))),
            ("two", list(json!({ "c": "3" }))),
            ("one", list(json!({ "a": "1" }))),
        ],
    )
    .await
}

async fn struct_that_is_granular(c: &mut Context) -> Outcome {
    let map = json!({ "type": "object", "properties": { "a": { "type": "string" }, "b": { "type": "object",
        "additionalProperties": { "type": "integer" } } } });
    Widgets::spec(json!({ "list": map })).install(c).await?;
    widget_applies(
        c,
        &[
            ("one", list(json!({ "a": "1", "b": { "x": 1 } }))),
            ("two", list(json!({ "b": { "y": 2 } }))),
            ("one", list(json!({ "a": "1" }))),
        ],
    )
    .await
}

async fn containers_are_a_list_of_maps(c: &mut Context) -> Outcome {
    c.keep_managed_fields();
    let mut object = deployment("d", 0);
    object["spec"]["paused"] = json!(true);
    let made =
        c.send_ok(Req::patch(PatchType::Apply, format!("{DEPLOYMENTS}/d?fieldManager=one"), object)).await?;
    c.record("managers", made.value_at("/metadata/managedFields"));
    let more = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "d" },
        "spec": { "template": { "spec": { "containers": [{ "name": "side", "image": "s:1" }] } } } });
    let answer =
        c.send_ok(Req::patch(PatchType::Apply, format!("{DEPLOYMENTS}/d?fieldManager=two"), more)).await?;
    c.record("containers", answer.value_at("/spec/template/spec/containers"));
    let applied = answer.value_at("/metadata/managedFields").as_array().cloned().unwrap_or_default();
    c.record(
        "the second manager",
        applied.into_iter().find(|entry| entry["manager"] == "two").unwrap_or_default(),
    );
    Ok(())
}

async fn ports_have_two_keys(c: &mut Context) -> Outcome {
    c.keep_managed_fields();
    let services = "/api/v1/namespaces/{ns}/services";
    let service = |ports: Value| json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "s" }, "spec": { "clusterIP": "None", "ports": ports } });
    let both = json!([{ "name": "dns", "port": 53, "protocol": "UDP" }, { "name": "dns-tcp", "port": 53, "protocol": "TCP" }]);
    c.apply("both", "one", &format!("{services}/s"), service(both)).await?;
    let one = json!([{ "name": "dns", "port": 53, "protocol": "UDP" }]);
    c.apply("one", "one", &format!("{services}/s"), service(one)).await?;
    Ok(())
}

async fn env_of_two_managers(c: &mut Context) -> Outcome {
    let pod = |env: Value| json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p" }, "spec": { "containers": [{ "name": "c", "image": "i", "env": env }] } });
    let first = json!([{ "name": "A", "value": "1" }, { "name": "B", "value": "2" }]);
    let made =
        c.send_ok(Req::patch(PatchType::Apply, format!("{PODS}/p?fieldManager=one"), pod(first))).await?;
    c.record("env", made.value_at("/spec/containers/0/env"));
    let other = json!([{ "name": "B", "value": "3" }]);
    c.apply("conflict", "two", &format!("{PODS}/p"), pod(other)).await?;
    Ok(())
}

async fn finalizers_are_a_set(c: &mut Context) -> Outcome {
    let with = |finalizers: Value| json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a", "finalizers": finalizers } });
    applies(
        c,
        &[
            ("one", with(json!(["example.com/a"]))),
            ("two", with(json!(["example.com/b"]))),
            ("one", with(json!([]))),
        ],
    )
    .await
}

async fn owner_references_are_applied(c: &mut Context) -> Outcome {
    let uid = c.create(CM, cm("owner")).await?.uid();
    let reference = json!([{ "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid }]);
    let owned = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a", "ownerReferences": reference } });
    applies(c, &[("one", owned), ("one", data(json!({})))]).await
}

async fn apply_to_a_custom_resource_with_preserved_fields(c: &mut Context) -> Outcome {
    Widgets::open().install(c).await?;
    widget_applies(
        c,
        &[
            ("one", w(json!({ "metadata": { "name": "w" }, "spec": { "a": { "b": [1, 2] }, "n": null } }))),
            ("two", w(json!({ "metadata": { "name": "w" }, "spec": { "a": { "c": 1 } } }))),
            ("two", w(json!({ "metadata": { "name": "w" }, "spec": { "a": { "b": [3] } } }))),
            ("one", w(json!({ "metadata": { "name": "w" }, "spec": {} }))),
        ],
    )
    .await
}

async fn defaults_have_no_owner_in_apply(c: &mut Context) -> Outcome {
    Widgets::spec(json!({ "size": { "type": "integer", "default": 3 }, "colour": { "type": "string" } }))
        .install(c)
        .await?;
    let widget = |spec: Value| w(json!({ "metadata": { "name": "w" }, "spec": spec }));
    widget_applies(
        c,
        &[
            ("one", widget(json!({ "colour": "red" }))),
            ("two", widget(json!({ "size": 5 }))),
            ("two", widget(json!({}))),
        ],
    )
    .await
}

async fn apply_null_values(c: &mut Context) -> Outcome {
    applies(
        c,
        &[
            ("one", data(json!({ "k": null }))),
            (
                "one",
                json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" }, "data": null }),
            ),
        ],
    )
    .await
}
