//! Server-side apply: who owns what, who is told no, and what goes when nobody wants it any more.

use conformance::{Case, Context, Outcome, PatchType, Req, WIDGETS, Widgets, cases};
use serde_json::{Value, json};

use super::{CM, DEPLOYMENTS, SECRETS, apply_shapes::widget_applies, cm, deployment, w};

pub(crate) fn cases() -> Vec<Case> {
    cases!["apply":
        apply_creates,
        apply_again_changes_nothing,
        apply_takes_over_what_it_sets,
        a_field_no_longer_applied_is_removed,
        a_map_entry_no_longer_applied_is_removed,
        a_field_with_another_owner_stays,
        a_conflict_names_the_manager,
        a_conflict_names_all_managers_and_fields,
        force_takes_the_field,
        the_same_value_is_shared,
        a_shared_field_stays_until_the_last_lets_go,
        update_takes_ownership,
        apply_after_update_conflicts_with_the_updater,
        update_removes_what_was_applied,
        apply_to_what_was_created,
        managers_of_one_name_differ_by_operation,
        managers_of_one_name_differ_by_subresource,
        status_is_applied_by_its_subresource,
        apply_with_managed_fields_is_refused,
        apply_with_a_wrong_kind,
        apply_without_a_version_of_the_api,
        apply_with_a_wrong_name,
        apply_of_a_status_with_no_object,
        apply_with_a_resource_version,
        apply_with_a_uid_of_nobody,
        apply_unknown_fields,
        apply_yaml,
        apply_broken_yaml,
        apply_as_a_dry_run,
        managed_fields_can_be_emptied,
        managed_fields_that_are_invalid,
        a_manager_name_is_checked,
        apply_a_secret_with_string_data,
        scale_moves_the_owner_of_replicas,
        merge_patch_by_a_named_manager,
    ]
}

pub(super) fn data(data: Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" }, "data": data })
}

/// Applies to one `ConfigMap`, by managers, in order; every answer is noted.
pub(super) async fn applies(c: &mut Context, steps: &[(&str, Value)]) -> Outcome {
    c.keep_managed_fields();
    for (index, (manager, body)) in steps.iter().enumerate() {
        c.apply(&format!("{} by {manager}", index + 1), manager, &format!("{CM}/a"), body.clone()).await?;
    }
    Ok(())
}

async fn apply_creates(c: &mut Context) -> Outcome {
    applies(c, &[("one", data(json!({ "k": "v" })))]).await?;
    c.apply(
        "namespace",
        "one",
        "/api/v1/namespaces/x-{id}",
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "x-{id}" } }),
    )
    .await?;
    Ok(())
}

async fn apply_again_changes_nothing(c: &mut Context) -> Outcome {
    let path = format!("{CM}/a?fieldManager=one");
    let first = c.send_ok(Req::patch(PatchType::Apply, path.clone(), data(json!({ "k": "v" })))).await?;
    let second = c.send_ok(Req::patch(PatchType::Apply, path, data(json!({ "k": "v" })))).await?;
    c.record("same", first.body == second.body);
    Ok(())
}

async fn apply_takes_over_what_it_sets(c: &mut Context) -> Outcome {
    applies(c, &[("one", data(json!({ "k": "v" }))), ("two", data(json!({ "l": "w" })))]).await
}

async fn a_field_no_longer_applied_is_removed(c: &mut Context) -> Outcome {
    let nothing = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" } });
    applies(c, &[("one", data(json!({ "k": "v" }))), ("one", nothing)]).await
}

async fn a_map_entry_no_longer_applied_is_removed(c: &mut Context) -> Outcome {
    applies(c, &[("one", data(json!({ "k": "v", "l": "w" }))), ("one", data(json!({ "l": "w" })))]).await
}

async fn a_field_with_another_owner_stays(c: &mut Context) -> Outcome {
    applies(
        c,
        &[
            ("one", data(json!({ "k": "v" }))),
            ("two", data(json!({ "k": "v", "l": "w" }))),
            ("one", data(json!({ "m": "x" }))),
        ],
    )
    .await
}

async fn a_conflict_names_the_manager(c: &mut Context) -> Outcome {
    applies(c, &[("one", data(json!({ "k": "v" }))), ("two", data(json!({ "k": "other" })))]).await
}

