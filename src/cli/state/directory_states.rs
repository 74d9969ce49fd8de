//! The states in a data directory.

use std::{io::Write as _, path::PathBuf};

use anyhow::{Context as _, anyhow, bail};
use capt_engine::pipeline::{self, DataDirectoryError, WorkspaceRecord, list_workspaces};
use capt_model::{model::names, workspaces::WorkspaceKey};
use serde_json::json;
use terraform_driver::{
    clock,
    run::RunHandle,
    state::{list_kept_states, replace_state_file},
    workspace::{
        FileLock, LockError, WorkspaceDir,
        files::{open_append, remove_optional},
    },
};

use super::{
    edit::StateEdit,
    version::{OpenWorkspace, StateVersionRow, WorkspaceRow},
};

/// Where changes by hand are recorded, below `.capt`.
const AUDIT_FILE: &str = "state-changes.jsonl";
/// Last version that an operator exchanged with its state store, below `.capt`.
const EXCHANGED_FILE: &str = "backup.json";
/// What terraform notes beside a state while it has it locked.
const LOCK_INFO: &str = ".terraform.tfstate.lock.info";

/// The states in a data directory.
pub(super) struct DirectoryStates {
    pub(super) data: PathBuf,
    /// Who runs this command, as far as known.
    pub(super) person: Option<String>,
}

/// Locks of a data directory and one workspace; while they are held, no run starts.
pub(super) struct DirectoryLocks {
    _data: FileLock,
    _workspace: FileLock,
}

impl DirectoryStates {
    pub(super) fn list(&self, namespace: Option<&str>) -> anyhow::Result<Vec<WorkspaceRow>> {
        let mut rows = Vec::new();
        for (key, record) in self.workspaces()? {
            if namespace.is_some_and(|namespace| namespace != key.namespace) {
                continue;
            }
            let place = record.workspace_dir(&self.data, &key);
            let newest = list_kept_states(&place)?.into_iter().next();
            let version = newest.as_ref().map(|it| it.version.clone());
            rows.push(WorkspaceRow {
                workspace: key.to_string(),
                serial: version.as_ref().map(|it| it.serial),
                lineage: version.map(|it| it.lineage),
                resources: newest.as_ref().map(|it| it.resources),
                stored_at: newest.as_ref().and_then(|it| it.written),
                place: if record.remote_state { "backend" } else { "directory" },
                location: newest.map_or_else(|| place.state_path(), |it| it.path).display().to_string(),
            });
        }
        Ok(rows)
    }

    fn workspaces(&self) -> anyhow::Result<Vec<(WorkspaceKey, WorkspaceRecord)>> {
        let found = list_workspaces(&self.data)?;
        if found.is_empty() {
            bail!(
                "{} contains no workspace; pass another data directory with --data, or select a Kubernetes API with --kubeconfig or \
                 --context",
                self.data.display()
            );
        }
        Ok(found)
    }

    pub(super) fn inspect(&self, key: &WorkspaceKey) -> anyhow::Result<OpenWorkspace> {
        let (key, place) = self.find(key)?;
        let kept = list_kept_states(&place)?.into_iter();
        let versions = kept.map(|it| StateVersionRow::of_file(it, "current")).collect();
        Ok(OpenWorkspace { key, versions, stored: None })
    }

    /// A workspace by either of its names.
    fn find(&self, key: &WorkspaceKey) -> anyhow::Result<(WorkspaceKey, WorkspaceDir)> {
        let all = self.workspaces()?;
        let wanted = [key.name.as_str(), names::workspace_name(&key.name)]
            .map(|name| WorkspaceKey::new(&key.namespace, name));
        let found = wanted.iter().find_map(|wanted| all.iter().find(|(key, _)| key == wanted));
        let Some((key, record)) = found else {
            let names: Vec<String> = all.iter().map(|(key, _)| key.to_string()).collect();
            bail!(
                "no workspace {key} in {}; existing workspaces: {} (-n selects another namespace)",
                self.data.display(),
                names.join(", ")
            );
        };
        Ok((key.clone(), record.workspace_dir(&self.data, key)))
    }

    /// Locks a workspace for a change.
    pub(super) fn lock(&self, key: &WorkspaceKey, force: bool) -> anyhow::Result<DirectoryLocks> {
        let (key, place) = self.find(key)?;
        if place.has_remote_state() {
            bail!(
                "the state of {key} is in a backend of its own; change it there with `terraform state` in {}",
                place.root().display()
            );
        }
        if place.meta_dir().join(EXCHANGED_FILE).exists() && !force {
            bail!(
                "the state of {key} belongs to an operator, which keeps it in its cluster; run this command against that cluster \
                 (--kubeconfig, --context, or `capt up`), or pass --force if the cluster does not exist any more"
            );
        }
        self.lock_files(&key, &place)
    }

    fn lock_files(&self, key: &WorkspaceKey, place: &WorkspaceDir) -> anyhow::Result<DirectoryLocks> {
        let data = pipeline::lock_data_dir(&self.data).map_err(|error| match error {
            DataDirectoryError::InUse { data, holder } => anyhow!(
                "the data directory {} is in use by {holder}, which may be changing {key}; wait until it is done, or interrupt it",
                data.display()
            ),
            other => other.into(),
        })?;
        let workspace = place.lock("`capt state`").map_err(|error| match error {
            LockError::Held { holder, .. } => {
                anyhow!("a run of {key} is active ({holder}); wait until it is done, or interrupt it")
            }
            other @ LockError::File(_) => other.into(),
        })?;
        if let Some(run) = RunHandle::find_alive(place)? {
            bail!(
                "a terraform of {key} still runs ({}); run the command that started it again, which waits for it",
                run.dir().path().display()
            );
        }
        Ok(DirectoryLocks { _data: data, _workspace: workspace })
    }

    /// Replaces the state. The caller holds the locks.
    pub(super) fn replace(&self, workspace: &OpenWorkspace, edit: &StateEdit) -> anyhow::Result<String> {
        let (_, place) = self.find(&workspace.key)?;
        replace_state_file(&place, &edit.bytes)?;
        let audit = place.meta_dir().join(AUDIT_FILE);
        let line = json!({
            "time": clock::now(), "user": self.person, "change": edit.verb, "from": edit.source,
            "serialBefore": edit.before, "serialAfter": edit.after,
        });
        let recorded = open_append(&audit)?.write_all(format!("{line}\n").as_bytes());
        recorded.with_context(|| {
            format!("the state is replaced, but cannot record that in {}", audit.display())
        })?;
        Ok(format!("the next `capt plan` or `apply` starts from it (recorded in {})", audit.display()))
    }

    /// Acquiring the locks of the kernel proves that no owner is alive; what a killed terraform noted is removed then.
    pub(super) fn unlock(&self, key: &WorkspaceKey) -> anyhow::Result<String> {
        let (key, place) = self.find(key)?;
        let _locks = self.lock_files(&key, &place)?;
        if place.has_remote_state() {
            bail!(
                "the state of {key} is in a backend of its own, whose locks belong to it; no run of this data directory holds one. \
                 If nobody else works on it, run `terraform force-unlock ID` in {}",
                place.root().display()
            );
        }
        let note = place.root().join(LOCK_INFO);
        if note.exists() {
            remove_optional(&note)?;
            return Ok(format!("{key}: its owner is dead; removed {}", note.display()));
        }
        Ok(format!("{key} is not locked: no process uses it, and locks of dead processes end with them"))
    }
}
