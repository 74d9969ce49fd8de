//! Reads the fields of an object one by one, so that unread fields can be reported.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// The fields of an object that have not been read yet.
pub(super) struct UnreadFields {
    path: String,
    unread: Map<String, Value>,
}

impl UnreadFields {
    pub(super) fn new(value: &Value, path: &str) -> Self {
        Self { path: path.to_owned(), unread: value.as_object().cloned().unwrap_or_default() }
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.unread.contains_key(name)
    }

    pub(super) fn take(&mut self, name: &str) -> Option<Value> {
        self.unread.shift_remove(name).filter(|it| !it.is_null())
    }

    pub(super) fn take_string(&mut self, name: &str) -> Option<String> {
        self.take(name)?.as_str().map(str::to_owned)
    }

    /// Reports the unread fields.
    pub(super) fn note_unsupported(self, notes: &mut Vec<String>) {
        for name in self.unread.keys() {
            let path = if self.path.is_empty() { name.clone() } else { format!("{}.{name}", self.path) };
            notes.push(format!("{path} is not supported and was dropped"));
        }
    }
}

/// Converts a fork, local or virtual workload; also returns the namespace of its baseline.
pub(super) fn import_workload(
    item: &Value,
    reference: &str,
    path: &str,
    notes: &mut Vec<String>,
) -> (Option<String>, Value) {
    let mut fields = UnreadFields::new(item, path);
    let mut made = Map::new();
    made.extend(fields.take("name").map(|it| ("name".to_owned(), it)));
    let (namespace, workload) = import_workload_ref(
        &fields.take(reference).unwrap_or_default(),
        &format!("{path}.{reference}"),
        notes,
    );
    made.insert(reference.to_owned(), workload);
    match reference {
        "forkOf" => {
            if let Some(custom) = fields.take("customizations") {
                let path = format!("{path}.customizations");
                let home = namespace.as_deref();
                made.insert("customizations".into(), import_customizations(&custom, home, &path, notes));
            }
        }
        "from" => {
            for (index, mapping) in
                fields.take("mappings").iter().filter_map(Value::as_array).flatten().enumerate()
            {
                let mut fields = UnreadFields::new(mapping, &format!("{path}.mappings[{index}]"));
                let mapped = json!({"port": fields.take("port"), "toLocal": fields.take("toLocal")});
                fields.note_unsupported(notes);
                push_item(&mut made, "mappings", mapped);
            }
        }
        _ => {}
    }
    fields.note_unsupported(notes);
    (namespace, Value::Object(made))
}

fn push_item(made: &mut Map<String, Value>, list: &str, item: Value) {
    if let Some(all) = made.entry(list).or_insert_with(|| json!([])).as_array_mut() {
        all.push(item);
    }
}

/// Converts a workload reference; the namespace is returned separately, because it becomes the object's.
fn import_workload_ref(value: &Value, path: &str, notes: &mut Vec<String>) -> (Option<String>, Value) {
    let mut fields = UnreadFields::new(value, path);
    let namespace = fields.take_string("namespace");
    let kind = fields.take_string("kind").unwrap_or_else(|| "Deployment".to_owned());
    if kind != "Deployment" {
        notes.push(format!("{path}.kind {kind} is not supported: only Deployments can be forked"));
    }
    let made = json!({"kind": kind, "name": fields.take("name")});
    fields.note_unsupported(notes);
    (namespace, made)
}

fn import_customizations(value: &Value, home: Option<&str>, path: &str, notes: &mut Vec<String>) -> Value {
    let mut fields = UnreadFields::new(value, path);
    let mut made = Map::new();
    for (field, known) in [("images", &["container", "image"][..]), ("patch", &["type", "value"][..])] {
        if let Some(value) = fields.take(field) {
            made.insert(field.into(), take_known_fields(&value, known, &format!("{path}.{field}"), notes));
        }
    }
    for (index, variable) in fields.take("env").iter().filter_map(Value::as_array).flatten().enumerate() {
        let variable = import_env(variable, home, &format!("{path}.env[{index}]"), notes);
        push_item(&mut made, "env", variable);
    }
    fields.note_unsupported(notes);
    Value::Object(made)
}

