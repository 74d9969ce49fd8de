//! Computes the status of a CRD: accepted names and conditions.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    accessors::{self, CrdNames},
    approval,
};
use crate::{
    clock,
    object::{MetaAccessor, get_path_mut, str_at},
    status_error::go_quote,
};

/// A condition to set.
#[derive(Debug, Clone)]
pub struct CrdCondition {
    pub kind: &'static str,
    pub status: &'static str,
    pub reason: &'static str,
    pub message: String,
}

/// Sets a condition. `lastTransitionTime` changes only with the status.
pub fn set_condition(crd: &mut Value, condition: &CrdCondition, now: Timestamp) {
    let Some(place) = get_path_mut(crd, &["status", "conditions"]) else { return };
    if !place.is_array() {
        *place = json!([]);
    }
    let Some(list) = place.as_array_mut() else { return };
    let known = list.iter_mut().find(|known| str_at(known, &["type"]) == condition.kind);
    let is_same = known.as_ref().is_some_and(|known| str_at(known, &["status"]) == condition.status);
    let time = known
        .as_ref()
        .filter(|_| is_same)
        .map(|known| str_at(known, &["lastTransitionTime"]).to_owned())
        .filter(|time| !time.is_empty())
        .unwrap_or_else(|| clock::format_time(now));
    let next = json!({
        "type": condition.kind, "status": condition.status, "lastTransitionTime": time,
        "reason": condition.reason, "message": condition.message,
    });
    match known {
        Some(known) => *known = next,
        None => list.push(next),
    }
}

/// The desired status of a CRD, given all others; `None` if it is up to date.
pub fn compute_status(crd: &Value, others: &[Value], now: Timestamp) -> Option<Value> {
    let mut next = crd.clone();
    if accessors::spec_names(crd) != accessors::accepted_names(crd) {
        accept_names(&mut next, crd, others, now);
    }
    if accessors::is_condition_true(&next, "NamesAccepted")
        && !accessors::is_condition_true(&next, "Established")
    {
        set_condition(&mut next, &established_condition(), now);
    }
    if let Some(condition) = approval::approval_condition(crd) {
        set_condition(&mut next, &condition, now);
    }
    let status = next.get("status").cloned()?;
    (crd.get("status") != Some(&status)).then_some(status)
}

fn established_condition() -> CrdCondition {
    CrdCondition {
        kind: "Established",
        status: "True",
        reason: "InitialNamesAccepted",
        message: "the initial names have been accepted".to_owned(),
    }
}

/// Accepts the names that are not in use.
fn accept_names(next: &mut Value, crd: &Value, others: &[Value], now: Timestamp) {
    let (wanted, have) = (accessors::spec_names(crd), accessors::accepted_names(crd));
    let taken = NamesInUse::from_crds(crd, others);
    let (names, conflict) = taken.accept(&wanted, &have);
    if let Some(place) = get_path_mut(next, &["status", "acceptedNames"]) {
        *place = names.to_value();
    }
    let accepted = conflict.unwrap_or_else(|| CrdCondition {
        kind: "NamesAccepted",
        status: "True",
        reason: "NoConflicts",
        message: "no conflicts found".to_owned(),
    });
    let is_accepted = accepted.status == "True";
    set_condition(next, &accepted, now);
    if accessors::condition(crd, "Established").is_none() && !is_accepted {
        let condition = CrdCondition {
            kind: "Established",
            status: "False",
            reason: "NotAccepted",
            message: "not all names are accepted".to_owned(),
        };
        set_condition(next, &condition, now);
    }
}

/// Names that other CRDs of the group use.
struct NamesInUse {
    resources: BTreeSet<String>,
    kinds: BTreeSet<String>,
}

impl NamesInUse {
    fn from_crds(crd: &Value, others: &[Value]) -> Self {
        let group = str_at(crd, &["spec", "group"]);
        let mut taken = Self { resources: BTreeSet::new(), kinds: BTreeSet::new() };
        let same_group =
            |other: &&Value| str_at(other, &["spec", "group"]) == group && other.name() != crd.name();
        for other in others.iter().filter(same_group) {
            let names = accessors::accepted_names(other);
            taken.resources.extend([names.plural, names.singular]);
            taken.resources.extend(names.short_names);
            taken.kinds.extend([names.kind, names.list_kind]);
        }
        taken
    }

    /// The accepted names, and the last conflict if there is one.
    fn accept(&self, wanted: &CrdNames, have: &CrdNames) -> (CrdNames, Option<CrdCondition>) {
        let mut names = have.clone();
        let mut conflict = None;
        let mut refuse = |reason: &'static str, message: String| {
            conflict = Some(CrdCondition { kind: "NamesAccepted", status: "False", reason, message });
        };
        let in_use = |name: &str, have: &str, taken: &BTreeSet<String>| {
            (name != have && taken.contains(name)).then(|| format!("{} is already in use", go_quote(name)))
        };
        match in_use(&wanted.plural, &have.plural, &self.resources) {
            Some(message) => refuse("PluralConflict", message),
            None => names.plural.clone_from(&wanted.plural),
        }
        match in_use(&wanted.singular, &have.singular, &self.resources) {
            Some(message) => refuse("SingularConflict", message),
            None => names.singular.clone_from(&wanted.singular),
        }
        let mut messages: Vec<String> = wanted
            .short_names
            .iter()
            .filter(|name| !have.short_names.contains(name))
            .filter_map(|name| in_use(name, "", &self.resources))
            .collect();
        messages.dedup();
        match messages.as_slice() {
            [] => names.short_names.clone_from(&wanted.short_names),
            [one] => refuse("ShortNamesConflict", one.clone()),
            many => refuse("ShortNamesConflict", format!("[{}]", many.join(", "))),
        }
        match in_use(&wanted.kind, &have.kind, &self.kinds) {
            Some(message) => refuse("KindConflict", message),
            None => names.kind.clone_from(&wanted.kind),
        }
        match in_use(&wanted.list_kind, &have.list_kind, &self.kinds) {
            Some(message) => refuse("ListKindConflict", message),
            None => names.list_kind.clone_from(&wanted.list_kind),
        }
        names.categories.clone_from(&wanted.categories);
        (names, conflict)
    }
}
