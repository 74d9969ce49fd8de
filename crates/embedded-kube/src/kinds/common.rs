//! What the kinds share.

use serde_json::Value;

use crate::{
    failure::FieldError,
    object,
    registry::{Part, Rules},
};

/// Rules of a kind that has none of its own.
pub struct Plain;

impl Rules for Plain {
    fn default(&self, _object: &mut Value) {}

    fn check(&self, _object: &Value) -> Vec<FieldError> {
        Vec::new()
    }

    fn check_update(&self, _part: Part, _object: &Value, _old: &Value) -> Vec<FieldError> {
        Vec::new()
    }

    fn check_name(&self, name: &str, prefix: bool) -> Vec<String> {
        subdomain_name(name, prefix)
    }

    fn is_new_generation(&self, _object: &Value, _old: &Value) -> bool {
        false
    }
}

/// Most kinds: an RFC 1123 subdomain.
pub fn subdomain_name(name: &str, prefix: bool) -> Vec<String> {
    object::dns1123_subdomain(&masked(name, prefix))
}

/// Namespaces: an RFC 1123 label.
pub fn label_name(name: &str, prefix: bool) -> Vec<String> {
    object::dns1123_label(&masked(name, prefix))
}

/// A generateName may end in a dash, since something follows it.
pub fn masked(name: &str, prefix: bool) -> String {
    match name.strip_suffix('-') {
        Some(rest) if prefix && !rest.is_empty() => {
            let mut rest = rest.to_owned();
            rest.pop();
            rest.push('a');
            rest
        }
        _ => name.to_owned(),
    }
}
