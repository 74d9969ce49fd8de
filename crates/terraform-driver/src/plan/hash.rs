//! The content hash of a plan (design 3.4).
//!
//! It covers the resource and output changes with all values, the state's lineage and serial, and the digest of the
//! configuration. Equal content gives equal bytes: objects are sorted by key, changes by address.

use std::fmt;

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::wire::{PlanFile, ResourceChange};
use crate::hex::hex;

/// Which state a plan was made on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StateId {
    /// The history; empty when there is no state yet.
    pub lineage: String,
    /// The position in it.
    pub serial: u64,
}

/// sha256 of a plan's content.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct PlanHash(String);

/// How many hex digits people see and type.
const SHORT: usize = 12;

impl PlanHash {
    /// From the digest of a plan's content.
    pub(crate) fn new(digest: &[u8]) -> Self {
        Self(hex(digest))
    }

    /// The whole hash in hex.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What people see and type.
    pub fn short(&self) -> &str {
        &self.0[..SHORT]
    }

    /// Whether an approval means this plan: the short or the whole form, nothing between and no shorter prefix.
    pub fn is_approved_by(&self, approval: &str) -> bool {
        let approval = approval.trim();
        approval == self.as_str() || approval == self.short()
    }
}

impl fmt::Display for PlanHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.short())
    }
}

impl fmt::Debug for PlanHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PlanHash({})", self.short())
    }
}

pub(super) fn of(plan: &PlanFile, state: &StateId, config_digest: &str) -> PlanHash {
    let mut changes: Vec<&ResourceChange> = plan.resource_changes.iter().collect();
    changes.sort_by(|a, b| (&a.address, &a.deposed).cmp(&(&b.address, &b.deposed)));
    let mut sink = Sink(Sha256::new());
    sink.field(b"capt-plan-v1");
    sink.field(state.lineage.as_bytes());
    sink.field(&state.serial.to_be_bytes());
    sink.field(config_digest.as_bytes());
    for change in changes {
        sink.json(change);
    }
    sink.field(b"outputs");
    for (name, change) in &plan.output_changes {
        sink.field(name.as_bytes());
        sink.json(change);
    }
    PlanHash::new(&sink.0.finalize())
}

struct Sink(Sha256);

impl Sink {
    /// The length goes first, so that no two sequences of fields have the same bytes.
    fn field(&mut self, bytes: &[u8]) {
        self.0.update((bytes.len() as u64).to_be_bytes());
        self.0.update(bytes);
    }

    fn json(&mut self, value: &impl Serialize) {
        // Plain structs of strings and JSON values: this cannot fail, and if it did, null would match no approval.
        let value = serde_json::to_value(value).unwrap_or_default();
        let mut text = String::new();
        canonical(&value, &mut text);
        self.field(text.as_bytes());
    }
}

fn canonical(value: &Value, out: &mut String) {
    match value {
        Value::Array(items) => {
            out.push('[');
            for item in items {
                canonical(item, out);
                out.push(',');
            }
            out.push(']');
        }
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(key, _)| key.as_str());
            out.push('{');
            for (key, value) in entries {
                out.push_str(&Value::from(key.as_str()).to_string());
                out.push(':');
                canonical(value, out);
                out.push(',');
            }
            out.push('}');
        }
        scalar => out.push_str(&scalar.to_string()),
    }
}
