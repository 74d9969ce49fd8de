//! What a destroy takes, and what it must leave. Pure.
//!
//! A workspace has to stay as long as another one that was made after it, and may stand on it, stays.

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

use crate::{blueprint::Key, work::Record};

/// A workspace that something else still stands on.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{needed} cannot be destroyed while {by} stands on it; destroy {by} too, or first")]
pub struct StillNeeded {
    needed: Key,
    by: Key,
}

/// What becomes of each workspace that was named.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Fates {
    /// It goes.
    pub doomed: BTreeSet<Key>,
    /// It was to be retained, or something retained stands on it.
    pub kept: BTreeSet<Key>,
}

/// Decides. `named` are the workspaces that were asked for, `retained` those of them that are to stay.
pub fn fates(
    existing: &BTreeMap<Key, Record>,
    named: &BTreeSet<Key>,
    retained: &BTreeSet<Key>,
) -> Result<Fates, StillNeeded> {
    let below_retained: BTreeSet<Key> = retained.iter().flat_map(|key| below(existing, key)).collect();
    let kept: BTreeSet<Key> = named
        .iter()
        .filter(|key| retained.contains(*key) || below_retained.contains(*key))
        .cloned()
        .collect();
    let doomed: BTreeSet<Key> = named.difference(&kept).cloned().collect();
    for living in existing.keys().filter(|key| !named.contains(*key)) {
        if let Some(needed) = below(existing, living).into_iter().find(|key| doomed.contains(key)) {
            return Err(StillNeeded { needed, by: living.clone() });
        }
    }
    Ok(Fates { doomed, kept })
}

/// Everything that a workspace was made after, however far back.
fn below(existing: &BTreeMap<Key, Record>, key: &Key) -> BTreeSet<Key> {
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
    use crate::{blueprint::Role, work::Args};

    fn key(name: &str) -> Key {
        Key::new("default", name)
    }

    fn keys(names: &[&str]) -> BTreeSet<Key> {
        names.iter().map(|name| key(name)).collect()
    }

    fn existing() -> BTreeMap<Key, Record> {
        let record = |after: &[&str]| Record {
            owner: String::new(),
            role: Role::Custom,
            eks_cluster: None,
            region: None,
            after: keys(after),
            root: String::new(),
            remote_state: false,
            begun: true,
            args: Args::default(),
            env: Vec::new(),
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
        let fates = fates(&existing(), &keys(&["vpc", "eks", "apps"]), &keys(&[])).unwrap();
        assert_eq!(fates.doomed, keys(&["vpc", "eks", "apps"]));
    }

    #[test]
    fn what_a_living_workspace_stands_on_is_not_destroyed_under_it() {
        let error = fates(&existing(), &keys(&["vpc"]), &keys(&[])).unwrap_err();
        assert!(error.to_string().starts_with("default/vpc cannot be destroyed while default/"), "{error}");
        assert!(
            fates(&existing(), &keys(&["vpc", "eks"]), &keys(&[])).is_err(),
            "the profile is far away, and counts"
        );
        assert!(fates(&existing(), &keys(&["apps"]), &keys(&[])).is_ok());
    }

    #[test]
    fn what_a_retained_workspace_stands_on_stays_with_it() {
        let fates = fates(&existing(), &keys(&["vpc", "eks", "apps"]), &keys(&["eks"])).unwrap();
        assert_eq!(fates, Fates { doomed: keys(&["apps"]), kept: keys(&["vpc", "eks"]) });
    }
}
