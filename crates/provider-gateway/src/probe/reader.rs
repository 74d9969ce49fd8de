//! Reads of all probes: rate-limited per configuration, and shared between probes.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use futures::future::{BoxFuture, join, join_all};
use parking_lot::Mutex;
use tokio::sync::{OnceCell, Semaphore};

use super::{ProbeRequest, ProbeResult, ReadResult, StateObject};
use crate::{
    digest::{self, DigestKey},
    plugin::ProviderProcess,
    pool::ProviderGroup,
    serve::{DataSourceRead, SharedState, framed},
    wire::{
        grpc::{GrpcResponse, unframe},
        messages::{is_null, read_diagnostics, read_request, upgrade_request},
        protobuf,
    },
};

/// Concurrent reads per configuration, as many as Terraform makes.
const MAX_CONCURRENT: usize = 10;
/// Reads without delay; afterwards [`GatewaySettings::reads_per_second`](crate::gateway::Settings) applies.
const BURST: f64 = 100.0;
/// A read started this recently is shared.
const SHARE_WINDOW: Duration = Duration::from_secs(1);

/// Reads in progress per configuration.
pub(crate) struct ProbeReader {
    per_second: f64,
    limiters: Mutex<HashMap<DigestKey, Arc<ReadLimiter>>>,
}

struct ReadLimiter {
    slots: Semaphore,
    bucket: Mutex<TokenBucket>,
    recent: Mutex<HashMap<DigestKey, Arc<SharedRead>>>,
}

struct SharedRead {
    started_at: Instant,
    result: OnceCell<ReadResult>,
}

struct TokenBucket {
    tokens: f64,
    per_second: f64,
    refilled_at: Instant,
}

impl TokenBucket {
    /// Takes a token; returns how long to wait for it.
    fn acquire(&mut self, now: Instant) -> Duration {
        let passed = now.saturating_duration_since(self.refilled_at).as_secs_f64();
        self.tokens = (self.tokens + passed * self.per_second).min(BURST) - 1.0;
        self.refilled_at = now;
        if self.tokens >= 0.0 {
            Duration::ZERO
        } else {
            Duration::from_secs_f64(-self.tokens / self.per_second)
        }
    }
}

impl ReadLimiter {
    fn new(per_second: f64) -> Self {
        Self {
            slots: Semaphore::new(MAX_CONCURRENT),
            bucket: Mutex::new(TokenBucket { tokens: BURST, per_second, refilled_at: Instant::now() }),
            recent: Mutex::default(),
        }
    }
}

/// The provider to read from.
pub(crate) struct ProbeTarget<'a> {
    pub(crate) shared: &'a SharedState,
    pub(crate) group: &'a ProviderGroup,
    pub(crate) process: &'a Arc<ProviderProcess>,
    pub(crate) configuration: DigestKey,
}

impl ProbeReader {
    pub(crate) fn new(per_second: f64) -> Self {
        Self { per_second: per_second.max(1.0), limiters: Mutex::default() }
    }

    /// Reads everything in the request.
    pub(crate) async fn probe(&self, provider: &ProbeTarget<'_>, ask: &ProbeRequest) -> ProbeResult {
        let account = {
            let mut accounts = self.limiters.lock();
            let new = || Arc::new(ReadLimiter::new(self.per_second));
            Arc::clone(accounts.entry(provider.configuration).or_insert_with(new))
        };
        provider.shared.counters.probes.increment();
        // Not a buffered stream: the semaphore limits the concurrency.
        let mut objects: Vec<BoxFuture<'_, (String, ReadResult)>> = Vec::with_capacity(ask.objects.len());
        for object in &ask.objects {
            let account = &account;
            objects.push(Box::pin(async move {
                (object.address.clone(), account.read_object(provider, object, ask.fresh).await)
            }));
        }
        let mut data: Vec<BoxFuture<'_, ReadResult>> = Vec::with_capacity(ask.data.len());
        for read in &ask.data {
            data.push(Box::pin(account.read_data_source(provider, read, ask.fresh)));
        }
        let (objects, data) = join(join_all(objects), join_all(data)).await;
        let objects = objects.into_iter().collect();
        ProbeResult { objects, data }
    }
}

