//! JSON patch and merge patch.

use conformance::{Case, Context, Outcome, PatchType, Req, WIDGETS, Widgets, cases};
use serde_json::{Value, json};

use super::{CM, DEPLOYMENTS, cm, deployment, w};

pub(crate) fn cases() -> Vec<Case> {
    cases!["patch":
        json_add_replace_remove,
        json_test_that_holds,
        json_test_that_does_not_hold,
        json_move_and_copy,
        json_remove_of_what_is_not_there,
        json_add_below_what_is_not_there,
        json_escaped_pointer,
        json_index_out_of_bounds,
        json_append_to_a_list,
        json_operation_that_is_none,
        json_patch_that_is_no_list,
        json_patch_that_is_too_long,
        json_of_a_custom_resource,
        merge_sets_and_removes,
        merge_replaces_lists,
        merge_of_a_custom_resource,
        merge_that_is_no_object,
        merge_with_the_right_and_the_wrong_version,
        merge_of_what_is_not_there,
        merge_of_the_name,
        merge_to_an_invalid_object,
        merge_prunes_unknown_fields,
        strategic_of_a_custom_resource,
        patch_without_a_content_type,
        patch_with_a_wrong_content_type,
        patch_as_a_dry_run,
        patch_of_a_uid_is_refused,
        force_without_apply,
    ]
}

async fn json_patch(c: &mut Context, name: &str, patch: Value) -> Outcome {
    c.patch(name, PatchType::Json, &format!("{CM}/a"), patch).await.map(drop)
}

async fn json_add_replace_remove(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    json_patch(
        c,
        "all at once",
        json!([
            { "op": "add", "path": "/data/new", "value": "1" },
            { "op": "replace", "path": "/data/k", "value": "2" },
            { "op": "add", "path": "/metadata/labels", "value": { "l": "1" } },
        ]),
    )
    .await?;
    json_patch(c, "remove", json!([{ "op": "remove", "path": "/data/k" }])).await?;
    json_patch(c, "replace all", json!([{ "op": "replace", "path": "/data", "value": { "only": "this" } }]))
        .await
}

async fn json_test_that_holds(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    json_patch(
        c,
        "patch",
        json!([
            { "op": "test", "path": "/data/k", "value": "v" },
            { "op": "replace", "path": "/data/k", "value": "w" },
        ]),
    )
    .await
}

async fn json_test_that_does_not_hold(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    json_patch(
        c,
        "other value",
        json!([
            { "op": "replace", "path": "/data/k", "value": "w" },
            { "op": "test", "path": "/data/k", "value": "v" },
        ]),
    )
    .await?;
    json_patch(c, "nothing there", json!([{ "op": "test", "path": "/data/none", "value": "v" }])).await?;
    c.get("unchanged", &format!("{CM}/a")).await?;
    Ok(())
}

async fn json_move_and_copy(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    json_patch(c, "copy", json!([{ "op": "copy", "from": "/data/k", "path": "/data/copy" }])).await?;
    json_patch(c, "move", json!([{ "op": "move", "from": "/data/k", "path": "/data/moved" }])).await?;
    json_patch(c, "move nothing", json!([{ "op": "move", "from": "/data/none", "path": "/data/x" }])).await
}

async fn json_remove_of_what_is_not_there(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    json_patch(c, "remove", json!([{ "op": "remove", "path": "/data/none" }])).await?;
    json_patch(c, "replace", json!([{ "op": "replace", "path": "/data/none", "value": "x" }])).await
}

async fn json_add_below_what_is_not_there(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    json_patch(c, "add", json!([{ "op": "add", "path": "/metadata/labels/x", "value": "y" }])).await
}

async fn json_escaped_pointer(c: &mut Context) -> Outcome {
    c.create(CM, json!({ "metadata": { "name": "a", "annotations": { "example.com/x": "1" } } })).await?;
    json_patch(
        c,
        "patch",
        json!([{ "op": "replace", "path": "/metadata/annotations/example.com~1x", "value": "2" }]),
    )
    .await
}

async fn json_index_out_of_bounds(c: &mut Context) -> Outcome {
    c.create(CM, json!({ "metadata": { "name": "a", "finalizers": ["example.com/a"] } })).await?;
    json_patch(
        c,
        "replace",
        json!([{ "op": "replace", "path": "/metadata/finalizers/3", "value": "example.com/b" }]),
    )
    .await?;
    json_patch(
        c,
        "add",
        json!([{ "op": "add", "path": "/metadata/finalizers/3", "value": "example.com/b" }]),
    )
    .await?;
    json_patch(
        c,
        "no number",
        json!([{ "op": "add", "path": "/metadata/finalizers/x", "value": "example.com/b" }]),
    )
    .await
}

