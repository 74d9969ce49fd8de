//! Fields that are taken one by one, so that what nobody took can be named.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// The fields of an object that nobody took yet.
pub(super) struct Fields {
    path: String,
    left: Map<String, Value>,
}

impl Fields {
    pub(super) fn of(value: &Value, path: &str) -> Self {
        Self { path: path.to_owned(), left: value.as_object().cloned().unwrap_or_default() }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.left.contains_key(name)
    }

    pub(super) fn take(&mut self, name: &str) -> Option<Value> {
        self.left.shift_remove(name).filter(|it| !it.is_null())
    }

    pub(super) fn text(&mut self, name: &str) -> Option<String> {
        self.take(name)?.as_str().map(str::to_owned)
    }

    /// Names what nobody took.
    pub(super) fn rest(self, notes: &mut Vec<String>) {
        for name in self.left.keys() {
            let path = if self.path.is_empty() { name.clone() } else { format!("{}.{name}", self.path) };
            notes.push(format!("{path} is not supported, and left out"));
        }
    }
}

/// A fork, a local or a virtual workload, and the namespace of its baseline.
pub(super) fn item(
    item: &Value,
    reference: &str,
    path: &str,
    notes: &mut Vec<String>,
) -> (Option<String>, Value) {
    let mut fields = Fields::of(item, path);
    let mut made = Map::new();
    made.extend(fields.take("name").map(|it| ("name".to_owned(), it)));
    let (namespace, workload) =
        workload(&fields.take(reference).unwrap_or_default(), &format!("{path}.{reference}"), notes);
    made.insert(reference.to_owned(), workload);
    match reference {
        "forkOf" => {
            if let Some(custom) = fields.take("customizations") {
                let path = format!("{path}.customizations");
                let home = namespace.as_deref();
                made.insert("customizations".into(), customizations(&custom, home, &path, notes));
            }
        }
        "from" => {
            for (index, mapping) in
                fields.take("mappings").iter().filter_map(Value::as_array).flatten().enumerate()
            {
                let mut fields = Fields::of(mapping, &format!("{path}.mappings[{index}]"));
                let mapped = json!({"port": fields.take("port"), "toLocal": fields.take("toLocal")});
                fields.rest(notes);
                push(&mut made, "mappings", mapped);
            }
        }
        _ => {}
    }
    fields.rest(notes);
    (namespace, Value::Object(made))
}

fn push(made: &mut Map<String, Value>, list: &str, item: Value) {
    if let Some(all) = made.entry(list).or_insert_with(|| json!([])).as_array_mut() {
        all.push(item);
    }
}

/// A reference to a workload without its namespace: that is the object's own.
fn workload(value: &Value, path: &str, notes: &mut Vec<String>) -> (Option<String>, Value) {
    let mut fields = Fields::of(value, path);
    let namespace = fields.text("namespace");
    let kind = fields.text("kind").unwrap_or_else(|| "Deployment".to_owned());
    if kind != "Deployment" {
        notes.push(format!("{path}.kind {kind} is not supported: only Deployments can be forked"));
    }
    let made = json!({"kind": kind, "name": fields.take("name")});
    fields.rest(notes);
    (namespace, made)
}

fn customizations(value: &Value, home: Option<&str>, path: &str, notes: &mut Vec<String>) -> Value {
    let mut fields = Fields::of(value, path);
    let mut made = Map::new();
    for (field, known) in [("images", &["container", "image"][..]), ("patch", &["type", "value"][..])] {
        if let Some(value) = fields.take(field) {
            made.insert(field.into(), only(&value, known, &format!("{path}.{field}"), notes));
        }
    }
    for (index, variable) in fields.take("env").iter().filter_map(Value::as_array).flatten().enumerate() {
        let variable = env(variable, home, &format!("{path}.env[{index}]"), notes);
        push(&mut made, "env", variable);
    }
    fields.rest(notes);
    Value::Object(made)
}

/// An object, or a list of them, with these fields alone.
pub(super) fn only(value: &Value, known: &[&str], path: &str, notes: &mut Vec<String>) -> Value {
    if let Some(items) = value.as_array() {
        let one = |(index, item): (usize, &Value)| only(item, known, &format!("{path}[{index}]"), notes);
        return items.iter().enumerate().map(one).collect();
    }
    let mut fields = Fields::of(value, path);
    let made: Map<String, Value> =
        known.iter().filter_map(|name| Some(((*name).to_owned(), fields.take(name)?))).collect();
    fields.rest(notes);
    Value::Object(made)
}

