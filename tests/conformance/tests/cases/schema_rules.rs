//! Rules in CEL on custom resources.

use conformance::{Case, Context, Outcome, PatchType, Req, WIDGETS, Widgets, cases};
use serde_json::{Value, json};

use super::schema::{made, map_list, widget};

pub(crate) fn cases() -> Vec<Case> {
    cases!["schema":
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
    ]
}

fn ruled(properties: Value, rules: Value) -> Widgets {
    Widgets::from_schema(
        json!({ "type": "object", "properties": { "spec": { "type": "object", "properties": properties, "x-kubernetes-validations": rules } } }),
    )
}

fn bounds() -> Value {
    json!({ "min": { "type": "integer" }, "max": { "type": "integer" } })
}

async fn a_rule_on_the_whole_object(c: &mut Context) -> Outcome {
    let schema = json!({ "type": "object", "properties": { "spec": { "type": "object", "properties": bounds() } },
        "x-kubernetes-validations": [{ "rule": "self.metadata.name.startsWith('w') && self.spec.min <= self.spec.max" }] });
    Widgets::from_schema(schema).install(c).await?;
    c.post("name", WIDGETS, widget("x", json!({ "min": 1, "max": 2 }))).await?;
    c.post("bounds", WIDGETS, widget("w", json!({ "min": 3, "max": 2 }))).await?;
    let fine = c.send(Req::post(WIDGETS, widget("w", json!({ "min": 1, "max": 2 })))).await?;
    c.record("fine", fine.code);
    Ok(())
}

async fn a_rule_with_a_message(c: &mut Context) -> Outcome {
    ruled(bounds(), json!([{ "rule": "self.min <= self.max", "message": "min must not exceed max" }]))
        .install(c)
        .await?;
    made(c, "wrong", json!({ "min": 3, "max": 2 })).await?;
    made(c, "right", json!({ "min": 1, "max": 2 })).await
}

async fn a_rule_with_a_message_expression(c: &mut Context) -> Outcome {
    let rules = json!([{ "rule": "self.min <= self.max", "message": "fallback",
        "messageExpression": "'min %d is above max %d'.format([self.min, self.max])" }]);
    ruled(bounds(), rules).install(c).await?;
    made(c, "wrong", json!({ "min": 3, "max": 2 })).await
}

async fn a_rule_with_a_reason_and_a_field(c: &mut Context) -> Outcome {
    let rules = json!([
        { "rule": "!has(self.min) || self.min < 10", "reason": "FieldValueForbidden", "fieldPath": ".min", "message": "too much" },
        { "rule": "has(self.max)", "reason": "FieldValueRequired", "fieldPath": ".max" },
        { "rule": "!has(self.max) || self.max != 13", "reason": "FieldValueDuplicate" },
    ]);
    ruled(bounds(), rules).install(c).await?;
    made(c, "forbidden", json!({ "min": 30, "max": 1 })).await?;
    made(c, "required", json!({ "min": 3 })).await?;
    made(c, "duplicate", json!({ "max": 13 })).await
}

async fn a_transition_rule(c: &mut Context) -> Outcome {
    ruled(bounds(), json!([{ "rule": "self.min >= oldSelf.min", "message": "min only grows" }]))
        .install(c)
        .await?;
    c.create(WIDGETS, widget("w", json!({ "min": 3, "max": 5 }))).await?;
    let path = format!("{WIDGETS}/w");
    c.patch("grows", PatchType::Merge, &path, json!({ "spec": { "min": 4 } })).await?;
    c.patch("shrinks", PatchType::Merge, &path, json!({ "spec": { "min": 2 } })).await?;
    Ok(())
}

async fn a_transition_rule_within_a_map_list(c: &mut Context) -> Outcome {
    let mut list = map_list();
    list["items"]["x-kubernetes-validations"] =
        json!([{ "rule": "!has(oldSelf.value) || self.value >= oldSelf.value", "message": "only grows" }]);
    Widgets::spec(json!({ "a": list })).install(c).await?;
    c.create(
        WIDGETS,
        widget("w", json!({ "a": [{ "name": "x", "value": 3 }, { "name": "y", "value": 3 }] })),
    )
    .await?;
    let path = format!("{WIDGETS}/w");
    c.patch("reordered and new", PatchType::Merge, &path, json!({ "spec": { "a": [{ "name": "z", "value": 0 }, { "name": "y", "value": 3 }, { "name": "x", "value": 4 }] } })).await?;
    c.patch("shrinks", PatchType::Merge, &path, json!({ "spec": { "a": [{ "name": "y", "value": 1 }] } }))
        .await?;
    Ok(())
}