/// Copies the known fields of an object or a list of objects.
pub(super) fn take_known_fields(value: &Value, known: &[&str], path: &str, notes: &mut Vec<String>) -> Value {
    if let Some(items) = value.as_array() {
        let one = |(index, item): (usize, &Value)| {
            take_known_fields(item, known, &format!("{path}[{index}]"), notes)
        };
        return items.iter().enumerate().map(one).collect();
    }
    let mut fields = UnreadFields::new(value, path);
    let made: Map<String, Value> =
        known.iter().filter_map(|name| Some(((*name).to_owned(), fields.take(name)?))).collect();
    fields.note_unsupported(notes);
    Value::Object(made)
}

fn import_env(value: &Value, home: Option<&str>, path: &str, notes: &mut Vec<String>) -> Value {
    let mut fields = UnreadFields::new(value, path);
    let mut made = Map::new();
    for field in ["name", "container", "operation", "value"] {
        made.extend(fields.take(field).map(|value| (field.to_owned(), value)));
    }
    if let Some(from) = fields.take("valueFrom") {
        let path = format!("{path}.valueFrom");
        let known = import_value_from(&from, home, &path, notes);
        if known.is_empty() {
            notes.push(format!("{path}: none of its sources is supported, so the variable is empty"));
        } else {
            made.insert("valueFrom".into(), Value::Object(known));
        }
    }
    fields.note_unsupported(notes);
    Value::Object(made)
}

fn import_value_from(
    value: &Value,
    home: Option<&str>,
    path: &str,
    notes: &mut Vec<String>,
) -> Map<String, Value> {
    let mut from = UnreadFields::new(value, path);
    let mut known = Map::new();
    for field in ["secret", "configMap"] {
        if let Some(key) = from.take(field) {
            known.insert(
                field.into(),
                take_known_fields(&key, &["name", "key"], &format!("{path}.{field}"), notes),
            );
        }
    }
    if let Some(fork) = from.take("fork") {
        let mut fork = UnreadFields::new(&fork, &format!("{path}.fork"));
        let of = format!("{path}.fork.forkOf");
        let (namespace, workload) = import_workload_ref(&fork.take("forkOf").unwrap_or_default(), &of, notes);
        if let Some(other) = namespace.filter(|it| Some(it.as_str()) != home) {
            notes.push(format!(
                "{of}.namespace {other} is not supported and was dropped: a variable can only refer to forks in its own namespace"
            ));
        }
        known.insert("fork".into(), json!({"forkOf": workload, "expression": fork.take("expression")}));
        fork.note_unsupported(notes);
    }
    from.note_unsupported(notes);
    known
}

/// Converts the match of a group: a label, or nested lists.
pub(super) fn import_match(value: &Value, path: &str, notes: &mut Vec<String>) -> Value {
    let mut fields = UnreadFields::new(value, path);
    let mut made = Map::new();
    if let Some(label) = fields.take("label") {
        made.insert(
            "label".into(),
            take_known_fields(&label, &["key", "value"], &format!("{path}.label"), notes),
        );
    }
    for list in ["any", "all"] {
        for (index, one) in fields.take(list).iter().filter_map(Value::as_array).flatten().enumerate() {
            push_item(&mut made, list, import_match(one, &format!("{path}.{list}[{index}]"), notes));
        }
    }
    fields.note_unsupported(notes);
    Value::Object(made)
}

/// Converts labels. Signadot allows free text; invalid Kubernetes labels are reported.
pub(super) fn import_labels(value: Option<&Value>, notes: &mut Vec<String>) -> BTreeMap<String, Value> {
    let all = value.and_then(Value::as_object).into_iter().flatten();
    let mut taken = BTreeMap::new();
    for (key, value) in all {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        if is_valid_label(key, &text) {
            taken.insert(key.clone(), json!(text));
        } else {
            notes
                .push(format!("spec.labels.{key}: {text:?} is not a valid Kubernetes label and was dropped"));
        }
    }
    taken
}

fn is_valid_label(key: &str, value: &str) -> bool {
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

/// Reports template parameters, which are not substituted.
pub(super) fn note_template_parameters(value: &Value, path: &str, notes: &mut Vec<String>) {
    match value {
        Value::String(text) => {
            for found in text.split("@{").skip(1) {
                let name = found.split_once('}').map_or(found, |(name, _)| name);
                notes.push(format!(
                    "{path}: the parameter @{{{name}}} is not substituted; render the template first"
                ));
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                note_template_parameters(item, &format!("{path}[{index}]"), notes);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                note_template_parameters(field, &path, notes);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
