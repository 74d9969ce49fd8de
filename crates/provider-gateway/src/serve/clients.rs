//! Which processes may connect to the socket of a run.
//!
//! All runs have the same user id. A run is told from another one by its processes: the shim of a run is the leader of a session of
//! its own, which terraform and everything that it starts inherit, and which no other process can join.

use std::{io, path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};
use tokio::{net::UnixStream, time::Instant};

/// How long the processes of a run may take to be recorded.
const RECORD_TIMEOUT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// A record has two process ids.
const MAX_RECORD_BYTES: u64 = 4096;
/// Bounds a walk to the ancestors.
const MAX_DEPTH: usize = 64;

/// The processes that may use a run's provider.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RunClients {
    /// The session of the shim, or the process group of the engine, that this file names. It may be written after the registration.
    Recorded {
        /// The file, `process.json` of a run directory.
        file: PathBuf,
    },
    /// A process and those that it started.
    Descendants {
        /// Its process id.
        of: i32,
    },
}

/// A process that is not confused with a later one of the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
struct RecordedProcess {
    pid: i32,
    /// Start time in kernel ticks.
    started: u64,
}

/// The processes of a run, as its shim records them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
struct ProcessRecord {
    #[serde(default)]
    shim: Option<RecordedProcess>,
    #[serde(default)]
    engine: Option<RecordedProcess>,
}

/// What `/proc/PID/stat` says of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ProcessStat {
    parent: i32,
    group: i32,
    session: i32,
    started: u64,
}

impl ProcessStat {
    fn read(pid: i32) -> Option<Self> {
        Self::parse(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Counted from behind the second field, whose name may contain spaces and parentheses.
    fn parse(stat: &str) -> Option<Self> {
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse::<i32>().ok();
        let started = fields.get(19)?.parse().ok()?;
        Some(Self { parent: number(1)?, group: number(2)?, session: number(3)?, started })
    }
}

impl ProcessRecord {
    /// Whether a process is in the session of the shim or the group of the engine. `started` looks up a start time: the leader of
    /// either may have exited, but if there is a process with its id, it must be the one that was recorded.
    fn admits(&self, peer: &ProcessStat, started: impl Fn(i32) -> Option<u64>) -> bool {
        let is_led_by = |leader: Option<RecordedProcess>, id: i32| {
            leader.is_some_and(|it| it.pid == id && started(id).is_none_or(|now| now == it.started))
        };
        is_led_by(self.shim, peer.session) || is_led_by(self.engine, peer.group)
    }
}

/// The clients of one run, resolved when it was opened.
#[derive(Debug)]
pub(super) struct ClientCheck {
    clients: RunClients,
    /// Start time of the ancestor.
    started: Option<u64>,
}

impl ClientCheck {
    pub(super) fn new(clients: RunClients) -> Self {
        let started = match &clients {
            RunClients::Recorded { .. } => None,
            RunClients::Descendants { of } => ProcessStat::read(*of).map(|it| it.started),
        };
        Self { clients, started }
    }

    /// Whether the process at the other end belongs to the run. Waits until the processes of the run are recorded.
    pub(super) async fn admits(&self, stream: &UnixStream) -> bool {
        let Some((pid, peer)) = peer_process(stream) else { return false };
        match &self.clients {
            RunClients::Descendants { of } => self.is_descendant(pid, *of),
            RunClients::Recorded { file } => {
                let deadline = Instant::now() + RECORD_TIMEOUT;
                loop {
                    match read_record(file).await {
                        Ok(Some(record)) => {
                            return record.admits(&peer, |pid| ProcessStat::read(pid).map(|it| it.started));
                        }
                        Ok(None) if Instant::now() < deadline => tokio::time::sleep(POLL_INTERVAL).await,
                        Ok(None) => return false,
                        Err(error) => {
                            tracing::warn!(file = %file.display(), %error, "the processes of a run cannot be read");
                            return false;
                        }
                    }
                }
            }
        }
    }

    fn is_descendant(&self, pid: i32, of: i32) -> bool {
        let mut at = pid;
        for _ in 0..MAX_DEPTH {
            let Some(stat) = ProcessStat::read(at) else { return false };
            if at == of {
                return self.started == Some(stat.started);
            }
            at = stat.parent;
        }
        false
    }
}

/// The peer, if it has the same user.
fn peer_process(stream: &UnixStream) -> Option<(i32, ProcessStat)> {
    let peer = stream.peer_cred().ok()?;
    if peer.uid() != rustix::process::geteuid().as_raw() {
        return None;
    }
    let pid = peer.pid()?;
    Some((pid, ProcessStat::read(pid)?))
}

/// `None` until the processes are recorded.
async fn read_record(file: &std::path::Path) -> io::Result<Option<ProcessRecord>> {
    use tokio::io::AsyncReadExt;
    let opened = match tokio::fs::File::open(file).await {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let mut text = Vec::new();
    opened.take(MAX_RECORD_BYTES).read_to_end(&mut text).await?;
    Ok(Some(serde_json::from_slice(&text)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(group: i32, session: i32) -> ProcessStat {
        ProcessStat { parent: 1, group, session, started: 50 }
    }

    #[test]
    fn a_process_is_read_whatever_its_name_is() {
        let text = "71 (a) b (c) S 1 70 69 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 9 0 4711 0 0";
        let read = ProcessStat::parse(text).unwrap();
        assert_eq!(read, ProcessStat { parent: 1, group: 70, session: 69, started: 4711 });
        assert_eq!(ProcessStat::parse("71 (a"), None);
        let own = ProcessStat::read(std::process::id().try_into().unwrap()).unwrap();
        assert_eq!(own.session, rustix::process::getsid(None).unwrap().as_raw_nonzero().get());
    }

    #[test]
    fn h8_only_the_session_and_the_group_of_the_run_are_admitted() {
        let shim = RecordedProcess { pid: 10, started: 100 };
        let record = ProcessRecord { shim: Some(shim), engine: None };
        let alive = |pid| (pid == 10).then_some(100);
        assert!(record.admits(&stat(11, 10), alive));
        assert!(record.admits(&stat(11, 10), |_| None), "its session outlives a killed shim");
        assert!(!record.admits(&stat(11, 20), alive), "another run");
        assert!(!record.admits(&stat(10, 20), alive), "a group is not a session");
        assert!(!record.admits(&stat(11, 10), |_| Some(101)), "the id was used again");
        let record = ProcessRecord { shim: None, engine: Some(shim) };
        assert!(record.admits(&stat(10, 7), alive) && !record.admits(&stat(11, 10), alive));
        assert!(!ProcessRecord { shim: None, engine: None }.admits(&stat(0, 0), alive));
    }
}
