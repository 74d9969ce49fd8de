//! Plans one pass over a Deployment: the writes that follow from it and all its `ReplicaSets`. No I/O.
//!
//! Changes are made on copies; what differs at the end is written. Each write triggers another reconcile, so a pass
//! only plans the next step.

use std::{cmp::Ordering, collections::BTreeSet, time::Duration};

use jiff::Timestamp;
use serde_json::Value;

use super::{
    super::pod_state::{controller_of, int_at, is_terminal},
    conditions::DeploymentConditions,
    replica_set::{
        REVISION_ANNOTATION, annotate, annotate_revision, annotate_size, annotation, available_replicas,
        build_replica_set, desired_replicas, revision, same_template,
    },
    rollout_limits::RolloutLimits,
    status::{
        PROGRESS_DEADLINE_EXCEEDED, compute_counts, compute_progress, has_deadline, is_complete, next_check,
    },
};
use crate::object::{MetaAccessor, get_path};

/// Writes to perform, in this order.
#[derive(Debug, Default)]
pub struct DeploymentPlan {
    /// A new `ReplicaSet`.
    pub create: Option<Value>,
    /// `ReplicaSets` to update.
    pub update: Vec<Value>,
    /// Names of `ReplicaSets` to delete.
    pub delete: Vec<String>,
    /// The Deployment, if its status or annotations changed.
    pub status: Option<Value>,
    /// Events to record after the writes.
    pub events: Vec<String>,
    /// When to reconcile again.
    pub requeue_after: Option<Duration>,
}

/// Working state of a pass.
pub struct RolloutPass {
    original: Value,
    pub(super) deployment: Value,
    pub(super) limits: RolloutLimits,
    pub(super) sets: Vec<Value>,
    changed: BTreeSet<usize>,
    /// Index of the `ReplicaSet` of the current template.
    pub(super) new_set_index: Option<usize>,
    is_created: bool,
    delete: Vec<usize>,
    events: Vec<String>,
    now: Timestamp,
}

/// Plans one pass. `pods` are those of the `ReplicaSets`.
pub fn plan(deployment: Value, mut sets: Vec<Value>, pods: &[Value], now: Timestamp) -> DeploymentPlan {
    sets.sort_by(by_age);
    let mut pass = RolloutPass {
        original: deployment.clone(),
        limits: RolloutLimits::from_deployment(&deployment),
        new_set_index: sets.iter().position(|set| same_template(set, &deployment)),
        deployment,
        sets,
        changed: BTreeSet::new(),
        is_created: false,
        delete: Vec::new(),
        events: Vec::new(),
        now,
    };
    pass.run(pods);
    pass.into_plan()
}

fn by_age(one: &Value, other: &Value) -> Ordering {
    let key = |set: &Value| (set.meta_str("creationTimestamp").to_owned(), set.name().to_owned());
    key(one).cmp(&key(other))
}

impl RolloutPass {
    fn run(&mut self, pods: &[Value]) {
        if self.deployment.is_terminating() {
            return self.sync_counts();
        }
        self.set_paused_condition();
        self.sync_revision();
        let is_paused = self.is_paused();
        if is_paused || self.is_scaling_event() {
            self.scale();
            if is_paused {
                self.clean_up();
            }
            self.sync_counts();
        } else if self.limits.is_rolling {
            self.rolling_update();
        } else {
            self.recreate(pods);
        }
    }

    fn into_plan(self) -> DeploymentPlan {
        let created = self.new_set_index.filter(|_| self.is_created);
        let set = |index: &usize| self.sets.get(*index);
        DeploymentPlan {
            create: created.as_ref().and_then(set).cloned(),
            update: self
                .changed
                .iter()
                .filter(|index| Some(**index) != created)
                .filter_map(set)
                .cloned()
                .collect(),
            delete: self.delete.iter().filter_map(set).map(|set| set.name().to_owned()).collect(),
            requeue_after: next_check(&self.deployment, self.now),
            status: (self.deployment != self.original).then_some(self.deployment),
            events: self.events,
        }
    }

    fn is_paused(&self) -> bool {
        get_path(&self.deployment, &["spec", "paused"]) == Some(&Value::Bool(true))
    }

    pub(super) fn old_set_indexes(&self) -> impl DoubleEndedIterator<Item = usize> + use<> {
        let new = self.new_set_index;
        (0..self.sets.len()).filter(move |index| Some(*index) != new)
    }

    pub(super) fn new_set(&self) -> Option<&Value> {
        self.new_set_index.and_then(|index| self.sets.get(index))
    }

