//! Finds resources that are tainted only because a stop interrupted their creation.
//!
//! A stop makes the provider give up waiting, and terraform taints the resource that it was waiting for: the next plan would
//! replace a cluster that comes up. Resources that failed before the stop stay tainted, and so do resources with a running
//! provisioner, whose progress is unknown.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::run_dir::RunDir;
use crate::{
    events::{self, EventKind, StreamItem},
    workspace::{WorkspaceDir, WorkspaceError, files::FileError},
};

/// Addresses of resources that are tainted and whose creation was in progress when the last apply was stopped or killed.
pub fn interrupted_taints(workspace: &WorkspaceDir) -> Result<Vec<String>, WorkspaceError> {
    let Some(state) = workspace.state()? else { return Ok(Vec::new()) };
    let tainted: BTreeSet<String> = state
        .managed_objects()
        .filter(|object| object.instance.is_tainted() && object.instance.deposed.is_none())
        .map(|object| object.address)
        .collect();
    if tainted.is_empty() {
        return Ok(Vec::new());
    }
    let Some(last) = last_apply_run(workspace)? else { return Ok(Vec::new()) };
    let stopped = match last.exit()? {
        Some(exit) => match exit.stop {
            Some(stop) => Some(stop.at),
            None if exit.code.is_none() => None,
            None => return Ok(Vec::new()),
        },
        None => None,
    };
    let under_way = interrupted_creates(&last, stopped)?;
    Ok(tainted.into_iter().filter(|address| under_way.contains(address)).collect())
}

pub(super) fn last_apply_run(workspace: &WorkspaceDir) -> Result<Option<RunDir>, FileError> {
    for dir in RunDir::list(&workspace.runs_dir())?.into_iter().rev() {
        if dir.spec()?.is_some_and(|spec| spec.command == "apply") {
            return Ok(Some(dir));
        }
    }
    Ok(None)
}

/// Creates that had started and not ended at the time of the stop; without a time, at the end of the log.
fn interrupted_creates(dir: &RunDir, stopped: Option<Timestamp>) -> Result<BTreeSet<String>, FileError> {
    let path = dir.events_path();
    let mut under_way = BTreeSet::new();
    events::read_file(&path, |item| {
        let StreamItem::Event(event) = item else { return };
        let before_the_stop = match (stopped, event.timestamp.as_str().parse::<Timestamp>()) {
            (Some(stopped), Ok(at)) => at < stopped,
            _ => true,
        };
        match &event.kind {
            EventKind::ApplyStart(hook) if hook.action.as_str() == "create" => {
                under_way.insert(hook.address.as_str().to_owned());
            }
            EventKind::ApplyErrored(hook) if before_the_stop => {
                under_way.remove(hook.address.as_str());
            }
            EventKind::ProvisionStart(hook) => {
                under_way.remove(hook.address.as_str());
            }
            _ => {}
        }
    })?;
    Ok(under_way)
}
