//! Changes that the last apply began and did not end.

use std::collections::BTreeMap;

use super::interrupted::last_apply_run;
use crate::{
    events::{self, EventKind, StreamItem},
    workspace::{WorkspaceDir, files::FileError},
};

/// Addresses and types of the changes that had started and not ended when the last apply's event stream ended.
pub fn unfinished_changes(workspace: &WorkspaceDir) -> Result<Vec<(String, String)>, FileError> {
    let Some(last) = last_apply_run(workspace)? else { return Ok(Vec::new()) };
    let path = last.events_path();
    let mut under_way = BTreeMap::new();
    events::read_file(&path, |item| {
        let StreamItem::Event(event) = item else { return };
        match &event.kind {
            EventKind::ApplyStart(hook) => {
                let address = hook.address.as_str().to_owned();
                let kind = crate::planfile::resource_type(&address);
                under_way.insert(address, kind);
            }
            EventKind::ApplyComplete(hook) | EventKind::ApplyErrored(hook) => {
                under_way.remove(hook.address.as_str());
            }
            _ => {}
        }
    })?;
    Ok(under_way.into_iter().collect())
}