fn env(value: &Value, home: Option<&str>, path: &str, notes: &mut Vec<String>) -> Value {
    let mut fields = Fields::of(value, path);
    let mut made = Map::new();
    for field in ["name", "container", "operation", "value"] {
        made.extend(fields.take(field).map(|value| (field.to_owned(), value)));
    }
    if let Some(from) = fields.take("valueFrom") {
        let path = format!("{path}.valueFrom");
        let known = value_from(&from, home, &path, notes);
        if known.is_empty() {
            notes.push(format!("{path}: nothing of it is supported, and the variable is empty"));
        } else {
            made.insert("valueFrom".into(), Value::Object(known));
        }
    }
    fields.rest(notes);
    Value::Object(made)
}

fn value_from(value: &Value, home: Option<&str>, path: &str, notes: &mut Vec<String>) -> Map<String, Value> {
    let mut from = Fields::of(value, path);
    let mut known = Map::new();
    for field in ["secret", "configMap"] {
        if let Some(key) = from.take(field) {
            known.insert(field.into(), only(&key, &["name", "key"], &format!("{path}.{field}"), notes));
        }
    }
    if let Some(fork) = from.take("fork") {
        let mut fork = Fields::of(&fork, &format!("{path}.fork"));
        let of = format!("{path}.fork.forkOf");
        let (namespace, workload) = workload(&fork.take("forkOf").unwrap_or_default(), &of, notes);
        if let Some(other) = namespace.filter(|it| Some(it.as_str()) != home) {
            notes.push(format!(
                "{of}.namespace {other} is not supported, and left out: a variable tells of forks of its own namespace"
            ));
        }
        known.insert("fork".into(), json!({"forkOf": workload, "expression": fork.take("expression")}));
        fork.rest(notes);
    }
    from.rest(notes);
    known
}

/// What a group chooses its sandboxes by: a label, or lists of choices.
pub(super) fn choice(value: &Value, path: &str, notes: &mut Vec<String>) -> Value {
    let mut fields = Fields::of(value, path);
    let mut made = Map::new();
    if let Some(label) = fields.take("label") {
        made.insert("label".into(), only(&label, &["key", "value"], &format!("{path}.label"), notes));
    }
    for list in ["any", "all"] {
        for (index, one) in fields.take(list).iter().filter_map(Value::as_array).flatten().enumerate() {
            push(&mut made, list, choice(one, &format!("{path}.{list}[{index}]"), notes));
        }
    }
    fields.rest(notes);
    Value::Object(made)
}

/// Labels that Kubernetes takes as such. There they are free texts.
pub(super) fn labels(value: Option<&Value>, notes: &mut Vec<String>) -> BTreeMap<String, Value> {
    let all = value.and_then(Value::as_object).into_iter().flatten();
    let mut taken = BTreeMap::new();
    for (key, value) in all {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        if is_label(key, &text) {
            taken.insert(key.clone(), json!(text));
        } else {
            notes.push(format!(
                "spec.labels.{key}: {text:?} cannot be a label in Kubernetes, and is left out"
            ));
        }
    }
    taken
}

fn is_label(key: &str, value: &str) -> bool {
    let is_word = |it: &str| {
        let is_inner = |it: char| it.is_ascii_alphanumeric() || "-_.".contains(it);
        let is_outer = |it: char| it.is_ascii_alphanumeric();
        it.len() <= 63 && it.chars().all(is_inner) && it.starts_with(is_outer) && it.ends_with(is_outer)
    };
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let is_domain = |it: &str| {
        it.len() <= 253
            && it.split('.').all(is_word)
            && !it.contains(|it: char| it.is_ascii_uppercase() || it == '_')
    };
    prefix.is_none_or(is_domain) && is_word(name) && (value.is_empty() || is_word(value))
}

/// Names every parameter of a template: nobody fills them in here.
pub(super) fn templates(value: &Value, path: &str, notes: &mut Vec<String>) {
    match value {
        Value::String(text) => {
            for found in text.split("@{").skip(1) {
                let name = found.split_once('}').map_or(found, |(name, _)| name);
                notes.push(format!("{path}: the parameter @{{{name}}} is not filled in; do that before"));
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                templates(item, &format!("{path}[{index}]"), notes);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                templates(field, &path, notes);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
