//! Who gets which provider process.
//!
//! A **herd** is all processes of one program with one environment for one tenant. Within it, a process is given to
//! one configuration with the first `Configure` and keeps it for life: providers keep the last configuration that they
//! were given, so a second one would change the answers of everybody who has the first. A **seat** is one
//! configuration; it knows its process, and the bytes to configure another one with when that is gone.

use std::{
    collections::{BTreeMap, HashMap},
    ffi::OsString,
    path::PathBuf,
    sync::{
        Arc, Weak,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::{sync::Mutex as AsyncMutex, time::timeout};

use crate::{
    counters::Counters,
    digest::{self, Key},
    plugin::{Launch, Process},
    wire::{
        grpc::{Answer, Code, Status, frame, message},
        messages::{essence, verdict},
    },
};

/// Limits of a process.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Without a call for so long, it ends.
    pub idle: Duration,
    /// Older than that, it gets no new work.
    pub age: Duration,
    /// With more memory than that, it gets no new work.
    pub memory: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { idle: Duration::from_mins(30), age: Duration::from_hours(12), memory: 2 << 30 }
    }
}

/// What a process is started from.
#[derive(Clone)]
pub struct Origin {
    /// The provider's program.
    pub program: PathBuf,
    /// Its SHA-256.
    pub checksum: String,
    /// Its whole environment; never printed.
    pub env: BTreeMap<String, String>,
    /// For whom.
    pub tenant: String,
}

impl Origin {
    /// Everything that makes a process a different one.
    pub fn key(&self) -> Key {
        let Self { program: _, checksum, env, tenant } = self;
        let parts = [checksum.as_bytes(), tenant.as_bytes()].into_iter();
        digest::of(parts.chain(env.iter().flat_map(|(name, value)| [name.as_bytes(), value.as_bytes()])))
    }
}

/// All processes.
pub struct Pool {
    sockets: PathBuf,
    through: Vec<OsString>,
    /// What they may use.
    pub limits: Limits,
    counters: Arc<Counters>,
    herds: Mutex<HashMap<Key, Arc<Herd>>>,
}

/// The processes of one origin.
pub struct Herd {
    /// Its key.
    pub key: Key,
    /// What they are.
    pub origin: Origin,
    launch: Launch,
    counters: Arc<Counters>,
    /// One that has no configuration yet. The lock is held while one starts, so that two do not.
    spare: AsyncMutex<Option<Arc<Process>>>,
    seats: Mutex<HashMap<Key, Arc<Seat>>>,
    /// All that live, whoever holds them; also one that is being configured just now.
    all: Mutex<Vec<Weak<Process>>>,
    crashes: Crashes,
}

/// One configuration.
pub struct Seat {
    /// Digest of the origin and the configuration.
    pub key: Key,
    path: String,
    configure: Bytes,
    taken: AsyncMutex<Option<Taken>>,
    used: Mutex<Instant>,
}

/// A process with the answer that it gave when it was configured.
#[derive(Clone)]
struct Taken {
    process: Arc<Process>,
    answer: Answer,
}

impl Pool {
    /// An empty one; `sockets` is where the providers' sockets go, `through` what they are started through.
    pub fn new(sockets: PathBuf, through: Vec<OsString>, limits: Limits, counters: Arc<Counters>) -> Self {
        Self { sockets, through, limits, counters, herds: Mutex::default() }
    }

    /// The herd of an origin.
    pub fn herd(&self, origin: Origin) -> Arc<Herd> {
        let key = origin.key();
        let mut herds = self.herds.lock();
        Arc::clone(herds.entry(key).or_insert_with(|| {
            let launch = Launch {
                program: origin.program.clone(),
                env: origin.env.clone(),
                sockets: self.sockets.clone(),
                through: self.through.clone(),
            };
            Arc::new(Herd {
                key,
                origin,
                launch,
                counters: Arc::clone(&self.counters),
                spare: AsyncMutex::default(),
                seats: Mutex::default(),
                all: Mutex::default(),
                crashes: Crashes::default(),
            })
        }))
    }

    /// All herds.
    pub fn herds(&self) -> Vec<Arc<Herd>> {
        self.herds.lock().values().cloned().collect()
    }

