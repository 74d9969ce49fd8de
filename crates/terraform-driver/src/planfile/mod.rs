//! A saved plan, read without terraform.
//!
//! `terraform show -json` would start the provider again and load its schema: seconds of work to learn what
//! the file says already. The file is a zip archive whose member `tfplan` is a protobuf message; we walk its
//! bytes and look at the few fields that we need. Terraform and tofu share the format.

mod wire;

use std::io::{Cursor, Read};

use sha2::{Digest, Sha256};
use thiserror::Error;
use wire::{Field, Fields};

use crate::state::Version;

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

/// What is planned for one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// Nothing.
    NoOp,
    /// Made.
    Create,
    /// A data source is read during apply.
    Read,
    /// Changed in place.
    Update,
    /// Removed.
    Delete,
    /// Removed, then made again.
    DeleteThenCreate,
    /// Made again, then the old one removed.
    CreateThenDelete,
    /// Dropped from the state, kept in the world.
    Forget,
    /// A number of a later version; treated as dangerous by whoever decides.
    Unknown(u64),
}

/// One planned change.
#[derive(Debug, Clone)]
pub struct Change {
    /// Terraform's address.
    pub address: String,
    /// What happens.
    pub action: Action,
    /// Whether this is the old object of an earlier replacement.
    pub deposed: bool,
    fingerprint: [u8; 32],
}

/// A saved plan.
#[derive(Debug, Clone)]
pub struct PlanFile {
    changes: Vec<Change>,
    outputs: Vec<[u8; 32]>,
}

// Field numbers of terraform's `planproto`.
const PLAN_RESOURCE_CHANGES: u64 = 3;
const PLAN_OUTPUT_CHANGES: u64 = 4;
const CHANGE_DEPOSED_KEY: u64 = 7;
const CHANGE_BODY: u64 = 9;
const CHANGE_PRIVATE: u64 = 10;
const CHANGE_ADDRESS: u64 = 13;
const BODY_ACTION: u64 = 1;

impl PlanFile {
    /// Reads the bytes of a saved plan.
    pub fn parse(bytes: &[u8]) -> Result<Self, PlanFileError> {
        let mut archive = zip::ZipArchive::new(Cursor::new(bytes))?;
        let mut message = Vec::new();
        archive.by_name("tfplan")?.read_to_end(&mut message)?;
        Self::decode(&message)
    }

    fn decode(message: &[u8]) -> Result<Self, PlanFileError> {
        let (mut changes, mut outputs) = (Vec::new(), Vec::new());
        for field in Fields::of(message) {
            match field.ok_or(PlanFileError::Damaged)? {
                Field::Bytes(PLAN_RESOURCE_CHANGES, raw) => changes.push(Change::decode(raw)?),
                Field::Bytes(PLAN_OUTPUT_CHANGES, raw) => outputs.push(Sha256::digest(raw).into()),
                _ => {}
            }
        }
        changes.sort_by(|left, right| (&left.address, left.deposed).cmp(&(&right.address, right.deposed)));
        outputs.sort_unstable();
        Ok(Self { changes, outputs })
    }

    /// Everything that is planned to happen.
    pub fn changes(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(|change| change.action != Action::NoOp)
    }

    /// The hash that a person approves: of what will happen, on which state, from which configuration.
    pub fn hash(&self, state: Option<&Version>, configuration: &str) -> String {
        let mut hash = Sha256::new();
        hash.update(b"capt plan 1\n");
        for change in &self.changes {
            hash.update(change.fingerprint);
        }
        for output in &self.outputs {
            hash.update(output);
        }
        if let Some(Version { lineage, serial }) = state {
            hash.update(format!("\nstate {lineage} {serial}\n"));
        }
        hash.update(format!("configuration {configuration}"));
        hash.finalize().iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
    }
}

impl Change {
    fn decode(raw: &[u8]) -> Result<Self, PlanFileError> {
        let mut change =
            Self { address: String::new(), action: Action::NoOp, deposed: false, fingerprint: [0; 32] };
        let mut print = Sha256::new();
        for field in Fields::of(raw) {
            let field = field.ok_or(PlanFileError::Damaged)?;
            match field {
                Field::Bytes(CHANGE_ADDRESS, text) => {
                    change.address = String::from_utf8_lossy(text).into_owned();
                }
                Field::Bytes(CHANGE_DEPOSED_KEY, key) => change.deposed = !key.is_empty(),
                Field::Bytes(CHANGE_BODY, body) => change.action = action_in(body)?,
                _ => {}
            }
            // The provider's private notes may differ between two equal plans; nobody approves them.
            if field.number() != CHANGE_PRIVATE {
                field.feed(&mut print);
            }
        }
        change.fingerprint = print.finalize().into();
        Ok(change)
    }
}

fn action_in(body: &[u8]) -> Result<Action, PlanFileError> {
    for field in Fields::of(body) {
        if let Field::Number(BODY_ACTION, number) = field.ok_or(PlanFileError::Damaged)? {
            return Ok(match number {
                0 => Action::NoOp,
                1 => Action::Create,
                2 => Action::Read,
                3 => Action::Update,
                5 => Action::Delete,
                6 => Action::DeleteThenCreate,
                7 => Action::CreateThenDelete,
                8 => Action::Forget,
                other => Action::Unknown(other),
            });
        }
    }
    // Protobuf leaves zeros out.
    Ok(Action::NoOp)
}
