//! Content hash of a plan, which identifies the plan in an approval. Computed from the saved plan in [`crate::planfile`].

use std::fmt;

use serde::Serialize;

use crate::hex::hex;

/// SHA-256 of a plan's content.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct PlanHash(String);

/// Number of hex digits of the short form.
const SHORT_LEN: usize = 12;

impl PlanHash {
    /// From the digest of a plan's content.
    pub fn new(digest: &[u8]) -> Self {
        Self(hex(digest))
    }

    /// The full hash in hex.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The short form, for display. It approves nothing: whoever writes the configuration controls the plans, and two plans with
    /// the same 48 bits are found in seconds.
    pub fn short(&self) -> &str {
        &self.0[..SHORT_LEN]
    }

    /// Whether an approval names this plan, by its full hash.
    pub fn is_approved_by(&self, approval: &str) -> bool {
        approval.trim() == self.as_str()
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
