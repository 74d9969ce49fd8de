//! Entries of the journal.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    clock,
    wire::{
        messages::{read_diagnostics, type_name},
        protobuf,
    },
};

/// Stage of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ChangeStage {
    /// Sent to the provider.
    Begun,
    /// The provider responded.
    Done,
    /// The provider exited before it responded: the outcome is unknown.
    Lost,
}

/// One line of the journal. Values are `DynamicValue` messages in base64.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalEntry {
    /// Sequence number within the file.
    pub order: u64,
    /// Time of the entry.
    pub time: Timestamp,
    /// The run.
    pub run: String,
    /// Workspace name.
    pub workspace: String,
    /// Matches the start of a change with its end.
    pub call: u64,
    /// `ApplyResourceChange` or `ImportResourceState`.
    pub method: String,
    /// The resource's type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Stage of the change.
    pub stage: ChangeStage,
    /// Prior state.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub prior: String,
    /// Planned state; the id for an import.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub planned: String,
    /// New state; the whole response for an import.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub new: String,
    /// Private data of the provider.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub private: String,
    /// Whether the provider returned an error.
    #[serde(default)]
    pub failed: bool,
    /// Version of the type's schema, with which the values are written into a state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_version: Option<u64>,
}

/// A call that changes a resource.
#[derive(Debug, Clone)]
pub struct ChangeCall<'a> {
    /// The run.
    pub run: &'a str,
    /// Workspace name.
    pub workspace: &'a str,
    /// Name of the method.
    pub method: &'a str,
    /// The request message.
    pub request: &'a [u8],
    /// Version of the type's schema, if the run asked for it.
    pub schema_version: Option<u64>,
}

impl JournalEntry {
    /// The entry for the start of a change.
    pub(super) fn of_start(change: &ChangeCall<'_>, call: u64) -> Self {
        let mut entry = Self::new(change, call, ChangeStage::Begun);
        entry.planned = change.planned();
        entry.prior = if change.is_import() { String::new() } else { field_base64(change.request, 2) };
        entry
    }

    /// The entry for the end of a change; without an answer its outcome is unknown.
    pub(super) fn of_end(change: &ChangeCall<'_>, call: u64, answer: Option<&[u8]>) -> Self {
        let stage = if answer.is_some() { ChangeStage::Done } else { ChangeStage::Lost };
        let mut entry = Self::new(change, call, stage);
        if let Some(answer) = answer {
            let diagnostics = if change.is_import() { 2 } else { 3 };
            entry.failed = read_diagnostics(answer, diagnostics).is_ok_and(|verdict| verdict.error);
            entry.new =
                if change.is_import() { BASE64_STANDARD.encode(answer) } else { field_base64(answer, 1) };
            entry.private = if change.is_import() { String::new() } else { field_base64(answer, 2) };
            entry.planned = change.planned();
        }
        entry
    }

    /// Whether both are the same entry, in two journals. The time tells apart changes with equal values.
    pub(super) fn is_copy_of(&self, other: &Self) -> bool {
        Self { order: other.order, call: other.call, ..self.clone() } == *other
    }

    fn new(change: &ChangeCall<'_>, call: u64, stage: ChangeStage) -> Self {
        Self {
            order: 0,
            time: clock::now(),
            run: change.run.to_owned(),
            workspace: change.workspace.to_owned(),
            call,
            method: change.method.to_owned(),
            kind: change.kind().to_owned(),
            stage,
            prior: String::new(),
            planned: String::new(),
            new: String::new(),
            private: String::new(),
            failed: false,
            schema_version: change.schema_version,
        }
    }
}

impl ChangeCall<'_> {
    /// The resource's type.
    pub fn kind(&self) -> &str {
        type_name(self.request).unwrap_or_default()
    }

    fn is_import(&self) -> bool {
        self.method == "ImportResourceState"
    }

    fn planned(&self) -> String {
        field_base64(self.request, if self.is_import() { 2 } else { 3 })
    }
}

fn field_base64(message: &[u8], number: u64) -> String {
    protobuf::bytes_field(message, number)
        .ok()
        .flatten()
        .map(|bytes| BASE64_STANDARD.encode(bytes))
        .unwrap_or_default()
}
