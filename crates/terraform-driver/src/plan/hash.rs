//! The content hash of a plan, which a person approves (design 3.4). It is made where the saved plan is read
//! ([`crate::planfile`]).

use std::fmt;

use serde::Serialize;

use crate::hex::hex;

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
