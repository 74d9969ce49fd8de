//! Why something is not done: a reason for programs, and a sentence for people.

use std::fmt;

/// Why something is not done. The reason is one of [`crate::api::conditions::reasons`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Refusal {
    /// In one word.
    pub reason: &'static str,
    /// In a sentence that names the field or the object.
    pub message: String,
}

impl Refusal {
    /// A refusal.
    pub fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason, self.message)
    }
}
