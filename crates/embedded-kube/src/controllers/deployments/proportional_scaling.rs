//! Proportional scaling: resizes a Deployment during a rollout, each `ReplicaSet` keeping its share. No I/O.

use super::{
    super::pod_state::int_at,
    plan::RolloutPass,
    replica_set::{
        DESIRED_REPLICAS_ANNOTATION, MAX_REPLICAS_ANNOTATION, available_replicas, count_annotation,
        desired_replicas,
    },
};

impl RolloutPass {
    /// Whether the size of the Deployment changed since its `ReplicaSets` were last scaled.
    pub fn is_scaling_event(&self) -> bool {
        let active = self.active_set_indexes();
        let mut noted = active
            .iter()
            .filter_map(|index| count_annotation(self.sets.get(*index)?, DESIRED_REPLICAS_ANNOTATION));
        noted.any(|desired| desired != self.limits.replicas)
    }

    /// Scales the `ReplicaSets` to the new size.
    pub fn scale(&mut self) {
        let active = self.active_set_indexes();
        let only = match active.as_slice() {
            [] => self.new_set_index.or_else(|| self.old_set_indexes().last()),
            [one] => Some(*one),
            _ => None,
        };
        if let Some(index) = only {
            self.resize_if_needed(index, self.limits.replicas);
        } else if self.is_saturated() {
            for index in self.old_set_indexes() {
                self.resize_if_needed(index, 0);
            }
        } else if self.limits.is_rolling && active.len() > 1 {
            self.scale_proportionally(active);
        }
    }

    fn is_saturated(&self) -> bool {
        let wished = self.limits.replicas;
        self.new_set().is_some_and(|set| {
            desired_replicas(set) == wished
                && count_annotation(set, DESIRED_REPLICAS_ANNOTATION) == Some(wished)
                && available_replicas(set) == wished
        })
    }

    fn scale_proportionally(&mut self, mut active: Vec<usize>) {
        let allowed = if self.limits.replicas > 0 { self.limits.max_total() } else { 0 };
        let to_add = allowed - self.total_replicas();
        // Largest first; among equals, newer ones are scaled up first and older ones down first.
        active.sort_by_key(|index| {
            let age = i64::try_from(*index).unwrap_or(i64::MAX);
            (-self.set_size(*index), if to_add > 0 { -age } else { age })
        });
        let mut added = 0;
        let mut sizes = Vec::new();
        for index in &active {
            let part = self.proportion(*index, to_add, added);
            added += part;
            sizes.push(self.set_size(*index) + part);
        }
        if let Some(largest) = sizes.first_mut() {
            *largest = (*largest + to_add - added).max(0);
        }
        for (index, size) in active.into_iter().zip(sizes) {
            self.resize(index, size);
        }
    }

    fn proportion(&self, index: usize, to_add: i64, added: i64) -> i64 {
        let size = self.set_size(index);
        let rest = to_add - added;
        if size == 0 || rest == 0 {
            return 0;
        }
        if self.limits.replicas == 0 {
            return (-size).max(rest);
        }
        let noted = self
            .sets
            .get(index)
            .and_then(|set| count_annotation(set, MAX_REPLICAS_ANNOTATION))
            .filter(|max| *max > 0);
        let before = noted.unwrap_or_else(|| int_at(&self.deployment, &["status", "replicas"]));
        if before == 0 {
            return 0;
        }
        // Round to nearest.
        let scaled = (2 * size * self.limits.max_total() + before).div_euclid(2 * before);
        let part = scaled - size;
        if to_add > 0 { part.min(rest) } else { part.max(rest) }
    }
}
