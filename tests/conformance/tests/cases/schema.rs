//! What a custom resource's schema does to objects: refuse, prune, default; and the rules in CEL.

use conformance::{Case, Context, Outcome, Patch, Req, WIDGETS, Widgets, case, cases};
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
        a_rule_on_the_whole_object,
        a_rule_with_a_message,
        a_rule_with_a_message_expression,
        a_rule_with_a_reason_and_a_field,
        a_transition_rule,
        a_transition_rule_within_a_map_list,
        a_transition_rule_with_optional_old_self,
        an_immutable_field,
        rules_on_items_and_values,
        rules_with_functions,
        rules_on_names_that_are_escaped,
        rules_on_quantities_and_times,
        a_rule_that_fails_at_run_time,
        rules_and_structural_errors_together,
        ratcheting_of_old_errors,
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
            Widgets::spec(json!({ "a": schema })).serve(c).await?;
            let answer = c.send(Req::post(WIDGETS, widget("good", json!({ "a": good })))).await?;
            c.saw("good", if answer.is_ok() { answer.at("/spec") } else { answer.seen() });
            for value in bad {
                c.post(&value.to_string(), WIDGETS, widget("bad", json!({ "a": value }))).await?;
            }
            Ok(())
        })
    })
}

fn widget(name: &str, spec: Value) -> Value {
    w(json!({ "metadata": { "name": name }, "spec": spec }))
}

/// Creates one and notes its spec, or why not.
async fn made(c: &mut Context, name: &str, spec: Value) -> Outcome {
    let answer =
        c.send(Req::post(WIDGETS, w(json!({ "metadata": { "generateName": "w-" }, "spec": spec })))).await?;
    let seen = if answer.is_ok() { json!({ "spec": answer.at("/spec") }) } else { refusal(&answer) };
    c.saw(name, seen);
    Ok(())
}

/// The name in a refusal is generated; what is said of the fields is of interest.
fn refusal(answer: &conformance::Answer) -> Value {
    let name = answer.text("/details/name");
    let message = answer.text("/message").replace(&format!("\"{name}\""), "NAME");
    json!({ "code": answer.code, "reason": answer.at("/reason"), "message": message, "causes": answer.at("/details/causes") })
}

async fn unknown_fields_are_pruned(c: &mut Context) -> Outcome {
    Widgets::spec(json!({ "a": { "type": "string" } })).serve(c).await?;
    let mut object = widget("w", json!({ "a": "x", "b": 1, "c": { "d": [] } }));
    object["other"] = json!({ "x": 1 });
    c.post("create", WIDGETS, object).await?;
    Ok(())
}

async fn unknown_fields_are_pruned_within_lists_and_maps(c: &mut Context) -> Outcome {
    let item = json!({ "type": "object", "properties": { "x": { "type": "integer" } } });
    Widgets::spec(json!({ "list": { "type": "array", "items": item }, "map": { "type": "object", "additionalProperties": item } })).serve(c).await?;
    let one = json!({ "x": 1, "y": 2 });
    made(c, "create", json!({ "list": [one, one], "map": { "k": one } })).await
}

async fn unknown_fields_are_preserved_where_said(c: &mut Context) -> Outcome {
    let open = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    Widgets::spec(json!({ "open": open, "any": { "x-kubernetes-preserve-unknown-fields": true } }))
        .serve(c)
        .await?;
    made(c, "object", json!({ "open": { "a": { "b": [1, { "c": null }] } }, "any": [1, "two"], "other": 1 }))
        .await?;
    made(c, "scalar", json!({ "any": 7 })).await?;
    made(c, "not an object", json!({ "open": [] })).await
}

async fn properties_below_preserved_fields_are_pruned(c: &mut Context) -> Outcome {
    let open = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true,
        "properties": { "known": { "type": "object", "properties": { "x": { "type": "integer" } } } } });
    Widgets::spec(json!({ "open": open })).serve(c).await?;
    made(c, "create", json!({ "open": { "known": { "x": 1, "y": 2 }, "unknown": { "y": 2 } } })).await
}

