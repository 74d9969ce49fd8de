//! Secrets and `ConfigMap`s.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::{
    columns::{age, name},
    common::{complain, config_key, fill, flag, map, subdomain_name, unchanged},
};
use crate::{
    failure::FieldError,
    object::{self, MetaMut, text},
    registry::{Part, Rules},
};

const LARGEST: usize = 1024 * 1024;
const FROZEN: &str = "field is immutable when `immutable` is set";

pub struct Secret;

impl Rules for Secret {
    fn default(&self, secret: &mut Value) {
        if let Some(Value::Object(plain)) = secret.drop_field("stringData")
            && !plain.is_empty()
        {
            fill(secret, "data", json!({}));
            for (key, value) in plain {
                let encoded = STANDARD.encode(value.as_str().unwrap_or_default());
                if let Some(place) = object::at_mut(secret, &["data", &key]) {
                    *place = encoded.into();
                }
            }
        }
        fill(secret, "type", "Opaque");
    }

    fn check(&self, secret: &Value) -> Vec<FieldError> {
        let mut out = Vec::new();
        let mut size = 0;
        for (key, value) in map(secret, &["data"]) {
            complain(&mut out, &format!("data[{key}]"), key, config_key(key));
            size += decoded(value).len();
        }
        if size > LARGEST {
            out.push(FieldError::too_long("data", LARGEST));
        }
        check_type(&mut out, secret);
        out
    }

    fn check_update(&self, _part: Part, secret: &Value, old: &Value) -> Vec<FieldError> {
        let mut out = Vec::new();
        unchanged(&mut out, "type", secret.get("type"), old.get("type"));
        check_frozen(&mut out, secret, old, &["data"]);
        out.extend(self.check(secret));
        out
    }

    fn check_name(&self, name: &str, prefix: bool) -> Vec<String> {
        subdomain_name(name, prefix)
    }

    fn is_new_generation(&self, _secret: &Value, _old: &Value) -> bool {
        false
    }

    fn cells(&self, secret: &Value, now: jiff::Timestamp) -> Option<Vec<Value>> {
        let count = map(secret, &["data"]).count();
        Some(vec![name(secret), text(secret, &["type"]).into(), count.into(), age(secret, now)])
    }
}

fn decoded(value: &Value) -> Vec<u8> {
    value.as_str().and_then(|text| STANDARD.decode(text).ok()).unwrap_or_default()
}

/// Known types promise certain keys.
fn check_type(out: &mut Vec<FieldError>, secret: &Value) {
    let has = |key: &str| object::at(secret, &["data", key]).is_some();
    let missing = |key: &str| FieldError::required(format!("data[{key}]"), "");
    match text(secret, &["type"]) {
        "kubernetes.io/service-account-token" => {
            let key = "kubernetes.io/service-account.name";
            if text(secret, &["metadata", "annotations", key]).is_empty() {
                out.push(FieldError::required(format!("metadata.annotations[{key}]"), ""));
            }
        }
        "kubernetes.io/dockercfg" => check_json(out, secret, ".dockercfg"),
        "kubernetes.io/dockerconfigjson" => check_json(out, secret, ".dockerconfigjson"),
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => {
            out.extend([missing("username"), missing("password")]);
        }
        "kubernetes.io/ssh-auth" if text(secret, &["data", "ssh-privatekey"]).is_empty() => {
            out.push(missing("ssh-privatekey"));
        }
        "kubernetes.io/tls" => {
            let keys = ["tls.crt", "tls.key"];
            out.extend(keys.into_iter().filter(|key| !has(key)).map(missing));
        }
        _ => {}
    }
}

fn check_json(out: &mut Vec<FieldError>, secret: &Value, key: &str) {
    let field = format!("data[{key}]");
    let Some(value) = object::at(secret, &["data", key]) else {
        out.push(FieldError::required(field, ""));
        return;
    };
    if let Some(why) = json_fault(&decoded(value)) {
        out.push(FieldError::invalid(field, "<secret contents redacted>", why));
    }
}

/// Why bytes are no JSON object, in the words of the real server's decoder where it is the first character's fault.
fn json_fault(bytes: &[u8]) -> Option<String> {
    let into = |kind: &str| {
        Some(format!("json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"))
    };
    match serde_json::from_slice::<Value>(bytes) {
        Ok(Value::Object(_) | Value::Null) => None,
        Ok(Value::Array(_)) => into("array"),
        Ok(Value::String(_)) => into("string"),
        Ok(Value::Number(_)) => into("number"),
        Ok(Value::Bool(_)) => into("bool"),
        Err(error) if error.is_eof() => Some("unexpected end of JSON input".to_owned()),
        Err(error) => {
            let at = bytes.get(error.column().saturating_sub(1)).copied().unwrap_or_default();
            let first = bytes.iter().find(|byte| !byte.is_ascii_whitespace()).copied().unwrap_or(at);
            Some(format!("invalid character '{}' looking for beginning of value", char::from(first)))
        }
    }
}

/// `immutable` objects stay as they are.
fn check_frozen(out: &mut Vec<FieldError>, object: &Value, old: &Value, fields: &[&str]) {
    if !flag(old, &["immutable"]) {
        return;
    }
    if !flag(object, &["immutable"]) {
        out.push(FieldError::forbidden("immutable", FROZEN));
    }
    for field in fields.iter().filter(|field| object.get(field) != old.get(field)) {
        out.push(FieldError::forbidden(*field, FROZEN));
    }
}

pub struct ConfigMap;

impl Rules for ConfigMap {
    fn default(&self, _config: &mut Value) {}

    fn check(&self, config: &Value) -> Vec<FieldError> {
        let mut out = Vec::new();
        let mut size = 0;
        for (key, value) in map(config, &["data"]) {
            let field = format!("data[{key}]");
            complain(&mut out, &field, key, config_key(key));
            if object::at(config, &["binaryData", key]).is_some() {
                let detail = "duplicate of key present in binaryData";
                out.push(FieldError::invalid(field, key.as_str(), detail));
            }
            size += value.as_str().unwrap_or_default().len();
        }
        for (key, value) in map(config, &["binaryData"]) {
            complain(&mut out, &format!("binaryData[{key}]"), key, config_key(key));
            size += decoded(value).len();
        }
        if size > LARGEST {
            // The real server has no path for the whole object, and prints one without steps.
            out.push(FieldError::too_long("[]", LARGEST));
        }
        out
    }

    fn check_update(&self, _part: Part, config: &Value, old: &Value) -> Vec<FieldError> {
        let mut out = Vec::new();
        check_frozen(&mut out, config, old, &["data", "binaryData"]);
        out.extend(self.check(config));
        out
    }

    fn check_name(&self, name: &str, prefix: bool) -> Vec<String> {
        subdomain_name(name, prefix)
    }

    fn is_new_generation(&self, _config: &Value, _old: &Value) -> bool {
        false
    }

    fn cells(&self, config: &Value, now: jiff::Timestamp) -> Option<Vec<Value>> {
        let count = map(config, &["data"]).count() + map(config, &["binaryData"]).count();
        Some(vec![name(config), count.into(), age(config, now)])
    }
}
