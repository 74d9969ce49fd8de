//! The local AWS of a data directory, as the commands see it: started when needed, left running, recognised
//! when it has lost its memory.
//!
//! Three things tell how it is. The lock of its [`Place`] is held from before it starts until it is gone,
//! `server.json` is there while it answers, and the process that is named there lives. A process that lives
//! and keeps silent is busy or stuck; it is never taken for one that is not there.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use terraform_driver::{
    exec::background,
    workspace::files::{FileError, open_append, private_dir, read_json, read_optional, write_atomic},
};
use thiserror::Error;
use tokio::{
    process::Child,
    time::{Instant, sleep},
};

use super::{
    admin::{Admin, AdminError},
    place::Place,
    serve::Server,
    venv::{VenvError, python},
};
use crate::config::Outer;

/// Why there is no local AWS.
#[derive(Debug, Error)]
pub enum LocalAwsError {
    /// It started and did not answer.
    #[error("the local AWS did not come up; its log is {}{tail}", log.display())]
    NotUp {
        /// Its log.
        log: PathBuf,
        /// The last lines of it.
        tail: String,
    },
    /// It could not be started.
    #[error("cannot start the local AWS")]
    Start(#[source] std::io::Error),
    /// It lives and says nothing.
    #[error(
        "the local AWS of {} (process {pid}) runs and has not answered for {seconds} seconds; run the same \
         command again when the machine is less busy, or end it, with all that it holds: \
         `capt aws stop --data {}`",
        data.display(), data.display()
    )]
    Mute {
        /// The data directory.
        data: PathBuf,
        /// Its process.
        pid: i32,
        /// How long it was asked.
        seconds: u64,
        /// How the last attempt ended.
        #[source]
        source: AdminError,
    },
    /// It could not be stopped.
    #[error("cannot stop the local AWS (process {pid})")]
    Stop {
        /// Its process.
        pid: i32,
        /// The system's answer.
        #[source]
        source: std::io::Error,
    },
    /// It was asked to end and did not.
    #[error(
        "the local AWS (process {pid}) was asked to end and still runs after {seconds} seconds; \
         to end it by force: `kill -9 {pid}`"
    )]
    StillRuns {
        /// Its process.
        pid: i32,
        /// How long it was waited for.
        seconds: u64,
    },
    /// Somebody holds the lock and does not say who it is.
    #[error(
        "a local AWS is being started in {} and does not come up, so it cannot be stopped; its log is {}",
        data.display(), log.display()
    )]
    Unready {
        /// The data directory.
        data: PathBuf,
        /// Its log.
        log: PathBuf,
    },
    /// It is not the one that the workspaces were made in.
    #[error(
        "the local AWS of {} was restarted since {count} workspace(s) were applied, and what it held is gone \
         (it keeps its resources in memory only). Nothing was planned. To start over: `capt aws reset --data {}`",
        data.display(), data.display()
    )]
    MemoryLost {
        /// The data directory.
        data: PathBuf,
        /// How many workspaces hold resources of the lost one.
        count: usize,
    },
    /// No python for it.
    #[error(transparent)]
    Python(#[from] VenvError),
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// It answers nonsense.
    #[error(transparent)]
    Admin(#[from] AdminError),
}

/// How long a cold start may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(2);

/// How long a living server may keep silent: a busy machine stalls it for a while.
const SILENCE: Duration = Duration::from_secs(30);

/// How long it may take to end: its last requests get two seconds, and so does moto.
const END: Duration = Duration::from_secs(30);

/// How often something is looked at that others change.
const LOOK: Duration = Duration::from_millis(100);

/// The local AWS of one data directory.
#[derive(Clone)]
pub struct LocalAws {
    outer: Outer,
    data: PathBuf,
    place: Place,
}

impl LocalAws {
    /// The one of `data`.
    pub fn of(outer: &Outer, data: &Path) -> Self {
        Self { outer: outer.clone(), data: data.to_owned(), place: Place::of(data) }
    }

    /// The one that runs, if one does.
    pub async fn running(&self) -> Result<Option<Server>, LocalAwsError> {
        self.heard_within(SILENCE).await
    }

    async fn heard_within(&self, patience: Duration) -> Result<Option<Server>, LocalAwsError> {
        let begun = Instant::now();
        // The record is read anew each time: the silent one may be about to end, and another may follow.
        while let Some(server) = self.recorded()? {
            match Admin::at(&server.endpoint).health().await {
                Ok(health) => return Ok(Some(Server { instance: health.instance, ..server })),
                Err(source @ AdminError::Silent { .. }) if begun.elapsed() >= patience => {
                    let (data, pid) = (self.data.clone(), server.process.pid);
                    return Err(LocalAwsError::Mute { data, pid, seconds: patience.as_secs(), source });
                }
                Err(AdminError::Silent { .. }) => sleep(LOOK).await,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(None)
    }

    /// The living process that wrote itself down.
    fn recorded(&self) -> Result<Option<Server>, FileError> {
        Ok(read_json::<Server>(&self.place.server())?.filter(|server| server.process.is_alive()))
    }

    /// The one that runs; it is started if none does. The second value tells whether it was.
    pub async fn ensure(&self, tell: impl Fn(&str)) -> Result<(Server, bool), LocalAwsError> {
        if let Some(server) = self.running().await? {
            return Ok((server, false));
        }
        let python = python(&self.outer, tell).await?;
        private_dir(self.place.dir())?;
        let begun = Instant::now();
        let mut ours: Option<(Child, Option<u32>)> = None;
        while begun.elapsed() < PATIENCE {
            if let Some(server) = self.running().await? {
                let started = ours.is_some_and(|(_, pid)| pid == u32::try_from(server.process.pid).ok());
                return Ok((server, started));
            }
            let coming = match &mut ours {
                Some((child, _)) => child.try_wait().map_err(LocalAwsError::Start)?.is_none(),
                None => false,
            };
            // Somebody else's may come up while ours found the door locked, or be just about to end.
            if !coming && !self.place.is_taken()? {
                if ours.is_some() {
                    break;
                }
                let child = self.start(&python)?;
                let pid = child.id();
                ours = Some((child, pid));
            }
            sleep(LOOK).await;
        }
        Err(LocalAwsError::NotUp { log: self.place.log(), tail: self.place.tail()? })
    }

    fn start(&self, python: &Path) -> Result<Child, LocalAwsError> {
        let args = [
            "aws".to_owned(),
            "serve".to_owned(),
            "--data".to_owned(),
            self.data.display().to_string(),
            "--python".to_owned(),
            python.display().to_string(),
        ];
        let log = open_append(&self.place.log())?;
        background(&self.outer.exe, &args, &self.environment(), log).map_err(LocalAwsError::Start)
    }

    /// It needs nothing of ours, least of all credentials.
    fn environment(&self) -> BTreeMap<String, String> {
        ["PATH", "HOME", "LANG", "TMPDIR"]
            .into_iter()
            .filter_map(|name| Some((name.to_owned(), self.outer.var(name)?.to_owned())))
            .collect()
    }

    /// Stops it; whether there was one. When this returns, it is gone.
    pub async fn stop(&self) -> Result<bool, LocalAwsError> {
        let Some(server) = self.settled().await? else {
            self.place.forget_dead_server()?;
            return Ok(false);
        };
        let process = server.process;
        if let Err(source) = process.terminate()
            && process.is_alive()
        {
            return Err(LocalAwsError::Stop { pid: process.pid, source });
        }
        let begun = Instant::now();
        while process.is_alive() {
            if begun.elapsed() >= END {
                return Err(LocalAwsError::StillRuns { pid: process.pid, seconds: END.as_secs() });
            }
            sleep(LOOK).await;
        }
        self.place.forget_dead_server()?;
        Ok(true)
    }

    /// The recorded one; one that is coming up is waited for, since it would be there a moment later.
    async fn settled(&self) -> Result<Option<Server>, LocalAwsError> {
        let begun = Instant::now();
        loop {
            if let Some(server) = self.recorded()? {
                return Ok(Some(server));
            }
            if !self.place.is_taken()? {
                return Ok(None);
            }
            if begun.elapsed() >= PATIENCE {
                return Err(LocalAwsError::Unready { data: self.data.clone(), log: self.place.log() });
            }
            sleep(LOOK).await;
        }
    }

    /// Refuses to go on with workspaces that were made in a local AWS whose memory is gone: terraform would
    /// find nothing of what the states tell and propose to make everything again.
    pub fn check_memory(&self, server: &Server, holding: usize) -> Result<(), LocalAwsError> {
        let known = read_optional(&self.instance_file())?;
        match known {
            Some(known) if known != server.instance.as_bytes() && holding > 0 => {
                Err(LocalAwsError::MemoryLost { data: self.data.clone(), count: holding })
            }
            Some(known) if known == server.instance.as_bytes() => Ok(()),
            _ => Ok(write_atomic(&self.instance_file(), server.instance.as_bytes(), false)?),
        }
    }

    /// Forgets which local AWS the workspaces were made in.
    pub fn forget_memory(&self) -> Result<(), LocalAwsError> {
        let path = self.instance_file();
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(FileError::new("remove", &path, error).into())
            }
            _ => Ok(()),
        }
    }

    fn instance_file(&self) -> PathBuf {
        self.place.dir().join("instance")
    }
}

#[cfg(test)]
mod tests;