async fn defaults_are_set_on_create_and_on_read(c: &mut Context) -> Outcome {
    Widgets::spec(json!({ "a": { "type": "string" } })).serve(c).await?;
    c.make(WIDGETS, widget("old", json!({ "a": "x" }))).await?;
    let mine = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.{id}.example.com";
    let patch = json!([{ "op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/b",
        "value": { "type": "integer", "default": 7 } }]);
    c.must(Req::patch(Patch::Json, mine, patch)).await?;
    let old = c.until(&format!("{WIDGETS}/old"), |answer| !answer.at("/spec/b").is_null()).await?;
    c.saw("old", old.at("/spec"));
    made(c, "new", json!({ "a": "y" })).await?;
    made(c, "given", json!({ "b": 1 })).await?;
    let answer = c.send(Req::post(WIDGETS, w(json!({ "metadata": { "name": "none" } })))).await?;
    c.saw("no spec", answer.at("/spec"));
    Ok(())
}

async fn defaults_within_lists_and_nested(c: &mut Context) -> Outcome {
    let item = json!({ "type": "object", "default": {}, "properties": { "x": { "type": "integer", "default": 1 }, "n": { "type": "string" } } });
    let schema = json!({ "type": "object", "properties": { "spec": { "type": "object", "default": {}, "properties": {
        "list": { "type": "array", "items": item }, "nested": item, "map": { "type": "object", "additionalProperties": item } } } } });
    Widgets::with(schema).serve(c).await?;
    made(c, "partial", json!({ "list": [{}, { "x": 5 }, { "n": "a" }], "map": { "k": {} } })).await?;
    let answer = c.send(Req::post(WIDGETS, w(json!({ "metadata": { "name": "none" } })))).await?;
    c.saw("no spec", answer.at("/spec"));
    Ok(())
}

async fn null_and_defaults(c: &mut Context) -> Outcome {
    Widgets::spec(json!({ "a": { "type": "string", "default": "d" }, "b": { "type": "string", "nullable": true, "default": "d" },
        "c": { "type": "string" } }))
    .serve(c)
    .await?;
    made(c, "defaulted", json!({ "a": null })).await?;
    made(c, "nullable", json!({ "b": null })).await?;
    made(c, "neither", json!({ "c": null })).await
}

async fn nullable_keeps_null(c: &mut Context) -> Outcome {
    Widgets::spec(json!({ "a": { "type": "string", "nullable": true }, "l": { "type": "array", "items": { "type": "string", "nullable": true } } })).serve(c).await?;
    made(c, "null", json!({ "a": null, "l": ["x", null] })).await
}

async fn int_or_string(c: &mut Context) -> Outcome {
    Widgets::spec(json!({ "a": { "x-kubernetes-int-or-string": true } })).serve(c).await?;
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
    embedded().serve(c).await?;
    made(c, "whole", json!({ "template": { "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p", "labels": { "a": "b" }, "odd": 1 }, "spec": { "x": 1 } } })).await
}

async fn an_embedded_resource_that_is_none(c: &mut Context) -> Outcome {
    embedded().serve(c).await?;
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
    Widgets::spec(json!({ "a": { "type": "integer", "maximum": 3 }, "b": { "type": "string", "enum": ["x"] }, "l": { "type": "array", "items": { "type": "integer", "minimum": 5 } } })).serve(c).await?;
    let answer = c.send(Req::post(WIDGETS, widget("w", json!({ "a": 5, "b": "y", "l": [1, 9, 2] })))).await?;
    let mut causes = answer.at("/details/causes").as_array().cloned().unwrap_or_default();
    causes.sort_by_key(ToString::to_string);
    c.saw("code", answer.code);
    c.saw("causes", causes);
    Ok(())
}

async fn a_set_with_a_duplicate(c: &mut Context) -> Outcome {
    Widgets::spec(
        json!({ "a": { "type": "array", "x-kubernetes-list-type": "set", "items": { "type": "string" } } }),
    )
    .serve(c)
    .await?;
    made(c, "fine", json!({ "a": ["x", "y"] })).await?;
    made(c, "twice", json!({ "a": ["x", "y", "x"] })).await
}

