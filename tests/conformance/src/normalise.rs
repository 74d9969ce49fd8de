//! Makes two transcripts comparable: what a server chooses by itself gets a name by the order in which it appears.

use std::{collections::BTreeMap, sync::LazyLock};

use regex::{Captures, Regex};
use serde_json::{Map, Value};

use crate::Transcript;

/// How deep a body is looked into; none of the cases comes near.
const MAX_DEPTH: usize = 64;

/// The comparable form of a transcript. Keys are sorted within observations, so that the order in which a server
/// writes its fields does not matter; the order of observations and of lists does.
pub fn normalise(transcript: &Transcript, keep_managed_fields: bool) -> Transcript {
    let mut chosen = ServerChosenValues { keep_managed_fields, ..ServerChosenValues::default() };
    let sorted: Transcript =
        transcript.iter().map(|(name, value)| (name.clone(), sorted(value, MAX_DEPTH))).collect();
    for value in sorted.values() {
        chosen.collect(value, MAX_DEPTH);
    }
    sorted.iter().map(|(name, value)| (name.clone(), chosen.rewrite("", value, MAX_DEPTH))).collect()
}

fn sorted(value: &Value, depth: usize) -> Value {
    match value {
        Value::Object(fields) if depth > 0 => {
            let fields: BTreeMap<&String, &Value> = fields.iter().collect();
            Value::Object(fields.into_iter().map(|(k, v)| (k.clone(), sorted(v, depth - 1))).collect())
        }
        Value::Array(items) if depth > 0 => items.iter().map(|item| sorted(item, depth - 1)).collect(),
        other => other.clone(),
    }
}

/// What the server chose, and the names that stand for it.
#[derive(Default)]
struct ServerChosenValues {
    keep_managed_fields: bool,
    names: Vec<(String, String)>,
    uids: BTreeMap<String, String>,
}

impl ServerChosenValues {
    fn collect(&mut self, value: &Value, depth: usize) {
        match value {
            Value::Object(fields) if depth > 0 => {
                self.collect_from(fields);
                fields.values().for_each(|field| self.collect(field, depth - 1));
            }
            Value::Array(items) if depth > 0 => items.iter().for_each(|item| self.collect(item, depth - 1)),
            _ => {}
        }
    }

    fn collect_from(&mut self, fields: &Map<String, Value>) {
        if let (Some(base), Some(name)) = (str_field(fields, "generateName"), str_field(fields, "name"))
            && let Some(suffix) = name.strip_prefix(base)
            && !suffix.is_empty()
        {
            self.assign_name(name.to_owned(), &format!("{base}GEN"));
        }
        if let Some(hash) = str_field(fields, "pod-template-hash") {
            self.assign_name(hash.to_owned(), "HASH");
        }
    }

    fn assign_name(&mut self, chosen: String, prefix: &str) {
        if self.names.iter().any(|(known, _)| *known == chosen) {
            return;
        }
        let number = self.names.iter().filter(|(_, name)| name.starts_with(prefix)).count() + 1;
        self.names.push((chosen, format!("{prefix}{number}")));
        // A generated name may contain a hash that is a name as well: the longer goes first.
        self.names.sort_by_key(|(chosen, _)| std::cmp::Reverse(chosen.len()));
    }

    fn rewrite(&mut self, key: &str, value: &Value, depth: usize) -> Value {
        match value {
            Value::Object(fields) if depth > 0 => {
                let keeps = self.keep_managed_fields;
                let kept = fields.iter().filter(|(key, _)| keeps || key.as_str() != "managedFields");
                Value::Object(
                    kept.map(|(key, value)| {
                        (self.rewrite_text("", key), self.rewrite(key, value, depth - 1))
                    })
                    .collect(),
                )
            }
            // What a column is about is prose; that there is a description is not.
            Value::Array(items) if key == "columnDefinitions" => items
                .iter()
                .map(|column| {
                    let mut column = column.clone();
                    if column["description"].as_str().is_some_and(|text| !text.is_empty()) {
                        column["description"] = Value::from("PROSE");
                    }
                    column
                })
                .collect(),
            Value::Array(items) if depth > 0 => {
                let mut items: Vec<Value> =
                    items.iter().map(|item| self.rewrite(key, item, depth - 1)).collect();
                // The real server names the managers of a conflict in the order of a Go map: in none.
                if key == "causes" && items.iter().all(|cause| cause["reason"] == "FieldManagerConflict") {
                    items.sort_by_key(ToString::to_string);
                }
                // Managers stand in the order of their times, which is another one if a second ends in between.
                if key == "managedFields" {
                    items.sort_by_key(|entry| {
                        ["operation", "manager", "subresource", "apiVersion"]
                            .map(|field| entry[field].to_string())
                    });
                }
                Value::Array(items)
            }
            Value::String(text) => Value::String(self.rewrite_text(key, text)),
            other => other.clone(),
        }
    }

