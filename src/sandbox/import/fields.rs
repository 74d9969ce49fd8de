//! Fields that are taken one by one, so that what nobody took can be named.

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
                made.insert("customizations".into(), customizations(&custom, &path, notes));
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

fn customizations(value: &Value, path: &str, notes: &mut Vec<String>) -> Value {
    let mut fields = Fields::of(value, path);
    let mut made = Map::new();
    for (field, known) in [("images", &["container", "image"][..]), ("patch", &["type", "value"][..])] {
        if let Some(value) = fields.take(field) {
            made.insert(field.into(), only(&value, known, &format!("{path}.{field}"), notes));
        }
    }
    for (index, variable) in fields.take("env").iter().filter_map(Value::as_array).flatten().enumerate() {
        let variable = env(variable, &format!("{path}.env[{index}]"), notes);
        push(&mut made, "env", variable);
    }
    fields.rest(notes);
    Value::Object(made)
}

/// An object, or a list of them, with these fields alone.
fn only(value: &Value, known: &[&str], path: &str, notes: &mut Vec<String>) -> Value {
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

fn env(value: &Value, path: &str, notes: &mut Vec<String>) -> Value {
    let mut fields = Fields::of(value, path);
    let mut made = Map::new();
    for field in ["name", "container", "operation", "value"] {
        made.extend(fields.take(field).map(|value| (field.to_owned(), value)));
    }
    if let Some(from) = fields.take("valueFrom") {
        let path = format!("{path}.valueFrom");
        let mut from = Fields::of(&from, &path);
        let mut known = Map::new();
        for field in ["secret", "configMap"] {
            if let Some(key) = from.take(field) {
                known.insert(field.into(), only(&key, &["name", "key"], &format!("{path}.{field}"), notes));
            }
        }
        if let Some(fork) = from.take("fork") {
            let mut fork = Fields::of(&fork, &format!("{path}.fork"));
            let (_, of) =
                workload(&fork.take("forkOf").unwrap_or_default(), &format!("{path}.fork.forkOf"), notes);
            known.insert("fork".into(), json!({"forkOf": of, "expression": fork.take("expression")}));
            fork.rest(notes);
        }
        from.rest(notes);
        if known.is_empty() {
            notes.push(format!("{path}: nothing of it is supported, and the variable is empty"));
        } else {
            made.insert("valueFrom".into(), Value::Object(known));
        }
    }
    fields.rest(notes);
    Value::Object(made)
}
