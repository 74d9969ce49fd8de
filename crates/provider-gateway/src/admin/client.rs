//! Client of the admin socket.

use std::{
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use thiserror::Error;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    time::timeout,
};

use super::{
    protocol::{AdminHello, AdminRequest, AdminResponse, GatewayReport, to_line},
    secret::AdminSecret,
};
use crate::gateway::RunRegistration;
use crate::{
    gateway::RegisteredRun,
    journal::{ChangeInFlight, JournalEntry},
    package::Package,
    probe::{ProbeRequest, ProbeResult},
    serve::RunActivity,
};

/// Longer than the slowest provider start on a busy machine.
const REQUEST_TIMEOUT: Duration = Duration::from_mins(3);

/// A request to the gateway failed.
#[derive(Debug, Error)]
pub enum GatewayClientError {
    /// No gateway is listening.
    #[error("the gateway does not respond at {}", socket.display())]
    Unavailable {
        /// Its socket.
        socket: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The gateway could not fulfil the request.
    #[error("{0}")]
    Failed(String),
    /// The provider package does not match the lock file: the run must not continue.
    #[error("{0}")]
    Rejected(String),
    /// The response does not match the request.
    #[error("unexpected response from the gateway; it runs another version of capt")]
    UnexpectedResponse,
}

/// Client of a gateway in another process.
#[derive(Debug, Clone)]
pub struct GatewayClient {
    socket: PathBuf,
    /// Read for each request: the secret changes with the gateway.
    secret_file: Option<PathBuf>,
}

impl GatewayClient {
    /// A client for the gateway at this socket, with the file of its secret.
    pub fn new(socket: impl Into<PathBuf>, secret_file: impl Into<PathBuf>) -> Self {
        Self { socket: socket.into(), secret_file: Some(secret_file.into()) }
    }

    /// A client for a gateway of an earlier version, which has no secret.
    pub fn without_secret(socket: impl Into<PathBuf>) -> Self {
        Self { socket: socket.into(), secret_file: None }
    }

    /// Path of the gateway's socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Registers a run.
    pub async fn register(&self, wanted: RunRegistration) -> Result<RegisteredRun, GatewayClientError> {
        match self.request(&AdminRequest::Register(Box::new(wanted))).await? {
            AdminResponse::Registered { run, reattach } => Ok(RegisteredRun { run, reattach }),
            AdminResponse::Ending => {
                let source = io::Error::new(io::ErrorKind::NotConnected, "it is shutting down");
                Err(GatewayClientError::Unavailable { socket: self.socket.clone(), source })
            }
            _ => Err(GatewayClientError::UnexpectedResponse),
        }
    }

    /// Activity of a run so far.
    pub async fn run_activity(&self, run: &str) -> Result<RunActivity, GatewayClientError> {
        self.query_activity(&AdminRequest::Seen { run: run.to_owned() }).await
    }

    /// Ends a run; returns its activity.
    pub async fn release(&self, run: &str) -> Result<RunActivity, GatewayClientError> {
        self.query_activity(&AdminRequest::Release { run: run.to_owned() }).await
    }

    async fn query_activity(&self, question: &AdminRequest) -> Result<RunActivity, GatewayClientError> {
        match self.request(question).await? {
            AdminResponse::Seen(seen) => Ok(seen),
            _ => Err(GatewayClientError::UnexpectedResponse),
        }
    }

    /// Reads objects through the provider; `None` if the gateway does not know the provider's configuration.
    pub async fn probe(
        &self,
        of: RunRegistration,
        ask: ProbeRequest,
    ) -> Result<Option<ProbeResult>, GatewayClientError> {
        match self.request(&AdminRequest::Probe { of: Box::new(of), ask }).await? {
            AdminResponse::Probed { probed } => Ok(probed),
            _ => Err(GatewayClientError::UnexpectedResponse),
        }
    }

