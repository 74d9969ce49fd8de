//! Answers questions.

use std::{
    io,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{UnixListener, UnixStream},
};
use tokio_util::sync::CancellationToken;

use super::protocol::{Answer, Live, Question, Report, line};
use crate::{
    digest,
    gateway::{Gateway, Registered},
    serve::run::is_ours,
};

/// A question is not longer.
const LONGEST: u64 = 256 << 20;

/// How often there is something to tidy up.
const TIDY: Duration = Duration::from_secs(5);

/// A socket on which questions can be asked; from when it is made, whether or not somebody answers yet.
pub struct Listening {
    listener: UnixListener,
    socket: PathBuf,
    /// Which file that is: somebody may have put another one in its place.
    file: (u64, u64),
}

impl Listening {
    /// Opens the socket, in the place of one that an earlier gateway left.
    pub fn at(socket: &Path) -> io::Result<Self> {
        match std::fs::remove_file(socket) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(socket)?;
        std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o600))?;
        let file = identity(socket)?;
        Ok(Self { listener, socket: socket.to_owned(), file })
    }

    /// Whether somebody who asks at the socket's path would ask us.
    fn is_found(&self) -> bool {
        identity(&self.socket).is_ok_and(|file| file == self.file)
    }

    /// Answers until `stop`, or until the gateway has been idle for so long.
    pub async fn serve(
        self,
        gateway: &Arc<Gateway>,
        idle: Option<Duration>,
        stop: &CancellationToken,
    ) -> io::Result<()> {
        let mut tidy = tokio::time::interval(TIDY.min(idle.unwrap_or(TIDY)));
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) if is_ours(&stream) => {
                        tokio::spawn(converse(stream, Arc::clone(gateway), stop.clone()));
                    }
                    Ok(_) => gateway.counters().strangers.add(),
                    Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
                },
                _ = tidy.tick() => {
                    gateway.tidy();
                    if !self.is_found() {
                        tracing::info!("the directory was taken away; nobody can ask any more");
                        return Ok(());
                    }
                    if idle.is_some_and(|idle| gateway.close_after(idle)) {
                        tracing::info!("nobody has needed the gateway for a while; it ends");
                        break;
                    }
                }
            }
        }
        if !self.is_found() {
            return Ok(());
        }
        std::fs::remove_file(&self.socket)?;
        gateway.leave().await
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let data = std::fs::symlink_metadata(path)?;
    Ok((data.dev(), data.ino()))
}

async fn converse(stream: UnixStream, gateway: Arc<Gateway>, stop: CancellationToken) {
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read.take(LONGEST)).lines();
    while let Ok(Some(asked)) = lines.next_line().await {
        let answer = match serde_json::from_str(&asked) {
            Ok(question) => answer(&gateway, question, &stop).await,
            // Where it stops making sense is told; the line itself may hold credentials.
            Err(error) => Answer::No { words: format!("not a question: {error}"), refused: false },
        };
        let Ok(text) = line(&answer) else { return };
        if write.write_all(&text).await.is_err() {
            return;
        }
    }
}

async fn answer(gateway: &Arc<Gateway>, question: Question, stop: &CancellationToken) -> Answer {
    let outcome = match question {
        Question::Register(wanted) => gateway
            .register(*wanted)
            .await
            .map(|Registered { run, reattach }| Answer::Registered { run, reattach }),
        Question::Seen { run } => gateway.seen(&run).map(Answer::Seen),
        Question::Release { run } => gateway.release(&run).map(Answer::Seen),
        Question::Probe { of, ask } => gateway.probe(&of, &ask).await.map(|probed| Answer::Probed { probed }),
        Question::Package { dir } => gateway.package(&dir).await.map(Answer::Package),
        Question::Report => Ok(Answer::Report(report(gateway))),
        Question::End => {
            tokio::spawn(end(Arc::clone(gateway), stop.clone()));
            Ok(Answer::Ending)
        }
    };
    outcome.unwrap_or_else(|error| Answer::from(&error))
}

/// Runs that are under way keep it alive: ending it would fail them.
async fn end(gateway: Arc<Gateway>, stop: CancellationToken) {
    while !gateway.close_after(Duration::ZERO) {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    stop.cancel();
}

fn report(gateway: &Gateway) -> Report {
    let herds = gateway.pool.herds();
    let live = herds.iter().flat_map(|herd| {
        let name = digest::hex(herd.key.get(..4).unwrap_or_default());
        herd.processes().into_iter().filter(|process| !process.is_dead()).map(move |process| Live {
            pid: process.pid,
            memory: process.memory(),
            calls: process.calls(),
            age: process.age().as_secs(),
            herd: name.clone(),
        })
    });
    Report {
        pid: std::process::id(),
        runs: gateway.runs(),
        providers: live.collect(),
        counts: gateway.counters().counts(),
    }
}
