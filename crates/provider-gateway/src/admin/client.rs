//! Asks questions.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use thiserror::Error;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::UnixStream,
    time::timeout,
};

use super::protocol::{Answer, Question, Report, line};
use crate::gateway::Registration;
use crate::{
    gateway::Registered,
    package::Package,
    probe::{Ask, Probed},
    serve::Seen,
};

/// Longer than the longest start of a provider on a machine that is very busy.
const PATIENCE: Duration = Duration::from_mins(3);

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum AskError {
    /// There is no gateway.
    #[error("the gateway does not answer at {}", socket.display())]
    Gone {
        /// Its socket.
        socket: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// It cannot do what was asked.
    #[error("{0}")]
    No(String),
    /// The provider is not what was locked: nobody may go on with it.
    #[error("{0}")]
    Refused(String),
    /// It answers something else.
    #[error("the gateway answered something that was not asked; it is of another version of capt")]
    Nonsense,
}

/// Talks to a gateway.
#[derive(Debug, Clone)]
pub struct Client {
    socket: PathBuf,
}

impl Client {
    /// At this socket.
    pub fn at(socket: impl Into<PathBuf>) -> Self {
        Self { socket: socket.into() }
    }

    /// Where.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Registers a run.
    pub async fn register(&self, wanted: Registration) -> Result<Registered, AskError> {
        match self.ask(&Question::Register(Box::new(wanted))).await? {
            Answer::Registered { run, reattach } => Ok(Registered { run, reattach }),
            Answer::Ending => {
                let source = io::Error::new(io::ErrorKind::NotConnected, "it is about to end");
                Err(AskError::Gone { socket: self.socket.clone(), source })
            }
            _ => Err(AskError::Nonsense),
        }
    }

    /// What a run has done so far.
    pub async fn seen(&self, run: &str) -> Result<Seen, AskError> {
        self.about(&Question::Seen { run: run.to_owned() }).await
    }

    /// Ends a run; what it has done.
    pub async fn release(&self, run: &str) -> Result<Seen, AskError> {
        self.about(&Question::Release { run: run.to_owned() }).await
    }

    async fn about(&self, question: &Question) -> Result<Seen, AskError> {
        match self.ask(question).await? {
            Answer::Seen(seen) => Ok(seen),
            _ => Err(AskError::Nonsense),
        }
    }

    /// Asks about objects; `None` if the gateway does not know their configuration.
    pub async fn probe(&self, of: Registration, ask: Ask) -> Result<Option<Probed>, AskError> {
        match self.ask(&Question::Probe { of: Box::new(of), ask }).await? {
            Answer::Probed { probed } => Ok(probed),
            _ => Err(AskError::Nonsense),
        }
    }

    /// What a package is.
    pub async fn package(&self, dir: &Path) -> Result<Package, AskError> {
        match self.ask(&Question::Package { dir: dir.to_owned() }).await? {
            Answer::Package(package) => Ok(package),
            _ => Err(AskError::Nonsense),
        }
    }

    /// How the gateway is.
    pub async fn report(&self) -> Result<Report, AskError> {
        match self.ask(&Question::Report).await? {
            Answer::Report(report) => Ok(report),
            _ => Err(AskError::Nonsense),
        }
    }

    /// Lets it end as soon as nobody uses it.
    pub async fn end(&self) -> Result<(), AskError> {
        self.ask(&Question::End).await.map(drop)
    }

    /// One question, one answer.
    pub async fn ask(&self, question: &Question) -> Result<Answer, AskError> {
        let gone = |source| AskError::Gone { socket: self.socket.clone(), source };
        let late = |_| gone(io::Error::new(io::ErrorKind::TimedOut, "no answer in time"));
        match timeout(PATIENCE, self.exchange(question)).await.map_err(late)?.map_err(gone)? {
            Some(Answer::No { words, refused: true }) => Err(AskError::Refused(words)),
            Some(Answer::No { words, refused: false }) => Err(AskError::No(words)),
            Some(answer) => Ok(answer),
            None => Err(AskError::Nonsense),
        }
    }

    async fn exchange(&self, question: &Question) -> io::Result<Option<Answer>> {
        let stream = UnixStream::connect(&self.socket).await?;
        let (read, mut write) = stream.into_split();
        write.write_all(&line(question)?).await?;
        match BufReader::new(read).lines().next_line().await? {
            Some(line) => Ok(serde_json::from_str(&line).ok()),
            None => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it hung up")),
        }
    }
}