async fn a_conflict_names_all_managers_and_fields(c: &mut Context) -> Outcome {
    let labelled = |value: &str| json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a", "labels": { "l": value } }, "data": { "k": value } });
    applies(c, &[("one", labelled("1")), ("two", labelled("1")), ("three", labelled("2"))]).await?;
    let change = json!({ "data": { "n": "1" } });
    c.send_ok(Req::patch(PatchType::Merge, format!("{CM}/a?fieldManager=editor"), change)).await?;
    let all = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" }, "data": { "k": "3", "n": "3" } });
    c.apply("and an editor", "three", &format!("{CM}/a"), all).await?;
    Ok(())
}

async fn force_takes_the_field(c: &mut Context) -> Outcome {
    applies(c, &[("one", data(json!({ "k": "v", "l": "w" })))]).await?;
    c.apply("forced", "two", &format!("{CM}/a?force=true"), data(json!({ "k": "other" }))).await?;
    c.apply("the first comes back", "one", &format!("{CM}/a"), data(json!({ "k": "v", "l": "w" }))).await?;
    Ok(())
}

async fn the_same_value_is_shared(c: &mut Context) -> Outcome {
    applies(c, &[("one", data(json!({ "k": "v" }))), ("two", data(json!({ "k": "v" })))]).await
}

async fn a_shared_field_stays_until_the_last_lets_go(c: &mut Context) -> Outcome {
    applies(
        c,
        &[
            ("one", data(json!({ "k": "v" }))),
            ("two", data(json!({ "k": "v" }))),
            ("one", data(json!({}))),
            ("two", data(json!({}))),
        ],
    )
    .await
}

async fn update_takes_ownership(c: &mut Context) -> Outcome {
    applies(c, &[("one", data(json!({ "k": "v", "l": "w" })))]).await?;
    c.put("update", &format!("{CM}/a?fieldManager=editor"), data(json!({ "k": "changed", "l": "w" })))
        .await?;
    Ok(())
}

async fn apply_after_update_conflicts_with_the_updater(c: &mut Context) -> Outcome {
    c.keep_managed_fields();
    c.create(&format!("{CM}?fieldManager=maker"), cm("a")).await?;
    applies(c, &[("one", data(json!({ "k": "other" }))), ("one", data(json!({ "k": "v" })))]).await
}

async fn update_removes_what_was_applied(c: &mut Context) -> Outcome {
    applies(c, &[("one", data(json!({ "k": "v", "l": "w" })))]).await?;
    c.put("update", &format!("{CM}/a?fieldManager=editor"), data(json!({ "l": "w" }))).await?;
    c.apply("apply again", "one", &format!("{CM}/a"), data(json!({ "k": "v", "l": "w" }))).await?;
    Ok(())
}

async fn apply_to_what_was_created(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    applies(c, &[("one", data(json!({ "l": "w" }))), ("one", data(json!({})))]).await
}

async fn managers_of_one_name_differ_by_operation(c: &mut Context) -> Outcome {
    c.create(&format!("{CM}?fieldManager=same"), cm("a")).await?;
    applies(c, &[("same", data(json!({ "k": "v" }))), ("same", data(json!({ "k": "w" })))]).await
}

async fn managers_of_one_name_differ_by_subresource(c: &mut Context) -> Outcome {
    c.keep_managed_fields();
    Widgets::open().install(c).await?;
    c.create(
        &format!("{WIDGETS}?fieldManager=same"),
        w(json!({ "metadata": { "name": "w" }, "spec": { "a": 1 } })),
    )
    .await?;
    let status = json!({ "status": { "ready": true } });
    c.patch("status", PatchType::Merge, &format!("{WIDGETS}/w/status?fieldManager=same"), status).await?;
    Ok(())
}

async fn status_is_applied_by_its_subresource(c: &mut Context) -> Outcome {
    c.keep_managed_fields();
    Widgets::open().install(c).await?;
    let whole = w(json!({ "metadata": { "name": "w" }, "spec": { "a": 1 }, "status": { "ready": true } }));
    c.apply("plain", "one", &format!("{WIDGETS}/w"), whole.clone()).await?;
    c.apply("status", "one", &format!("{WIDGETS}/w/status"), whole).await?;
    c.apply(
        "status let go",
        "one",
        &format!("{WIDGETS}/w/status"),
        w(json!({ "metadata": { "name": "w" } })),
    )
    .await?;
    Ok(())
}

