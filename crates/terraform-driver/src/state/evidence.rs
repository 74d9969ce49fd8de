//! Evidence that a workspace without a state had objects: without any, it is a new one.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{
    events::{self, EventKind, StreamItem},
    run::run_dir::RunDir,
    workspace::{
        WorkspaceDir, WorkspaceError,
        files::{FileError, read_json, write_json},
    },
};

/// Number of objects after the last apply; stored in `.capt/applied.json`.
#[derive(Serialize, Deserialize)]
struct AppliedObjects {
    objects: usize,
}

/// Records how many objects an apply left, so that a state that is lost later is not taken for one that never was.
pub(crate) fn record_applied_objects(workspace: &WorkspaceDir) -> Result<(), WorkspaceError> {
    let Some(state) = workspace.state()? else { return Ok(()) };
    let objects = state.managed_objects().count();
    Ok(write_json(&workspace.meta_dir().join("applied.json"), &AppliedObjects { objects })?)
}

/// What shows that the workspace had objects; `file` is its unreadable state file.
pub(super) fn find_evidence(
    workspace: &WorkspaceDir,
    file: Option<&[u8]>,
) -> Result<Option<String>, FileError> {
    if workspace.snapshots().has_any()? {
        return Ok(Some("there are damaged snapshots of it".to_owned()));
    }
    let recorded: Option<AppliedObjects> = read_json(&workspace.meta_dir().join("applied.json"))?;
    let recorded = recorded.map_or(0, |record| record.objects);
    let completed = completed_objects(workspace)?.len();
    if recorded.max(completed) > 0 {
        let objects = match recorded.max(completed) {
            1 => "1 object".to_owned(),
            many => format!("{many} objects"),
        };
        return Ok(Some(format!("{objects} of it had been created")));
    }
    let names_an_object = file.is_some_and(|bytes| {
        String::from_utf8_lossy(bytes).replace(char::is_whitespace, "").contains(r#""mode":"managed""#)
    });
    Ok(names_an_object.then(|| "what is left of it names an object".to_owned()))
}

/// Addresses that the recorded runs created and did not delete.
fn completed_objects(workspace: &WorkspaceDir) -> Result<BTreeSet<String>, FileError> {
    let mut completed = BTreeSet::new();
    for run in RunDir::list(&workspace.runs_dir())? {
        let path = run.events_path();
        events::read_file(&path, |item| {
            let StreamItem::Event(event) = item else { return };
            let EventKind::ApplyComplete(hook) = event.kind else { return };
            let address = hook.address.as_str();
            match hook.action.as_str() {
                "create" => {
                    completed.insert(address.to_owned());
                }
                "delete" => {
                    completed.remove(address);
                }
                _ => {}
            }
        })?;
    }
    Ok(completed)
}