    pub(super) fn set_size(&self, index: usize) -> i64 {
        self.sets.get(index).map_or(0, desired_replicas)
    }

    pub(super) fn active_set_indexes(&self) -> Vec<usize> {
        (0..self.sets.len()).filter(|index| self.set_size(*index) > 0).collect()
    }

    pub(super) fn total_replicas(&self) -> i64 {
        self.sets.iter().map(desired_replicas).sum()
    }

    fn conditions(&self) -> DeploymentConditions {
        DeploymentConditions::from_status(self.deployment.get("status").unwrap_or(&Value::Null), self.now)
    }

    fn set_progressing(&mut self, status: &str, reason: &str, message: &str) {
        let mut conditions = self.conditions();
        conditions.set("Progressing", status, reason, message);
        conditions.write_into(&mut self.deployment["status"]);
    }

    /// Time spent paused must not count as lack of progress.
    fn set_paused_condition(&mut self) {
        let conditions = self.conditions();
        let reason = conditions.reason("Progressing");
        if !has_deadline(&self.deployment) || reason == PROGRESS_DEADLINE_EXCEEDED {
            return;
        }
        match (self.is_paused(), reason == "DeploymentPaused") {
            (true, false) => self.set_progressing("Unknown", "DeploymentPaused", "Deployment is paused"),
            (false, true) => self.set_progressing("Unknown", "DeploymentResumed", "Deployment is resumed"),
            _ => {}
        }
    }

    fn next_revision(&self) -> i64 {
        self.old_set_indexes().filter_map(|index| self.sets.get(index)).map(revision).max().unwrap_or(0) + 1
    }

    /// The `ReplicaSet` of the current template gets the highest revision, which the Deployment shows.
    fn sync_revision(&mut self) {
        let next = self.next_revision();
        let Some(index) = self.new_set_index else { return };
        let Some(set) = self.sets.get_mut(index) else { return };
        let mut has_changed = annotate_revision(set, &self.deployment, next);
        let min_ready = int_at(&self.deployment, &["spec", "minReadySeconds"]);
        if int_at(set, &["spec", "minReadySeconds"]) != min_ready {
            set["spec"]["minReadySeconds"] = min_ready.into();
            has_changed = true;
        }
        let (name, revision) = (set.name().to_owned(), annotation(set, REVISION_ANNOTATION).to_owned());
        if has_changed {
            self.changed.insert(index);
        }
        annotate(&mut self.deployment, REVISION_ANNOTATION, &revision);
        if has_deadline(&self.deployment) && self.conditions().get("Progressing").is_none() {
            self.set_progressing("True", "FoundNewReplicaSet", &format!("Found new replica set \"{name}\""));
        }
    }

    fn create_new_set(&mut self) {
        let revision = self.next_revision();
        let mut set = build_replica_set(&self.deployment);
        let room = (self.limits.max_total() - self.total_replicas()).clamp(0, self.limits.replicas.max(0));
        let size = if self.limits.is_rolling { room } else { self.limits.replicas };
        set["spec"]["replicas"] = size.into();
        annotate_revision(&mut set, &self.deployment, revision);
        annotate_size(&mut set, self.limits.replicas, self.limits.max_total());
        let name = set.name().to_owned();
        if size > 0 {
            self.events.push(format!("Scaled up replica set {name} from 0 to {size}"));
        }
        annotate(&mut self.deployment, REVISION_ANNOTATION, &revision.to_string());
        if has_deadline(&self.deployment) {
            let text = format!("Created new replica set \"{name}\"");
            self.set_progressing("True", "NewReplicaSetCreated", &text);
        }
        self.new_set_index = Some(self.sets.len());
        self.is_created = true;
        self.sets.push(set);
    }

    /// Resizes a `ReplicaSet`; returns whether its size changed.
    pub(super) fn resize(&mut self, index: usize, to: i64) -> bool {
        let limits = self.limits;
        let Some(set) = self.sets.get_mut(index) else { return false };
        let from = desired_replicas(set);
        let is_noted = !annotate_size(set, limits.replicas, limits.max_total());
        if from != to {
            set["spec"]["replicas"] = to.into();
            let direction = if from < to { "up" } else { "down" };
            self.events.push(format!("Scaled {direction} replica set {} from {from} to {to}", set.name()));
        }
        if from != to || !is_noted {
            self.changed.insert(index);
        }
        from != to
    }

    /// As [`RolloutPass::resize`], but a change of annotations alone is not written.
    pub(super) fn resize_if_needed(&mut self, index: usize, to: i64) -> bool {
        self.set_size(index) != to && self.resize(index, to)
    }

