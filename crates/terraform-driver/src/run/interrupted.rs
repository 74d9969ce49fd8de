//! Which objects are tainted only because we interrupted their creation.
//!
//! A stop makes the provider give up waiting, and terraform marks the object it was waiting for as tainted:
//! the next plan would destroy a cluster that is coming up nicely. What failed by itself before the stop
//! stays tainted, and so does what a provisioner was working on: nobody can tell how far that had come.

use std::{collections::BTreeSet, fs};

use jiff::Timestamp;

use super::record::RunDir;
use crate::{
    events::{self, Item, Kind},
    workspace::{Workspace, WorkspaceError, files::FileError},
};

/// Addresses of objects that are tainted now and were being made when the last apply was stopped or killed.
pub fn interrupted_taints(workspace: &Workspace) -> Result<Vec<String>, WorkspaceError> {
    let Some(state) = workspace.state()? else { return Ok(Vec::new()) };
    let tainted: BTreeSet<String> = state
        .managed()
        .filter(|object| object.instance.is_tainted() && object.instance.deposed.is_none())
        .map(|object| object.address)
        .collect();
    if tainted.is_empty() {
        return Ok(Vec::new());
    }
    let Some(last) = last_apply(workspace)? else { return Ok(Vec::new()) };
    let stopped = match last.exit()? {
        Some(exit) => match exit.stop {
            Some(stop) => Some(stop.at),
            None if exit.code.is_none() => None,
            None => return Ok(Vec::new()),
        },
        None => None,
    };
    let under_way = creations_cut_short(&last, stopped)?;
    Ok(tainted.into_iter().filter(|address| under_way.contains(address)).collect())
}

pub(super) fn last_apply(workspace: &Workspace) -> Result<Option<RunDir>, FileError> {
    for dir in RunDir::all(&workspace.runs())?.into_iter().rev() {
        if dir.spec()?.is_some_and(|spec| spec.command == "apply") {
            return Ok(Some(dir));
        }
    }
    Ok(None)
}

/// Creations that had begun and not ended when the stop came; `None` means that it came at the very end.
fn creations_cut_short(dir: &RunDir, stopped: Option<Timestamp>) -> Result<BTreeSet<String>, FileError> {
    let path = dir.events();
    let log = fs::read(&path).map_err(|source| FileError::new("read", &path, source))?;
    let mut under_way = BTreeSet::new();
    events::read_all(&log, |item| {
        let Item::Event(event) = item else { return };
        let before_the_stop = match (stopped, event.timestamp.as_str().parse::<Timestamp>()) {
            (Some(stopped), Ok(at)) => at < stopped,
            _ => true,
        };
        match &event.kind {
            Kind::ApplyStart(hook) if hook.action.as_str() == "create" => {
                under_way.insert(hook.address.as_str().to_owned());
            }
            Kind::ApplyErrored(hook) if before_the_stop => {
                under_way.remove(hook.address.as_str());
            }
            Kind::ProvisionStart(hook) => {
                under_way.remove(hook.address.as_str());
            }
            _ => {}
        }
    });
    Ok(under_way)
}
