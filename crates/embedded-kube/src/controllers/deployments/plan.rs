//! One pass over a deployment: what has to be written, given it and all its replica sets. No I/O.
//!
//! Changes are made on copies; what differs in the end is written. Each write wakes the deployment again, so a pass
//! never has to look further than the next step.

use std::{cmp::Ordering, collections::BTreeSet, time::Duration};

use jiff::Timestamp;
use serde_json::Value;

use super::{
    super::pods::{controller_of, is_terminal, number},
    conditions::Conditions,
    limits::Limits,
    set::{
        REVISION, annotate, annotate_revision, annotate_size, available, new_set, note, revision,
        same_template, size,
    },
    status::{TIMED_OUT, counted, has_deadline, is_complete, next_check, rolling},
};
use crate::object::{Meta, at};

/// What to write, in this order.
#[derive(Debug, Default)]
pub struct Plan {
    /// A new set.
    pub create: Option<Value>,
    /// Sets that have changed.
    pub update: Vec<Value>,
    /// Names of sets that nobody needs any more.
    pub delete: Vec<String>,
    /// The deployment, if its status or annotations have changed.
    pub status: Option<Value>,
    /// For people, once the rest is done.
    pub told: Vec<String>,
    /// When to look again.
    pub again: Option<Duration>,
}

/// The state of a pass.
pub struct Pass {
    stored: Value,
    pub(super) deployment: Value,
    pub(super) limits: Limits,
    pub(super) sets: Vec<Value>,
    changed: BTreeSet<usize>,
    /// The set of the present template.
    pub(super) new: Option<usize>,
    is_created: bool,
    delete: Vec<usize>,
    told: Vec<String>,
    now: Timestamp,
}

/// See the module. `pods` are those of the sets.
pub fn plan(deployment: Value, mut sets: Vec<Value>, pods: &[Value], now: Timestamp) -> Plan {
    sets.sort_by(by_age);
    let mut pass = Pass {
        stored: deployment.clone(),
        limits: Limits::of(&deployment),
        new: sets.iter().position(|set| same_template(set, &deployment)),
        deployment,
        sets,
        changed: BTreeSet::new(),
        is_created: false,
        delete: Vec::new(),
        told: Vec::new(),
        now,
    };
    pass.run(pods);
    pass.plan()
}

fn by_age(one: &Value, other: &Value) -> Ordering {
    let key = |set: &Value| (set.meta("creationTimestamp").to_owned(), set.name().to_owned());
    key(one).cmp(&key(other))
}

impl Pass {
    fn run(&mut self, pods: &[Value]) {
        if self.deployment.is_terminating() {
            return self.count();
        }
        self.tell_paused();
        self.note_revision();
        let is_paused = self.is_paused();
        if is_paused || self.is_scaled() {
            self.scale();
            if is_paused {
                self.clean_up();
            }
            self.count();
        } else if self.limits.is_rolling {
            self.roll();
        } else {
            self.recreate(pods);
        }
    }

    fn plan(self) -> Plan {
        let created = self.new.filter(|_| self.is_created);
        let set = |index: &usize| self.sets.get(*index);
        Plan {
            create: created.as_ref().and_then(set).cloned(),
            update: self
                .changed
                .iter()
                .filter(|index| Some(**index) != created)
                .filter_map(set)
                .cloned()
                .collect(),
            delete: self.delete.iter().filter_map(set).map(|set| set.name().to_owned()).collect(),
            again: next_check(&self.deployment, self.now),
            status: (self.deployment != self.stored).then_some(self.deployment),
            told: self.told,
        }
    }

    fn is_paused(&self) -> bool {
        at(&self.deployment, &["spec", "paused"]) == Some(&Value::Bool(true))
    }

    pub(super) fn old(&self) -> impl DoubleEndedIterator<Item = usize> + use<> {
        let new = self.new;
        (0..self.sets.len()).filter(move |index| Some(*index) != new)
    }

    pub(super) fn new_set(&self) -> Option<&Value> {
        self.new.and_then(|index| self.sets.get(index))
    }

    pub(super) fn size_of(&self, index: usize) -> i64 {
        self.sets.get(index).map_or(0, size)
    }