async fn json_append_to_a_list(c: &mut Context) -> Outcome {
    c.create(CM, json!({ "metadata": { "name": "a", "finalizers": ["example.com/a"] } })).await?;
    json_patch(
        c,
        "append",
        json!([{ "op": "add", "path": "/metadata/finalizers/-", "value": "example.com/c" }]),
    )
    .await?;
    json_patch(
        c,
        "insert",
        json!([{ "op": "add", "path": "/metadata/finalizers/1", "value": "example.com/b" }]),
    )
    .await?;
    json_patch(c, "remove", json!([{ "op": "remove", "path": "/metadata/finalizers/0" }])).await
}

async fn json_operation_that_is_none(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    json_patch(c, "unknown", json!([{ "op": "improve", "path": "/data/k" }])).await?;
    json_patch(c, "no path", json!([{ "op": "add", "value": "x" }])).await?;
    json_patch(c, "empty", json!([])).await
}

async fn json_patch_that_is_no_list(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    json_patch(c, "object", json!({ "op": "add" })).await?;
    let broken = Req::new("PATCH", format!("{CM}/a")).body("application/json-patch+json", "[{");
    c.send_and_record("broken", broken).await?;
    Ok(())
}

async fn json_patch_that_is_too_long(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    let operation = json!({ "op": "test", "path": "/data/k", "value": "v" });
    json_patch(c, "10001 operations", Value::Array(vec![operation; 10_001])).await
}

async fn json_of_a_custom_resource(c: &mut Context) -> Outcome {
    Widgets::open().install(c).await?;
    c.create(
        WIDGETS,
        w(json!({ "metadata": { "name": "w" }, "spec": { "list": [1, 2, 3], "deep": { "a": null } } })),
    )
    .await?;
    let path = format!("{WIDGETS}/w");
    c.patch("remove an item", PatchType::Json, &path, json!([{ "op": "remove", "path": "/spec/list/1" }]))
        .await?;
    c.patch("null", PatchType::Json, &path, json!([{ "op": "add", "path": "/spec/none", "value": null }]))
        .await?;
    c.patch(
        "status is left",
        PatchType::Json,
        &path,
        json!([{ "op": "add", "path": "/status", "value": { "a": 1 } }]),
    )
    .await?;
    Ok(())
}

async fn merge_sets_and_removes(c: &mut Context) -> Outcome {
    let mut object = cm("a");
    object["metadata"]["labels"] = json!({ "keep": "1", "drop": "1" });
    c.create(CM, object).await?;
    let patch =
        json!({ "data": { "k": null, "n": "1" }, "metadata": { "labels": { "drop": null, "none": null } } });
    c.patch("patch", PatchType::Merge, &format!("{CM}/a"), patch).await?;
    c.patch("remove the map", PatchType::Merge, &format!("{CM}/a"), json!({ "data": null })).await?;
    c.patch("empty", PatchType::Merge, &format!("{CM}/a"), json!({})).await?;
    Ok(())
}

async fn merge_replaces_lists(c: &mut Context) -> Outcome {
    c.create(DEPLOYMENTS, deployment("d", 0)).await?;
    let patch =
        json!({ "spec": { "template": { "spec": { "containers": [{ "name": "other", "image": "j" }] } } } });
    let answer = c.send_ok(Req::patch(PatchType::Merge, format!("{DEPLOYMENTS}/d"), patch)).await?;
    c.record("containers", answer.value_at("/spec/template/spec/containers"));
    Ok(())
}

async fn merge_of_a_custom_resource(c: &mut Context) -> Outcome {
    Widgets::open().install(c).await?;
    c.create(WIDGETS, w(json!({ "metadata": { "name": "w" }, "spec": { "a": { "b": 1, "c": [1] } } })))
        .await?;
    c.patch(
        "patch",
        PatchType::Merge,
        &format!("{WIDGETS}/w"),
        json!({ "spec": { "a": { "b": null, "c": [2, null], "d": {} } } }),
    )
    .await?;
    c.patch(
        "a number for an object",
        PatchType::Merge,
        &format!("{WIDGETS}/w"),
        json!({ "spec": { "a": 1 } }),
    )
    .await?;
    Ok(())
}

async fn merge_that_is_no_object(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    for (name, body) in [("list", "[]"), ("text", "\"x\""), ("broken", "{"), ("null", "null"), ("empty", "")]
    {
        c.send_and_record(
            name,
            Req::new("PATCH", format!("{CM}/a")).body("application/merge-patch+json", body),
        )
        .await?;
    }
    Ok(())
}