    fn rewrite_text(&mut self, key: &str, text: &str) -> String {
        match key {
            "resourceVersion" if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) => {
                return "RV".to_owned();
            }
            "continue" if !text.is_empty() => return "CONTINUE".to_owned(),
            _ => {}
        }
        let mut text = text.to_owned();
        for (chosen, name) in &self.names {
            if text.contains(chosen.as_str()) {
                text = text.replace(chosen.as_str(), name);
            }
        }
        for (pattern, name) in PATTERNS.iter() {
            if pattern.is_match(&text) {
                text = pattern.replace_all(&text, *name).into_owned();
            }
        }
        let uids = &mut self.uids;
        let text = UID.replace_all(&text, |found: &Captures<'_>| {
            let next = format!("UID{}", uids.len() + 1);
            uids.entry(found[0].to_owned()).or_insert(next).clone()
        });
        // After the uids: one in some hundred begins like an age, with seven digits and a d.
        if matches!(key, "cells" | "stdout") { AGE.replace_all(&text, "${1}AGE") } else { text }.into_owned()
    }
}

fn str_field<'a>(fields: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    fields.get(key)?.as_str()
}

#[expect(clippy::expect_used, reason = "the patterns are literals")]
fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is well formed")
}

static UID: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"));
static AGE: LazyLock<Regex> = LazyLock::new(|| pattern(r"(^|\s)\d+[smhd](?:\d+[smhd])?\b"));
static PATTERNS: LazyLock<Vec<(Regex, &'static str)>> = LazyLock::new(|| {
    [
        (r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", "MICROTIME"),
        (r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", "TIME"),
        (r"\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "TIME"),
        (r"-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----", "CERTIFICATE"),
        (r"\bkube-api-access-[a-z0-9]{5}\b", "kube-api-access-GEN"),
        (r"\beyJ[\w-]+\.[\w-]+\.[\w-]+", "JWT"),
        (r"\b127\.0\.0\.1:\d+", "HOST"),
        (r"\b10\.96\.\d+\.\d+", "CLUSTERIP"),
        (r#"resourceVersion: "\d+""#, r#"resourceVersion: "RV""#),
        (r#""resourceVersion":"\d+""#, r#""resourceVersion":"RV""#),
        (r"too old resource version: \d+ \(\d+\)", "too old resource version: OLD (OLDEST)"),
        (
            r"Too large resource version: (\d+), current: \d+",
            "Too large resource version: $1, current: CURRENT",
        ),
        (r"Resource Version: +\d+", "Resource Version: RV"),
        (r"/tmp/(LIVE|MERGED)-\d+", "/tmp/$1"),
    ]
    .map(|(text, name)| (pattern(text), name))
    .into()
});

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn normal(value: Value) -> Value {
        let transcript = Transcript::from_iter([("seen".to_owned(), value)]);
        normalise(&transcript, false)["seen"].clone()
    }

    #[test]
    fn uids_are_named_in_the_order_of_their_appearance_and_stay_comparable() {
        let (one, two) = ("11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222");
        assert_eq!(normal(json!([two, one, format!("uid {two}")])), json!(["UID1", "UID2", "uid UID1"]));
    }

    #[test]
    fn a_uid_that_begins_like_an_age_is_a_uid() {
        let seen = json!({ "stdout": "  UID:  1234567d-1111-4111-8111-111111111111\n  web  45d" });
        assert_eq!(normal(seen), json!({ "stdout": "  UID:  UID1\n  web  AGE" }));
    }

    #[test]
    fn the_order_of_fields_does_not_matter() {
        assert_eq!(
            normal(json!({ "b": 1, "a": 2 })).to_string(),
            normal(json!({ "a": 2, "b": 1 })).to_string()
        );
    }

    #[test]
    fn generated_names_are_replaced_wherever_they_appear() {
        let seen = json!([{ "generateName": "web-", "name": "web-x7x2p" }, "pod web-x7x2p is there"]);
        assert_eq!(
            normal(seen),
            json!([{ "generateName": "web-", "name": "web-GEN1" }, "pod web-GEN1 is there"])
        );
    }

    #[test]
    fn versions_times_and_managed_fields_are_taken_out() {
        let seen = json!({ "resourceVersion": "42", "at": "2026-11-16T05:00:00Z", "managedFields": [], "renew":
            "2026-11-16T05:00:00.123456Z" });
        assert_eq!(normal(seen), json!({ "at": "TIME", "renew": "MICROTIME", "resourceVersion": "RV" }));
    }

    #[test]
    fn a_version_that_is_no_number_is_kept() {
        assert_eq!(normal(json!({ "resourceVersion": "abc" })), json!({ "resourceVersion": "abc" }));
    }
}