    pub(super) fn active(&self) -> Vec<usize> {
        (0..self.sets.len()).filter(|index| self.size_of(*index) > 0).collect()
    }

    pub(super) fn total(&self) -> i64 {
        self.sets.iter().map(size).sum()
    }

    fn conditions(&self) -> Conditions {
        Conditions::of(self.deployment.get("status").unwrap_or(&Value::Null), self.now)
    }

    fn set_progressing(&mut self, status: &str, reason: &str, message: &str) {
        let mut conditions = self.conditions();
        conditions.set("Progressing", status, reason, message);
        conditions.write_into(&mut self.deployment["status"]);
    }

    /// So that the time of a pause does not count as lack of progress.
    fn tell_paused(&mut self) {
        let conditions = self.conditions();
        let reason = conditions.reason("Progressing");
        if !has_deadline(&self.deployment) || reason == TIMED_OUT {
            return;
        }
        match (self.is_paused(), reason == "DeploymentPaused") {
            (true, false) => self.set_progressing("Unknown", "DeploymentPaused", "Deployment is paused"),
            (false, true) => self.set_progressing("Unknown", "DeploymentResumed", "Deployment is resumed"),
            _ => {}
        }
    }

    fn next_revision(&self) -> i64 {
        self.old().filter_map(|index| self.sets.get(index)).map(revision).max().unwrap_or(0) + 1
    }

    /// The set of the present template has the highest revision, and the deployment shows it.
    fn note_revision(&mut self) {
        let next = self.next_revision();
        let Some(index) = self.new else { return };
        let Some(set) = self.sets.get_mut(index) else { return };
        let mut has_changed = annotate_revision(set, &self.deployment, next);
        let min_ready = number(&self.deployment, &["spec", "minReadySeconds"]);
        if number(set, &["spec", "minReadySeconds"]) != min_ready {
            set["spec"]["minReadySeconds"] = min_ready.into();
            has_changed = true;
        }
        let (name, revision) = (set.name().to_owned(), note(set, REVISION).to_owned());
        if has_changed {
            self.changed.insert(index);
        }
        annotate(&mut self.deployment, REVISION, &revision);
        if has_deadline(&self.deployment) && self.conditions().get("Progressing").is_none() {
            self.set_progressing("True", "FoundNewReplicaSet", &format!("Found new replica set \"{name}\""));
        }
    }

    fn create(&mut self) {
        let revision = self.next_revision();
        let mut set = new_set(&self.deployment);
        let room = (self.limits.max_total() - self.total()).clamp(0, self.limits.replicas.max(0));
        let size = if self.limits.is_rolling { room } else { self.limits.replicas };
        set["spec"]["replicas"] = size.into();
        annotate_revision(&mut set, &self.deployment, revision);
        annotate_size(&mut set, self.limits.replicas, self.limits.max_total());
        let name = set.name().to_owned();
        if size > 0 {
            self.told.push(format!("Scaled up replica set {name} from 0 to {size}"));
        }
        annotate(&mut self.deployment, REVISION, &revision.to_string());
        if has_deadline(&self.deployment) {
            let text = format!("Created new replica set \"{name}\"");
            self.set_progressing("True", "NewReplicaSetCreated", &text);
        }
        self.new = Some(self.sets.len());
        self.is_created = true;
        self.sets.push(set);
    }

    /// Gives a set a size; says whether it had another.
    pub(super) fn resize(&mut self, index: usize, to: i64) -> bool {
        let limits = self.limits;
        let Some(set) = self.sets.get_mut(index) else { return false };
        let from = size(set);
        let is_noted = !annotate_size(set, limits.replicas, limits.max_total());
        if from != to {
            set["spec"]["replicas"] = to.into();
            let direction = if from < to { "up" } else { "down" };
            self.told.push(format!("Scaled {direction} replica set {} from {from} to {to}", set.name()));
        }
        if from != to || !is_noted {
            self.changed.insert(index);
        }
        from != to
    }

    /// As [`Pass::resize`], but the notes alone are no reason to write.
    pub(super) fn resize_if_needed(&mut self, index: usize, to: i64) -> bool {
        self.size_of(index) != to && self.resize(index, to)
    }