async fn a_transition_rule_with_optional_old_self(c: &mut Context) -> Outcome {
    let rules = json!([{ "rule": "oldSelf.hasValue() || self.min == 0", "message": "starts at zero", "optionalOldSelf": true }]);
    ruled(bounds(), rules).install(c).await?;
    made(c, "starts elsewhere", json!({ "min": 1 })).await?;
    c.create(WIDGETS, widget("w", json!({ "min": 0 }))).await?;
    let answer = c
        .send_ok(Req::patch(PatchType::Merge, format!("{WIDGETS}/w"), json!({ "spec": { "min": 5 } })))
        .await?;
    c.record("moves", answer.value_at("/spec"));
    Ok(())
}

async fn an_immutable_field(c: &mut Context) -> Outcome {
    let field = json!({ "type": "string", "x-kubernetes-validations": [{ "rule": "self == oldSelf", "message": "field is immutable" }] });
    Widgets::spec(json!({ "a": field })).install(c).await?;
    c.create(WIDGETS, widget("w", json!({ "a": "x" }))).await?;
    let path = format!("{WIDGETS}/w");
    c.patch("change", PatchType::Merge, &path, json!({ "spec": { "a": "y" } })).await?;
    let removed = c.send_ok(Req::patch(PatchType::Merge, path, json!({ "spec": { "a": null } }))).await?;
    c.record("removed", removed.value_at("/spec"));
    Ok(())
}

async fn rules_on_items_and_values(c: &mut Context) -> Outcome {
    let item = json!({ "type": "integer", "x-kubernetes-validations": [{ "rule": "self % 2 == 0", "message": "must be even" }] });
    Widgets::spec(json!({ "l": { "type": "array", "items": item, "maxItems": 10, "x-kubernetes-validations": [{ "rule": "self.all(x, x < 100)" }] },
        "m": { "type": "object", "additionalProperties": item, "maxProperties": 10 } }))
    .install(c)
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
    .install(c)
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
    ruled(properties, json!([{ "rule": rule, "message": "must be positive" }])).install(c).await?;
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
    .install(c)
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
    ruled(bounds(), json!([{ "rule": "self.min / self.max > 1" }])).install(c).await?;
    made(c, "division", json!({ "min": 1, "max": 0 })).await?;
    made(c, "a field that is not there", json!({ "min": 1 })).await
}

async fn rules_and_structural_errors_together(c: &mut Context) -> Outcome {
    let properties = json!({ "min": { "type": "integer", "maximum": 5 }, "max": { "type": "integer" } });
    ruled(properties, json!([{ "rule": "self.min <= self.max", "message": "order" }])).install(c).await?;
    made(c, "both", json!({ "min": 9, "max": 2 })).await?;
    made(c, "type", json!({ "min": "x", "max": 2 })).await
}

async fn ratcheting_of_old_errors(c: &mut Context) -> Outcome {
    Widgets::spec(json!({ "a": { "type": "string" }, "b": { "type": "string" } })).install(c).await?;
    c.create(WIDGETS, widget("w", json!({ "a": "far too long", "b": "x" }))).await?;
    let mine = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.{id}.example.com";
    let patch = json!([{ "op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/a/maxLength", "value": 3 }]);
    c.send_ok(Req::patch(PatchType::Json, mine, patch)).await?;
    conformance::wait_for("the new schema", || async {
        Ok(c.send(Req::post(format!("{WIDGETS}?dryRun=All"), widget("x", json!({ "a": "long" }))))
            .await?
            .code
            == 422)
    })
    .await?;
    let path = format!("{WIDGETS}/w");
    c.patch("another field", PatchType::Merge, &path, json!({ "spec": { "b": "y" } })).await?;
    c.patch("the field itself", PatchType::Merge, &path, json!({ "spec": { "a": "still too long" } }))
        .await?;
    Ok(())
}
