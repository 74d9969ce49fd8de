//! Server of the admin socket.

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
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::{
    journal_feed,
    protocol::{AdminHello, AdminRequest, AdminResponse, GatewayReport, ProcessReport, to_line},
    secret::AdminSecret,
};
use crate::{
    digest,
    gateway::{Gateway, GatewayError, RegisteredRun},
    serve::run::is_same_user,
};

/// Bounds on the first line of a connection, which may come from anybody.
const MAX_HELLO_BYTES: u64 = 4096;
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);

/// Bound on the size of a request.
const MAX_REQUEST_BYTES: u64 = 256 << 20;

/// Interval of housekeeping.
const TIDY_INTERVAL: Duration = Duration::from_secs(5);

/// The listening admin socket. Clients can connect as soon as it exists; they are answered once [`Self::serve`] runs.
pub struct AdminServer {
    listener: UnixListener,
    socket: PathBuf,
    /// Device and inode of the socket: the path may have been replaced by another file.
    socket_identity: (u64, u64),
    secret: Arc<AdminSecret>,
}

impl AdminServer {
    /// Binds the socket, replacing one that an earlier gateway left behind. Only clients with the secret are answered.
    pub fn bind(socket: &Path, secret: AdminSecret) -> io::Result<Self> {
        match std::fs::remove_file(socket) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(socket)?;
        std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o600))?;
        let file = file_identity(socket)?;
        Ok(Self { listener, socket: socket.to_owned(), socket_identity: file, secret: Arc::new(secret) })
    }

    /// Whether the socket's path still leads to this server.
    fn owns_socket(&self) -> bool {
        file_identity(&self.socket).is_ok_and(|file| file == self.socket_identity)
    }

    /// Serves requests until `stop`, or until the gateway has been idle for the given time.
    pub async fn serve(
        self,
        gateway: &Arc<Gateway>,
        idle: Option<Duration>,
        stop: &CancellationToken,
    ) -> io::Result<()> {
        let mut tidy = tokio::time::interval(TIDY_INTERVAL.min(idle.unwrap_or(TIDY_INTERVAL)));
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) if is_same_user(&stream) => {
                        let caller = (stream, Arc::clone(&self.secret));
                        tokio::spawn(serve_connection(caller, Arc::clone(gateway), stop.clone()));
                    }
                    Ok(_) => gateway.counters().strangers.increment(),
                    Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
                },
                _ = tidy.tick() => {
                    gateway.tidy();
                    if !self.owns_socket() {
                        tracing::info!("gateway directory was removed; shutting down");
                        return Ok(());
                    }
                    if idle.is_some_and(|idle| gateway.close_if_idle(idle)) {
                        tracing::info!("gateway is idle; shutting down");
                        break;
                    }
                }
            }
        }
        if !self.owns_socket() {
            return Ok(());
        }
        std::fs::remove_file(&self.socket)?;
        gateway.shut_down().await
    }
}

fn file_identity(path: &Path) -> io::Result<(u64, u64)> {
    let data = std::fs::symlink_metadata(path)?;
    Ok((data.dev(), data.ino()))
}

async fn serve_connection(
    (stream, secret): (UnixStream, Arc<AdminSecret>),
    gateway: Arc<Gateway>,
    stop: CancellationToken,
) {
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read.take(MAX_HELLO_BYTES)).lines();
    let hello = timeout(HELLO_TIMEOUT, lines.next_line()).await.ok().and_then(Result::ok).flatten();
    let hello: Option<AdminHello> = hello.and_then(|line| serde_json::from_str(&line).ok());
    if !hello.is_some_and(|hello| secret.matches(&hello.secret)) {
        gateway.counters().strangers.increment();
        tracing::warn!("a client without the secret was rejected at the admin socket");
        if let Ok(text) = to_line(&AdminResponse::Unauthenticated) {
            // It may be gone already.
            let _told = write.write_all(&text).await;
        }
        return;
    }
    lines.get_mut().get_mut().set_limit(MAX_REQUEST_BYTES);
    while let Ok(Some(asked)) = lines.next_line().await {
        let answer = match serde_json::from_str(&asked) {
            Ok(AdminRequest::FollowJournal { workspace }) => {
                return journal_feed::serve(lines, write, (gateway.journal(), &workspace)).await;
            }
            Ok(question) => handle_request(&gateway, question, &stop).await,
            // Only the position of the error is returned; the line itself may contain credentials.
            Err(error) => AdminResponse::No { words: format!("invalid request: {error}"), refused: false },
        };
        let Ok(text) = to_line(&answer) else { return };
        if write.write_all(&text).await.is_err() {
            return;
        }
    }
}

async fn handle_request(
    gateway: &Arc<Gateway>,
    question: AdminRequest,
    stop: &CancellationToken,
) -> AdminResponse {
    let outcome = match question {
        AdminRequest::Register(wanted) => gateway
            .register(*wanted)
            .await
            .map(|RegisteredRun { run, reattach }| AdminResponse::Registered { run, reattach }),
        AdminRequest::Seen { run } => gateway.run_activity(&run).map(AdminResponse::Seen),
        AdminRequest::Release { run } => gateway.release(&run).map(AdminResponse::Seen),
        AdminRequest::Probe { of, ask } => {
            gateway.probe(&of, &ask).await.map(|probed| AdminResponse::Probed { probed })
        }
        AdminRequest::Package { dir } => gateway.read_package(&dir).await.map(AdminResponse::Package),
        AdminRequest::InFlight { workspace } => {
            Ok(AdminResponse::InFlight { changes: gateway.close_runs_and_list_changes(&workspace) })
        }
        AdminRequest::DropEntries { calls } => {
            let dropped = gateway.journal().drop_calls(calls).await;
            dropped.map(|()| AdminResponse::Dropped).map_err(GatewayError::Journal)
        }
        AdminRequest::ImportEntries { entries } => {
            let imported = gateway.journal().import(entries).await;
            imported.map(|()| AdminResponse::Imported).map_err(GatewayError::Journal)
        }
        AdminRequest::FollowJournal { .. } => Ok(AdminResponse::No {
            words: "a connection that follows a journal is answered elsewhere; this is a bug in capt"
                .to_owned(),
            refused: false,
        }),
        AdminRequest::Report => Ok(AdminResponse::Report(build_report(gateway))),
        AdminRequest::End => {
            tokio::spawn(shut_down_when_idle(Arc::clone(gateway), stop.clone()));
            Ok(AdminResponse::Ending)
        }
    };
    outcome.unwrap_or_else(|error| AdminResponse::from(&error))
}

/// Waits for registered runs: shutting down earlier would fail them.
async fn shut_down_when_idle(gateway: Arc<Gateway>, stop: CancellationToken) {
    while !gateway.close_if_idle(Duration::ZERO) {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    stop.cancel();
}

fn build_report(gateway: &Gateway) -> GatewayReport {
    let herds = gateway.pool.groups();
    let live = herds.iter().flat_map(|herd| {
        let name = digest::to_hex(herd.key.get(..4).unwrap_or_default());
        herd.processes().into_iter().filter(|process| !process.is_dead()).map(move |process| ProcessReport {
            pid: process.pid,
            memory: process.memory_bytes(),
            calls: process.active_calls(),
            age: process.age().as_secs(),
            herd: name.clone(),
        })
    });
    GatewayReport {
        pid: std::process::id(),
        runs: gateway.run_count(),
        providers: live.collect(),
        counts: gateway.counters().counts(),
    }
}