fn map_list() -> Value {
    json!({ "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
        "items": { "type": "object", "required": ["name"], "properties": { "name": { "type": "string" }, "value": { "type": "integer" } } } })
}

async fn a_map_list_with_a_duplicate(c: &mut Context) -> Outcome {
    Widgets::spec(json!({ "a": map_list() })).serve(c).await?;
    made(c, "twice", json!({ "a": [{ "name": "x" }, { "name": "x", "value": 1 }] })).await?;
    made(c, "no key", json!({ "a": [{ "value": 1 }] })).await
}

async fn status_is_validated_by_its_subresource(c: &mut Context) -> Outcome {
    let schema = json!({ "type": "object", "properties": { "spec": { "type": "object", "properties": { "a": { "type": "integer" } } },
        "status": { "type": "object", "properties": { "s": { "type": "integer" } } } } });
    Widgets::with(schema).status().serve(c).await?;
    c.make(WIDGETS, widget("w", json!({ "a": 1 }))).await?;
    c.patch("wrong", Patch::Merge, &format!("{WIDGETS}/w/status"), json!({ "status": { "s": "x" } })).await?;
    c.patch("pruned", Patch::Merge, &format!("{WIDGETS}/w/status"), json!({ "status": { "s": 1, "t": 1 } }))
        .await?;
    Ok(())
}

fn ruled(properties: Value, rules: Value) -> Widgets {
    Widgets::with(
        json!({ "type": "object", "properties": { "spec": { "type": "object", "properties": properties, "x-kubernetes-validations": rules } } }),
    )
}

fn bounds() -> Value {
    json!({ "min": { "type": "integer" }, "max": { "type": "integer" } })
}

async fn a_rule_on_the_whole_object(c: &mut Context) -> Outcome {
    let schema = json!({ "type": "object", "properties": { "spec": { "type": "object", "properties": bounds() } },
        "x-kubernetes-validations": [{ "rule": "self.metadata.name.startsWith('w') && self.spec.min <= self.spec.max" }] });
    Widgets::with(schema).serve(c).await?;
    c.post("name", WIDGETS, widget("x", json!({ "min": 1, "max": 2 }))).await?;
    c.post("bounds", WIDGETS, widget("w", json!({ "min": 3, "max": 2 }))).await?;
    let fine = c.send(Req::post(WIDGETS, widget("w", json!({ "min": 1, "max": 2 })))).await?;
    c.saw("fine", fine.code);
    Ok(())
}

async fn a_rule_with_a_message(c: &mut Context) -> Outcome {
    ruled(bounds(), json!([{ "rule": "self.min <= self.max", "message": "min must not exceed max" }]))
        .serve(c)
        .await?;
    made(c, "wrong", json!({ "min": 3, "max": 2 })).await?;
    made(c, "right", json!({ "min": 1, "max": 2 })).await
}

async fn a_rule_with_a_message_expression(c: &mut Context) -> Outcome {
    let rules = json!([{ "rule": "self.min <= self.max", "message": "fallback",
        "messageExpression": "'min %d is above max %d'.format([self.min, self.max])" }]);
    ruled(bounds(), rules).serve(c).await?;
    made(c, "wrong", json!({ "min": 3, "max": 2 })).await
}

async fn a_rule_with_a_reason_and_a_field(c: &mut Context) -> Outcome {
    let rules = json!([
        { "rule": "!has(self.min) || self.min < 10", "reason": "FieldValueForbidden", "fieldPath": ".min", "message": "too much" },
        { "rule": "has(self.max)", "reason": "FieldValueRequired", "fieldPath": ".max" },
        { "rule": "!has(self.max) || self.max != 13", "reason": "FieldValueDuplicate" },
    ]);
    ruled(bounds(), rules).serve(c).await?;
    made(c, "forbidden", json!({ "min": 30, "max": 1 })).await?;
    made(c, "required", json!({ "min": 3 })).await?;
    made(c, "duplicate", json!({ "max": 13 })).await
}

