//! States and their versions, as the command prints them.

use std::path::PathBuf;

use anyhow::{Context as _, anyhow, bail};
use capt_kube::k8s::state_store::{StoredPlace, StoredVersion, StoredWorkspace};
use capt_model::workspaces::WorkspaceKey;
use jiff::Timestamp;
use serde::Serialize;
use terraform_driver::state::{KeptPlace, KeptState};

/// Digits of the digest in the id of a version.
const DIGEST_DIGITS: usize = 8;

/// The state of a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WorkspaceRow {
    /// `NAMESPACE/NAME`.
    pub(super) workspace: String,
    pub(super) serial: Option<u64>,
    pub(super) lineage: Option<String>,
    /// Number of managed objects; none if it is not known without reading the state.
    pub(super) resources: Option<usize>,
    /// When it was stored.
    pub(super) stored_at: Option<Timestamp>,
    /// `Secrets`, `directory` or `backend`.
    pub(super) place: &'static str,
    /// The Secret with the commit, or the file.
    pub(super) location: String,
}

/// A version that can be restored.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StateVersionRow {
    /// Serial and digest.
    pub(super) id: String,
    pub(super) serial: u64,
    pub(super) lineage: String,
    pub(super) resources: Option<usize>,
    pub(super) stored_at: Option<Timestamp>,
    /// `current`, `previous`, `replaced`, `snapshot`, `not saved` or `set aside`.
    pub(super) kept: &'static str,
    #[serde(skip)]
    pub(super) contents: VersionContents,
}

/// Where the contents of a version are.
#[derive(Debug, Clone)]
pub(super) enum VersionContents {
    /// In the state store.
    Stored(Box<StoredVersion>),
    /// In a file.
    File(PathBuf),
}

/// A workspace with its versions.
pub(super) struct OpenWorkspace {
    /// The workspace.
    pub(super) key: WorkspaceKey,
    /// The current one first.
    pub(super) versions: Vec<StateVersionRow>,
    /// What the state store has of it.
    pub(super) stored: Option<StoredWorkspace>,
}

impl StateVersionRow {
    pub(super) fn of_store(version: &StoredVersion) -> Self {
        let kept = match version.place {
            StoredPlace::Current => "current",
            StoredPlace::Previous => "previous",
            StoredPlace::Replaced => "replaced",
        };
        Self {
            id: version_id(version.version.serial, &version.digest),
            serial: version.version.serial,
            lineage: version.version.lineage.clone(),
            resources: version.resources,
            stored_at: version.written,
            kept,
            contents: VersionContents::Stored(Box::new(version.clone())),
        }
    }

    /// `file` is what the state file itself is called: the directory of an operator is not where its current state is.
    pub(super) fn of_file(version: KeptState, file: &'static str) -> Self {
        let kept = match version.place {
            KeptPlace::StateFile => file,
            KeptPlace::Errored => "not saved",
            KeptPlace::Snapshot => "snapshot",
            KeptPlace::SetAside => "set aside",
        };
        Self {
            id: version_id(version.version.serial, &version.sha256),
            serial: version.version.serial,
            lineage: version.version.lineage,
            resources: Some(version.resources),
            stored_at: version.written,
            kept,
            contents: VersionContents::File(version.path),
        }
    }

    /// The contents of a version in a file.
    pub(super) fn read_file(&self) -> anyhow::Result<Vec<u8>> {
        match &self.contents {
            VersionContents::File(path) => {
                std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
            }
            VersionContents::Stored(_) => Err(anyhow!("version {} is in the state store", self.id)),
        }
    }
}

fn version_id(serial: u64, digest: &str) -> String {
    format!("{serial}-{}", digest.chars().take(DIGEST_DIGITS).collect::<String>())
}

impl OpenWorkspace {
    /// The current version.
    pub(super) fn current(&self) -> Option<&StateVersionRow> {
        self.versions.iter().find(|it| it.kept == "current")
    }

    /// The version with this id or serial.
    pub(super) fn find(&self, text: &str) -> anyhow::Result<&StateVersionRow> {
        let by_serial = |it: &&StateVersionRow| text.parse() == Ok(it.serial);
        let by_id = |it: &&StateVersionRow| it.id == text;
        let found: Vec<&StateVersionRow> =
            self.versions.iter().filter(|it| by_id(it) || by_serial(it)).collect();
        match found.as_slice() {
            [one] => Ok(one),
            [] => bail!(
                "no version {text} of {} is kept; `capt state versions {}` lists them",
                self.key,
                self.key
            ),
            several => {
                let ids: Vec<&str> = several.iter().map(|it| it.id.as_str()).collect();
                bail!(
                    "several versions of {} have the serial {text}: {}; pass one of these ids",
                    self.key,
                    ids.join(", ")
                )
            }
        }
    }
}
