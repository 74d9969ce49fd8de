//! What a decision about a workspace is made from. Data only.

use std::time::Duration;

use jiff::Timestamp;

use crate::{api::SecretRef, runs::View, work::Assignment};

/// Everything that counts.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Facts {
    /// Somebody wants it left alone.
    pub paused: bool,
    /// It is being deleted.
    pub deleting: bool,
    /// Our finalizer is on it.
    pub held: bool,
    /// The run of this process, if there was one.
    pub run: Option<View>,
    /// What goes in, or why that is not known.
    pub inputs: Inputs,
    /// Workspaces that stand on it, while it is being deleted.
    pub dependents: Vec<String>,
    /// Its resources stay when it goes.
    pub retained: bool,
    /// Whether its directory is there.
    pub has_directory: bool,
    /// How drift is looked for.
    pub drift: Drift,
    /// The hash of a plan that a person approved.
    pub approved: Option<String>,
    /// Somebody saw a reason to run again.
    pub requested: Option<Timestamp>,
}

/// What goes into a run.
pub enum Inputs {
    /// Nobody asked, because nothing will be started.
    NotRead,
    /// Everything is known.
    Known(Box<Known>),
    /// Something has to be there first.
    Waiting(Reason),
    /// Something cannot be.
    Invalid(Reason),
}

/// Everything that goes into a run.
pub struct Known {
    /// The work.
    pub assignment: Assignment,
    /// Digest of all of it.
    pub hash: String,
    /// What may be done.
    pub policies: Policies,
    /// The Secret that gets the outputs.
    pub connection_secret: Option<SecretRef>,
    /// The AWS identity, if it is not the operator's own.
    pub identity: Option<String>,
}

/// One word for programs and a sentence for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// The word.
    pub reason: &'static str,
    /// The sentence.
    pub message: String,
}

impl Reason {
    /// Of both.
    pub fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}

/// What may be done with the resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policies {
    /// They may be made and changed; otherwise only looked at.
    pub change: bool,
    /// They may be destroyed.
    pub delete: bool,
}

/// How drift is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drift {
    /// What is done about it.
    pub mode: DriftMode,
    /// How often.
    pub interval: Duration,
}

/// What is done about drift.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, strum::EnumString)]
#[strum(serialize_all = "lowercase")]
pub enum DriftMode {
    /// Nobody looks.
    Off,
    /// It is told.
    Detect,
    /// It is undone.
    #[default]
    Correct,
}