    fn roll(&mut self) {
        if self.new.is_none() {
            self.create();
        } else if !self.grow_new() && !self.shrink_old() {
            self.clean_up_if_complete();
        }
        self.tell_progress();
    }

    fn grow_new(&mut self) -> bool {
        let Some(index) = self.new else { return false };
        let (present, wished) = (self.size_of(index), self.limits.replicas);
        if present >= wished {
            return self.resize_if_needed(index, wished);
        }
        let room = (self.limits.max_total() - self.total()).max(0);
        self.resize_if_needed(index, present + room.min(wished - present))
    }

    /// First pods that do not serve anyway, then as many as can be spared.
    fn shrink_old(&mut self) -> bool {
        let old: Vec<usize> = self.old().filter(|index| self.size_of(*index) > 0).collect();
        let not_yet = self.new_set().map_or(0, |set| size(set) - available(set));
        let mut spare = self.total() - self.limits.min_available() - not_yet;
        if old.is_empty() || spare <= 0 {
            return false;
        }
        let mut has_shrunk = false;
        for index in &old {
            let unhealthy = self.sets.get(*index).map_or(0, |set| size(set) - available(set));
            let count = unhealthy.min(spare).max(0);
            has_shrunk |= count > 0 && self.resize_if_needed(*index, self.size_of(*index) - count);
            spare -= count;
        }
        let mut spare = self.sets.iter().map(available).sum::<i64>() - self.limits.min_available();
        for index in old {
            let count = self.size_of(index).min(spare).max(0);
            has_shrunk |= count > 0 && self.resize_if_needed(index, self.size_of(index) - count);
            spare -= count;
        }
        has_shrunk
    }

    fn recreate(&mut self, pods: &[Value]) {
        let mut has_shrunk = false;
        for index in self.old() {
            has_shrunk |= self.resize_if_needed(index, 0);
        }
        if !has_shrunk && !self.old_pods_run(pods) {
            match self.new {
                None => self.create(),
                Some(index) => {
                    self.resize_if_needed(index, self.limits.replicas);
                }
            }
            self.clean_up_if_complete();
        }
        self.tell_progress();
    }

    fn old_pods_run(&self, pods: &[Value]) -> bool {
        let counted =
            |index: usize| self.sets.get(index).map_or(0, |set| number(set, &["status", "replicas"]));
        let new = self.new_set().map(Meta::uid);
        self.old().any(|index| counted(index) > 0)
            || pods.iter().any(|pod| {
                let owner = controller_of(pod);
                !is_terminal(pod) && owner.is_some_and(|owner| Some(owner.uid.as_str()) != new)
            })
    }

    fn clean_up_if_complete(&mut self) {
        let is_complete =
            self.stored.get("status").is_some_and(|status| is_complete(&self.deployment, status));
        if is_complete {
            self.clean_up();
        }
    }

    /// Keeps as many old sets as the deployment wants to be able to go back to.
    fn clean_up(&mut self) {
        let limit = at(&self.deployment, &["spec", "revisionHistoryLimit"]).and_then(Value::as_u64);
        let Some(limit) = limit.and_then(|limit| usize::try_from(limit).ok()) else { return };
        let stays = |index: &usize| self.sets.get(*index).is_some_and(|set| !set.is_terminating());
        let mut old: Vec<usize> = self.old().filter(stays).collect();
        old.sort_by_key(|index| (self.sets.get(*index).map_or(0, revision), *index));
        let surplus = old.len().saturating_sub(limit);
        let is_idle = |set: &Value| {
            size(set) == 0
                && number(set, &["status", "replicas"]) == 0
                && set.generation() <= number(set, &["status", "observedGeneration"])
        };
        let oldest = old.into_iter().take(surplus);
        self.delete.extend(oldest.filter(|index| self.sets.get(*index).is_some_and(is_idle)));
    }

    fn count(&mut self) {
        let status = counted(&self.deployment, &self.sets, self.new_set(), self.now);
        self.deployment["status"] = status;
    }

    fn tell_progress(&mut self) {
        let stored = self.stored.get("status").unwrap_or(&Value::Null);
        let status = rolling(&self.deployment, stored, &self.sets, self.new_set(), self.now);
        self.deployment["status"] = status;
    }
}
