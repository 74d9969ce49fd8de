//! Custom resource definitions: their life, their versions, their names, and what they refuse.

use conformance::{Answer, Case, Context, Outcome, Patch, Req, WIDGETS, Widgets, cases};
use serde_json::{Value, json};

use super::{CRDS, w};

const MINE: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.{id}.example.com";

pub(crate) fn cases() -> Vec<Case> {
    cases!["crd":
        a_definition_is_established,
        names_are_defaulted,
        a_wrong_name,
        a_scope_that_is_none,
        no_version_is_stored,
        two_versions_are_stored,
        a_version_name_twice,
        a_version_name_that_is_none,
        a_version_without_a_schema,
        a_schema_without_a_type,
        a_schema_that_is_not_structural,
        metadata_in_a_schema,
        a_default_that_does_not_fit,
        a_list_type_that_is_none,
        a_map_list_without_keys,
        a_set_of_objects,
        a_reference_in_a_schema,
        preserve_unknown_fields_of_old,
        a_rule_that_does_not_compile,
        a_rule_with_a_message_that_does_not_compile,
        a_pattern_that_does_not_compile,
        a_selectable_field_that_is_none,
        a_printer_column_that_is_invalid,
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
        a_conversion_webhook_without_its_address,
        the_list_of_definitions,
        singular_and_short_names_that_are_invalid,
    ]
}

async fn refused(c: &mut Context, name: &str, widgets: Widgets) -> Outcome {
    c.post(name, CRDS, widgets.body()).await.map(drop)
}

fn is_established(answer: &Answer) -> bool {
    condition(answer, "Established") == json!("True")
}

fn condition(answer: &Answer, kind: &str) -> Value {
    let conditions = answer.at("/status/conditions").as_array().cloned().unwrap_or_default();
    conditions
        .iter()
        .find(|condition| condition["type"] == kind)
        .map(|c| c["status"].clone())
        .unwrap_or_default()
}

async fn a_definition_is_established(c: &mut Context) -> Outcome {
    c.post("create", CRDS, Widgets::open().body()).await?;
    let both =
        |answer: &Answer| is_established(answer) && condition(answer, "NamesAccepted") == json!("True");
    c.until(MINE, both).await?;
    c.get("get", MINE).await?;
    c.until(WIDGETS, |answer| answer.code == 200).await?;
    c.get("list", WIDGETS).await?;
    Ok(())
}

async fn names_are_defaulted(c: &mut Context) -> Outcome {
    let names = json!({ "plural": "widgets", "kind": "Widget" });
    Widgets::open().set("/spec/names", names).serve(c).await?;
    let answer = c.must(Req::get(MINE)).await?;
    c.saw("spec names", answer.at("/spec/names"));
    c.saw("accepted names", answer.at("/status/acceptedNames"));
    c.saw("conversion", answer.at("/spec/conversion"));
    c.saw("stored", answer.at("/status/storedVersions"));
    Ok(())
}

async fn a_wrong_name(c: &mut Context) -> Outcome {
    refused(c, "name", Widgets::open().set("/metadata/name", json!("gadgets.{id}.example.com"))).await?;
    refused(c, "group", Widgets::open().set("/spec/group", json!("Not Valid"))).await?;
    refused(
        c,
        "no dot",
        Widgets::open().set("/spec/group", json!("x{id}")).set("/metadata/name", json!("widgets.x{id}")),
    )
    .await
}

async fn a_scope_that_is_none(c: &mut Context) -> Outcome {
    refused(c, "scope", Widgets::open().set("/spec/scope", json!("Everywhere"))).await?;
    refused(c, "none", Widgets::open().set("/spec/scope", Value::Null)).await
}

