//! Response cache in front of moto.
//!
//! Moto spends about ten milliseconds of CPU per request, and controllers repeat the same reads. A cached response is
//! valid until the next mutation: every request that is not certainly a read clears the whole cache, once when it
//! starts and once when it ends.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use hyper::{
    Response, StatusCode,
    body::Bytes,
    http::{HeaderMap, response::Parts},
};

use crate::protocol::{Body, full_body};

/// Entries beyond this are not cached.
const MAX_ENTRIES: usize = 20_000;
/// Services whose responses depend only on earlier requests, never on the time.
const CACHEABLE_SERVICES: [&str; 2] = ["ec2", "iam"];

/// The parts of a request that decide whether and where its response is cached.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MotoCall<'a> {
    pub(crate) service: &'a str,
    pub(crate) region: &'a str,
    /// Moto derives the account from it.
    pub(crate) access_key: &'a str,
    pub(crate) operation: &'a str,
    /// The complete body, if it is a form.
    pub(crate) form: Option<&'a Bytes>,
}

impl MotoCall<'_> {
    fn is_read(&self) -> bool {
        ["Describe", "Get", "List", "GET ", "HEAD "].iter().any(|it| self.operation.starts_with(it))
    }

    fn key(&self) -> Option<CacheKey> {
        let form = self.form.filter(|_| self.is_read() && CACHEABLE_SERVICES.contains(&self.service))?;
        let text = |it: &str| it.to_owned();
        Some((text(self.service), text(self.region), text(self.access_key), form.clone()))
    }
}

type CacheKey = (String, String, String, Bytes);

#[derive(Debug, Clone)]
struct CachedResponse {
    headers: HeaderMap,
    body: Bytes,
}

#[derive(Debug, Default)]
struct CacheState {
    /// Incremented when a mutation starts and when it ends.
    generation: u64,
    mutations_in_flight: usize,
    entries: HashMap<CacheKey, CachedResponse>,
}

/// Responses that are still valid.
#[derive(Debug, Default)]
pub(crate) struct MotoCache {
    state: Mutex<CacheState>,
}

/// Result of a cache lookup.
pub(crate) enum CacheLookup<'a> {
    /// The response is cached.
    Hit(Response<Body>),
    /// Forward to moto; the response may be stored in this slot.
    Miss(CacheSlot),
    /// Forward to moto; the cache stays empty while the guard lives.
    Mutation(MutationGuard<'a>),
    /// Forward to moto without caching.
    Uncacheable,
}

/// Where a response is stored, provided the generation has not changed by then.
pub(crate) struct CacheSlot {
    key: CacheKey,
    generation: u64,
}

/// A mutation in flight.
pub(crate) struct MutationGuard<'a>(&'a MotoCache);

impl Drop for MutationGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.mutations_in_flight -= 1;
        state.invalidate();
    }
}

impl CacheState {
    fn invalidate(&mut self) {
        self.generation += 1;
        self.entries.clear();
    }
}

impl MotoCache {
    pub(crate) fn lookup(&self, question: &MotoCall<'_>) -> CacheLookup<'_> {
        let mut state = self.lock();
        if !question.is_read() {
            state.mutations_in_flight += 1;
            state.invalidate();
            return CacheLookup::Mutation(MutationGuard(self));
        }
        let Some(key) = question.key() else { return CacheLookup::Uncacheable };
        match state.entries.get(&key) {
            Some(CachedResponse { headers, body }) => {
                let mut response = Response::new(full_body(body.clone()));
                headers.clone_into(response.headers_mut());
                CacheLookup::Hit(response)
            }
            None => CacheLookup::Miss(CacheSlot { key, generation: state.generation }),
        }
    }

    /// Stores a response unless a mutation started or ended since the lookup.
    pub(crate) fn store(&self, place: CacheSlot, head: &Parts, body: &Bytes) {
        let mut state = self.lock();
        let holds = state.mutations_in_flight == 0 && state.generation == place.generation;
        if holds && head.status == StatusCode::OK && state.entries.len() < MAX_ENTRIES {
            state
                .entries
                .insert(place.key, CachedResponse { headers: head.headers.clone(), body: body.clone() });
        }
    }

    fn lock(&self) -> MutexGuard<'_, CacheState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question<'a>(operation: &'a str, form: &'a Bytes) -> MotoCall<'a> {
        let form = Some(form);
        MotoCall { service: "ec2", region: "eu-central-1", access_key: "a", operation, form }
    }

    fn answer(answers: &MotoCache, question: &MotoCall<'_>) -> &'static str {
        match answers.lookup(question) {
            CacheLookup::Hit(_) => "known",
            CacheLookup::Miss(place) => {
                let (head, ()) = Response::new(()).into_parts();
                answers.store(place, &head, &Bytes::from_static(b"x"));
                "asked"
            }
            CacheLookup::Mutation(_) => "change",
            CacheLookup::Uncacheable => "pass",
        }
    }

    #[test]
    fn an_answer_holds_until_something_changes() {
        let (answers, form) = (MotoCache::default(), Bytes::from_static(b"Action=DescribeVpcs"));
        let read = question("DescribeVpcs", &form);
        assert_eq!([answer(&answers, &read), answer(&answers, &read)], ["asked", "known"]);
        assert_eq!(answer(&answers, &question("CreateTags", &form)), "change");
        assert_eq!([answer(&answers, &read), answer(&answers, &read)], ["asked", "known"]);
    }

    #[test]
    fn whoever_asks_something_else_gets_no_answer_of_another() {
        let (answers, form, other) =
            (MotoCache::default(), Bytes::from_static(b"a=1"), Bytes::from_static(b"a=2"));
        let read = question("DescribeVpcs", &form);
        assert_eq!(answer(&answers, &read), "asked");
        assert_eq!(answer(&answers, &MotoCall { access_key: "b", ..read }), "asked");
        assert_eq!(answer(&answers, &MotoCall { region: "eu-west-1", ..read }), "asked");
        assert_eq!(answer(&answers, &question("DescribeVpcs", &other)), "asked");
        assert_eq!(
            answer(&answers, &MotoCall { service: "sts", ..read }),
            "pass",
            "what may hang on the time"
        );
        assert_eq!(answer(&answers, &read), "known");
    }

    #[test]
    fn what_was_asked_before_a_change_or_during_one_is_not_kept() {
        let (answers, form) = (MotoCache::default(), Bytes::from_static(b"a=1"));
        let read = question("DescribeVpcs", &form);
        let (head, ()) = Response::new(()).into_parts();
        let CacheLookup::Miss(early) = answers.lookup(&read) else { panic!("is known") };
        let change = answers.lookup(&question("CreateVpc", &form));
        answers.store(early, &head, &Bytes::new());
        assert_eq!([answer(&answers, &read), answer(&answers, &read)], ["asked", "asked"]);
        drop(change);
        assert_eq!([answer(&answers, &read), answer(&answers, &read)], ["asked", "known"]);
    }
}