impl ReadLimiter {
    async fn read_object(&self, provider: &ProbeTarget<'_>, object: &StateObject, fresh: bool) -> ReadResult {
        let protocol = provider.process.protocol;
        let path = |name: &str| format!("/tfplugin{protocol}.Provider/{name}");
        let request = upgrade_request(&object.kind, object.version, object.attributes.get().as_bytes());
        let upgrade = path("UpgradeResourceState");
        let bound = Some(Arc::clone(provider.process));
        let upgraded =
            match provider.shared.cached_call(provider.group, &upgrade, framed(&request), bound).await {
                Ok((answer, _)) => answer,
                Err(status) => return ReadResult::Failed { words: status.message },
            };
        let state = upgraded
            .message()
            .filter(|it| has_no_error(it))
            .and_then(|it| protobuf::bytes_field(it, 1).ok().flatten());
        let Some(state) = state else {
            return ReadResult::Failed {
                words: "its state could not be upgraded to the current schema".to_owned(),
            };
        };
        let Ok(private) = BASE64_STANDARD.decode(&object.private) else {
            return ReadResult::Failed { words: "its private data is not base64".to_owned() };
        };
        let request = framed(&read_request(&object.kind, state, &private));
        self.read_shared(provider, &path("ReadResource"), request, fresh).await
    }

    async fn read_data_source(
        &self,
        provider: &ProbeTarget<'_>,
        read: &DataSourceRead,
        fresh: bool,
    ) -> ReadResult {
        match BASE64_STANDARD.decode(&read.request) {
            Ok(request) => self.read_shared(provider, &read.path, framed(&request), fresh).await,
            Err(_) => ReadResult::Failed { words: "its request is not base64".to_owned() },
        }
    }

    /// Coalesces equal reads: a request within the share window gets the same result.
    async fn read_shared(
        &self,
        provider: &ProbeTarget<'_>,
        path: &str,
        request: Bytes,
        fresh: bool,
    ) -> ReadResult {
        let key = digest::hash_parts([path.as_bytes(), &request]);
        if fresh {
            self.recent.lock().remove(&key);
        }
        let entry = self.shared_entry(key);
        let mut asked = false;
        let found = entry
            .result
            .get_or_init(|| async {
                asked = true;
                self.read_once(provider, path, request).await
            })
            .await
            .clone();
        let counters = &provider.shared.counters;
        let counter = if asked { &counters.probe_reads } else { &counters.probe_shared };
        counter.increment();
        found
    }

    fn shared_entry(&self, key: DigestKey) -> Arc<SharedRead> {
        let mut young = self.recent.lock();
        young.retain(|_, entry| entry.started_at.elapsed() < SHARE_WINDOW || !entry.result.initialized());
        let new = || Arc::new(SharedRead { started_at: Instant::now(), result: OnceCell::new() });
        Arc::clone(young.entry(key).or_insert_with(new))
    }

    async fn read_once(&self, provider: &ProbeTarget<'_>, path: &str, request: Bytes) -> ReadResult {
        let _place = self.slots.acquire().await;
        let pause = self.bucket.lock().acquire(Instant::now());
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
        match provider.process.call(path, request).await {
            Ok(answer) => parse_read(&answer),
            Err(status) => ReadResult::Failed { words: status.message },
        }
    }
}

/// The value is field 1 of both responses; private data is not drift.
fn parse_read(answer: &GrpcResponse) -> ReadResult {
    let Some(message) = unframe(&answer.body).filter(|_| answer.is_ok()) else {
        let words = answer.trailers.get("grpc-message").and_then(|it| it.to_str().ok());
        return ReadResult::Failed { words: words.unwrap_or("no answer").to_owned() };
    };
    if !has_no_error(message) {
        return ReadResult::Failed { words: "the provider reports an error".to_owned() };
    }
    match protobuf::bytes_field(message, 1).ok().flatten().filter(|value| !is_null(value)) {
        Some(value) => ReadResult::There { digest: digest::to_hex(digest::hash_parts([value])) },
        None => ReadResult::Missing,
    }
}

/// Diagnostics are field 2 of all three responses.
fn has_no_error(message: &[u8]) -> bool {
    read_diagnostics(message, 2).is_ok_and(|verdict| !verdict.error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_reads_are_spread_over_time() {
        let begun = Instant::now();
        let mut bucket = TokenBucket { tokens: BURST, per_second: 50.0, refilled_at: begun };
        let waits: Vec<Duration> = (0..150).map(|_| bucket.acquire(begun)).collect();
        assert!(waits.iter().take(100).all(Duration::is_zero));
        assert!(waits.last().is_some_and(|wait| *wait > Duration::from_millis(900)));
        // Tokens refill over time.
        assert!(bucket.acquire(begun + Duration::from_secs(5)).is_zero());
    }
}
