//! In-process cache of fork state between reconciles. An optimization only: losing it costs extra requests and delays.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use jiff::Timestamp;
use kube::core::DynamicObject;

/// The uid of a Sandbox, and the name of a fork in its spec.
type ForkKey = (String, String);

/// Cached state of all forks.
#[derive(Debug, Default)]
pub struct ForkCache(Mutex<BTreeMap<ForkKey, CachedFork>>);

#[derive(Debug, Default)]
struct CachedFork {
    dry_run: Option<(String, DynamicObject)>,
    changed_since: Option<Timestamp>,
    applied: Option<(String, i64)>,
    announced_expiry: Option<Timestamp>,
}

impl ForkCache {
    /// The cached dry-run result, if it belongs to the same baseline and patch.
    pub(super) fn dry_run_result(&self, uid: &str, fork: &str, made_from: &str) -> Option<DynamicObject> {
        let all = self.lock();
        let (from, made) = all.get(&fork_key(uid, fork))?.dry_run.as_ref()?;
        (from == made_from).then(|| made.clone())
    }

    /// Caches a dry-run result.
    pub(super) fn store_dry_run(&self, uid: &str, fork: &str, made_from: String, made: DynamicObject) {
        self.lock().entry(fork_key(uid, fork)).or_default().dry_run = Some((made_from, made));
    }

    /// Since when the baseline differs from the fork's. Further changes do not reset the time, so that a baseline that changes
    /// continuously is still followed.
    pub(super) fn changed_since(&self, uid: &str, fork: &str, now: Timestamp) -> Timestamp {
        *self.lock().entry(fork_key(uid, fork)).or_default().changed_since.get_or_insert(now)
    }

    /// Clears the change time: the fork is up to date with its baseline.
    pub(super) fn clear_changed(&self, uid: &str, fork: &str) {
        if let Some(kept) = self.lock().get_mut(&fork_key(uid, fork)) {
            kept.changed_since = None;
        }
    }

    /// Records the generation of a fork that resulted from applying the desired state.
    pub(super) fn record_applied(&self, uid: &str, fork: &str, digest: &str, generation: i64) {
        self.lock().entry(fork_key(uid, fork)).or_default().applied = Some((digest.to_owned(), generation));
    }

    /// Whether this generation of a fork resulted from the same desired state, regardless of how the API server normalized it.
    pub(super) fn is_applied(&self, uid: &str, fork: &str, digest: &str, generation: i64) -> bool {
        let all = self.lock();
        let kept = all.get(&fork_key(uid, fork)).and_then(|it| it.applied.as_ref());
        kept.is_some_and(|(wanted, at)| wanted == digest && *at == generation)
    }

    /// Records the announced expiry of a Sandbox; returns whether it is a new one.
    pub(super) fn record_expiry(&self, uid: &str, end: Timestamp) -> bool {
        // The empty fork name is the entry of the Sandbox itself.
        self.lock().entry(fork_key(uid, "")).or_default().announced_expiry.replace(end) != Some(end)
    }

    /// Removes the entries of a deleted Sandbox.
    pub(super) fn forget(&self, uid: &str) {
        self.lock().retain(|(of, _), _| of != uid);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<ForkKey, CachedFork>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn fork_key(uid: &str, fork: &str) -> ForkKey {
    (uid.to_owned(), fork.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_baseline_that_never_rests_is_followed_all_the_same() {
        let memory = ForkCache::default();
        assert_eq!(memory.changed_since("u", "cart", at(10)), at(10));
        assert_eq!(memory.changed_since("u", "cart", at(12)), at(10));
        memory.clear_changed("u", "cart");
        assert_eq!(memory.changed_since("u", "cart", at(20)), at(20));
    }

    #[test]
    fn an_end_is_told_once_and_another_one_again() {
        let memory = ForkCache::default();
        assert!(memory.record_expiry("u", at(10)) && !memory.record_expiry("u", at(10)));
        assert!(memory.record_expiry("u", at(20)) && memory.record_expiry("v", at(20)));
        memory.forget("u");
        assert!(memory.record_expiry("u", at(20)));
    }

    #[test]
    fn what_was_made_from_something_else_is_not_taken() {
        let memory = ForkCache::default();
        let made = serde_json::from_value(serde_json::json!({"metadata": {}})).unwrap();
        memory.store_dry_run("u", "cart", "one".to_owned(), made);
        assert!(memory.dry_run_result("u", "cart", "one").is_some());
        assert!(memory.dry_run_result("u", "cart", "two").is_none());
        memory.record_applied("u", "cart", "one", 3);
        assert!(memory.is_applied("u", "cart", "one", 3) && !memory.is_applied("u", "cart", "one", 4));
        memory.forget("u");
        assert!(memory.dry_run_result("u", "cart", "one").is_none());
    }
}
