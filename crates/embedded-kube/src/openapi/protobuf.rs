//! Version 2 in protobuf, as older clients require: gnostic messages built from the JSON document.
//!
//! Only constructs of our own documents are supported. Extensions and defaults are YAML text, of which JSON is a
//! subset.

use serde_json::{Map, Value};

/// Encodes a document.
pub fn encode_document(document: &Value) -> Vec<u8> {
    let mut out = Message::default();
    out.text(1, &document["swagger"]);
    let mut info = Message::default();
    info.text(1, &document["info"]["title"]);
    info.text(2, &document["info"]["version"]);
    out.message(2, &info);
    let mut paths = Message::default();
    for (path, item) in entries(&document["paths"]) {
        paths.message(2, &named(path, &path_item(item)));
    }
    out.message(8, &paths);
    let mut definitions = Message::default();
    for (name, definition) in entries(&document["definitions"]) {
        definitions.message(1, &named(name, &schema(definition)));
    }
    out.message(9, &definitions);
    out.0
}

fn path_item(item: &Value) -> Message {
    let mut out = Message::default();
    for (number, method) in [(2, "get"), (3, "put"), (4, "post"), (5, "delete"), (8, "patch")] {
        if let Some(one) = item.get(method) {
            out.message(number, &operation(one));
        }
    }
    for one in list(&item["parameters"]) {
        out.message(9, &parameters_item(one));
    }
    out
}

fn operation(value: &Value) -> Message {
    let mut out = Message::default();
    out.texts(1, &value["tags"]);
    out.text(3, &value["description"]);
    out.texts(6, &value["produces"]);
    out.texts(7, &value["consumes"]);
    for one in list(&value["parameters"]) {
        out.message(8, &parameters_item(one));
    }
    let mut responses = Message::default();
    for (code, answer) in entries(&value["responses"]) {
        let mut response = Message::default();
        response.text(1, &answer["description"]);
        if let Some(body) = answer.get("schema") {
            response.message(2, &wrapped(1, &schema(body)));
        }
        responses.message(1, &named(code, &wrapped(1, &response)));
    }
    out.message(9, &responses);
    out.texts(10, &value["schemes"]);
    out.extensions(13, value);
    out
}

/// Body, query and path parameters are three messages.
fn parameters_item(value: &Value) -> Message {
    let mut out = Message::default();
    let parameter = if value["in"] == "body" {
        out.text(2, &value["name"]);
        out.text(3, &value["in"]);
        out.flag(4, &value["required"]);
        out.message(5, &schema(&value["schema"]));
        wrapped(1, &out)
    } else {
        let is_query = value["in"] == "query";
        out.flag(1, &value["required"]);
        out.text(2, &value["in"]);
        out.text(3, &value["description"]);
        out.text(4, &value["name"]);
        out.text(if is_query { 6 } else { 5 }, &value["type"]);
        out.flag(if is_query { 20 } else { 19 }, &value["uniqueItems"]);
        wrapped(2, &wrapped(if is_query { 3 } else { 4 }, &out))
    };
    wrapped(1, &parameter)
}

fn schema(value: &Value) -> Message {
    let mut out = Message::default();
    for (number, key) in [(1, "$ref"), (2, "format"), (3, "title"), (4, "description"), (13, "pattern")] {
        out.text(number, &value[key]);
    }
    if let Some(default) = value.get("default") {
        out.message(5, &any(default));
    }
    for (number, key) in [(6, "multipleOf"), (7, "maximum"), (9, "minimum")] {
        out.number(number, &value[key]);
    }
    for (number, key) in [(8, "exclusiveMaximum"), (10, "exclusiveMinimum"), (16, "uniqueItems")] {
        out.flag(number, &value[key]);
    }
    let counts = [
        (11, "maxLength"),
        (12, "minLength"),
        (14, "maxItems"),
        (15, "minItems"),
        (17, "maxProperties"),
        (18, "minProperties"),
    ];
    for (number, key) in counts {
        out.count(number, &value[key]);
    }
    out.texts(19, &value["required"]);
    for one in list(&value["enum"]) {
        out.message(20, &any(one));
    }
    match &value["additionalProperties"] {
        Value::Bool(yes) => {
            let mut item = Message::default();
            item.varint(2, u64::from(*yes));
            out.message(21, &item);
        }
        more @ Value::Object(_) => out.message(21, &wrapped(1, &schema(more))),
        _ => {}
    }
    if value["type"].is_string() {
        let mut kind = Message::default();
        kind.text(1, &value["type"]);
        out.message(22, &kind);
    }
    if value["items"].is_object() {
        out.message(23, &wrapped(1, &schema(&value["items"])));
    }
    if value["properties"].is_object() {
        let mut properties = Message::default();
        for (name, property) in entries(&value["properties"]) {
            properties.message(1, &named(name, &schema(property)));
        }
        out.message(25, &properties);
    }
    out.extensions(31, value);
    out
}

fn any(value: &Value) -> Message {
    let mut out = Message::default();
    out.bytes(2, format!("{value}\n").as_bytes());
    out
}

fn named(name: &str, value: &Message) -> Message {
    let mut out = Message::default();
    out.bytes(1, name.as_bytes());
    out.message(2, value);
    out
}

fn wrapped(number: u32, inner: &Message) -> Message {
    let mut out = Message::default();
    out.message(number, inner);
    out
}

fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// A message under construction. Missing values and values of the wrong type are omitted.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn push_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(low_seven_bits(value) | 0x80);
            value >>= 7;
        }
        self.0.push(low_seven_bits(value));
    }

    fn varint(&mut self, number: u32, value: u64) {
        self.push_varint(u64::from(number) << 3);
        self.push_varint(value);
    }

    fn bytes(&mut self, number: u32, bytes: &[u8]) {
        self.push_varint(u64::from(number) << 3 | 2);
        self.push_varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn message(&mut self, number: u32, inner: &Self) {
        self.bytes(number, &inner.0);
    }

    fn text(&mut self, number: u32, value: &Value) {
        if let Value::String(text) = value {
            self.bytes(number, text.as_bytes());
        }
    }

    fn texts(&mut self, number: u32, value: &Value) {
        list(value).for_each(|one| self.text(number, one));
    }

    fn flag(&mut self, number: u32, value: &Value) {
        if *value == Value::Bool(true) {
            self.varint(number, 1);
        }
    }

    fn count(&mut self, number: u32, value: &Value) {
        if let Some(count) = value.as_i64() {
            self.varint(number, count.cast_unsigned());
        }
    }

    fn number(&mut self, number: u32, value: &Value) {
        if let Some(float) = value.as_f64() {
            self.push_varint(u64::from(number) << 3 | 1);
            self.0.extend_from_slice(&float.to_le_bytes());
        }
    }

    fn extensions(&mut self, number: u32, value: &Value) {
        for (name, extension) in entries(value).filter(|(name, _)| name.starts_with("x-")) {
            self.message(number, &named(name, &any(extension)));
        }
    }
}

fn low_seven_bits(value: u64) -> u8 {
    let [low, ..] = value.to_le_bytes();
    low & 0x7f
}
