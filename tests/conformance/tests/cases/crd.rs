//! Custom resource definitions: their life, their versions, their names, and what they refuse.

use conformance::{ApiResponse, Case, Context, Outcome, PatchType, Req, WIDGETS, Widgets, cases};
use serde_json::{Value, json};

use super::{CRDS, w};

const MINE: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.{id}.example.com";

pub(crate) fn cases() -> Vec<Case> {
    cases!["crd":
        a_definition_is_established,
        names_are_defaulted,
        the_group_cannot_change,
        the_scope_cannot_change,
        the_kind_can_change,
        a_stored_version_cannot_go,
        names_conflict_with_another_definition,
        a_kubernetes_group_needs_approval,
        deletion_takes_the_objects,
        deletion_waits_for_finalizers,
        an_unserved_version,
        two_versions_without_conversion,
        a_deprecated_version_warns,
        cluster_scope,
        scale_subresource,
        scale_without_a_path_in_the_object,
        status_of_a_definition,
        a_schema_is_changed,
        the_list_of_definitions,
    ]
}

pub(super) async fn refused(c: &mut Context, name: &str, widgets: Widgets) -> Outcome {
    c.post(name, CRDS, widgets.body()).await.map(drop)
}

fn is_established(answer: &ApiResponse) -> bool {
    condition(answer, "Established") == json!("True")
}

fn condition(answer: &ApiResponse, kind: &str) -> Value {
    let conditions = answer.value_at("/status/conditions").as_array().cloned().unwrap_or_default();
    conditions
        .iter()
        .find(|condition| condition["type"] == kind)
        .map(|c| c["status"].clone())
        .unwrap_or_default()
}

async fn a_definition_is_established(c: &mut Context) -> Outcome {
    c.post("create", CRDS, Widgets::open().body()).await?;
    let both =
        |answer: &ApiResponse| is_established(answer) && condition(answer, "NamesAccepted") == json!("True");
    c.wait_until(MINE, both).await?;
    c.get("get", MINE).await?;
    c.wait_until(WIDGETS, |answer| answer.code == 200).await?;
    c.get("list", WIDGETS).await?;
    Ok(())
}

async fn names_are_defaulted(c: &mut Context) -> Outcome {
    let names = json!({ "plural": "widgets", "kind": "Widget" });
    Widgets::open().set("/spec/names", names).install(c).await?;
    let answer = c.send_ok(Req::get(MINE)).await?;
    c.record("spec names", answer.value_at("/spec/names"));
    c.record("accepted names", answer.value_at("/status/acceptedNames"));
    c.record("conversion", answer.value_at("/spec/conversion"));
    c.record("stored", answer.value_at("/status/storedVersions"));
    Ok(())
}