    /// Lets go of what is idle, old, fat or dead. Somebody calls it every few seconds.
    pub fn tidy(&self) {
        for herd in self.herds() {
            herd.tidy(&self.limits);
        }
        // A herd that nobody uses and that knows no configuration is a name and nothing else.
        self.herds.lock().retain(|_, herd| {
            let empty = herd.spare.try_lock().is_ok_and(|spare| spare.is_none());
            Arc::strong_count(herd) > 1 || !empty || !herd.seats.lock().is_empty()
        });
    }
}

impl Herd {
    /// Any process, for a call that needs no configuration.
    pub async fn any(&self) -> Result<Arc<Process>, Status> {
        if let Some(process) = self.willing() {
            return Ok(process);
        }
        let mut spare = self.spare.lock().await;
        // Somebody may have started one while we waited.
        if let Some(process) = self.willing() {
            return Ok(process);
        }
        let process = self.start().await?;
        *spare = Some(Arc::clone(&process));
        Ok(process)
    }

    /// The seat of a configuration.
    pub fn seat(&self, path: &str, configure: &Bytes) -> Arc<Seat> {
        let configure = message(configure).map_or_else(|| configure.clone(), |it| frame(&essence(it)));
        let key = digest::of([&self.key[..], path.as_bytes(), &configure]);
        let mut seats = self.seats.lock();
        Arc::clone(seats.entry(key).or_insert_with(|| {
            Arc::new(Seat {
                key,
                path: path.to_owned(),
                configure,
                taken: AsyncMutex::default(),
                used: Mutex::new(Instant::now()),
            })
        }))
    }

    /// A configuration that was seen before.
    pub fn known_seat(&self, key: &Key) -> Option<Arc<Seat>> {
        self.seats.lock().get(key).cloned()
    }

    /// The process of a configuration, with the answer to `Configure`. A configuration that is refused has no
    /// process: the answer is the refusal.
    pub async fn sit(&self, seat: &Seat) -> Result<(Option<Arc<Process>>, Answer), Status> {
        *seat.used.lock() = Instant::now();
        let mut taken = seat.taken.lock().await;
        if let Some(Taken { process, answer }) = taken.as_ref().filter(|it| it.serves()) {
            self.counters.configure_hits.add();
            return Ok((Some(Arc::clone(process)), answer.clone()));
        }
        let process = self.fresh().await?;
        let answer = process.call(&seat.path, seat.configure.clone()).await?;
        let refused = answer.message().is_none_or(|it| verdict(it, 1).is_ok_and(|verdict| verdict.error));
        if refused {
            // It must not be given to anybody else: nobody knows what it took from this configuration.
            return Ok((None, answer));
        }
        *taken = Some(Taken { process: Arc::clone(&process), answer: answer.clone() });
        Ok((Some(process), answer))
    }

    /// A process without any configuration, to be given one.
    async fn fresh(&self) -> Result<Arc<Process>, Status> {
        // Held while one starts: somebody who wants any process would start another one beside it.
        let mut spare = self.spare.lock().await;
        match spare.take().filter(|it| !it.is_dead() && !it.is_retiring()) {
            Some(process) => Ok(process),
            None => self.start().await,
        }
    }

    async fn start(&self) -> Result<Arc<Process>, Status> {
        if let Some(pause) = self.crashes.pause() {
            tokio::time::sleep(pause).await;
        }
        let started = Process::start(&self.launch).await;
        self.counters.started.add();
        match started {
            Ok(process) => {
                tracing::info!(pid = process.pid, protocol = process.protocol, "a provider was started");
                self.crashes.watch(&process);
                self.all.lock().push(Arc::downgrade(&process));
                Ok(process)
            }
            Err(error) => {
                self.crashes.note();
                tracing::warn!(%error, "a provider could not be started");
                let mut words = error.to_string();
                let mut cause = std::error::Error::source(&error);
                while let Some(inner) = cause {
                    let text = inner.to_string();
                    if !words.ends_with(&text) {
                        words = format!("{words}: {text}");
                    }
                    cause = inner.source();
                }
                Err(Status::new(Code::Aborted, words))
            }
        }
    }

    /// One that takes work.
    fn willing(&self) -> Option<Arc<Process>> {
        self.processes().into_iter().find(|process| !process.is_dead() && !process.is_retiring())
    }

    /// All that there are.
    pub fn processes(&self) -> Vec<Arc<Process>> {
        let mut all = self.all.lock();
        all.retain(|process| process.strong_count() > 0);
        all.iter().filter_map(Weak::upgrade).collect()
    }

