//! What a custom resource's schema does to objects: refuse, prune, default; and the rules in CEL.

use conformance::{Case, Context, Outcome, PatchType, Req, WIDGETS, Widgets, case, cases};
use serde_json::{Value, json};

use super::w;

pub(crate) fn cases() -> Vec<Case> {
    let mut all = keywords();
    all.extend(cases!["schema":
        unknown_fields_are_pruned,
        unknown_fields_are_pruned_within_lists_and_maps,
        unknown_fields_are_preserved_where_said,
        properties_below_preserved_fields_are_pruned,
        defaults_are_set_on_create_and_on_read,
        defaults_within_lists_and_nested,
        null_and_defaults,
        nullable_keeps_null,
        int_or_string,
        an_embedded_resource,
        an_embedded_resource_that_is_none,
        several_errors_at_once,
        a_set_with_a_duplicate,
        a_map_list_with_a_duplicate,
        status_is_validated_by_its_subresource,
        selectable_fields,
        printer_columns,
        numbers_keep_their_form,
        metadata_is_validated_by_the_server,
        a_text_of_many_letters,
    ]);
    all
}

/// One keyword each: a schema for `spec.a`, a value that fits, and values that do not.
fn keywords() -> Vec<Case> {
    let text = |more: Value| merged(json!({ "type": "string" }), more);
    let number = |kind: &str, more: Value| merged(json!({ "type": kind }), more);
    let list = |more: Value| merged(json!({ "type": "array", "items": { "type": "integer" } }), more);
    let map = |more: Value| {
        merged(json!({ "type": "object", "additionalProperties": { "type": "integer" } }), more)
    };
    [
        ("type_string", text(json!({})), json!("x"), vec![json!(1), json!(true), json!(["x"]), json!({}), json!(null)]),
        ("type_integer", number("integer", json!({})), json!(1), vec![json!("1"), json!(1.5), json!(true)]),
        ("type_number", number("number", json!({})), json!(1.5), vec![json!("1.5"), json!([])]),
        ("type_boolean", number("boolean", json!({})), json!(true), vec![json!("true"), json!(0)]),
        ("type_array", list(json!({})), json!([1]), vec![json!({}), json!("x"), json!([1, "two"])]),
        ("type_object", map(json!({})), json!({ "x": 1 }), vec![json!([]), json!({ "x": "y" })]),
        ("enumeration", text(json!({ "enum": ["red", "green"] })), json!("red"), vec![json!("blue"), json!("")]),
        ("min_length", text(json!({ "minLength": 2 })), json!("ab"), vec![json!("a"), json!("ä")]),
        ("max_length", text(json!({ "maxLength": 3 })), json!("äöü"), vec![json!("abcd")]),
        ("pattern", text(json!({ "pattern": "^[a-z]+$" })), json!("abc"), vec![json!("ABC"), json!("a\nb")]),
        ("minimum", number("integer", json!({ "minimum": 2 })), json!(2), vec![json!(1), json!(-5)]),
        ("exclusive_minimum", number("integer", json!({ "minimum": 2, "exclusiveMinimum": true })), json!(3), vec![json!(2)]),
        ("maximum", number("number", json!({ "maximum": 2.5 })), json!(2.5), vec![json!(2.6), json!(3)]),
        ("exclusive_maximum", number("integer", json!({ "maximum": 2, "exclusiveMaximum": true })), json!(1), vec![json!(2)]),
        ("multiple_of", number("integer", json!({ "multipleOf": 3 })), json!(9), vec![json!(10)]),
        ("min_items", list(json!({ "minItems": 1 })), json!([1]), vec![json!([])]),
        ("max_items", list(json!({ "maxItems": 2 })), json!([1, 2]), vec![json!([1, 2, 3])]),
        ("min_properties", map(json!({ "minProperties": 1 })), json!({ "x": 1 }), vec![json!({})]),
        ("max_properties", map(json!({ "maxProperties": 1 })), json!({ "x": 1 }), vec![json!({ "x": 1, "y": 2 })]),
        ("format_int32", number("integer", json!({ "format": "int32" })), json!(7), vec![json!(3_000_000_000_i64)]),
        ("format_int64", number("integer", json!({ "format": "int64" })), json!(3_000_000_000_i64), vec![json!(1.5)]),
        ("format_date_time", text(json!({ "format": "date-time" })), json!("2026-01-01T00:00:00Z"), vec![json!("yesterday"), json!("2026-01-01")]),
        ("format_date", text(json!({ "format": "date" })), json!("2026-01-01"), vec![json!("2026-13-01")]),
        ("format_duration", text(json!({ "format": "duration" })), json!("5m"), vec![json!("soon")]),
        ("format_ipv4", text(json!({ "format": "ipv4" })), json!("10.0.0.1"), vec![json!("10.0.0.256"), json!("::1")]),
        ("format_ipv6", text(json!({ "format": "ipv6" })), json!("fe80::1"), vec![json!("10.0.0.1")]),
        ("format_cidr", text(json!({ "format": "cidr" })), json!("10.0.0.0/8"), vec![json!("10.0.0.0")]),
        ("format_uri", text(json!({ "format": "uri" })), json!("https://example.com/x"), vec![json!("::")]),
        ("format_uuid", text(json!({ "format": "uuid" })), json!("11111111-1111-4111-8111-111111111111"), vec![json!("1")]),
        ("format_hostname", text(json!({ "format": "hostname" })), json!("example.com"), vec![json!("not a host!")]),
        ("format_email", text(json!({ "format": "email" })), json!("a@example.com"), vec![json!("nobody")]),
        ("format_byte", text(json!({ "format": "byte" })), json!("aGk="), vec![json!("***")]),
        ("format_unknown", text(json!({ "format": "mood" })), json!("anything"), vec![]),
        ("any_of", text(json!({ "anyOf": [{ "minLength": 5 }, { "pattern": "^x" }] })), json!("xa"), vec![json!("a")]),
        ("one_of", text(json!({ "oneOf": [{ "minLength": 3 }, { "pattern": "^x" }] })), json!("xa"), vec![json!("xyz"), json!("a")]),
        ("all_of", text(json!({ "allOf": [{ "minLength": 3 }, { "pattern": "^x" }] })), json!("xyz"), vec![json!("xa"), json!("abc")]),
        ("not", text(json!({ "not": { "pattern": "^x" } })), json!("a"), vec![json!("x")]),
    ]
    .into_iter()
    .map(|(name, schema, good, bad)| keyword(name, schema, good, bad))
    .chain([keyword(
        "required",
        json!({ "type": "object", "required": ["x", "y"], "properties": { "x": { "type": "string" }, "y": { "type": "integer" } } }),
        json!({ "x": "a", "y": 1 }),
        vec![json!({ "x": "a" }), json!({})],
    )])
    .collect()
}