async fn a_transition_rule(c: &mut Context) -> Outcome {
    ruled(bounds(), json!([{ "rule": "self.min >= oldSelf.min", "message": "min only grows" }]))
        .serve(c)
        .await?;
    c.make(WIDGETS, widget("w", json!({ "min": 3, "max": 5 }))).await?;
    let path = format!("{WIDGETS}/w");
    c.patch("grows", Patch::Merge, &path, json!({ "spec": { "min": 4 } })).await?;
    c.patch("shrinks", Patch::Merge, &path, json!({ "spec": { "min": 2 } })).await?;
    Ok(())
}

async fn a_transition_rule_within_a_map_list(c: &mut Context) -> Outcome {
    let mut list = map_list();
    list["items"]["x-kubernetes-validations"] =
        json!([{ "rule": "!has(oldSelf.value) || self.value >= oldSelf.value", "message": "only grows" }]);
    Widgets::spec(json!({ "a": list })).serve(c).await?;
    c.make(WIDGETS, widget("w", json!({ "a": [{ "name": "x", "value": 3 }, { "name": "y", "value": 3 }] })))
        .await?;
    let path = format!("{WIDGETS}/w");
    c.patch("reordered and new", Patch::Merge, &path, json!({ "spec": { "a": [{ "name": "z", "value": 0 }, { "name": "y", "value": 3 }, { "name": "x", "value": 4 }] } })).await?;
    c.patch("shrinks", Patch::Merge, &path, json!({ "spec": { "a": [{ "name": "y", "value": 1 }] } }))
        .await?;
    Ok(())
}

async fn a_transition_rule_with_optional_old_self(c: &mut Context) -> Outcome {
    let rules = json!([{ "rule": "oldSelf.hasValue() || self.min == 0", "message": "starts at zero", "optionalOldSelf": true }]);
    ruled(bounds(), rules).serve(c).await?;
    made(c, "starts elsewhere", json!({ "min": 1 })).await?;
    c.make(WIDGETS, widget("w", json!({ "min": 0 }))).await?;
    let answer =
        c.must(Req::patch(Patch::Merge, format!("{WIDGETS}/w"), json!({ "spec": { "min": 5 } }))).await?;
    c.saw("moves", answer.at("/spec"));
    Ok(())
}

async fn an_immutable_field(c: &mut Context) -> Outcome {
    let field = json!({ "type": "string", "x-kubernetes-validations": [{ "rule": "self == oldSelf", "message": "field is immutable" }] });
    Widgets::spec(json!({ "a": field })).serve(c).await?;
    c.make(WIDGETS, widget("w", json!({ "a": "x" }))).await?;
    let path = format!("{WIDGETS}/w");
    c.patch("change", Patch::Merge, &path, json!({ "spec": { "a": "y" } })).await?;
    let removed = c.must(Req::patch(Patch::Merge, path, json!({ "spec": { "a": null } }))).await?;
    c.saw("removed", removed.at("/spec"));
    Ok(())
}

async fn rules_on_items_and_values(c: &mut Context) -> Outcome {
    let item = json!({ "type": "integer", "x-kubernetes-validations": [{ "rule": "self % 2 == 0", "message": "must be even" }] });
    Widgets::spec(json!({ "l": { "type": "array", "items": item, "maxItems": 10, "x-kubernetes-validations": [{ "rule": "self.all(x, x < 100)" }] },
        "m": { "type": "object", "additionalProperties": item, "maxProperties": 10 } }))
    .serve(c)
    .await?;
    made(c, "item", json!({ "l": [2, 3] })).await?;
    made(c, "value", json!({ "m": { "k": 3 } })).await?;
    made(c, "all", json!({ "l": [200] })).await?;
    made(c, "fine", json!({ "l": [2, 4], "m": { "k": 6 } })).await
}

