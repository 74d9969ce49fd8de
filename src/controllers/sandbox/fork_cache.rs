//! What is remembered of forks between two looks. All of it can be lost: it saves requests, and delays.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use jiff::Timestamp;
use kube::core::DynamicObject;

/// A fork: the uid of its Sandbox, and its name in the spec.
type Fork = (String, String);

/// What is remembered of all forks.
#[derive(Debug, Default)]
pub struct Memory(Mutex<BTreeMap<Fork, Kept>>);

#[derive(Debug, Default)]
struct Kept {
    rehearsed: Option<(String, DynamicObject)>,
    restless_since: Option<Timestamp>,
    applied: Option<(String, i64)>,
    end: Option<Timestamp>,
}

impl Memory {
    /// The baseline as the API server patched it, if it was made from the same baseline and patch.
    pub(super) fn rehearsed(&self, uid: &str, fork: &str, made_from: &str) -> Option<DynamicObject> {
        let all = self.lock();
        let (from, made) = all.get(&key(uid, fork))?.rehearsed.as_ref()?;
        (from == made_from).then(|| made.clone())
    }

    /// Remembers a baseline as the API server patched it.
    pub(super) fn keep(&self, uid: &str, fork: &str, made_from: String, made: DynamicObject) {
        self.lock().entry(key(uid, fork)).or_default().rehearsed = Some((made_from, made));
    }

    /// Since when the baseline has been another one. A second change does not move it: a baseline that changes all the time
    /// is followed all the same.
    pub(super) fn restless_since(&self, uid: &str, fork: &str, now: Timestamp) -> Timestamp {
        *self.lock().entry(key(uid, fork)).or_default().restless_since.get_or_insert(now)
    }

    /// The fork is made from the baseline as it is.
    pub(super) fn calm(&self, uid: &str, fork: &str) {
        if let Some(kept) = self.lock().get_mut(&key(uid, fork)) {
            kept.restless_since = None;
        }
    }

    /// Remembers which generation of a fork is what was wanted.
    pub(super) fn applied(&self, uid: &str, fork: &str, digest: &str, generation: i64) {
        self.lock().entry(key(uid, fork)).or_default().applied = Some((digest.to_owned(), generation));
    }

    /// Whether this generation of a fork is what was wanted, however the API server wrote it down.
    pub(super) fn is_applied(&self, uid: &str, fork: &str, digest: &str, generation: i64) -> bool {
        let all = self.lock();
        let kept = all.get(&key(uid, fork)).and_then(|it| it.applied.as_ref());
        kept.is_some_and(|(wanted, at)| wanted == digest && *at == generation)
    }

    /// Whether nobody was told yet that a Sandbox is deleted then.
    pub(super) fn is_new_end(&self, uid: &str, end: Timestamp) -> bool {
        // No fork has an empty name.
        self.lock().entry(key(uid, "")).or_default().end.replace(end) != Some(end)
    }

    /// Forgets a Sandbox that is gone.
    pub(super) fn forget(&self, uid: &str) {
        self.lock().retain(|(of, _), _| of != uid);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Fork, Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(uid: &str, fork: &str) -> Fork {
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
        let memory = Memory::default();
        assert_eq!(memory.restless_since("u", "cart", at(10)), at(10));
        assert_eq!(memory.restless_since("u", "cart", at(12)), at(10));
        memory.calm("u", "cart");
        assert_eq!(memory.restless_since("u", "cart", at(20)), at(20));
    }

    #[test]
    fn an_end_is_told_once_and_another_one_again() {
        let memory = Memory::default();
        assert!(memory.is_new_end("u", at(10)) && !memory.is_new_end("u", at(10)));
        assert!(memory.is_new_end("u", at(20)) && memory.is_new_end("v", at(20)));
        memory.forget("u");
        assert!(memory.is_new_end("u", at(20)));
    }

    #[test]
    fn what_was_made_from_something_else_is_not_taken() {
        let memory = Memory::default();
        let made = serde_json::from_value(serde_json::json!({"metadata": {}})).unwrap();
        memory.keep("u", "cart", "one".to_owned(), made);
        assert!(memory.rehearsed("u", "cart", "one").is_some());
        assert!(memory.rehearsed("u", "cart", "two").is_none());
        memory.applied("u", "cart", "one", 3);
        assert!(memory.is_applied("u", "cart", "one", 3) && !memory.is_applied("u", "cart", "one", 4));
        memory.forget("u");
        assert!(memory.rehearsed("u", "cart", "one").is_none());
    }
}