    /// Program and hashes of a package.
    pub async fn package(&self, dir: &Path) -> Result<Package, GatewayClientError> {
        match self.request(&AdminRequest::Package { dir: dir.to_owned() }).await? {
            AdminResponse::Package(package) => Ok(package),
            _ => Err(GatewayClientError::UnexpectedResponse),
        }
    }

    /// Closes the earlier runs of a workspace, whose terraform has exited, and lists their changes in flight.
    pub async fn changes_in_flight(
        &self,
        workspace: &str,
    ) -> Result<Vec<ChangeInFlight>, GatewayClientError> {
        match self.request(&AdminRequest::InFlight { workspace: workspace.to_owned() }).await? {
            AdminResponse::InFlight { changes } => Ok(changes),
            _ => Err(GatewayClientError::UnexpectedResponse),
        }
    }

    /// Drops journal entries.
    pub async fn drop_journal_entries(&self, calls: BTreeSet<u64>) -> Result<(), GatewayClientError> {
        match self.request(&AdminRequest::DropEntries { calls }).await? {
            AdminResponse::Dropped => Ok(()),
            _ => Err(GatewayClientError::UnexpectedResponse),
        }
    }

    /// Adds the entries of a journal that was lost.
    pub async fn import_journal_entries(&self, entries: Vec<JournalEntry>) -> Result<(), GatewayClientError> {
        match self.request(&AdminRequest::ImportEntries { entries }).await? {
            AdminResponse::Imported => Ok(()),
            _ => Err(GatewayClientError::UnexpectedResponse),
        }
    }

    /// Processes, runs and counters of the gateway.
    pub async fn report(&self) -> Result<GatewayReport, GatewayClientError> {
        match self.request(&AdminRequest::Report).await? {
            AdminResponse::Report(report) => Ok(report),
            _ => Err(GatewayClientError::UnexpectedResponse),
        }
    }

    /// Asks the gateway to shut down once it is idle.
    pub async fn shutdown(&self) -> Result<(), GatewayClientError> {
        self.request(&AdminRequest::End).await.map(drop)
    }

    /// Sends one request and waits for its response.
    pub async fn request(&self, question: &AdminRequest) -> Result<AdminResponse, GatewayClientError> {
        let gone = |source| GatewayClientError::Unavailable { socket: self.socket.clone(), source };
        let late = |_| gone(io::Error::new(io::ErrorKind::TimedOut, "no response in time"));
        match timeout(REQUEST_TIMEOUT, self.exchange(question)).await.map_err(late)?.map_err(gone)? {
            Some(AdminResponse::No { words, refused: true }) => Err(GatewayClientError::Rejected(words)),
            Some(AdminResponse::No { words, refused: false }) => Err(GatewayClientError::Failed(words)),
            // The secret is that of a gateway that has exited, or that is about to serve.
            Some(AdminResponse::Unauthenticated) => {
                Err(gone(io::Error::new(io::ErrorKind::PermissionDenied, "it does not accept the secret")))
            }
            Some(answer) => Ok(answer),
            None => Err(GatewayClientError::UnexpectedResponse),
        }
    }

    /// Connects and sends a request; returns the lines of the answer and what follows.
    pub(super) async fn send(
        &self,
        question: &AdminRequest,
    ) -> io::Result<(Lines<BufReader<OwnedReadHalf>>, OwnedWriteHalf)> {
        let mut text = match &self.secret_file {
            Some(file) => to_line(&AdminHello { secret: AdminSecret::read(file).await? })?,
            None => Vec::new(),
        };
        text.extend(to_line(question)?);
        let (read, mut write) = UnixStream::connect(&self.socket).await?.into_split();
        write.write_all(&text).await?;
        Ok((BufReader::new(read).lines(), write))
    }

    async fn exchange(&self, question: &AdminRequest) -> io::Result<Option<AdminResponse>> {
        let (mut lines, _write) = self.send(question).await?;
        match lines.next_line().await? {
            Some(line) => Ok(serde_json::from_str(&line).ok()),
            None => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the gateway closed the connection")),
        }
    }
}