async fn rules_with_functions(c: &mut Context) -> Outcome {
    let text = |rule: &str| json!({ "type": "string", "maxLength": 100, "x-kubernetes-validations": [{ "rule": rule }] });
    Widgets::spec(json!({
        "matches": text("self.matches('^[a-z]+$')"),
        "split": text("self.split(',').size() == 2"),
        "lower": text("self.lowerAscii() == self"),
        "url": text("isURL(self) && url(self).getScheme() == 'https'"),
        "ip": text("isIP(self) && ip(self).family() == 4"),
        "cidr": text("isCIDR(self) && cidr(self).containsIP('10.0.0.1')"),
        "find": text("self.find('[0-9]+') == '42'"),
        "exists": { "type": "array", "maxItems": 5, "items": { "type": "string", "maxLength": 5 },
            "x-kubernetes-validations": [{ "rule": "self.exists_one(x, x == 'a') && self.isSorted() && self.map(x, x.size()).sum() < 5" }] },
    }))
    .serve(c)
    .await?;
    for (field, good, bad) in [
        ("matches", json!("abc"), json!("ABC")),
        ("split", json!("a,b"), json!("a")),
        ("lower", json!("abc"), json!("Abc")),
        ("url", json!("https://example.com"), json!("http://example.com")),
        ("ip", json!("10.0.0.1"), json!("::1")),
        ("cidr", json!("10.0.0.0/8"), json!("11.0.0.0/8")),
        ("find", json!("a42b"), json!("a43b")),
        ("exists", json!(["a", "b"]), json!(["b", "a", "a"])),
    ] {
        made(c, &format!("{field}, good"), json!({ field: good })).await?;
        made(c, &format!("{field}, bad"), json!({ field: bad })).await?;
    }
    Ok(())
}

async fn rules_on_names_that_are_escaped(c: &mut Context) -> Outcome {
    let properties = json!({ "a-b": { "type": "integer" }, "if": { "type": "integer" }, "x.y": { "type": "integer" }, "__z__": { "type": "integer" } });
    let rule = "(!has(self.a__dash__b) || self.a__dash__b > 0) && (!has(self.__if__) || self.__if__ > 0) && (!has(self.x__dot__y) || self.x__dot__y > 0)";
    ruled(properties, json!([{ "rule": rule, "message": "must be positive" }])).serve(c).await?;
    made(c, "fine", json!({ "a-b": 1, "if": 1, "x.y": 1 })).await?;
    for name in ["a-b", "if", "x.y"] {
        made(c, name, json!({ name: 0 })).await?;
    }
    Ok(())
}

async fn rules_on_quantities_and_times(c: &mut Context) -> Outcome {
    Widgets::spec(json!({
        "cpu": { "type": "string", "maxLength": 20, "x-kubernetes-validations": [{ "rule": "isQuantity(self) && quantity(self).isLessThan(quantity('2'))" }] },
        "wait": { "type": "string", "format": "duration", "x-kubernetes-validations": [{ "rule": "self < duration('1h')" }] },
        "at": { "type": "string", "format": "date-time", "x-kubernetes-validations": [{ "rule": "self > timestamp('2020-01-01T00:00:00Z') && self.getFullYear() < 2100" }] },
        "port": { "x-kubernetes-int-or-string": true, "x-kubernetes-validations": [{ "rule": "type(self) == int ? self < 100 : self == 'http'" }] },
    }))
    .serve(c)
    .await?;
    for (field, good, bad) in [
        ("cpu", json!("500m"), json!("3")),
        ("wait", json!("5m"), json!("2h")),
        ("at", json!("2026-01-01T00:00:00Z"), json!("2010-01-01T00:00:00Z")),
        ("port", json!(80), json!(800)),
        ("port", json!("http"), json!("other")),
    ] {
        made(c, &format!("{field} {good}"), json!({ field: good })).await?;
        made(c, &format!("{field} {bad}"), json!({ field: bad })).await?;
    }
    Ok(())
}

async fn a_rule_that_fails_at_run_time(c: &mut Context) -> Outcome {
    ruled(bounds(), json!([{ "rule": "self.min / self.max > 1" }])).serve(c).await?;
    made(c, "division", json!({ "min": 1, "max": 0 })).await?;
    made(c, "a field that is not there", json!({ "min": 1 })).await
}

