//! The reads of all probes: limited for each configuration, spread over time, and shared.

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

use super::{Ask, Found, Object, Probed};
use crate::{
    digest::{self, Key},
    plugin::Process,
    pool::Herd,
    serve::{DataRead, Shared, framed},
    wire::{
        grpc::{Answer, message},
        messages::{is_null, read_request, upgrade_request, verdict},
        proto,
    },
};

/// Reads at once for one configuration: as many as terraform itself makes.
const AT_ONCE: usize = 10;
/// So many may be made without a pause, and then [`Settings::reads_per_second`](crate::gateway::Settings).
const BURST: f64 = 100.0;
/// An answer that is so young is everybody's.
const YOUNG: Duration = Duration::from_secs(1);

/// What is under way for each configuration.
pub(crate) struct Reads {
    per_second: f64,
    accounts: Mutex<HashMap<Key, Arc<Account>>>,
}

struct Account {
    places: Semaphore,
    bucket: Mutex<Bucket>,
    young: Mutex<HashMap<Key, Arc<Young>>>,
}

struct Young {
    asked: Instant,
    found: OnceCell<Found>,
}

struct Bucket {
    left: f64,
    per_second: f64,
    filled: Instant,
}

impl Bucket {
    /// Takes one; how long to wait for it.
    fn take(&mut self, now: Instant) -> Duration {
        let passed = now.saturating_duration_since(self.filled).as_secs_f64();
        self.left = (self.left + passed * self.per_second).min(BURST) - 1.0;
        self.filled = now;
        if self.left >= 0.0 { Duration::ZERO } else { Duration::from_secs_f64(-self.left / self.per_second) }
    }
}

impl Account {
    fn new(per_second: f64) -> Self {
        Self {
            places: Semaphore::new(AT_ONCE),
            bucket: Mutex::new(Bucket { left: BURST, per_second, filled: Instant::now() }),
            young: Mutex::default(),
        }
    }
}

/// Whom to ask.
pub(crate) struct Provider<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) herd: &'a Herd,
    pub(crate) process: &'a Arc<Process>,
    pub(crate) seat: Key,
}

impl Reads {
    pub(crate) fn new(per_second: f64) -> Self {
        Self { per_second: per_second.max(1.0), accounts: Mutex::default() }
    }

    /// Asks about everything.
    pub(crate) async fn probe(&self, provider: &Provider<'_>, ask: &Ask) -> Probed {
        let account = {
            let mut accounts = self.accounts.lock();
            let new = || Arc::new(Account::new(self.per_second));
            Arc::clone(accounts.entry(provider.seat).or_insert_with(new))
        };
        provider.shared.counters.probes.add();
        // Not streams: as many as there are places run at once, and the places say how many that is.
        let mut objects: Vec<BoxFuture<'_, (String, Found)>> = Vec::with_capacity(ask.objects.len());
        for object in &ask.objects {
            let account = &account;
            objects.push(Box::pin(async move {
                (object.address.clone(), account.object(provider, object, ask.fresh).await)
            }));
        }
        let mut data: Vec<BoxFuture<'_, Found>> = Vec::with_capacity(ask.data.len());
        for read in &ask.data {
            data.push(Box::pin(account.data(provider, read, ask.fresh)));
        }
        let (objects, data) = join(join_all(objects), join_all(data)).await;
        let objects = objects.into_iter().collect();
        Probed { objects, data }
    }
}

impl Account {
    async fn object(&self, provider: &Provider<'_>, object: &Object, fresh: bool) -> Found {
        let protocol = provider.process.protocol;
        let path = |name: &str| format!("/tfplugin{protocol}.Provider/{name}");
        let request = upgrade_request(&object.kind, object.version, object.attributes.get().as_bytes());
        let upgrade = path("UpgradeResourceState");
        let bound = Some(Arc::clone(provider.process));
        let upgraded = match provider.shared.pure(provider.herd, &upgrade, framed(&request), bound).await {
            Ok((answer, _)) => answer,
            Err(status) => return Found::Failed { words: status.message },
        };
        let state =
            upgraded.message().filter(|it| is_well(it)).and_then(|it| proto::bytes(it, 1).ok().flatten());
        let Some(state) = state else {
            return Found::Failed { words: "its state could not be brought to today's schema".to_owned() };
        };
        let Ok(private) = BASE64_STANDARD.decode(&object.private) else {
            return Found::Failed { words: "its private data is not base64".to_owned() };
        };
        let request = framed(&read_request(&object.kind, state, &private));
        self.ask(provider, &path("ReadResource"), request, fresh).await
    }

    async fn data(&self, provider: &Provider<'_>, read: &DataRead, fresh: bool) -> Found {
        match BASE64_STANDARD.decode(&read.request) {
            Ok(request) => self.ask(provider, &read.path, framed(&request), fresh).await,
            Err(_) => Found::Failed { words: "its question is not base64".to_owned() },
        }
    }

    /// One question at a time for each; who asks the same within a moment gets the same answer.
    async fn ask(&self, provider: &Provider<'_>, path: &str, request: Bytes, fresh: bool) -> Found {
        let key = digest::of([path.as_bytes(), &request]);
        if fresh {
            self.young.lock().remove(&key);
        }
        let entry = self.entry(key);
        let mut asked = false;
        let found = entry
            .found
            .get_or_init(|| async {
                asked = true;
                self.read(provider, path, request).await
            })
            .await
            .clone();
        let counters = &provider.shared.counters;
        let counter = if asked { &counters.probe_reads } else { &counters.probe_shared };
        counter.add();
        found
    }

    fn entry(&self, key: Key) -> Arc<Young> {
        let mut young = self.young.lock();
        young.retain(|_, entry| entry.asked.elapsed() < YOUNG || !entry.found.initialized());
        let new = || Arc::new(Young { asked: Instant::now(), found: OnceCell::new() });
        Arc::clone(young.entry(key).or_insert_with(new))
    }

    async fn read(&self, provider: &Provider<'_>, path: &str, request: Bytes) -> Found {
        let _place = self.places.acquire().await;
        let pause = self.bucket.lock().take(Instant::now());
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
        match provider.process.call(path, request).await {
            Ok(answer) => found(&answer),
            Err(status) => Found::Failed { words: status.message },
        }
    }
}

/// The value is field 1 of both answers; what the provider keeps to itself is no drift.
fn found(answer: &Answer) -> Found {
    let Some(message) = message(&answer.body).filter(|_| answer.is_ok()) else {
        let words = answer.trailers.get("grpc-message").and_then(|it| it.to_str().ok());
        return Found::Failed { words: words.unwrap_or("no answer").to_owned() };
    };
    if !is_well(message) {
        return Found::Failed { words: "the provider reports an error".to_owned() };
    }
    match proto::bytes(message, 1).ok().flatten().filter(|value| !is_null(value)) {
        Some(value) => Found::There { digest: digest::hex(&digest::of([value])) },
        None => Found::Missing,
    }
}

/// Diagnostics are field 2 of all three answers.
fn is_well(message: &[u8]) -> bool {
    verdict(message, 2).is_ok_and(|verdict| !verdict.error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_reads_are_spread_over_time() {
        let begun = Instant::now();
        let mut bucket = Bucket { left: BURST, per_second: 50.0, filled: begun };
        let waits: Vec<Duration> = (0..150).map(|_| bucket.take(begun)).collect();
        assert!(waits.iter().take(100).all(Duration::is_zero));
        assert!(waits.last().is_some_and(|wait| *wait > Duration::from_millis(900)));
        // After a while there is room again.
        assert!(bucket.take(begun + Duration::from_secs(5)).is_zero());
    }
}
