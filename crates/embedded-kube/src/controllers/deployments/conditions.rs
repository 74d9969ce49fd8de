//! The conditions of a deployment's status, by type. No I/O.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    clock,
    object::{at, text},
};

/// See the module.
pub struct Conditions {
    list: Vec<Value>,
    now: Timestamp,
}

impl Conditions {
    /// Of a status.
    pub fn of(status: &Value, now: Timestamp) -> Self {
        let list = at(status, &["conditions"]).and_then(Value::as_array).cloned();
        Self { list: list.unwrap_or_default(), now }
    }

    /// One of them.
    pub fn get(&self, kind: &str) -> Option<&Value> {
        self.list.iter().find(|condition| text(condition, &["type"]) == kind)
    }

    /// Reason of one of them; empty if it is not there.
    pub fn reason(&self, kind: &str) -> &str {
        self.get(kind).map(|condition| text(condition, &["reason"])).unwrap_or_default()
    }

    /// Sets one, unless it already has this status and reason.
    pub fn set(&mut self, kind: &str, status: &str, reason: &str, message: &str) {
        let is_same = |old: &Value| text(old, &["status"]) == status && text(old, &["reason"]) == reason;
        if !self.get(kind).is_some_and(is_same) {
            self.renew(kind, status, reason, message);
        }
    }

    /// Sets one in any case, so that its time of update moves.
    pub fn renew(&mut self, kind: &str, status: &str, reason: &str, message: &str) {
        let now = clock::seconds(self.now);
        let old = self.get(kind).filter(|old| text(old, &["status"]) == status);
        let since = old.map_or_else(|| now.clone(), |old| text(old, &["lastTransitionTime"]).to_owned());
        self.remove(kind);
        self.list.push(json!({
            "type": kind, "status": status, "lastUpdateTime": now, "lastTransitionTime": since,
            "reason": reason, "message": message,
        }));
    }

    /// Removes one.
    pub fn remove(&mut self, kind: &str) {
        self.list.retain(|condition| text(condition, &["type"]) != kind);
    }

    /// Writes them into a status.
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
