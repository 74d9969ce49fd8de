//! A rejection: a reason for programs and a message for humans.

use std::fmt;

/// Why a spec is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Rejection {
    /// One of [`capt_kinds::sandbox::conditions::reasons`].
    pub reason: &'static str,
    /// Names the field or the object, and the remedy.
    pub message: String,
}

impl Rejection {
    /// A rejection with this reason and message.
    pub fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason, self.message)
    }
}
