//! Admin requests and responses.

use std::{collections::BTreeSet, path::PathBuf};

use capt_util::error_chain::format_error_chain;
use serde::{Deserialize, Serialize};

use super::secret::AdminSecret;
use crate::{
    counters::Counts,
    gateway::{GatewayError, RunRegistration},
    journal::{ChangeInFlight, JournalEntry},
    package::Package,
    probe::{ProbeRequest, ProbeResult},
    serve::RunActivity,
};

/// Serialises a request or response as one line. Raw attributes from a state file keep their line breaks; JSON escapes
/// line breaks inside strings, so the remaining ones are whitespace.
pub(super) fn to_line(value: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut text = serde_json::to_vec(value)?;
    text.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
    text.push(b'\n');
    Ok(text)
}

/// The first line of a connection. A gateway without it does not answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct AdminHello {
    /// What the client read from the file of this gateway.
    pub(super) secret: AdminSecret,
}

/// A request to the gateway.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AdminRequest {
    /// Opens a socket for a run.
    Register(Box<RunRegistration>),
    /// Activity of a run so far.
    Seen {
        /// The run.
        run: String,
    },
    /// Ends a run.
    Release {
        /// The run.
        run: String,
    },
    /// Reads objects to check whether they are unchanged.
    Probe {
        /// Selects the provider.
        of: Box<RunRegistration>,
        /// What to read.
        ask: ProbeRequest,
    },
    /// Program and hashes of a package.
    Package {
        /// Its directory.
        dir: PathBuf,
    },
    /// Closes the earlier runs of a workspace, whose terraform has exited, and lists their changes in flight.
    InFlight {
        /// The workspace.
        workspace: String,
    },
    /// Drops journal entries whose changes need nothing any more.
    DropEntries {
        /// Call numbers.
        calls: BTreeSet<u64>,
    },
    /// Adds the entries of a journal that was lost.
    ImportEntries {
        /// The entries.
        entries: Vec<JournalEntry>,
    },
    /// Turns the connection into a stream of the workspace's journal entries.
    FollowJournal {
        /// The workspace.
        workspace: String,
    },
    /// State of the gateway.
    Report,
    /// Shut down once idle.
    End,
}

/// State of one provider process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessReport {
    /// Process id.
    pub pid: u32,
    /// Resident memory in bytes.
    pub memory: u64,
    /// Calls in progress.
    pub calls: usize,
    /// Seconds since its start.
    pub age: u64,
    /// First hexadecimal digits of the key of its program, environment and tenant.
    pub herd: String,
}

/// State of the gateway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayReport {
    /// Process id of the gateway.
    pub pid: u32,
    /// Number of registered runs.
    pub runs: usize,
    /// Provider processes.
    pub providers: Vec<ProcessReport>,
    /// Counters.
    pub counts: Counts,
}

/// A response of the gateway.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AdminResponse {
    /// The run has its socket.
    Registered {
        /// The run's name.
        run: String,
        /// The value of `TF_REATTACH_PROVIDERS`.
        reattach: serde_json::Value,
    },
    /// Activity of a run.
    Seen(RunActivity),
    /// Result of a probe; `None` if the provider's configuration is not known.
    Probed {
        /// The result.
        probed: Option<ProbeResult>,
    },
    /// A package.
    Package(Package),
    /// Changes that their provider has not answered yet.
    InFlight {
        /// The changes.
        changes: Vec<ChangeInFlight>,
    },
    /// The entries are dropped.
    Dropped,
    /// The entries are in the journal.
    Imported,
    /// State of the gateway.
    Report(GatewayReport),
    /// The gateway is shutting down and accepts no more runs.
    Ending,
    /// The client did not present the secret of this gateway.
    Unauthenticated,
    /// The request failed. With `refused`, the run must not fall back to running without the gateway either.
    No {
        /// The error message.
        words: String,
        /// Whether the provider package does not match the lock file.
        refused: bool,
    },
}

impl From<&GatewayError> for AdminResponse {
    fn from(error: &GatewayError) -> Self {
        if matches!(error, GatewayError::ShuttingDown) {
            return Self::Ending;
        }
        Self::No { words: format_error_chain(error), refused: matches!(error, GatewayError::Package(_)) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;
    use crate::probe::StateObject;

    #[test]
    fn a_question_is_one_line_whatever_is_in_it() {
        let attributes = RawValue::from_string("{\n  \"a\": \"b\\nc\"\r\n}".to_owned()).unwrap();
        let object = StateObject {
            address: "a".to_owned(),
            kind: "t".to_owned(),
            version: 0,
            attributes,
            private: String::new(),
        };
        let text = to_line(&object).unwrap();
        assert_eq!(text.split(|byte| *byte == b'\n').count(), 2, "it ends with the only one");
        let back: StateObject = serde_json::from_slice(&text).unwrap();
        let value: serde_json::Value = serde_json::from_str(back.attributes.get()).unwrap();
        assert_eq!(value["a"], "b\nc");
    }
}