async fn rules_and_structural_errors_together(c: &mut Context) -> Outcome {
    let properties = json!({ "min": { "type": "integer", "maximum": 5 }, "max": { "type": "integer" } });
    ruled(properties, json!([{ "rule": "self.min <= self.max", "message": "order" }])).serve(c).await?;
    made(c, "both", json!({ "min": 9, "max": 2 })).await?;
    made(c, "type", json!({ "min": "x", "max": 2 })).await
}

async fn ratcheting_of_old_errors(c: &mut Context) -> Outcome {
    Widgets::spec(json!({ "a": { "type": "string" }, "b": { "type": "string" } })).serve(c).await?;
    c.make(WIDGETS, widget("w", json!({ "a": "far too long", "b": "x" }))).await?;
    let mine = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.{id}.example.com";
    let patch = json!([{ "op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/a/maxLength", "value": 3 }]);
    c.must(Req::patch(Patch::Json, mine, patch)).await?;
    conformance::eventually("the new schema", || async {
        Ok(c.send(Req::post(format!("{WIDGETS}?dryRun=All"), widget("x", json!({ "a": "long" }))))
            .await?
            .code
            == 422)
    })
    .await?;
    let path = format!("{WIDGETS}/w");
    c.patch("another field", Patch::Merge, &path, json!({ "spec": { "b": "y" } })).await?;
    c.patch("the field itself", Patch::Merge, &path, json!({ "spec": { "a": "still too long" } })).await?;
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
    .serve(c)
    .await?;
    c.make(WIDGETS, widget("a", json!({ "colour": "red", "size": 1, "on": true }))).await?;
    c.make(WIDGETS, widget("b", json!({ "colour": "blue", "size": 2, "on": false }))).await?;
    c.make(WIDGETS, widget("c", json!({}))).await?;
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
        let seen = if list.is_ok() { list.names() } else { list.seen() };
        c.saw(selector, seen);
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
    Widgets::open().version("additionalPrinterColumns", json!(columns)).serve(c).await?;
    let spec = json!({ "colour": "red", "size": 3, "weight": 1.5, "on": true, "list": ["x", "y"], "object": { "b": 1, "a": "2" },
        "conditions": [{ "type": "Other", "status": "False" }, { "type": "Ready", "status": "True" }] });
    c.make(WIDGETS, widget("full", spec)).await?;
    c.make(
        WIDGETS,
        widget(
            "wrong",
            json!({ "colour": 7, "size": "big", "on": "yes", "weight": "heavy", "when": "never" }),
        ),
    )
    .await?;
    c.make(WIDGETS, widget("empty", json!({}))).await?;
    let table = "application/json;as=Table;g=meta.k8s.io;v=v1";
    c.see("list", Req::get(WIDGETS).header("accept", table)).await?;
    c.see("one", Req::get(format!("{WIDGETS}/full?includeObject=None")).header("accept", table)).await?;
    Ok(())
}

async fn numbers_keep_their_form(c: &mut Context) -> Outcome {
    Widgets::spec(json!({ "n": { "type": "number" }, "i": { "type": "integer" }, "any": { "x-kubernetes-preserve-unknown-fields": true } })).serve(c).await?;
    let body = r#"{"apiVersion":"{id}.example.com/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"n":1.0,"i":5,"any":[1,1.0,1.50,1e3,9007199254740993,-0.0,12345678901234567890]}}"#;
    c.see("create", Req::new("POST", WIDGETS).body("application/json", body)).await?;
    let body =
        r#"{"apiVersion":"{id}.example.com/v1","kind":"Widget","metadata":{"name":"x"},"spec":{"i":5.0}}"#;
    c.see("a whole number with a point", Req::new("POST", WIDGETS).body("application/json", body)).await?;
    Ok(())
}

async fn metadata_is_validated_by_the_server(c: &mut Context) -> Outcome {
    Widgets::open().serve(c).await?;
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
    Widgets::spec(json!({ "a": { "type": "string", "maxLength": 4 } })).serve(c).await?;
    made(c, "long", json!({ "a": "x".repeat(300) })).await
}
