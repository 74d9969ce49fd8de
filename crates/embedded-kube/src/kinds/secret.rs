//! Secrets and `ConfigMap`s.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::{
    columns::{age_cell, name_cell},
    common::{
        bool_at, map_at, push_invalid, set_default, validate_config_key, validate_immutable,
        validate_subdomain_name,
    },
};
use crate::{
    object::{self, MetaAccessorMut, str_at},
    registry::{ObjectPart, ResourceStrategy},
    status_error::FieldError,
};

const MAX_DATA_BYTES: usize = 1024 * 1024;
const IMMUTABLE_MESSAGE: &str = "field is immutable when `immutable` is set";

pub struct SecretStrategy;

impl ResourceStrategy for SecretStrategy {
    fn set_defaults(&self, secret: &mut Value) {
        if let Some(Value::Object(plain)) = secret.drop_field("stringData")
            && !plain.is_empty()
        {
            set_default(secret, "data", json!({}));
            for (key, value) in plain {
                let encoded = STANDARD.encode(value.as_str().unwrap_or_default());
                if let Some(place) = object::get_path_mut(secret, &["data", &key]) {
                    *place = encoded.into();
                }
            }
        }
        set_default(secret, "type", "Opaque");
    }

    fn validate(&self, secret: &Value) -> Vec<FieldError> {
        let mut out = Vec::new();
        let mut size = 0;
        for (key, value) in map_at(secret, &["data"]) {
            push_invalid(&mut out, &format!("data[{key}]"), key, validate_config_key(key));
            size += decode_base64(value).len();
        }
        if size > MAX_DATA_BYTES {
            out.push(FieldError::too_long("data", MAX_DATA_BYTES));
        }
        validate_type(&mut out, secret);
        out
    }

    fn validate_update(&self, _part: ObjectPart, secret: &Value, old: &Value) -> Vec<FieldError> {
        let mut out = Vec::new();
        validate_immutable(&mut out, "type", secret.get("type"), old.get("type"));
        validate_immutable_data(&mut out, secret, old, &["data"]);
        out.extend(self.validate(secret));
        out
    }

    fn validate_name(&self, name: &str, prefix: bool) -> Vec<String> {
        validate_subdomain_name(name, prefix)
    }

    fn bumps_generation(&self, _secret: &Value, _old: &Value) -> bool {
        false
    }

    fn cells(&self, secret: &Value, now: jiff::Timestamp) -> Option<Vec<Value>> {
        let count = map_at(secret, &["data"]).count();
        Some(vec![name_cell(secret), str_at(secret, &["type"]).into(), count.into(), age_cell(secret, now)])
    }
}

fn decode_base64(value: &Value) -> Vec<u8> {
    value.as_str().and_then(|text| STANDARD.decode(text).ok()).unwrap_or_default()
}

/// Known types require certain keys.
fn validate_type(out: &mut Vec<FieldError>, secret: &Value) {
    let has = |key: &str| object::get_path(secret, &["data", key]).is_some();
    let missing = |key: &str| FieldError::required(format!("data[{key}]"), "");
    match str_at(secret, &["type"]) {
        "kubernetes.io/service-account-token" => {
            let key = "kubernetes.io/service-account.name";
            if str_at(secret, &["metadata", "annotations", key]).is_empty() {
                out.push(FieldError::required(format!("metadata.annotations[{key}]"), ""));
            }
        }
        "kubernetes.io/dockercfg" => validate_json_key(out, secret, ".dockercfg"),
        "kubernetes.io/dockerconfigjson" => validate_json_key(out, secret, ".dockerconfigjson"),
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => {
            out.extend([missing("username"), missing("password")]);
        }
        "kubernetes.io/ssh-auth" if str_at(secret, &["data", "ssh-privatekey"]).is_empty() => {
            out.push(missing("ssh-privatekey"));
        }
        "kubernetes.io/tls" => {
            let keys = ["tls.crt", "tls.key"];
            out.extend(keys.into_iter().filter(|key| !has(key)).map(missing));
        }
        _ => {}
    }
}

fn validate_json_key(out: &mut Vec<FieldError>, secret: &Value, key: &str) {
    let field = format!("data[{key}]");
    let Some(value) = object::get_path(secret, &["data", key]) else {
        out.push(FieldError::required(field, ""));
        return;
    };
    if let Some(why) = json_object_error(&decode_base64(value)) {
        out.push(FieldError::invalid(field, "<secret contents redacted>", why));
    }
}

/// Why bytes are not a JSON object; Go's text if the first character is invalid.
fn json_object_error(bytes: &[u8]) -> Option<String> {
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

/// Rejects changes of `immutable` objects.
fn validate_immutable_data(out: &mut Vec<FieldError>, object: &Value, old: &Value, fields: &[&str]) {
    if !bool_at(old, &["immutable"]) {
        return;
    }
    if !bool_at(object, &["immutable"]) {
        out.push(FieldError::forbidden("immutable", IMMUTABLE_MESSAGE));
    }
    for field in fields.iter().filter(|field| object.get(field) != old.get(field)) {
        out.push(FieldError::forbidden(*field, IMMUTABLE_MESSAGE));
    }
}

pub struct ConfigMapStrategy;

impl ResourceStrategy for ConfigMapStrategy {
    fn set_defaults(&self, _config: &mut Value) {}

    fn validate(&self, config: &Value) -> Vec<FieldError> {
        let mut out = Vec::new();
        let mut size = 0;
        for (key, value) in map_at(config, &["data"]) {
            let field = format!("data[{key}]");
            push_invalid(&mut out, &field, key, validate_config_key(key));
            if object::get_path(config, &["binaryData", key]).is_some() {
                let detail = "duplicate of key present in binaryData";
                out.push(FieldError::invalid(field, key.as_str(), detail));
            }
            size += value.as_str().unwrap_or_default().len();
        }
        for (key, value) in map_at(config, &["binaryData"]) {
            push_invalid(&mut out, &format!("binaryData[{key}]"), key, validate_config_key(key));
            size += decode_base64(value).len();
        }
        if size > MAX_DATA_BYTES {
            // kube-apiserver has no path for the whole object and prints an empty one.
            out.push(FieldError::too_long("[]", MAX_DATA_BYTES));
        }
        out
    }

    fn validate_update(&self, _part: ObjectPart, config: &Value, old: &Value) -> Vec<FieldError> {
        let mut out = Vec::new();
        validate_immutable_data(&mut out, config, old, &["data", "binaryData"]);
        out.extend(self.validate(config));
        out
    }

    fn validate_name(&self, name: &str, prefix: bool) -> Vec<String> {
        validate_subdomain_name(name, prefix)
    }

    fn bumps_generation(&self, _config: &Value, _old: &Value) -> bool {
        false
    }

    fn cells(&self, config: &Value, now: jiff::Timestamp) -> Option<Vec<Value>> {
        let count = map_at(config, &["data"]).count() + map_at(config, &["binaryData"]).count();
        Some(vec![name_cell(config), count.into(), age_cell(config, now)])
    }
}
