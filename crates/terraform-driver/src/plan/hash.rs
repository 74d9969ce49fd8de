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

    /// The short form, for display and approvals.
    pub fn short(&self) -> &str {
        &self.0[..SHORT_LEN]
    }

    /// Whether an approval matches this plan: the short or the full form, no other prefix.
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
