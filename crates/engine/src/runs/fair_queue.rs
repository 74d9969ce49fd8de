//! Who gets the next run slot: pure decisions over namespaces, priorities and arrival.
//!
//! Each namespace with runs has a share of the slots by its weight. A namespace below its share goes before one that has its share
//! already. Then drift checks go last, and namespaces take turns; a priority decides within a namespace, and between namespaces
//! that were not served before. So no tenant can get ahead of another one by the number or the kind of its runs.

use std::collections::BTreeMap;

use super::scheduler::RunPriority;

/// How the slots are divided between namespaces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamespaceShares {
    /// The most slots that one namespace may have; all of them if unset.
    pub max_per_namespace: Option<usize>,
    /// Weights; 1 for a namespace without one.
    pub weights: BTreeMap<String, u32>,
}

impl NamespaceShares {
    fn weight(&self, namespace: &str) -> u64 {
        u64::from(self.weights.get(namespace).copied().unwrap_or(1).max(1))
    }
}

/// A run that waits for a slot.
#[derive(Debug)]
struct Waiter<T> {
    namespace: String,
    priority: RunPriority,
    payload: T,
}

/// The slots in use and the runs that wait. `T` is what is granted.
#[derive(Debug)]
pub(super) struct FairQueue<T> {
    slots: usize,
    shares: NamespaceShares,
    in_use: BTreeMap<String, usize>,
    /// When each namespace was served last; a counter.
    served: BTreeMap<String, u64>,
    /// By arrival.
    waiting: BTreeMap<u64, Waiter<T>>,
    next_number: u64,
}

impl<T> FairQueue<T> {
    pub(super) fn new(slots: usize, shares: NamespaceShares) -> Self {
        let (in_use, served, waiting) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { slots: slots.max(1), shares, in_use, served, waiting, next_number: 0 }
    }

    pub(super) fn push(&mut self, namespace: &str, priority: RunPriority, payload: T) {
        let number = self.next_number();
        self.waiting.insert(number, Waiter { namespace: namespace.to_owned(), priority, payload });
    }

    /// Grants a slot to the run whose turn it is, if there is a slot for it.
    pub(super) fn pop(&mut self) -> Option<(String, T)> {
        let active = self.active_weight();
        let eligible = self.waiting.iter().filter(|(_, it)| self.has_room(&it.namespace, it.priority));
        let (&next, _) = eligible.min_by_key(|(number, it)| {
            let served = self.served.get(&it.namespace).copied().unwrap_or_default();
            let is_drift = it.priority == RunPriority::Drift;
            (self.has_its_share(&it.namespace, active), is_drift, served, it.priority, **number)
        })?;
        let Waiter { namespace, payload, .. } = self.waiting.remove(&next)?;
        *self.in_use.entry(namespace.clone()).or_default() += 1;
        let turn = self.next_number();
        self.served.insert(namespace.clone(), turn);
        Some((namespace, payload))
    }

    /// Takes a slot back.
    pub(super) fn release(&mut self, namespace: &str) {
        if let Some(count) = self.in_use.get_mut(namespace) {
            *count -= 1;
            if *count == 0 {
                self.in_use.remove(namespace);
            }
        }
        if self.waiting.is_empty() {
            self.served.clear();
        }
    }

    /// Whether a run that arrives now would have to wait.
    pub(super) fn would_wait(&self, namespace: &str, priority: RunPriority) -> bool {
        !self.has_room(namespace, priority)
    }

    #[cfg(test)]
    pub(super) fn waiting_count(&self) -> usize {
        self.waiting.len()
    }

    fn next_number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    fn used(&self, namespace: &str) -> usize {
        self.in_use.get(namespace).copied().unwrap_or_default()
    }

    /// Drift checks leave one slot free if there is more than one, so a change does not wait for a check.
    fn has_room(&self, namespace: &str, priority: RunPriority) -> bool {
        let limit =
            if priority == RunPriority::Drift { self.slots.saturating_sub(1).max(1) } else { self.slots };
        let cap = self.shares.max_per_namespace.unwrap_or(self.slots).max(1);
        self.in_use.values().sum::<usize>() < limit && self.used(namespace) < cap
    }

    /// Sum of the weights of the namespaces that have runs.
    fn active_weight(&self) -> u64 {
        let mut names: Vec<&str> = self.in_use.keys().map(String::as_str).collect();
        names.extend(self.waiting.values().map(|it| it.namespace.as_str()));
        names.sort_unstable();
        names.dedup();
        names.into_iter().map(|name| self.shares.weight(name)).sum()
    }