pub(super) fn version(name: &str, is_stored: bool) -> Value {
    json!({ "name": name, "served": true, "storage": is_stored,
        "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } } })
}

async fn the_group_cannot_change(c: &mut Context) -> Outcome {
    Widgets::open().install(c).await?;
    c.patch("group", PatchType::Merge, MINE, json!({ "spec": { "group": "other.example.com" } })).await?;
    c.patch("plural", PatchType::Merge, MINE, json!({ "spec": { "names": { "plural": "others" } } })).await?;
    Ok(())
}

async fn the_scope_cannot_change(c: &mut Context) -> Outcome {
    Widgets::open().install(c).await?;
    c.patch("scope", PatchType::Merge, MINE, json!({ "spec": { "scope": "Cluster" } })).await?;
    Ok(())
}

async fn the_kind_can_change(c: &mut Context) -> Outcome {
    Widgets::open().install(c).await?;
    c.patch("kind", PatchType::Merge, MINE, json!({ "spec": { "names": { "kind": "Gadget" } } })).await?;
    let short = json!({ "spec": { "names": { "shortNames": ["w{id}"], "categories": ["all"] } } });
    let answer = c.send_ok(Req::patch(PatchType::Merge, MINE, short)).await?;
    c.record("generation", answer.value_at("/metadata/generation"));
    let accepted = c
        .wait_until(MINE, |answer| answer.value_at("/status/acceptedNames/shortNames/0").is_string())
        .await?;
    c.record("accepted", accepted.value_at("/status/acceptedNames"));
    Ok(())
}

async fn a_stored_version_cannot_go(c: &mut Context) -> Outcome {
    let versions = json!([version("v1", true), version("v2", false)]);
    Widgets::open().set("/spec/versions", versions).install(c).await?;
    let moved = json!({ "spec": { "versions": [version("v1", false), version("v2", true)] } });
    let answer = c.send_ok(Req::patch(PatchType::Merge, MINE, moved)).await?;
    c.record("stored", answer.value_at("/status/storedVersions"));
    c.patch("remove", PatchType::Merge, MINE, json!({ "spec": { "versions": [version("v2", true)] } }))
        .await?;
    let status = json!({ "status": { "storedVersions": ["v2"] } });
    c.send_ok(Req::patch(PatchType::Merge, format!("{MINE}/status"), status)).await?;
    let answer = c
        .send_ok(Req::patch(PatchType::Merge, MINE, json!({ "spec": { "versions": [version("v2", true)] } })))
        .await?;
    c.record("left", answer.value_at("/spec/versions/0/name"));
    Ok(())
}

async fn names_conflict_with_another_definition(c: &mut Context) -> Outcome {
    Widgets::open().install(c).await?;
    let second = Widgets::open().set("/metadata/name", json!("gadgets.{id}.example.com")).set(
        "/spec/names",
        json!({ "plural": "gadgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList" }),
    );
    c.create(CRDS, second.body()).await?;
    let path = format!("{CRDS}/gadgets.{{id}}.example.com");
    c.wait_until(&path, |answer| condition(answer, "NamesAccepted") == json!("False")).await?;
    c.get("second", &path).await?;
    Ok(())
}

async fn a_kubernetes_group_needs_approval(c: &mut Context) -> Outcome {
    let protected = Widgets::open()
        .set("/metadata/name", json!("widgets.{id}.k8s.io"))
        .set("/spec/group", json!("{id}.k8s.io"));
    refused(c, "without", protected).await?;
    let approved = Widgets::open()
        .set("/metadata/name", json!("widgets.{id}.k8s.io"))
        .set("/spec/group", json!("{id}.k8s.io"))
        .set("/metadata/annotations", json!({ "api-approved.kubernetes.io": "unapproved, for a test" }));
    c.create(CRDS, approved.body()).await?;
    let path = format!("{CRDS}/widgets.{{id}}.k8s.io");
    let known = |answer: &ApiResponse| {
        !condition(answer, "KubernetesAPIApprovalPolicyConformant").is_null() && is_established(answer)
    };
    let answer = c.wait_until(&path, known).await?;
    let conditions = answer.value_at("/status/conditions").as_array().cloned().unwrap_or_default();
    c.record(
        "condition",
        conditions
            .into_iter()
            .find(|c| c["type"] == "KubernetesAPIApprovalPolicyConformant")
            .unwrap_or_default(),
    );
    Ok(())
}

async fn deletion_takes_the_objects(c: &mut Context) -> Outcome {
    Widgets::open().install(c).await?;
    c.create(WIDGETS, w(json!({ "metadata": { "name": "w" } }))).await?;
    c.create(WIDGETS, w(json!({ "metadata": { "name": "x" } }))).await?;
    let answer = c.send_ok(Req::delete(MINE)).await?;
    c.record("finalizers", answer.value_at("/metadata/finalizers"));
    c.wait_until_deleted(MINE).await?;
    c.wait_until(WIDGETS, |answer| answer.code == 404).await?;
    c.get("list", WIDGETS).await?;
    Widgets::open().install(c).await?;
    let again = c.send_ok(Req::get(WIDGETS)).await?;
    c.record("made again", again.item_names());
    Ok(())
}

async fn deletion_waits_for_finalizers(c: &mut Context) -> Outcome {
    Widgets::open().install(c).await?;
    c.create(WIDGETS, w(json!({ "metadata": { "name": "w", "finalizers": ["example.com/hold"] } }))).await?;
    c.send_ok(Req::delete(MINE)).await?;
    c.wait_until(&format!("{WIDGETS}/w"), |answer| !answer.str_at("/metadata/deletionTimestamp").is_empty())
        .await?;
    let waiting = c.wait_until(MINE, |answer| condition(answer, "Terminating") == json!("True")).await?;
    c.record("finalizers", waiting.value_at("/metadata/finalizers"));
    c.post("create while it goes", WIDGETS, w(json!({ "metadata": { "name": "late" } }))).await?;
    let patch = json!([{ "op": "remove", "path": "/metadata/finalizers" }]);
    c.send_ok(Req::patch(PatchType::Json, format!("{WIDGETS}/w"), patch)).await?;
    c.wait_until_deleted(MINE).await
}

async fn an_unserved_version(c: &mut Context) -> Outcome {
    let mut unserved = version("v2", false);
    unserved["served"] = json!(false);
    Widgets::open().set("/spec/versions", json!([version("v1", true), unserved])).install(c).await?;
    c.get("unserved", "/apis/{id}.example.com/v2/namespaces/{ns}/widgets").await?;
    Ok(())
}

async fn two_versions_without_conversion(c: &mut Context) -> Outcome {
    let versions = json!([version("v1", true), version("v2", false)]);
    Widgets::open().set("/spec/versions", versions).install(c).await?;
    c.create(WIDGETS, w(json!({ "metadata": { "name": "w" }, "spec": { "a": 1 } }))).await?;
    let second = "/apis/{id}.example.com/v2/namespaces/{ns}/widgets";
    c.wait_until(second, |answer| answer.code == 200).await?;
    c.get("read", &format!("{second}/w")).await?;
    let list = c.send_ok(Req::get(second)).await?;
    c.record("list version", list.value_at("/apiVersion"));
    c.record("item version", list.value_at("/items/0/apiVersion"));
    let patch = json!({ "spec": { "a": 2 } });
    c.patch("patch", PatchType::Merge, &format!("{second}/w"), patch).await?;
    let first = c.send_ok(Req::get(format!("{WIDGETS}/w"))).await?;
    c.record("in the first", json!([first.value_at("/apiVersion"), first.value_at("/spec")]));
    let group = c.wait_until("/apis/{id}.example.com", |answer| answer.code == 200).await?;
    c.record("group", group.body);
    Ok(())
}

async fn a_deprecated_version_warns(c: &mut Context) -> Outcome {
    let mut old = version("v1beta1", false);
    old["deprecated"] = json!(true);
    let mut older = version("v1alpha1", false);
    older["deprecated"] = json!(true);
    older["deprecationWarning"] = json!("use v1, \"please\"");
    Widgets::open().set("/spec/versions", json!([version("v1", true), old, older])).install(c).await?;
    for name in ["v1beta1", "v1alpha1"] {
        let path = format!("/apis/{{id}}.example.com/{name}/namespaces/{{ns}}/widgets");
        c.wait_until(&path, |answer| answer.code == 200).await?;
        c.get(name, &path).await?;
    }
    Ok(())
}

async fn cluster_scope(c: &mut Context) -> Outcome {
    Widgets::open().set("/spec/scope", json!("Cluster")).install(c).await?;
    c.post("create", "/apis/{id}.example.com/v1/widgets", w(json!({ "metadata": { "name": "w" } }))).await?;
    c.post("in a namespace", WIDGETS, w(json!({ "metadata": { "name": "w" } }))).await?;
    c.post(
        "with a namespace",
        "/apis/{id}.example.com/v1/widgets",
        w(json!({ "metadata": { "name": "x", "namespace": "{ns}" } })),
    )
    .await?;
    Ok(())
}

fn scalable() -> Widgets {
    let scale = json!({ "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector" });
    Widgets::open().version("subresources", json!({ "status": {}, "scale": scale }))
}

async fn scale_subresource(c: &mut Context) -> Outcome {
    scalable().install(c).await?;
    c.create(WIDGETS, w(json!({ "metadata": { "name": "w" }, "spec": { "replicas": 3 } }))).await?;
    let status = json!({ "status": { "replicas": 2, "selector": "app=x" } });
    c.send_ok(Req::patch(PatchType::Merge, format!("{WIDGETS}/w/status"), status)).await?;
    let path = format!("{WIDGETS}/w/scale");
    c.get("get", &path).await?;
    c.patch("patch", PatchType::Merge, &path, json!({ "spec": { "replicas": 5 } })).await?;
    let scale = json!({ "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": { "name": "w", "namespace": "{ns}" }, "spec": { "replicas": 1 } });
    c.put("put", &path, scale).await?;
    c.patch("negative", PatchType::Merge, &path, json!({ "spec": { "replicas": -1 } })).await?;
    let after = c.send_ok(Req::get(format!("{WIDGETS}/w"))).await?;
    c.record("after", json!([after.value_at("/spec"), after.value_at("/metadata/generation")]));
    Ok(())
}

async fn scale_without_a_path_in_the_object(c: &mut Context) -> Outcome {
    scalable().install(c).await?;
    c.create(WIDGETS, w(json!({ "metadata": { "name": "w" } }))).await?;
    c.get("get", &format!("{WIDGETS}/w/scale")).await?;
    c.patch("patch", PatchType::Merge, &format!("{WIDGETS}/w/scale"), json!({ "spec": { "replicas": 5 } }))
        .await?;
    c.get("of nobody", &format!("{WIDGETS}/x/scale")).await?;
    Ok(())
}

async fn status_of_a_definition(c: &mut Context) -> Outcome {
    Widgets::open().install(c).await?;
    let before = c.send_ok(Req::get(MINE)).await?;
    let answer = c
        .send_ok(Req::patch(PatchType::Merge, MINE, json!({ "status": { "storedVersions": ["v9"] } })))
        .await?;
    c.record("a plain patch leaves it", answer.value_at("/status") == before.value_at("/status"));
    let invalid = json!({ "status": { "storedVersions": [] } });
    c.patch("invalid", PatchType::Merge, &format!("{MINE}/status"), invalid).await?;
    Ok(())
}

async fn a_schema_is_changed(c: &mut Context) -> Outcome {
    Widgets::spec(json!({ "a": { "type": "string" } })).install(c).await?;
    c.create(WIDGETS, w(json!({ "metadata": { "name": "w" }, "spec": { "a": "text" } }))).await?;
    let schema = json!({ "type": "object", "properties": { "spec": { "type": "object", "required": ["b"],
        "properties": { "a": { "type": "integer" }, "b": { "type": "string" } } } } });
    let patch =
        json!([{ "op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema", "value": schema }]);
    c.send_ok(Req::patch(PatchType::Json, MINE, patch)).await?;
    let attempt = w(json!({ "metadata": { "name": "x" }, "spec": { "a": 1 } }));
    conformance::wait_for("the new schema", || async {
        Ok(c.send(Req::post(format!("{WIDGETS}?dryRun=All"), attempt.clone())).await?.code == 422)
    })
    .await?;
    c.get("the old object stays", &format!("{WIDGETS}/w")).await?;
    c.patch(
        "but cannot be changed",
        PatchType::Merge,
        &format!("{WIDGETS}/w"),
        json!({ "spec": { "b": "x", "a": "changed" } }),
    )
    .await?;
    c.patch(
        "except where it was wrong before",
        PatchType::Merge,
        &format!("{WIDGETS}/w"),
        json!({ "metadata": { "labels": { "a": "b" } } }),
    )
    .await?;
    Ok(())
}

async fn the_list_of_definitions(c: &mut Context) -> Outcome {
    Widgets::open().set("/metadata/labels", json!({ "case": "{id}" })).install(c).await?;
    let list = c.send_ok(Req::get(format!("{CRDS}?labelSelector=case%3D{{id}}"))).await?;
    c.record("kind", list.value_at("/kind"));
    c.record("names", list.item_names());
    Ok(())
}