    fn rolling_update(&mut self) {
        if self.new_set_index.is_none() {
            self.create_new_set();
        } else if !self.scale_up_new() && !self.scale_down_old() {
            self.clean_up_if_complete();
        }
        self.sync_progress();
    }

    fn scale_up_new(&mut self) -> bool {
        let Some(index) = self.new_set_index else { return false };
        let (present, wished) = (self.set_size(index), self.limits.replicas);
        if present >= wished {
            return self.resize_if_needed(index, wished);
        }
        let room = (self.limits.max_total() - self.total_replicas()).max(0);
        self.resize_if_needed(index, present + room.min(wished - present))
    }

    /// Scales down unhealthy pods first, then as many as availability permits.
    fn scale_down_old(&mut self) -> bool {
        let old: Vec<usize> = self.old_set_indexes().filter(|index| self.set_size(*index) > 0).collect();
        let not_yet = self.new_set().map_or(0, |set| desired_replicas(set) - available_replicas(set));
        let mut spare = self.total_replicas() - self.limits.min_available() - not_yet;
        if old.is_empty() || spare <= 0 {
            return false;
        }
        let mut has_shrunk = false;
        for index in &old {
            let unhealthy =
                self.sets.get(*index).map_or(0, |set| desired_replicas(set) - available_replicas(set));
            let count = unhealthy.min(spare).max(0);
            has_shrunk |= count > 0 && self.resize_if_needed(*index, self.set_size(*index) - count);
            spare -= count;
        }
        let mut spare = self.sets.iter().map(available_replicas).sum::<i64>() - self.limits.min_available();
        for index in old {
            let count = self.set_size(index).min(spare).max(0);
            has_shrunk |= count > 0 && self.resize_if_needed(index, self.set_size(index) - count);
            spare -= count;
        }
        has_shrunk
    }

    fn recreate(&mut self, pods: &[Value]) {
        let mut has_shrunk = false;
        for index in self.old_set_indexes() {
            has_shrunk |= self.resize_if_needed(index, 0);
        }
        if !has_shrunk && !self.has_running_old_pods(pods) {
            match self.new_set_index {
                None => self.create_new_set(),
                Some(index) => {
                    self.resize_if_needed(index, self.limits.replicas);
                }
            }
            self.clean_up_if_complete();
        }
        self.sync_progress();
    }

    fn has_running_old_pods(&self, pods: &[Value]) -> bool {
        let counted =
            |index: usize| self.sets.get(index).map_or(0, |set| int_at(set, &["status", "replicas"]));
        let new = self.new_set().map(MetaAccessor::uid);
        self.old_set_indexes().any(|index| counted(index) > 0)
            || pods.iter().any(|pod| {
                let owner = controller_of(pod);
                !is_terminal(pod) && owner.is_some_and(|owner| Some(owner.uid.as_str()) != new)
            })
    }

    fn clean_up_if_complete(&mut self) {
        let is_complete =
            self.original.get("status").is_some_and(|status| is_complete(&self.deployment, status));
        if is_complete {
            self.clean_up();
        }
    }

    /// Keeps `revisionHistoryLimit` old `ReplicaSets`.
    fn clean_up(&mut self) {
        let limit = get_path(&self.deployment, &["spec", "revisionHistoryLimit"]).and_then(Value::as_u64);
        let Some(limit) = limit.and_then(|limit| usize::try_from(limit).ok()) else { return };
        let stays = |index: &usize| self.sets.get(*index).is_some_and(|set| !set.is_terminating());
        let mut old: Vec<usize> = self.old_set_indexes().filter(stays).collect();
        old.sort_by_key(|index| (self.sets.get(*index).map_or(0, revision), *index));
        let surplus = old.len().saturating_sub(limit);
        let is_idle = |set: &Value| {
            desired_replicas(set) == 0
                && int_at(set, &["status", "replicas"]) == 0
                && set.generation() <= int_at(set, &["status", "observedGeneration"])
        };
        let oldest = old.into_iter().take(surplus);
        self.delete.extend(oldest.filter(|index| self.sets.get(*index).is_some_and(is_idle)));
    }

    fn sync_counts(&mut self) {
        let status = compute_counts(&self.deployment, &self.sets, self.new_set(), self.now);
        self.deployment["status"] = status;
    }

    fn sync_progress(&mut self) {
        let stored = self.original.get("status").unwrap_or(&Value::Null);
        let status = compute_progress(&self.deployment, stored, &self.sets, self.new_set(), self.now);
        self.deployment["status"] = status;
    }
}