async fn merge_with_the_right_and_the_wrong_version(c: &mut Context) -> Outcome {
    let made = c.create(CM, cm("a")).await?;
    let patch = json!({ "metadata": { "resourceVersion": made.resource_version() }, "data": { "k": "new" } });
    c.patch("right", PatchType::Merge, &format!("{CM}/a"), patch.clone()).await?;
    c.patch("wrong", PatchType::Merge, &format!("{CM}/a"), patch).await?;
    Ok(())
}

async fn merge_of_what_is_not_there(c: &mut Context) -> Outcome {
    c.patch("merge", PatchType::Merge, &format!("{CM}/a"), json!({})).await?;
    c.patch("json", PatchType::Json, &format!("{CM}/a"), json!([])).await?;
    c.patch("strategic", PatchType::Strategic, &format!("{CM}/a"), json!({})).await?;
    Ok(())
}

async fn merge_of_the_name(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    c.patch("name", PatchType::Merge, &format!("{CM}/a"), json!({ "metadata": { "name": "b" } })).await?;
    c.patch("namespace", PatchType::Merge, &format!("{CM}/a"), json!({ "metadata": { "namespace": "b" } }))
        .await?;
    let answer = c.send(Req::patch(PatchType::Merge, format!("{CM}/a"), json!({ "kind": "Secret" }))).await?;
    c.record("kind", json!([answer.code, answer.value_at("/reason")]));
    Ok(())
}

async fn merge_to_an_invalid_object(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    c.patch(
        "value",
        PatchType::Merge,
        &format!("{CM}/a"),
        json!({ "metadata": { "labels": { "a": "b c" } } }),
    )
    .await?;
    let answer =
        c.send(Req::patch(PatchType::Merge, format!("{CM}/a"), json!({ "data": { "k": 1 } }))).await?;
    c.record("type", answer.code);
    c.record("type, reason", answer.value_at("/reason"));
    Ok(())
}

async fn merge_prunes_unknown_fields(c: &mut Context) -> Outcome {
    Widgets::spec(json!({ "size": { "type": "integer" } })).install(c).await?;
    c.create(WIDGETS, w(json!({ "metadata": { "name": "w" } }))).await?;
    c.patch("patch", PatchType::Merge, &format!("{WIDGETS}/w"), json!({ "spec": { "size": 1, "other": 1 } }))
        .await?;
    Ok(())
}

async fn strategic_of_a_custom_resource(c: &mut Context) -> Outcome {
    Widgets::open().install(c).await?;
    c.create(WIDGETS, w(json!({ "metadata": { "name": "w" } }))).await?;
    c.patch("patch", PatchType::Strategic, &format!("{WIDGETS}/w"), json!({ "spec": {} })).await?;
    Ok(())
}

async fn patch_without_a_content_type(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    let mut request = Req::new("PATCH", format!("{CM}/a")).body("application/json", "{}");
    c.send_and_record("plain json", request.clone()).await?;
    request = Req::new("PATCH", format!("{CM}/a"));
    c.send_and_record("nothing", request).await?;
    Ok(())
}

async fn patch_with_a_wrong_content_type(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    c.send_and_record("text", Req::new("PATCH", format!("{CM}/a")).body("text/plain", "{}")).await?;
    let charset = "application/merge-patch+json; charset=utf-8";
    c.send_and_record(
        "with a parameter",
        Req::new("PATCH", format!("{CM}/a")).body(charset, r#"{"data":{"k":"x"}}"#),
    )
    .await?;
    Ok(())
}

async fn patch_as_a_dry_run(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    c.patch("dry", PatchType::Merge, &format!("{CM}/a?dryRun=All"), json!({ "data": { "k": "dry" } }))
        .await?;
    let after = c.send_ok(Req::get(format!("{CM}/a"))).await?;
    c.record("unchanged", after.value_at("/data"));
    Ok(())
}

async fn patch_of_a_uid_is_refused(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    let answer = c
        .send(Req::patch(PatchType::Merge, format!("{CM}/a"), json!({ "metadata": { "uid": "other" } })))
        .await?;
    c.record("code", answer.code);
    c.record("reason", answer.value_at("/reason"));
    Ok(())
}

async fn force_without_apply(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    c.patch("merge", PatchType::Merge, &format!("{CM}/a?force=true"), json!({})).await?;
    c.send_and_record("apply without a manager", Req::patch(PatchType::Apply, format!("{CM}/a"), cm("a")))
        .await?;
    Ok(())
}
