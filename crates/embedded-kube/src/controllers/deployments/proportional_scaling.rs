//! Another size for a deployment, without changing how far its rollout is: each set keeps its share. No I/O.

use super::{
    super::pods::number,
    plan::Pass,
    set::{DESIRED, MAX, available, count_in, size},
};

impl Pass {
    /// The deployment has another size than when its sets were last scaled.
    pub fn is_scaled(&self) -> bool {
        let active = self.active();
        let mut noted = active.iter().filter_map(|index| count_in(self.sets.get(*index)?, DESIRED));
        noted.any(|desired| desired != self.limits.replicas)
    }

    /// See the module.
    pub fn scale(&mut self) {
        let active = self.active();
        let only = match active.as_slice() {
            [] => self.new.or_else(|| self.old().last()),
            [one] => Some(*one),
            _ => None,
        };
        if let Some(index) = only {
            self.resize_if_needed(index, self.limits.replicas);
        } else if self.is_saturated() {
            for index in self.old() {
                self.resize_if_needed(index, 0);
            }
        } else if self.limits.is_rolling && active.len() > 1 {
            self.scale_by_share(active);
        }
    }

    fn is_saturated(&self) -> bool {
        let wished = self.limits.replicas;
        self.new_set().is_some_and(|set| {
            size(set) == wished && count_in(set, DESIRED) == Some(wished) && available(set) == wished
        })
    }

    fn scale_by_share(&mut self, mut active: Vec<usize>) {
        let allowed = if self.limits.replicas > 0 { self.limits.max_total() } else { 0 };
        let to_add = allowed - self.total();
        // Larger first; among equals newer ones grow first and older ones shrink first.
        active.sort_by_key(|index| {
            let age = i64::try_from(*index).unwrap_or(i64::MAX);
            (-self.size_of(*index), if to_add > 0 { -age } else { age })
        });
        let mut added = 0;
        let mut sizes = Vec::new();
        for index in &active {
            let part = self.share(*index, to_add, added);
            added += part;
            sizes.push(self.size_of(*index) + part);
        }
        if let Some(largest) = sizes.first_mut() {
            *largest = (*largest + to_add - added).max(0);
        }
        for (index, size) in active.into_iter().zip(sizes) {
            self.resize(index, size);
        }
    }

    fn share(&self, index: usize, to_add: i64, added: i64) -> i64 {
        let size = self.size_of(index);
        let rest = to_add - added;
        if size == 0 || rest == 0 {
            return 0;
        }
        if self.limits.replicas == 0 {
            return (-size).max(rest);
        }
        let noted = self.sets.get(index).and_then(|set| count_in(set, MAX)).filter(|max| *max > 0);
        let before = noted.unwrap_or_else(|| number(&self.deployment, &["status", "replicas"]));
        if before == 0 {
            return 0;
        }
        // Rounded to the nearest.
        let scaled = (2 * size * self.limits.max_total() + before).div_euclid(2 * before);
        let part = scaled - size;
        if to_add > 0 { part.min(rest) } else { part.max(rest) }
    }
}
