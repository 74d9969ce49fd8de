//! The conditions of a deployment's status, by type. No I/O.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    clock,
    object::{get_path, str_at},
};

/// Conditions of a Deployment.
pub struct DeploymentConditions {
    list: Vec<Value>,
    now: Timestamp,
}

impl DeploymentConditions {
    /// Reads the conditions of a status.
    pub fn from_status(status: &Value, now: Timestamp) -> Self {
        let list = get_path(status, &["conditions"]).and_then(Value::as_array).cloned();
        Self { list: list.unwrap_or_default(), now }
    }

    /// Gets a condition.
    pub fn get(&self, kind: &str) -> Option<&Value> {
        self.list.iter().find(|condition| str_at(condition, &["type"]) == kind)
    }

    /// Reason of a condition; empty if it is not set.
    pub fn reason(&self, kind: &str) -> &str {
        self.get(kind).map(|condition| str_at(condition, &["reason"])).unwrap_or_default()
    }

    /// Sets a condition, unless it already has this status and reason.
    pub fn set(&mut self, kind: &str, status: &str, reason: &str, message: &str) {
        let is_same = |old: &Value| str_at(old, &["status"]) == status && str_at(old, &["reason"]) == reason;
        if !self.get(kind).is_some_and(is_same) {
            self.replace(kind, status, reason, message);
        }
    }

    /// Sets a condition unconditionally, which updates `lastUpdateTime`.
    pub fn replace(&mut self, kind: &str, status: &str, reason: &str, message: &str) {
        let now = clock::format_time(self.now);
        let old = self.get(kind).filter(|old| str_at(old, &["status"]) == status);
        let since = old.map_or_else(|| now.clone(), |old| str_at(old, &["lastTransitionTime"]).to_owned());
        self.remove(kind);
        self.list.push(json!({
            "type": kind, "status": status, "lastUpdateTime": now, "lastTransitionTime": since,
            "reason": reason, "message": message,
        }));
    }

    /// Removes a condition.
    pub fn remove(&mut self, kind: &str) {
        self.list.retain(|condition| str_at(condition, &["type"]) != kind);
    }

    /// Writes the conditions into a status.
    pub fn write_into(self, status: &mut Value) {
        if !status.is_object() {
            *status = json!({});
        }
        if let Some(fields) = status.as_object_mut() {
            if self.list.is_empty() {
                fields.shift_remove("conditions");
            } else {
                fields.insert("conditions".to_owned(), Value::Array(self.list));
            }
        }
    }
}