async fn apply_with_managed_fields_is_refused(c: &mut Context) -> Outcome {
    let body = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a", "managedFields": [{ "manager": "x" }] } });
    applies(c, &[("one", body)]).await?;
    let empty =
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a", "managedFields": [] } });
    applies(c, &[("two", empty)]).await
}

async fn apply_with_a_wrong_kind(c: &mut Context) -> Outcome {
    applies(
        c,
        &[
            ("one", json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "a" } })),
            ("two", json!({ "apiVersion": "apps/v1", "kind": "ConfigMap", "metadata": { "name": "a" } })),
            ("three", json!({ "apiVersion": "v1", "kind": "Nonsense", "metadata": { "name": "a" } })),
        ],
    )
    .await
}

async fn apply_without_a_version_of_the_api(c: &mut Context) -> Outcome {
    applies(
        c,
        &[
            ("one", json!({ "kind": "ConfigMap", "metadata": { "name": "a" } })),
            ("two", json!({ "apiVersion": "v1", "metadata": { "name": "a" } })),
        ],
    )
    .await?;
    Widgets::open().install(c).await?;
    widget_applies(
        c,
        &[
            ("without-a-kind", json!({ "apiVersion": "{id}.example.com/v1", "metadata": { "name": "w" } })),
            (
                "of-another-version",
                json!({ "apiVersion": "{id}.example.com/v2", "kind": "Widget", "metadata": { "name": "w" } }),
            ),
        ],
    )
    .await
}

async fn apply_with_a_wrong_name(c: &mut Context) -> Outcome {
    applies(c, &[
        ("one", json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "b" } })),
        ("two", json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a", "namespace": "elsewhere" } })),
        ("three", json!({ "apiVersion": "v1", "kind": "ConfigMap" })),
    ])
    .await
}

async fn apply_of_a_status_with_no_object(c: &mut Context) -> Outcome {
    Widgets::open().install(c).await?;
    let body = w(json!({ "metadata": { "name": "w" }, "status": { "a": 1 } }));
    c.apply("apply", "one", &format!("{WIDGETS}/w/status"), body).await?;
    Ok(())
}

async fn apply_with_a_resource_version(c: &mut Context) -> Outcome {
    let made = c.create(CM, cm("a")).await?;
    let body = |version: &str| json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a", "resourceVersion": version }, "data": { "l": "w" } });
    applies(c, &[("one", body(&made.resource_version())), ("one", body("1"))]).await?;
    let nobody = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "b", "resourceVersion": "1" } });
    c.apply("of nobody", "one", &format!("{CM}/b"), nobody).await?;
    Ok(())
}

async fn apply_with_a_uid_of_nobody(c: &mut Context) -> Outcome {
    let body = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a", "uid": "11111111-1111-4111-8111-111111111111" } });
    applies(c, &[("one", body)]).await
}

async fn apply_unknown_fields(c: &mut Context) -> Outcome {
    let body = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" }, "datum": { "k": "v" } });
    applies(c, &[("one", body.clone())]).await?;
    c.apply("strict", "one", &format!("{CM}/a?fieldValidation=Strict"), body.clone()).await?;
    c.apply("ignore", "one", &format!("{CM}/a?fieldValidation=Ignore"), body).await?;
    Widgets::spec(json!({ "size": { "type": "integer" } })).install(c).await?;
    widget_applies(
        c,
        &[("custom", w(json!({ "metadata": { "name": "w" }, "spec": { "size": 1, "other": 2 } })))],
    )
    .await?;
    c.apply("a wrong type", "one", &format!("{CM}/a"), data(json!({ "k": 1 }))).await?;
    Ok(())
}

async fn apply_yaml(c: &mut Context) -> Outcome {
    c.keep_managed_fields();
    let yaml = "# a comment\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  text: |\n    two\n    lines\n  quoted: 'yes'\n";
    let request =
        Req::new("PATCH", format!("{CM}/a?fieldManager=one")).body("application/apply-patch+yaml", yaml);
    c.send_and_record("yaml", request).await?;
    Ok(())
}

async fn apply_broken_yaml(c: &mut Context) -> Outcome {
    for (name, body) in [
        ("broken", "a: [b\n"),
        ("a text", "just words"),
        ("a list", "- a"),
        ("empty", ""),
        ("twice", "apiVersion: v1\nkind: ConfigMap\nkind: ConfigMap\nmetadata: {name: a}\n"),
    ] {
        let request =
            Req::new("PATCH", format!("{CM}/a?fieldManager=one")).body("application/apply-patch+yaml", body);
        let answer = c.send(request).await?;
        c.record(name, json!({ "code": answer.code, "reason": answer.value_at("/reason") }));
    }
    Ok(())
}

