//! Custom resource definitions that are refused, and with which words.

use conformance::{Case, Context, Outcome, Widgets, cases};
use serde_json::{Value, json};

use super::crd::{refused, version};

pub(crate) fn cases() -> Vec<Case> {
    cases!["crd":
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
        a_conversion_webhook_without_its_address,
        singular_and_short_names_that_are_invalid,
    ]
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
    refused(c, "root", Widgets::from_schema(json!({ "properties": {} }))).await?;
    refused(c, "root is a text", Widgets::from_schema(json!({ "type": "string" }))).await?;
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
        Widgets::from_schema(
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
    let schema = |metadata: Value| {
        Widgets::from_schema(json!({ "type": "object", "properties": { "metadata": metadata } }))
    };
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
        Widgets::from_schema(json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": false })),
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
    let field = Widgets::from_schema(json!({ "type": "object", "properties": { "spec": { "type": "object",
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

async fn a_conversion_webhook_without_its_address(c: &mut Context) -> Outcome {
    refused(c, "webhook", Widgets::open().set("/spec/conversion", json!({ "strategy": "Webhook" }))).await?;
    refused(c, "unknown", Widgets::open().set("/spec/conversion", json!({ "strategy": "Magic" }))).await
}

async fn singular_and_short_names_that_are_invalid(c: &mut Context) -> Outcome {
    refused(c, "short", Widgets::open().set("/spec/names/shortNames", json!(["Bad Name"]))).await?;
    refused(c, "kind", Widgets::open().set("/spec/names/kind", json!("bad kind"))).await?;
    refused(c, "category", Widgets::open().set("/spec/names/categories", json!(["Bad Name"]))).await?;
    refused(c, "same list kind", Widgets::open().set("/spec/names/listKind", json!("Widget"))).await
}