fn version(name: &str, is_stored: bool) -> Value {
    json!({ "name": name, "served": true, "storage": is_stored,
        "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } } })
}

async fn no_version_is_stored(c: &mut Context) -> Outcome {
    refused(c, "none", Widgets::open().set("/spec/versions", json!([version("v1", false)]))).await?;
    refused(c, "empty", Widgets::open().set("/spec/versions", json!([]))).await
}

async fn two_versions_are_stored(c: &mut Context) -> Outcome {
    refused(
        c,
        "create",
        Widgets::open().set("/spec/versions", json!([version("v1", true), version("v2", true)])),
    )
    .await
}

async fn a_version_name_twice(c: &mut Context) -> Outcome {
    refused(
        c,
        "create",
        Widgets::open().set("/spec/versions", json!([version("v1", true), version("v1", false)])),
    )
    .await
}

async fn a_version_name_that_is_none(c: &mut Context) -> Outcome {
    refused(c, "create", Widgets::open().set("/spec/versions", json!([version("V_1", true)]))).await
}

async fn a_version_without_a_schema(c: &mut Context) -> Outcome {
    refused(c, "none", Widgets::open().version("schema", Value::Null)).await?;
    refused(c, "empty", Widgets::open().version("schema", json!({}))).await
}

async fn a_schema_without_a_type(c: &mut Context) -> Outcome {
    refused(c, "root", Widgets::with(json!({ "properties": {} }))).await?;
    refused(c, "root is a text", Widgets::with(json!({ "type": "string" }))).await?;
    refused(c, "a field", Widgets::spec(json!({ "a": {} }))).await?;
    refused(c, "an item", Widgets::spec(json!({ "a": { "type": "array" } }))).await?;
    refused(c, "an unknown type", Widgets::spec(json!({ "a": { "type": "colour" } }))).await
}

async fn a_schema_that_is_not_structural(c: &mut Context) -> Outcome {
    refused(
        c,
        "type within any of",
        Widgets::spec(json!({ "a": { "type": "string", "anyOf": [{ "type": "string" }] } })),
    )
    .await?;
    refused(
        c,
        "properties within all of",
        Widgets::with(
            json!({ "type": "object", "allOf": [{ "properties": { "b": { "type": "string" } } }] }),
        ),
    )
    .await?;
    refused(
        c,
        "both kinds of properties",
        Widgets::spec(json!({ "a": { "type": "object", "properties": { "x": { "type": "string" } },
        "additionalProperties": { "type": "string" } } })),
    )
    .await?;
    refused(
        c,
        "nullable in not",
        Widgets::spec(json!({ "a": { "type": "string", "not": { "nullable": true } } })),
    )
    .await?;
    refused(
        c,
        "unique items",
        Widgets::spec(
            json!({ "a": { "type": "array", "uniqueItems": true, "items": { "type": "string" } } }),
        ),
    )
    .await
}

async fn metadata_in_a_schema(c: &mut Context) -> Outcome {
    let schema =
        |metadata: Value| Widgets::with(json!({ "type": "object", "properties": { "metadata": metadata } }));
    refused(
        c,
        "labels",
        schema(json!({ "type": "object", "properties": { "labels": { "type": "object" } } })),
    )
    .await?;
    refused(c, "a text", schema(json!({ "type": "string" }))).await?;
    refused(
        c,
        "the name",
        schema(json!({ "type": "object", "properties": { "name": { "type": "string", "maxLength": 5 } } })),
    )
    .await
}

async fn a_default_that_does_not_fit(c: &mut Context) -> Outcome {
    refused(c, "type", Widgets::spec(json!({ "a": { "type": "integer", "default": "one" } }))).await?;
    refused(c, "value", Widgets::spec(json!({ "a": { "type": "integer", "default": 5, "maximum": 3 } })))
        .await?;
    refused(c, "pruned", Widgets::spec(json!({ "a": { "type": "object", "default": { "x": 1 } } }))).await?;
    refused(c, "null", Widgets::spec(json!({ "a": { "type": "string", "default": null } }))).await
}

async fn a_list_type_that_is_none(c: &mut Context) -> Outcome {
    let list = json!({ "type": "array", "items": { "type": "string" }, "x-kubernetes-list-type": "bag" });
    refused(c, "list", Widgets::spec(json!({ "a": list }))).await?;
    refused(
        c,
        "on a text",
        Widgets::spec(json!({ "a": { "type": "string", "x-kubernetes-list-type": "set" } })),
    )
    .await?;
    refused(
        c,
        "map type",
        Widgets::spec(json!({ "a": { "type": "object", "x-kubernetes-map-type": "loose" } })),
    )
    .await
}

async fn a_map_list_without_keys(c: &mut Context) -> Outcome {
    let item = json!({ "type": "object", "properties": { "name": { "type": "string" } } });
    let list = |keys: Value| json!({ "type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys });
    refused(c, "no keys", Widgets::spec(json!({ "a": list(Value::Null) }))).await?;
    refused(c, "unknown key", Widgets::spec(json!({ "a": list(json!(["other"])) }))).await?;
    refused(c, "key is neither required nor defaulted", Widgets::spec(json!({ "a": list(json!(["name"])) })))
        .await
}

async fn a_set_of_objects(c: &mut Context) -> Outcome {
    let item = json!({ "type": "object", "properties": { "name": { "type": "string" } } });
    refused(
        c,
        "set",
        Widgets::spec(json!({ "a": { "type": "array", "items": item, "x-kubernetes-list-type": "set" } })),
    )
    .await
}

async fn a_reference_in_a_schema(c: &mut Context) -> Outcome {
    refused(c, "ref", Widgets::spec(json!({ "a": { "$ref": "#/definitions/x" } }))).await
}

async fn preserve_unknown_fields_of_old(c: &mut Context) -> Outcome {
    refused(c, "spec", Widgets::open().set("/spec/preserveUnknownFields", json!(true))).await?;
    refused(
        c,
        "false in the schema",
        Widgets::with(json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": false })),
    )
    .await
}

fn rule(rule: Value) -> Widgets {
    Widgets::spec(json!({ "a": { "type": "integer", "x-kubernetes-validations": [rule] } }))
}

async fn a_rule_that_does_not_compile(c: &mut Context) -> Outcome {
    refused(c, "syntax", rule(json!({ "rule": "self >" }))).await?;
    refused(c, "unknown name", rule(json!({ "rule": "other > 1" }))).await?;
    refused(c, "not a truth", rule(json!({ "rule": "self + 1" }))).await?;
    refused(c, "types", rule(json!({ "rule": "self == 'a'" }))).await?;
    refused(c, "empty", rule(json!({ "rule": "" }))).await?;
    let field = Widgets::with(json!({ "type": "object", "properties": { "spec": { "type": "object",
        "properties": { "a": { "type": "string" } }, "x-kubernetes-validations": [{ "rule": "self.b == 'x'" }] } } }));
    refused(c, "unknown field", field).await
}

async fn a_rule_with_a_message_that_does_not_compile(c: &mut Context) -> Outcome {
    refused(c, "message expression", rule(json!({ "rule": "self > 1", "messageExpression": "self +" })))
        .await?;
    refused(
        c,
        "message expression of a number",
        rule(json!({ "rule": "self > 1", "messageExpression": "1 + 1" })),
    )
    .await?;
    refused(c, "message of two lines", rule(json!({ "rule": "self > 1", "message": "a\nb" }))).await?;
    refused(c, "reason", rule(json!({ "rule": "self > 1", "reason": "Mood" }))).await?;
    refused(c, "field path", rule(json!({ "rule": "self > 1", "fieldPath": ".none" }))).await?;
    refused(
        c,
        "optional old self without a transition",
        rule(json!({ "rule": "self > 1", "optionalOldSelf": true })),
    )
    .await
}

async fn a_pattern_that_does_not_compile(c: &mut Context) -> Outcome {
    refused(c, "pattern", Widgets::spec(json!({ "a": { "type": "string", "pattern": "(" } }))).await?;
    refused(c, "bounds", Widgets::spec(json!({ "a": { "type": "string", "minLength": -1 } }))).await
}

async fn a_selectable_field_that_is_none(c: &mut Context) -> Outcome {
    let fields = |path: &str| {
        Widgets::spec(
            json!({ "a": { "type": "string" }, "l": { "type": "array", "items": { "type": "string" } } }),
        )
        .version("selectableFields", json!([{ "jsonPath": path }]))
    };
    refused(c, "unknown", fields(".spec.none")).await?;
    refused(c, "a list", fields(".spec.l")).await?;
    refused(c, "metadata", fields(".metadata.name")).await?;
    refused(c, "no path", fields("spec.a")).await
}

async fn a_printer_column_that_is_invalid(c: &mut Context) -> Outcome {
    let column = |column: Value| Widgets::open().version("additionalPrinterColumns", json!([column]));
    refused(c, "type", column(json!({ "name": "A", "type": "colour", "jsonPath": ".spec.a" }))).await?;
    refused(c, "path", column(json!({ "name": "A", "type": "string", "jsonPath": "spec[" }))).await?;
    refused(c, "no path", column(json!({ "name": "A", "type": "string" }))).await?;
    refused(
        c,
        "format",
        column(json!({ "name": "A", "type": "string", "format": "wild", "jsonPath": ".spec.a" })),
    )
    .await
}

async fn the_group_cannot_change(c: &mut Context) -> Outcome {
    Widgets::open().serve(c).await?;
    c.patch("group", Patch::Merge, MINE, json!({ "spec": { "group": "other.example.com" } })).await?;
    c.patch("plural", Patch::Merge, MINE, json!({ "spec": { "names": { "plural": "others" } } })).await?;
    Ok(())
}

async fn the_scope_cannot_change(c: &mut Context) -> Outcome {
    Widgets::open().serve(c).await?;
    c.patch("scope", Patch::Merge, MINE, json!({ "spec": { "scope": "Cluster" } })).await?;
    Ok(())
}

async fn the_kind_can_change(c: &mut Context) -> Outcome {
    Widgets::open().serve(c).await?;
    c.patch("kind", Patch::Merge, MINE, json!({ "spec": { "names": { "kind": "Gadget" } } })).await?;
    let short = json!({ "spec": { "names": { "shortNames": ["w{id}"], "categories": ["all"] } } });
    let answer = c.must(Req::patch(Patch::Merge, MINE, short)).await?;
    c.saw("generation", answer.at("/metadata/generation"));
    let accepted =
        c.until(MINE, |answer| answer.at("/status/acceptedNames/shortNames/0").is_string()).await?;
    c.saw("accepted", accepted.at("/status/acceptedNames"));
    Ok(())
}

async fn a_stored_version_cannot_go(c: &mut Context) -> Outcome {
    let versions = json!([version("v1", true), version("v2", false)]);
    Widgets::open().set("/spec/versions", versions).serve(c).await?;
    let moved = json!({ "spec": { "versions": [version("v1", false), version("v2", true)] } });
    let answer = c.must(Req::patch(Patch::Merge, MINE, moved)).await?;
    c.saw("stored", answer.at("/status/storedVersions"));
    c.patch("remove", Patch::Merge, MINE, json!({ "spec": { "versions": [version("v2", true)] } })).await?;
    let status = json!({ "status": { "storedVersions": ["v2"] } });
    c.must(Req::patch(Patch::Merge, format!("{MINE}/status"), status)).await?;
    let answer = c
        .must(Req::patch(Patch::Merge, MINE, json!({ "spec": { "versions": [version("v2", true)] } })))
        .await?;
    c.saw("left", answer.at("/spec/versions/0/name"));
    Ok(())
}

async fn names_conflict_with_another_definition(c: &mut Context) -> Outcome {
    Widgets::open().serve(c).await?;
    let second = Widgets::open().set("/metadata/name", json!("gadgets.{id}.example.com")).set(
        "/spec/names",
        json!({ "plural": "gadgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList" }),
    );
    c.make(CRDS, second.body()).await?;
    let path = format!("{CRDS}/gadgets.{{id}}.example.com");
    c.until(&path, |answer| condition(answer, "NamesAccepted") == json!("False")).await?;
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
    c.make(CRDS, approved.body()).await?;
    let path = format!("{CRDS}/widgets.{{id}}.k8s.io");
    let known = |answer: &Answer| {
        !condition(answer, "KubernetesAPIApprovalPolicyConformant").is_null() && is_established(answer)
    };
    let answer = c.until(&path, known).await?;
    let conditions = answer.at("/status/conditions").as_array().cloned().unwrap_or_default();
    c.saw(
        "condition",
        conditions
            .into_iter()
            .find(|c| c["type"] == "KubernetesAPIApprovalPolicyConformant")
            .unwrap_or_default(),
    );
    Ok(())
}

async fn deletion_takes_the_objects(c: &mut Context) -> Outcome {
    Widgets::open().serve(c).await?;
    c.make(WIDGETS, w(json!({ "metadata": { "name": "w" } }))).await?;
    c.make(WIDGETS, w(json!({ "metadata": { "name": "x" } }))).await?;
    let answer = c.must(Req::delete(MINE)).await?;
    c.saw("finalizers", answer.at("/metadata/finalizers"));
    c.until_gone(MINE).await?;
    c.until(WIDGETS, |answer| answer.code == 404).await?;
    c.get("list", WIDGETS).await?;
    Widgets::open().serve(c).await?;
    let again = c.must(Req::get(WIDGETS)).await?;
    c.saw("made again", again.names());
    Ok(())
}

async fn deletion_waits_for_finalizers(c: &mut Context) -> Outcome {
    Widgets::open().serve(c).await?;
    c.make(WIDGETS, w(json!({ "metadata": { "name": "w", "finalizers": ["example.com/hold"] } }))).await?;
    c.must(Req::delete(MINE)).await?;
    c.until(&format!("{WIDGETS}/w"), |answer| !answer.text("/metadata/deletionTimestamp").is_empty()).await?;
    let waiting = c.until(MINE, |answer| condition(answer, "Terminating") == json!("True")).await?;
    c.saw("finalizers", waiting.at("/metadata/finalizers"));
    c.post("create while it goes", WIDGETS, w(json!({ "metadata": { "name": "late" } }))).await?;
    let patch = json!([{ "op": "remove", "path": "/metadata/finalizers" }]);
    c.must(Req::patch(Patch::Json, format!("{WIDGETS}/w"), patch)).await?;
    c.until_gone(MINE).await
}

async fn an_unserved_version(c: &mut Context) -> Outcome {
    let mut unserved = version("v2", false);
    unserved["served"] = json!(false);
    Widgets::open().set("/spec/versions", json!([version("v1", true), unserved])).serve(c).await?;
    c.get("unserved", "/apis/{id}.example.com/v2/namespaces/{ns}/widgets").await?;
    Ok(())
}

async fn two_versions_without_conversion(c: &mut Context) -> Outcome {
    let versions = json!([version("v1", true), version("v2", false)]);
    Widgets::open().set("/spec/versions", versions).serve(c).await?;
    c.make(WIDGETS, w(json!({ "metadata": { "name": "w" }, "spec": { "a": 1 } }))).await?;
    let second = "/apis/{id}.example.com/v2/namespaces/{ns}/widgets";
    c.until(second, |answer| answer.code == 200).await?;
    c.get("read", &format!("{second}/w")).await?;
    let list = c.must(Req::get(second)).await?;
    c.saw("list version", list.at("/apiVersion"));
    c.saw("item version", list.at("/items/0/apiVersion"));
    let patch = json!({ "spec": { "a": 2 } });
    c.patch("patch", Patch::Merge, &format!("{second}/w"), patch).await?;
    let first = c.must(Req::get(format!("{WIDGETS}/w"))).await?;
    c.saw("in the first", json!([first.at("/apiVersion"), first.at("/spec")]));
    let group = c.until("/apis/{id}.example.com", |answer| answer.code == 200).await?;
    c.saw("group", group.body);
    Ok(())
}

async fn a_deprecated_version_warns(c: &mut Context) -> Outcome {
    let mut old = version("v1beta1", false);
    old["deprecated"] = json!(true);
    let mut older = version("v1alpha1", false);
    older["deprecated"] = json!(true);
    older["deprecationWarning"] = json!("use v1, \"please\"");
    Widgets::open().set("/spec/versions", json!([version("v1", true), old, older])).serve(c).await?;
    for name in ["v1beta1", "v1alpha1"] {
        let path = format!("/apis/{{id}}.example.com/{name}/namespaces/{{ns}}/widgets");
        c.until(&path, |answer| answer.code == 200).await?;
        c.get(name, &path).await?;
    }
    Ok(())
}

async fn cluster_scope(c: &mut Context) -> Outcome {
    Widgets::open().set("/spec/scope", json!("Cluster")).serve(c).await?;
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
    scalable().serve(c).await?;
    c.make(WIDGETS, w(json!({ "metadata": { "name": "w" }, "spec": { "replicas": 3 } }))).await?;
    let status = json!({ "status": { "replicas": 2, "selector": "app=x" } });
    c.must(Req::patch(Patch::Merge, format!("{WIDGETS}/w/status"), status)).await?;
    let path = format!("{WIDGETS}/w/scale");
    c.get("get", &path).await?;
    c.patch("patch", Patch::Merge, &path, json!({ "spec": { "replicas": 5 } })).await?;
    let scale = json!({ "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": { "name": "w", "namespace": "{ns}" }, "spec": { "replicas": 1 } });
    c.put("put", &path, scale).await?;
    c.patch("negative", Patch::Merge, &path, json!({ "spec": { "replicas": -1 } })).await?;
    let after = c.must(Req::get(format!("{WIDGETS}/w"))).await?;
    c.saw("after", json!([after.at("/spec"), after.at("/metadata/generation")]));
    Ok(())
}

async fn scale_without_a_path_in_the_object(c: &mut Context) -> Outcome {
    scalable().serve(c).await?;
    c.make(WIDGETS, w(json!({ "metadata": { "name": "w" } }))).await?;
    c.get("get", &format!("{WIDGETS}/w/scale")).await?;
    c.patch("patch", Patch::Merge, &format!("{WIDGETS}/w/scale"), json!({ "spec": { "replicas": 5 } }))
        .await?;
    c.get("of nobody", &format!("{WIDGETS}/x/scale")).await?;
    Ok(())
}

async fn status_of_a_definition(c: &mut Context) -> Outcome {
    Widgets::open().serve(c).await?;
    let before = c.must(Req::get(MINE)).await?;
    let answer =
        c.must(Req::patch(Patch::Merge, MINE, json!({ "status": { "storedVersions": ["v9"] } }))).await?;
    c.saw("a plain patch leaves it", answer.at("/status") == before.at("/status"));
    let invalid = json!({ "status": { "storedVersions": [] } });
    c.patch("invalid", Patch::Merge, &format!("{MINE}/status"), invalid).await?;
    Ok(())
}

async fn a_schema_is_changed(c: &mut Context) -> Outcome {
    Widgets::spec(json!({ "a": { "type": "string" } })).serve(c).await?;
    c.make(WIDGETS, w(json!({ "metadata": { "name": "w" }, "spec": { "a": "text" } }))).await?;
    let schema = json!({ "type": "object", "properties": { "spec": { "type": "object", "required": ["b"],
        "properties": { "a": { "type": "integer" }, "b": { "type": "string" } } } } });
    let patch =
        json!([{ "op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema", "value": schema }]);
    c.must(Req::patch(Patch::Json, MINE, patch)).await?;
    let attempt = w(json!({ "metadata": { "name": "x" }, "spec": { "a": 1 } }));
    conformance::eventually("the new schema", || async {
        Ok(c.send(Req::post(format!("{WIDGETS}?dryRun=All"), attempt.clone())).await?.code == 422)
    })
    .await?;
    c.get("the old object stays", &format!("{WIDGETS}/w")).await?;
    c.patch(
        "but cannot be changed",
        Patch::Merge,
        &format!("{WIDGETS}/w"),
        json!({ "spec": { "b": "x", "a": "changed" } }),
    )
    .await?;
    c.patch(
        "except where it was wrong before",
        Patch::Merge,
        &format!("{WIDGETS}/w"),
        json!({ "metadata": { "labels": { "a": "b" } } }),
    )
    .await?;
    Ok(())
}

async fn a_conversion_webhook_without_its_address(c: &mut Context) -> Outcome {
    refused(c, "webhook", Widgets::open().set("/spec/conversion", json!({ "strategy": "Webhook" }))).await?;
    refused(c, "unknown", Widgets::open().set("/spec/conversion", json!({ "strategy": "Magic" }))).await
}

async fn the_list_of_definitions(c: &mut Context) -> Outcome {
    Widgets::open().set("/metadata/labels", json!({ "case": "{id}" })).serve(c).await?;
    let list = c.must(Req::get(format!("{CRDS}?labelSelector=case%3D{{id}}"))).await?;
    c.saw("kind", list.at("/kind"));
    c.saw("names", list.names());
    Ok(())
}

async fn singular_and_short_names_that_are_invalid(c: &mut Context) -> Outcome {
    refused(c, "short", Widgets::open().set("/spec/names/shortNames", json!(["Bad Name"]))).await?;
    refused(c, "kind", Widgets::open().set("/spec/names/kind", json!("bad kind"))).await?;
    refused(c, "category", Widgets::open().set("/spec/names/categories", json!(["Bad Name"]))).await?;
    refused(c, "same list kind", Widgets::open().set("/spec/names/listKind", json!("Widget"))).await
}