async fn apply_as_a_dry_run(c: &mut Context) -> Outcome {
    c.keep_managed_fields();
    c.apply("create", "one", &format!("{CM}/a?dryRun=All"), data(json!({ "k": "v" }))).await?;
    c.get("nothing", &format!("{CM}/a")).await?;
    Ok(())
}

async fn managed_fields_can_be_emptied(c: &mut Context) -> Outcome {
    c.keep_managed_fields();
    c.create(CM, cm("a")).await?;
    c.patch(
        "empty list",
        PatchType::Merge,
        &format!("{CM}/a"),
        json!({ "metadata": { "managedFields": [{}] } }),
    )
    .await?;
    c.patch("a change after it", PatchType::Merge, &format!("{CM}/a"), json!({ "data": { "n": "1" } }))
        .await?;
    c.apply("an apply after it", "one", &format!("{CM}/a"), data(json!({ "k": "w" }))).await?;
    Ok(())
}

async fn managed_fields_that_are_invalid(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    let entry = |field: &str, value: Value| {
        let mut entry = json!({ "manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
            "fieldsV1": { "f:data": {} }, "time": "2026-01-01T00:00:00Z" });
        entry[field] = value;
        json!({ "metadata": { "managedFields": [entry] } })
    };
    for (name, patch) in [
        ("operation", entry("operation", json!("Improve"))),
        ("type", entry("fieldsType", json!("FieldsV2"))),
        ("fields", entry("fieldsV1", json!({ "nonsense": {} }))),
    ] {
        let answer = c.send(Req::patch(PatchType::Merge, format!("{CM}/a"), patch)).await?;
        c.record(name, json!({ "code": answer.code, "message": answer.value_at("/message") }));
    }
    Ok(())
}

async fn a_manager_name_is_checked(c: &mut Context) -> Outcome {
    applies(c, &[("", data(json!({}))), (&"m".repeat(129), data(json!({}))), ("a%07b", data(json!({})))])
        .await
}

async fn apply_a_secret_with_string_data(c: &mut Context) -> Outcome {
    c.keep_managed_fields();
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s" }, "stringData": { "k": "v" } });
    c.apply("apply", "one", &format!("{SECRETS}/s"), secret.clone()).await?;
    c.apply("again", "one", &format!("{SECRETS}/s"), secret).await?;
    Ok(())
}

async fn scale_moves_the_owner_of_replicas(c: &mut Context) -> Outcome {
    c.keep_managed_fields();
    let mut object = deployment("d", 0);
    object["spec"]["paused"] = json!(true);
    c.send_ok(Req::patch(PatchType::Apply, format!("{DEPLOYMENTS}/d?fieldManager=one"), object.clone()))
        .await?;
    c.wait_until(&format!("{DEPLOYMENTS}/d"), |answer| answer.value_at("/status/observedGeneration") == 1)
        .await?;
    let scale = json!({ "spec": { "replicas": 2 } });
    c.send_ok(Req::patch(PatchType::Merge, format!("{DEPLOYMENTS}/d/scale?fieldManager=scaler"), scale))
        .await?;
    let after = c.send_ok(Req::get(format!("{DEPLOYMENTS}/d"))).await?;
    let managers = after.value_at("/metadata/managedFields").as_array().cloned().unwrap_or_default();
    let scaler: Vec<Value> = managers.into_iter().filter(|entry| entry["manager"] == "scaler").collect();
    c.record("the scaler", scaler);
    c.apply("apply conflicts", "one", &format!("{DEPLOYMENTS}/d"), object).await?;
    Ok(())
}

async fn merge_patch_by_a_named_manager(c: &mut Context) -> Outcome {
    c.keep_managed_fields();
    c.create(CM, cm("a")).await?;
    c.patch(
        "merge",
        PatchType::Merge,
        &format!("{CM}/a?fieldManager=editor"),
        json!({ "data": { "l": "w" } }),
    )
    .await?;
    c.patch(
        "remove",
        PatchType::Merge,
        &format!("{CM}/a?fieldManager=editor"),
        json!({ "data": { "l": null, "k": null } }),
    )
    .await?;
    Ok(())
}
