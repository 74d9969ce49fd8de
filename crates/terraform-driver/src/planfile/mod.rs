//! A saved plan, read without terraform.
//!
//! `terraform show -json` would start the provider again and load its schema: seconds of work to learn what
//! the file says already. The file is a zip archive whose member `tfplan` is a protobuf message; we walk its
//! bytes and look at the few fields that we need. Terraform and tofu share the format.

mod names;
mod wire;

use std::io::{Cursor, Read};

use sha2::{Digest, Sha256};
use thiserror::Error;
use wire::{Field, Fields};

use crate::{
    plan::{Action, Change, Counts, OutputChange, PlanHash, Summary},
    state::Version,
};

/// A file that is not a plan we can read.
#[derive(Debug, Error)]
pub enum PlanFileError {
    /// Not an archive, or without the member.
    #[error("the saved plan is not a readable archive")]
    Archive(#[from] zip::result::ZipError),
    /// The archive breaks off.
    #[error("the saved plan cannot be unpacked")]
    Unpack(#[from] std::io::Error),
    /// The message inside breaks off.
    #[error("the saved plan is damaged")]
    Damaged,
}

/// One planned change.
#[derive(Debug, Clone)]
struct Planned {
    change: Change,
    fingerprint: [u8; 32],
}

/// A saved plan.
#[derive(Debug, Clone)]
pub struct PlanFile {
    changes: Vec<Planned>,
    drift: Vec<Planned>,
    outputs: Vec<Output>,
}

#[derive(Debug, Clone)]
struct Output {
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
    /// Reads the bytes of a saved plan.
    pub fn parse(bytes: &[u8]) -> Result<Self, PlanFileError> {
        let mut archive = zip::ZipArchive::new(Cursor::new(bytes))?;
        let mut message = Vec::new();
        archive.by_name("tfplan")?.read_to_end(&mut message)?;
        Self::decode(&message)
    }

    fn decode(message: &[u8]) -> Result<Self, PlanFileError> {
        let mut plan = Self { changes: Vec::new(), drift: Vec::new(), outputs: Vec::new() };
        for field in Fields::of(message) {
            match field.ok_or(PlanFileError::Damaged)? {
                Field::Bytes(PLAN_RESOURCE_CHANGES, raw) => plan.changes.push(Planned::decode(raw)?),
                Field::Bytes(PLAN_DRIFT, raw) => plan.drift.push(Planned::decode(raw)?),
                Field::Bytes(PLAN_OUTPUT_CHANGES, raw) => plan.outputs.push(Output::decode(raw)?),
                _ => {}
            }
        }
        let order = |planned: &Planned| (planned.change.address.clone(), planned.change.deposed.clone());
        plan.changes.sort_by_cached_key(order);
        plan.drift.sort_by_cached_key(order);
        plan.outputs.sort_by(|left, right| left.name.cmp(&right.name));
        Ok(plan)
    }

    /// What it would do, with the hash for that state and configuration.
    pub fn summary(&self, state: Option<&Version>, configuration: &str) -> Summary {
        let acts = |planned: &&Planned| planned.change.action != Action::NoOp || planned.change.import;
        let changes: Vec<Change> =
            self.changes.iter().filter(acts).map(|planned| planned.change.clone()).collect();
        // Computed attributes settle after a creation, and that is no news. What was deleted is, and so is what
        // the plan reacts to.
        let matters = |change: &Change| {
            change.action == Action::Destroy || changes.iter().any(|it| it.address == change.address)
        };
        let drift = self.drift.iter().filter(acts).map(|planned| planned.change.clone());
        let drift: Vec<Change> = drift.filter(matters).collect();
        let exists = |planned: &&Planned| planned.change.managed && planned.change.action != Action::Add;
        Summary {
            counts: Counts::of(&changes, drift.len()),
            existing: self.changes.iter().filter(exists).count(),
            outputs: self
                .outputs
                .iter()
                .filter(|output| output.change.action != Action::NoOp)
                .map(|output| (output.name.clone(), output.change))
                .collect(),
            changes,
            drift,
            hash: self.hash(state, configuration),
        }
    }

    /// The hash that a person approves: of what will happen, on which state, from which configuration.
    fn hash(&self, state: Option<&Version>, configuration: &str) -> PlanHash {
        let mut hash = Sha256::new();
        hash.update(b"capt plan 1\n");
        for planned in &self.changes {
            hash.update(planned.fingerprint);
        }
        for output in &self.outputs {
            hash.update(output.fingerprint);
        }
        if let Some(Version { lineage, serial }) = state {
            hash.update(format!("\nstate {lineage} {serial}\n"));
        }
        hash.update(format!("configuration {configuration}"));
        PlanHash::new(&hash.finalize())
    }
}

impl Planned {
    fn decode(raw: &[u8]) -> Result<Self, PlanFileError> {
        let (mut address, mut deposed, mut reason) = (String::new(), None, None);
        let (mut action, mut create_first, mut import) = (Action::NoOp, false, false);
        let mut print = Sha256::new();
        for field in Fields::of(raw) {
            let field = field.ok_or(PlanFileError::Damaged)?;
            match field {
                Field::Bytes(CHANGE_ADDRESS, text) => address = String::from_utf8_lossy(text).into_owned(),
                Field::Bytes(CHANGE_DEPOSED_KEY, key) if !key.is_empty() => {
                    deposed = Some(String::from_utf8_lossy(key).into_owned());
                }
                Field::Bytes(CHANGE_BODY, body) => (action, create_first, import) = body_of(body)?,
                Field::Number(CHANGE_REASON, number) => reason = names::reason(number),
                _ => {}
            }
            // The provider's private notes may differ between two equal plans; nobody approves them.
            if field.number() != CHANGE_PRIVATE {
                field.feed(&mut print);
            }
        }
        let (managed, resource_type) = names::type_of(&address);
        let attributes = Vec::new();
        let change = Change {
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

impl Output {
    fn decode(raw: &[u8]) -> Result<Self, PlanFileError> {
        let (mut name, mut action, mut sensitive) = (String::new(), Action::NoOp, false);
        for field in Fields::of(raw) {
            match field.ok_or(PlanFileError::Damaged)? {
                Field::Bytes(OUTPUT_NAME, text) => name = String::from_utf8_lossy(text).into_owned(),
                Field::Bytes(OUTPUT_BODY, body) => action = body_of(body)?.0,
                Field::Number(OUTPUT_SENSITIVE, number) => sensitive = number != 0,
                _ => {}
            }
        }
        let change = OutputChange { action, sensitive };
        Ok(Self { name, change, fingerprint: Sha256::digest(raw).into() })
    }
}

/// Action, whether a replacement is made first, and whether the object is imported. Protobuf leaves zeros out,
/// and zero is no-op.
fn body_of(body: &[u8]) -> Result<(Action, bool, bool), PlanFileError> {
    let (mut action, mut create_first, mut import) = (Action::NoOp, false, false);
    for field in Fields::of(body) {
        match field.ok_or(PlanFileError::Damaged)? {
            Field::Number(BODY_ACTION, number) => {
                action = names::action(number);
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