    /// Ends all of them, also one that is only starting, and waits until they are gone.
    pub(crate) async fn end(&self) {
        // One that hangs while it starts dies with this process.
        let _nobody_starts = timeout(LAST_WAIT, self.spare.lock()).await;
        for process in self.processes() {
            process.kill();
            // Killed it cannot go on; what is waited for is only that the system says so.
            let _gone = timeout(LAST_WAIT, process.ended()).await;
        }
    }

    /// How many configurations are known.
    pub fn configurations(&self) -> usize {
        self.seats.lock().len()
    }

    fn tidy(&self, limits: &Limits) {
        let over = |process: &Arc<Process>, holders: usize| {
            if process.age() > limits.age || process.memory() > limits.memory {
                process.retire();
            }
            // Somebody who holds it may be about to call it.
            let idle = Arc::strong_count(process) <= holders && process.idle() > limits.idle;
            process.is_dead() || process.is_retiring() || idle
        };
        let seats: Vec<Arc<Seat>> = self.seats.lock().values().cloned().collect();
        for seat in seats {
            if let Ok(mut taken) = seat.taken.try_lock()
                && taken.as_ref().is_some_and(|it| over(&it.process, 1))
            {
                *taken = None;
            }
        }
        if let Ok(mut spare) = self.spare.try_lock()
            && spare.as_ref().is_some_and(|it| over(it, 1))
        {
            *spare = None;
        }
        // Configurations hold credentials; one that nobody has asked for in a day is forgotten.
        self.seats.lock().retain(|_, seat| {
            Arc::strong_count(seat) > 1
                || seat.taken.try_lock().map_or(true, |taken| taken.is_some())
                || seat.used.lock().elapsed() < FORGET
        });
    }
}

/// How long the end of a gateway waits for a provider.
const LAST_WAIT: Duration = Duration::from_secs(5);
const FORGET: Duration = Duration::from_hours(24);

impl Taken {
    fn serves(&self) -> bool {
        !self.process.is_dead() && !self.process.is_retiring()
    }
}

/// Providers that die young are started again later and later.
#[derive(Default)]
struct Crashes {
    count: Arc<AtomicU32>,
}

/// Who lived longer has not died of what it was started with.
const YOUNG: Duration = Duration::from_mins(1);
const LONGEST: Duration = Duration::from_secs(30);

impl Crashes {
    fn note(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// The first is started again at once.
    fn pause(&self) -> Option<Duration> {
        let count = self.count.load(Ordering::Relaxed).checked_sub(2)?;
        Some(Duration::from_millis(500).saturating_mul(2_u32.saturating_pow(count.min(10))).min(LONGEST))
    }

    fn watch(&self, process: &Process) {
        let (count, ended) = (Arc::clone(&self.count), process.ended());
        tokio::spawn(async move {
            tokio::select! {
                crashed = ended => if crashed { count.fetch_add(1, Ordering::Relaxed); },
                () = tokio::time::sleep(YOUNG) => count.store(0, Ordering::Relaxed),
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(change: impl FnOnce(&mut Origin)) -> Key {
        let mut origin = Origin {
            program: "/p".into(),
            checksum: "c".to_owned(),
            env: [("A".to_owned(), "1".to_owned())].into(),
            tenant: "t".to_owned(),
        };
        change(&mut origin);
        origin.key()
    }

    #[test]
    fn whatever_could_differ_makes_another_process() {
        let plain = origin(|_| {});
        assert_ne!(plain, origin(|it| it.checksum = "d".to_owned()));
        assert_ne!(plain, origin(|it| it.tenant = "u".to_owned()));
        assert_ne!(plain, origin(|it| drop(it.env.insert("A".to_owned(), "2".to_owned()))));
        assert_ne!(plain, origin(|it| drop(it.env.insert("B".to_owned(), "1".to_owned()))));
        // The same program at another path is the same program.
        assert_eq!(plain, origin(|it| it.program = "/q".into()));
    }

    #[test]
    fn who_dies_young_again_and_again_is_waited_for_longer() {
        let crashes = Crashes::default();
        let mut pauses = Vec::new();
        for _ in 0..12 {
            pauses.push(crashes.pause());
            crashes.note();
        }
        assert_eq!(pauses[..3], [None, None, Some(Duration::from_millis(500))]);
        assert_eq!(pauses.last(), Some(&Some(LONGEST)));
    }
}