    /// Whether the slots of a namespace are its part of all slots, or more.
    fn has_its_share(&self, namespace: &str, active: u64) -> bool {
        let (used, slots) = (self.used(namespace) as u64, self.slots as u64);
        used * active >= slots * self.shares.weight(namespace)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Queue = FairQueue<u32>;

    fn queue(slots: usize) -> Queue {
        FairQueue::new(slots, NamespaceShares::default())
    }

    fn grant_all(queue: &mut Queue) -> Vec<(String, u32)> {
        std::iter::from_fn(|| queue.pop()).collect()
    }

    #[test]
    fn h6_a_hundred_sleepers_delay_another_tenant_by_one_slot_turnover() {
        for priority in [RunPriority::Change, RunPriority::Delete, RunPriority::Retry, RunPriority::Drift] {
            let mut queue = queue(4);
            for number in 0..100 {
                queue.push("hostile", RunPriority::Change, number);
            }
            assert_eq!(grant_all(&mut queue).len(), 4);
            queue.push("team-b", priority, 1000);
            assert_eq!(queue.pop(), None);
            queue.release("hostile");
            let expected = if priority == RunPriority::Drift { "hostile" } else { "team-b" };
            assert_eq!(queue.pop().unwrap().0, expected, "{priority:?}");
        }
    }

    #[test]
    fn h6_with_one_slot_changes_of_one_tenant_do_not_starve_retries_of_another() {
        let mut queue = queue(1);
        queue.push("hostile", RunPriority::Change, 0);
        assert_eq!(queue.pop().unwrap().0, "hostile");
        queue.push("team-b", RunPriority::Retry, 1);
        for _ in 0..3 {
            queue.push("hostile", RunPriority::Change, 0);
        }
        queue.release("hostile");
        assert_eq!(queue.pop().unwrap().0, "team-b");
    }

    #[test]
    fn h6_within_a_priority_namespaces_take_turns() {
        let mut queue = queue(1);
        for (namespace, number) in [("a", 1), ("a", 2), ("a", 3), ("b", 4), ("b", 5), ("c", 6)] {
            queue.push(namespace, RunPriority::Change, number);
        }
        let mut order = Vec::new();
        while let Some((namespace, number)) = queue.pop() {
            order.push(number);
            queue.release(&namespace);
        }
        assert_eq!(order, [1, 4, 6, 2, 5, 3]);
    }

    #[test]
    fn h6_slots_are_divided_by_weight_and_capped() {
        let weights = [("heavy".to_owned(), 3)].into();
        let mut queue = FairQueue::new(8, NamespaceShares { max_per_namespace: None, weights });
        for number in 0..20 {
            queue.push("heavy", RunPriority::Change, number);
            queue.push("light", RunPriority::Change, number);
        }
        let granted = grant_all(&mut queue);
        assert_eq!(granted.iter().filter(|it| it.0 == "heavy").count(), 6);
        assert_eq!(granted.len(), 8);

        let shares = NamespaceShares { max_per_namespace: Some(3), ..NamespaceShares::default() };
        let mut queue = FairQueue::new(4, shares);
        for number in 0..20 {
            queue.push("a", RunPriority::Change, number);
        }
        assert_eq!(grant_all(&mut queue).len(), 3, "the last slot is free for others");
        assert!(queue.would_wait("a", RunPriority::Change) && !queue.would_wait("b", RunPriority::Change));
    }

    proptest! {
        /// Whatever the tenants do, a tenant without slots gets the next slot that is released.
        #[test]
        fn h6_a_tenant_without_slots_waits_for_one_release(
            slots in 1_usize..6,
            arrivals in proptest::collection::vec((0_u8..4, 0_u8..4), 1..60),
        ) {
            let priorities = [RunPriority::Change, RunPriority::Delete, RunPriority::Retry, RunPriority::Drift];
            let mut queue = queue(slots);
            let mut running = Vec::new();
            for (tenant, priority) in arrivals {
                queue.push(&format!("tenant-{tenant}"), priorities[usize::from(priority)], 0);
                running.extend(grant_all(&mut queue));
                prop_assert!(running.len() <= slots);
            }
            // Only drift checks wait while a slot is free.
            let only_checks = queue.waiting.values().all(|it| it.priority == RunPriority::Drift);
            prop_assert!(running.len() == slots || only_checks);
            queue.push("victim", RunPriority::Retry, 1);
            running.extend(grant_all(&mut queue));
            if !running.iter().any(|it| it.0 == "victim") {
                let (ended, _) = running.swap_remove(0);
                queue.release(&ended);
                let next = queue.pop().map(|it| it.0);
                // A tenant that has just lost its only slot has as much right to it as the victim.
                let is_fair = next.as_deref() == Some("victim") || !running.iter().any(|it| Some(&it.0) == next.as_ref());
                prop_assert!(is_fair, "{next:?} with {running:?}");
            }
        }
    }
}
