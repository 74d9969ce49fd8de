//! What a CRD's status says: which names it has, whether it is established.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    approval,
    view::{self, Names},
};
use crate::{
    clock,
    failure::quoted,
    object::{Meta, at_mut, text},
};

/// A condition to be.
#[derive(Debug, Clone)]
pub struct Condition {
    pub kind: &'static str,
    pub status: &'static str,
    pub reason: &'static str,
    pub message: String,
}

/// Puts a condition in. Its time changes only with its status.
pub fn set(crd: &mut Value, condition: &Condition, now: Timestamp) {
    let Some(place) = at_mut(crd, &["status", "conditions"]) else { return };
    if !place.is_array() {
        *place = json!([]);
    }
    let Some(list) = place.as_array_mut() else { return };
    let known = list.iter_mut().find(|known| text(known, &["type"]) == condition.kind);
    let is_same = known.as_ref().is_some_and(|known| text(known, &["status"]) == condition.status);
    let time = known
        .as_ref()
        .filter(|_| is_same)
        .map(|known| text(known, &["lastTransitionTime"]).to_owned())
        .filter(|time| !time.is_empty())
        .unwrap_or_else(|| clock::seconds(now));
    let next = json!({
        "type": condition.kind, "status": condition.status, "lastTransitionTime": time,
        "reason": condition.reason, "message": condition.message,
    });
    match known {
        Some(known) => *known = next,
        None => list.push(next),
    }
}

/// The status a CRD should have, given all others; `None` if it has it already.
pub fn settle(crd: &Value, others: &[Value], now: Timestamp) -> Option<Value> {
    let mut next = crd.clone();
    if view::spec_names(crd) != view::accepted_names(crd) {
        name(&mut next, crd, others, now);
    }
    if view::is_true(&next, "NamesAccepted") && !view::is_true(&next, "Established") {
        set(&mut next, &established(), now);
    }
    if let Some(condition) = approval::condition(crd) {
        set(&mut next, &condition, now);
    }
    let status = next.get("status").cloned()?;
    (crd.get("status") != Some(&status)).then_some(status)
}

fn established() -> Condition {
    Condition {
        kind: "Established",
        status: "True",
        reason: "InitialNamesAccepted",
        message: "the initial names have been accepted".to_owned(),
    }
}

/// Accepts the names that are free.
fn name(next: &mut Value, crd: &Value, others: &[Value], now: Timestamp) {
    let (wanted, have) = (view::spec_names(crd), view::accepted_names(crd));
    let taken = Taken::of(crd, others);
    let (names, conflict) = taken.judge(&wanted, &have);
    if let Some(place) = at_mut(next, &["status", "acceptedNames"]) {
        *place = names.value();
    }
    let accepted = conflict.unwrap_or_else(|| Condition {
        kind: "NamesAccepted",
        status: "True",
        reason: "NoConflicts",
        message: "no conflicts found".to_owned(),
    });
    let is_accepted = accepted.status == "True";
    set(next, &accepted, now);
    if view::condition(crd, "Established").is_none() && !is_accepted {
        let condition = Condition {
            kind: "Established",
            status: "False",
            reason: "NotAccepted",
            message: "not all names are accepted".to_owned(),
        };
        set(next, &condition, now);
    }
}

/// Names that other CRDs of the group have got.
struct Taken {
    resources: BTreeSet<String>,
    kinds: BTreeSet<String>,
}

impl Taken {
    fn of(crd: &Value, others: &[Value]) -> Self {
        let group = text(crd, &["spec", "group"]);
        let mut taken = Self { resources: BTreeSet::new(), kinds: BTreeSet::new() };
        let same_group =
            |other: &&Value| text(other, &["spec", "group"]) == group && other.name() != crd.name();
        for other in others.iter().filter(same_group) {
            let names = view::accepted_names(other);
            taken.resources.extend([names.plural, names.singular]);
            taken.resources.extend(names.short_names);
            taken.kinds.extend([names.kind, names.list_kind]);
        }
        taken
    }

    /// What is accepted now, and the last conflict if there is one.
    fn judge(&self, wanted: &Names, have: &Names) -> (Names, Option<Condition>) {
        let mut names = have.clone();
        let mut conflict = None;
        let mut refuse = |reason: &'static str, message: String| {
            conflict = Some(Condition { kind: "NamesAccepted", status: "False", reason, message });
        };
        let in_use = |name: &str, have: &str, taken: &BTreeSet<String>| {
            (name != have && taken.contains(name)).then(|| format!("{} is already in use", quoted(name)))
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
