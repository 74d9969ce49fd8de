//! Reads a saved plan file in process.
//!
//! `terraform show -json` would start the provider again and load its schema, which takes seconds. The file is a zip archive
//! whose member `tfplan` is a protobuf message; only the few fields in use are decoded. Terraform and tofu share the format.

mod names;
mod objects;
mod protobuf;

use std::io::{Cursor, Read};

pub use objects::{DataSourceValue, ObjectToCreate, PlannedObjects};
use protobuf::{Field, fields};
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::{
    plan::{ChangeCounts, ObjectChange, OutputChange, PlanAction, PlanHash, PlanSummary},
    state::StateVersion,
};

/// Why a saved plan cannot be read.
#[derive(Debug, Error)]
pub enum PlanFileError {
    /// Not a zip archive, or without the member `tfplan`.
    #[error("the saved plan is not a readable archive")]
    Archive(#[from] zip::result::ZipError),
    /// The archive is truncated.
    #[error("the saved plan cannot be unpacked")]
    Unpack(#[from] std::io::Error),
    /// The protobuf message is truncated.
    #[error("the saved plan is damaged")]
    Damaged,
}

/// The type of the resource at an address.
pub fn resource_type(address: &str) -> String {
    names::mode_and_type(address).1
}

/// A planned change with the hash of its encoded form.
#[derive(Debug, Clone)]
struct DecodedChange {
    change: ObjectChange,
    fingerprint: [u8; 32],
}

/// A saved plan.
#[derive(Debug, Clone)]
pub struct PlanFile {
    changes: Vec<DecodedChange>,
    drift: Vec<DecodedChange>,
    outputs: Vec<DecodedOutput>,
}

#[derive(Debug, Clone)]
struct DecodedOutput {
    name: String,
    change: OutputChange,
    fingerprint: [u8; 32],
}

// Field numbers of terraform's `planproto`.
const PLAN_RESOURCE_CHANGES: u64 = 3;
const PLAN_OUTPUT_CHANGES: u64 = 4;
const CHANGE_DEPOSED_KEY: u64 = 7;
const CHANGE_BODY: u64 = 9;
const CHANGE_PRIVATE: u64 = 10;
const CHANGE_ADDRESS: u64 = 13;
const CHANGE_REASON: u64 = 12;
const BODY_ACTION: u64 = 1;
const BODY_IMPORTING: u64 = 5;
const PLAN_DRIFT: u64 = 18;
const OUTPUT_NAME: u64 = 1;
const OUTPUT_BODY: u64 = 2;
const OUTPUT_SENSITIVE: u64 = 3;

impl PlanFile {
    /// Parses a saved plan.
    pub fn parse(bytes: &[u8]) -> Result<Self, PlanFileError> {
        let mut archive = zip::ZipArchive::new(Cursor::new(bytes))?;
        let mut message = Vec::new();
        archive.by_name("tfplan")?.read_to_end(&mut message)?;
        Self::decode(&message)
    }

    fn decode(message: &[u8]) -> Result<Self, PlanFileError> {
        let mut plan = Self { changes: Vec::new(), drift: Vec::new(), outputs: Vec::new() };
        for field in fields(message) {
            match field.ok_or(PlanFileError::Damaged)? {
                Field::Bytes(PLAN_RESOURCE_CHANGES, raw) => plan.changes.push(DecodedChange::decode(raw)?),
                Field::Bytes(PLAN_DRIFT, raw) => plan.drift.push(DecodedChange::decode(raw)?),
                Field::Bytes(PLAN_OUTPUT_CHANGES, raw) => plan.outputs.push(DecodedOutput::decode(raw)?),
                _ => {}
            }
        }
        let order =
            |planned: &DecodedChange| (planned.change.address.clone(), planned.change.deposed.clone());
        plan.changes.sort_by_cached_key(order);
        plan.drift.sort_by_cached_key(order);
        plan.outputs.sort_by(|left, right| left.name.cmp(&right.name));
        Ok(plan)
    }

    /// Summary of the plan, with its hash for a state version and configuration digest.
    pub fn summary(&self, state: Option<&StateVersion>, configuration: &str) -> PlanSummary {
        let acts =
            |planned: &&DecodedChange| planned.change.action != PlanAction::NoOp || planned.change.import;
        let changes: Vec<ObjectChange> =
            self.changes.iter().filter(acts).map(|planned| planned.change.clone()).collect();
        // Computed attributes change after a create, which is not drift worth reporting. Report only deleted resources and
        // those that the plan changes.
        let matters = |change: &ObjectChange| {
            change.action == PlanAction::Destroy || changes.iter().any(|it| it.address == change.address)
        };
        let drift = self.drift.iter().filter(acts).map(|planned| planned.change.clone());
        let drift: Vec<ObjectChange> = drift.filter(matters).collect();
        let exists =
            |planned: &&DecodedChange| planned.change.managed && planned.change.action != PlanAction::Add;
        PlanSummary {
            counts: ChangeCounts::from_changes(&changes, drift.len()),
            existing: self.changes.iter().filter(exists).count(),
            outputs: self
                .outputs
                .iter()
                .filter(|output| output.change.action != PlanAction::NoOp)
                .map(|output| (output.name.clone(), output.change))
                .collect(),
            changes,
            drift,
            hash: self.hash(state, configuration),
        }
    }

    /// The plan hash: over the changes, the state version and the configuration digest.
    fn hash(&self, state: Option<&StateVersion>, configuration: &str) -> PlanHash {
        let mut hash = Sha256::new();
        hash.update(b"capt plan 1\n");
        for planned in &self.changes {
            hash.update(planned.fingerprint);
        }
        for output in &self.outputs {
            hash.update(output.fingerprint);
        }
        if let Some(StateVersion { lineage, serial }) = state {
            hash.update(format!("\nstate {lineage} {serial}\n"));
        }
        hash.update(format!("configuration {configuration}"));
        PlanHash::new(&hash.finalize())
    }
}

impl DecodedChange {
    fn decode(raw: &[u8]) -> Result<Self, PlanFileError> {
        let (mut address, mut deposed, mut reason) = (String::new(), None, None);
        let (mut action, mut create_first, mut import) = (PlanAction::NoOp, false, false);
        let mut print = Sha256::new();
        for field in fields(raw) {
            let field = field.ok_or(PlanFileError::Damaged)?;
            match field {
                Field::Bytes(CHANGE_ADDRESS, text) => address = String::from_utf8_lossy(text).into_owned(),
                Field::Bytes(CHANGE_DEPOSED_KEY, key) if !key.is_empty() => {
                    deposed = Some(String::from_utf8_lossy(key).into_owned());
                }
                Field::Bytes(CHANGE_BODY, body) => (action, create_first, import) = decode_change_body(body)?,
                Field::Varint(CHANGE_REASON, number) => reason = names::decode_reason(number),
                _ => {}
            }
            // Exclude the provider's private data, which may differ between equal plans.
            if field.number() != CHANGE_PRIVATE {
                field.hash_into(&mut print);
            }
        }
        let (managed, resource_type) = names::mode_and_type(&address);
        let attributes = Vec::new();
        let change = ObjectChange {
            address,
            resource_type,
            managed,
            action,
            create_first,
            reason,
            deposed,
            import,
            attributes,
        };
        Ok(Self { change, fingerprint: print.finalize().into() })
    }
}

impl DecodedOutput {
    fn decode(raw: &[u8]) -> Result<Self, PlanFileError> {
        let (mut name, mut action, mut sensitive) = (String::new(), PlanAction::NoOp, false);
        for field in fields(raw) {
            match field.ok_or(PlanFileError::Damaged)? {
                Field::Bytes(OUTPUT_NAME, text) => name = String::from_utf8_lossy(text).into_owned(),
                Field::Bytes(OUTPUT_BODY, body) => action = decode_change_body(body)?.0,
                Field::Varint(OUTPUT_SENSITIVE, number) => sensitive = number != 0,
                _ => {}
            }
        }
        let change = OutputChange { action, sensitive };
        Ok(Self { name, change, fingerprint: Sha256::digest(raw).into() })
    }
}

/// Action, whether a replacement is create-before-destroy, and whether the resource is imported. Protobuf omits zeros, and zero
/// is no-op.
fn decode_change_body(body: &[u8]) -> Result<(PlanAction, bool, bool), PlanFileError> {
    let (mut action, mut create_first, mut import) = (PlanAction::NoOp, false, false);
    for field in fields(body) {
        match field.ok_or(PlanFileError::Damaged)? {
            Field::Varint(BODY_ACTION, number) => {
                action = names::decode_action(number);
                create_first = number == names::CREATE_THEN_DELETE;
            }
            Field::Bytes(BODY_IMPORTING, _) => import = true,
            _ => {}
        }
    }
    Ok((action, create_first, import))
}

#[cfg(test)]
mod tests;