fn merged(mut base: Value, more: Value) -> Value {
    if let (Value::Object(base), Value::Object(more)) = (&mut base, more) {
        base.extend(more);
    }
    base
}

fn keyword(name: &'static str, schema: Value, good: Value, bad: Vec<Value>) -> Case {
    case("schema", format!("keyword_{name}"), move |c| {
        let (schema, good, bad) = (schema.clone(), good.clone(), bad.clone());
        Box::pin(async move {
            Widgets::spec(json!({ "a": schema })).install(c).await?;
            let answer = c.send(Req::post(WIDGETS, widget("good", json!({ "a": good })))).await?;
            c.record("good", if answer.is_ok() { answer.value_at("/spec") } else { answer.to_transcript() });
            for value in bad {
                c.post(&value.to_string(), WIDGETS, widget("bad", json!({ "a": value }))).await?;
            }
            Ok(())
        })
    })
}

pub(super) fn widget(name: &str, spec: Value) -> Value {
    w(json!({ "metadata": { "name": name }, "spec": spec }))
}

/// Creates one and notes its spec, or why not.
pub(super) async fn made(c: &mut Context, name: &str, spec: Value) -> Outcome {
    let answer =
        c.send(Req::post(WIDGETS, w(json!({ "metadata": { "generateName": "w-" }, "spec": spec })))).await?;
    let seen = if answer.is_ok() { json!({ "spec": answer.value_at("/spec") }) } else { refusal(&answer) };
    c.record(name, seen);
    Ok(())
}

/// The name in a refusal is generated; what is said of the fields is of interest.
fn refusal(answer: &conformance::ApiResponse) -> Value {
    let name = answer.str_at("/details/name");
    let message = answer.str_at("/message").replace(&format!("\"{name}\""), "NAME");
    json!({ "code": answer.code, "reason": answer.value_at("/reason"), "message": message, "causes": answer.value_at("/details/causes") })
}

