//! Selects the workspaces that a destroy removes. Pure: no I/O.
//!
//! A workspace is retained as long as a workspace that depends on it is retained.

use std::collections::{BTreeMap, BTreeSet};

use capt_model::workspaces::WorkspaceKey;
use thiserror::Error;

use crate::pipeline::WorkspaceRecord;

/// A workspace cannot be destroyed because another one depends on it.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{needed} cannot be destroyed while {by} depends on it; destroy {by} too, or first")]
pub struct DependencyInUse {
    needed: WorkspaceKey,
    by: WorkspaceKey,
}

/// The selected workspaces, split by what happens to them.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct DestroySet {
    /// To be destroyed.
    pub to_destroy: BTreeSet<WorkspaceKey>,
    /// Retained by policy, or required by a retained workspace.
    pub to_retain: BTreeSet<WorkspaceKey>,
}

/// Splits the workspaces in `named`; `retained` are those with a retain policy.
pub fn compute_destroy_set(
    existing: &BTreeMap<WorkspaceKey, WorkspaceRecord>,
    named: &BTreeSet<WorkspaceKey>,
    retained: &BTreeSet<WorkspaceKey>,
) -> Result<DestroySet, DependencyInUse> {
    let below_retained: BTreeSet<WorkspaceKey> =
        retained.iter().flat_map(|key| transitive_dependencies(existing, key)).collect();
    let kept: BTreeSet<WorkspaceKey> = named
        .iter()
        .filter(|key| retained.contains(*key) || below_retained.contains(*key))
        .cloned()
        .collect();
    let doomed: BTreeSet<WorkspaceKey> = named.difference(&kept).cloned().collect();
    for living in existing.keys().filter(|key| !named.contains(*key)) {
        if let Some(needed) =
            transitive_dependencies(existing, living).into_iter().find(|key| doomed.contains(key))
        {
            return Err(DependencyInUse { needed, by: living.clone() });
        }
    }
    Ok(DestroySet { to_destroy: doomed, to_retain: kept })
}

/// All transitive dependencies of a workspace.
fn transitive_dependencies(
    existing: &BTreeMap<WorkspaceKey, WorkspaceRecord>,
    key: &WorkspaceKey,
) -> BTreeSet<WorkspaceKey> {
    let mut found = BTreeSet::new();
    let mut open = vec![key.clone()];
    while let Some(next) = open.pop() {
        for need in existing.get(&next).map(|record| record.after.clone()).unwrap_or_default() {
            if found.insert(need.clone()) {
                open.push(need);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::RecordedArgs;
    use capt_model::workspaces::WorkspaceRole;

    fn key(name: &str) -> WorkspaceKey {
        WorkspaceKey::new("default", name)
    }

    fn keys(names: &[&str]) -> BTreeSet<WorkspaceKey> {
        names.iter().map(|name| key(name)).collect()
    }

    fn existing() -> BTreeMap<WorkspaceKey, WorkspaceRecord> {
        let record = |after: &[&str]| WorkspaceRecord {
            owner: String::new(),
            role: WorkspaceRole::Custom,
            eks_cluster: None,
            region: None,
            after: keys(after),
            root: String::new(),
            remote_state: false,
            begun: true,
            args: RecordedArgs::default(),
            env: Vec::new(),
            id: None,
            retained: false,
            configuration: String::new(),
            installation: String::new(),
        };
        [("vpc", record(&[])), ("eks", record(&["vpc"])), ("apps", record(&["eks"]))]
            .map(|(name, record)| (key(name), record))
            .into()
    }

    #[test]
    fn everything_that_is_named_goes() {
        let fates = compute_destroy_set(&existing(), &keys(&["vpc", "eks", "apps"]), &keys(&[])).unwrap();
        assert_eq!(fates.to_destroy, keys(&["vpc", "eks", "apps"]));
    }

    #[test]
    fn what_a_living_workspace_stands_on_is_not_destroyed_under_it() {
        let error = compute_destroy_set(&existing(), &keys(&["vpc"]), &keys(&[])).unwrap_err();
        assert!(error.to_string().starts_with("default/vpc cannot be destroyed while default/"), "{error}");
        assert!(
            compute_destroy_set(&existing(), &keys(&["vpc", "eks"]), &keys(&[])).is_err(),
            "the profile is far away, and counts"
        );
        assert!(compute_destroy_set(&existing(), &keys(&["apps"]), &keys(&[])).is_ok());
    }

    #[test]
    fn what_a_retained_workspace_stands_on_stays_with_it() {
        let fates =
            compute_destroy_set(&existing(), &keys(&["vpc", "eks", "apps"]), &keys(&["eks"])).unwrap();
        assert_eq!(fates, DestroySet { to_destroy: keys(&["apps"]), to_retain: keys(&["vpc", "eks"]) });
    }
}