async fn unknown_fields_are_pruned(c: &mut Context) -> Outcome {
    Widgets::spec(json!({ "a": { "type": "string" } })).install(c).await?;
    let mut object = widget("w", json!({ "a": "x", "b": 1, "c": { "d": [] } }));
    object["other"] = json!({ "x": 1 });
    c.post("create", WIDGETS, object).await?;
    Ok(())
}

async fn unknown_fields_are_pruned_within_lists_and_maps(c: &mut Context) -> Outcome {
    let item = json!({ "type": "object", "properties": { "x": { "type": "integer" } } });
    Widgets::spec(json!({ "list": { "type": "array", "items": item }, "map": { "type": "object", "additionalProperties": item } })).install(c).await?;
    let one = json!({ "x": 1, "y": 2 });
    made(c, "create", json!({ "list": [one, one], "map": { "k": one } })).await
}

async fn unknown_fields_are_preserved_where_said(c: &mut Context) -> Outcome {
    let open = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    Widgets::spec(json!({ "open": open, "any": { "x-kubernetes-preserve-unknown-fields": true } }))
        .install(c)
        .await?;
    made(c, "object", json!({ "open": { "a": { "b": [1, { "c": null }] } }, "any": [1, "two"], "other": 1 }))
        .await?;
    made(c, "scalar", json!({ "any": 7 })).await?;
    made(c, "not an object", json!({ "open": [] })).await
}

async fn properties_below_preserved_fields_are_pruned(c: &mut Context) -> Outcome {
    let open = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true,
        "properties": { "known": { "type": "object", "properties": { "x": { "type": "integer" } } } } });
    Widgets::spec(json!({ "open": open })).install(c).await?;
    made(c, "create", json!({ "open": { "known": { "x": 1, "y": 2 }, "unknown": { "y": 2 } } })).await
}

async fn defaults_are_set_on_create_and_on_read(c: &mut Context) -> Outcome {
    Widgets::spec(json!({ "a": { "type": "string" } })).install(c).await?;
    c.create(WIDGETS, widget("old", json!({ "a": "x" }))).await?;
    let mine = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.{id}.example.com";
    let patch = json!([{ "op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/b",
        "value": { "type": "integer", "default": 7 } }]);
    c.send_ok(Req::patch(PatchType::Json, mine, patch)).await?;
    let old = c.wait_until(&format!("{WIDGETS}/old"), |answer| !answer.value_at("/spec/b").is_null()).await?;
    c.record("old", old.value_at("/spec"));
    made(c, "new", json!({ "a": "y" })).await?;
    made(c, "given", json!({ "b": 1 })).await?;
    let answer = c.send(Req::post(WIDGETS, w(json!({ "metadata": { "name": "none" } })))).await?;
    c.record("no spec", answer.value_at("/spec"));
    Ok(())
}

async fn defaults_within_lists_and_nested(c: &mut Context) -> Outcome {
    let item = json!({ "type": "object", "default": {}, "properties": { "x": { "type": "integer", "default": 1 }, "n": { "type": "string" } } });
    let schema = json!({ "type": "object", "properties": { "spec": { "type": "object", "default": {}, "properties": {
        "list": { "type": "array", "items": item }, "nested": item, "map": { "type": "object", "additionalProperties": item } } } } });
    Widgets::from_schema(schema).install(c).await?;
    made(c, "partial", json!({ "list": [{}, { "x": 5 }, { "n": "a" }], "map": { "k": {} } })).await?;
    let answer = c.send(Req::post(WIDGETS, w(json!({ "metadata": { "name": "none" } })))).await?;
    c.record("no spec", answer.value_at("/spec"));
    Ok(())
}

async fn null_and_defaults(c: &mut Context) -> Outcome {
    Widgets::spec(json!({ "a": { "type": "string", "default": "d" }, "b": { "type": "string", "nullable": true, "default": "d" },
        "c": { "type": "string" } }))
    .install(c)
    .await?;
    made(c, "defaulted", json!({ "a": null })).await?;
    made(c, "nullable", json!({ "b": null })).await?;
    made(c, "neither", json!({ "c": null })).await
}

async fn nullable_keeps_null(c: &mut Context) -> Outcome {
    Widgets::spec(json!({ "a": { "type": "string", "nullable": true }, "l": { "type": "array", "items": { "type": "string", "nullable": true } } })).install(c).await?;
    made(c, "null", json!({ "a": null, "l": ["x", null] })).await
}

async fn int_or_string(c: &mut Context) -> Outcome {
    Widgets::spec(json!({ "a": { "x-kubernetes-int-or-string": true } })).install(c).await?;
    for value in [json!(1), json!("50%"), json!(1.5), json!(true), json!([])] {
        made(c, &value.to_string(), json!({ "a": value })).await?;
    }
    Ok(())
}

fn embedded() -> Widgets {
    Widgets::spec(
        json!({ "template": { "type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true } }),
    )
}

async fn an_embedded_resource(c: &mut Context) -> Outcome {
    embedded().install(c).await?;
    made(c, "whole", json!({ "template": { "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p", "labels": { "a": "b" }, "odd": 1 }, "spec": { "x": 1 } } })).await
}

async fn an_embedded_resource_that_is_none(c: &mut Context) -> Outcome {
    embedded().install(c).await?;
    made(c, "no kind", json!({ "template": { "apiVersion": "v1", "metadata": {} } })).await?;
    made(c, "no version", json!({ "template": { "kind": "Pod", "metadata": {} } })).await?;
    made(c, "bad metadata", json!({ "template": { "apiVersion": "v1", "kind": "Pod", "metadata": { "labels": { "a": "not valid!" } } } })).await?;
    made(
        c,
        "bad name",
        json!({ "template": { "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "Not Valid" } } }),
    )
    .await
}

async fn several_errors_at_once(c: &mut Context) -> Outcome {
    Widgets::spec(json!({ "a": { "type": "integer", "maximum": 3 }, "b": { "type": "string", "enum": ["x"] }, "l": { "type": "array", "items": { "type": "integer", "minimum": 5 } } })).install(c).await?;
    let answer = c.send(Req::post(WIDGETS, widget("w", json!({ "a": 5, "b": "y", "l": [1, 9, 2] })))).await?;
    let mut causes = answer.value_at("/details/causes").as_array().cloned().unwrap_or_default();
    causes.sort_by_key(ToString::to_string);
    c.record("code", answer.code);
    c.record("causes", causes);
    Ok(())
}

async fn a_set_with_a_duplicate(c: &mut Context) -> Outcome {
    Widgets::spec(
        json!({ "a": { "type": "array", "x-kubernetes-list-type": "set", "items": { "type": "string" } } }),
    )
    .install(c)
    .await?;
    made(c, "fine", json!({ "a": ["x", "y"] })).await?;
    made(c, "twice", json!({ "a": ["x", "y", "x"] })).await
}

pub(super) fn map_list() -> Value {
    json!({ "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
        "items": { "type": "object", "required": ["name"], "properties": { "name": { "type": "string" }, "value": { "type": "integer" } } } })
}

async fn a_map_list_with_a_duplicate(c: &mut Context) -> Outcome {
    Widgets::spec(json!({ "a": map_list() })).install(c).await?;
    made(c, "twice", json!({ "a": [{ "name": "x" }, { "name": "x", "value": 1 }] })).await?;
    made(c, "no key", json!({ "a": [{ "value": 1 }] })).await
}

async fn status_is_validated_by_its_subresource(c: &mut Context) -> Outcome {
    let schema = json!({ "type": "object", "properties": { "spec": { "type": "object", "properties": { "a": { "type": "integer" } } },
        "status": { "type": "object", "properties": { "s": { "type": "integer" } } } } });
    Widgets::from_schema(schema).status().install(c).await?;
    c.create(WIDGETS, widget("w", json!({ "a": 1 }))).await?;
    c.patch("wrong", PatchType::Merge, &format!("{WIDGETS}/w/status"), json!({ "status": { "s": "x" } }))
        .await?;
    c.patch(
        "pruned",
        PatchType::Merge,
        &format!("{WIDGETS}/w/status"),
        json!({ "status": { "s": 1, "t": 1 } }),
    )
    .await?;
    Ok(())
}

async fn selectable_fields(c: &mut Context) -> Outcome {
    Widgets::spec(
        json!({ "colour": { "type": "string" }, "size": { "type": "integer" }, "on": { "type": "boolean" } }),
    )
    .version(
        "selectableFields",
        json!([{ "jsonPath": ".spec.colour" }, { "jsonPath": ".spec.size" }, { "jsonPath": ".spec.on" }]),
    )
    .install(c)
    .await?;
    c.create(WIDGETS, widget("a", json!({ "colour": "red", "size": 1, "on": true }))).await?;
    c.create(WIDGETS, widget("b", json!({ "colour": "blue", "size": 2, "on": false }))).await?;
    c.create(WIDGETS, widget("c", json!({}))).await?;
    for selector in [
        "spec.colour%3Dred",
        "spec.colour!%3Dred",
        "spec.size%3D2",
        "spec.on%3Dtrue",
        "spec.colour%3D",
        "spec.none%3D1",
        "metadata.name%3Da,spec.colour%3Dblue",
    ] {
        let list = c.send(Req::get(format!("{WIDGETS}?fieldSelector={selector}"))).await?;
        let seen = if list.is_ok() { list.item_names() } else { list.to_transcript() };
        c.record(selector, seen);
    }
    Ok(())
}

async fn printer_columns(c: &mut Context) -> Outcome {
    let column = |name: &str, kind: &str, path: &str| json!({ "name": name, "type": kind, "jsonPath": path });
    let mut columns = vec![
        column("Colour", "string", ".spec.colour"),
        column("Size", "integer", ".spec.size"),
        column("Weight", "number", ".spec.weight"),
        column("On", "boolean", ".spec.on"),
        column("When", "date", ".spec.when"),
        column("First", "string", ".spec.list[0]"),
        column("Ready", "string", ".spec.conditions[?(@.type==\"Ready\")].status"),
        column("All", "string", ".spec.list[*]"),
        column("Object", "string", ".spec.object"),
        column("Age", "date", ".metadata.creationTimestamp"),
    ];
    columns[1]["priority"] = json!(1);
    columns[1]["description"] = json!("how big");
    columns[1]["format"] = json!("int32");
    Widgets::open().version("additionalPrinterColumns", json!(columns)).install(c).await?;
    let spec = json!({ "colour": "red", "size": 3, "weight": 1.5, "on": true, "list": ["x", "y"], "object": { "b": 1, "a": "2" },
        "conditions": [{ "type": "Other", "status": "False" }, { "type": "Ready", "status": "True" }] });
    c.create(WIDGETS, widget("full", spec)).await?;
    c.create(
        WIDGETS,
        widget(
            "wrong",
            json!({ "colour": 7, "size": "big", "on": "yes", "weight": "heavy", "when": "never" }),
        ),
    )
    .await?;
    c.create(WIDGETS, widget("empty", json!({}))).await?;
    let table = "application/json;as=Table;g=meta.k8s.io;v=v1";
    let list = c.send_and_record("list", Req::get(WIDGETS).header("accept", table)).await?;
    c.record("a description", list.value_at("/columnDefinitions/2/description"));
    c.send_and_record("one", Req::get(format!("{WIDGETS}/full?includeObject=None")).header("accept", table))
        .await?;
    Ok(())
}

async fn numbers_keep_their_form(c: &mut Context) -> Outcome {
    Widgets::spec(json!({ "n": { "type": "number" }, "i": { "type": "integer" }, "any": { "x-kubernetes-preserve-unknown-fields": true } })).install(c).await?;
    let body = r#"{"apiVersion":"{id}.example.com/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"n":1.0,"i":5,"any":[1,1.0,1.50,1e3,9007199254740993,-0.0,12345678901234567890]}}"#;
    c.send_and_record("create", Req::new("POST", WIDGETS).body("application/json", body)).await?;
    let body =
        r#"{"apiVersion":"{id}.example.com/v1","kind":"Widget","metadata":{"name":"x"},"spec":{"i":5.0}}"#;
    c.send_and_record(
        "a whole number with a point",
        Req::new("POST", WIDGETS).body("application/json", body),
    )
    .await?;
    Ok(())
}

async fn metadata_is_validated_by_the_server(c: &mut Context) -> Outcome {
    Widgets::open().install(c).await?;
    c.post("labels", WIDGETS, w(json!({ "metadata": { "name": "w", "labels": { "a": "not valid!" } } })))
        .await?;
    c.post(
        "labels of a wrong type",
        WIDGETS,
        w(json!({ "metadata": { "name": "w", "labels": { "a": 1 } } })),
    )
    .await?;
    c.post("metadata of a wrong type", WIDGETS, w(json!({ "metadata": "w" }))).await?;
    c.post("finalizers", WIDGETS, w(json!({ "metadata": { "name": "w", "finalizers": ["no-domain"] } })))
        .await?;
    Ok(())
}

async fn a_text_of_many_letters(c: &mut Context) -> Outcome {
    Widgets::spec(json!({ "a": { "type": "string", "maxLength": 4 } })).install(c).await?;
    made(c, "long", json!({ "a": "x".repeat(300) })).await
}
