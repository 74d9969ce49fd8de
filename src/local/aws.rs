//! The local AWS of a data directory, as the commands see it: started when needed, left running, recognised
//! when it has lost its memory.

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

use super::{
    admin::{Admin, AdminError},
    serve::{Place, Server},
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
    /// It could not be stopped.
    #[error("cannot stop the local AWS (process {pid})")]
    Stop {
        /// Its process.
        pid: i32,
        /// The system's answer.
        #[source]
        source: std::io::Error,
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
        let Some(server) = read_json::<Server>(&self.place.server())? else { return Ok(None) };
        if !server.process.is_alive() {
            return Ok(None);
        }
        match Admin::at(&server.endpoint).health().await {
            Ok(health) => Ok(Some(Server { instance: health.instance, ..server })),
            Err(AdminError::Silent { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The one that runs; it is started if none does. The second value tells whether it was.
    pub async fn ensure(&self, tell: impl Fn(&str)) -> Result<(Server, bool), LocalAwsError> {
        if let Some(server) = self.running().await? {
            return Ok((server, false));
        }
        let python = python(&self.outer, tell).await?;
        private_dir(self.place.dir())?;
        let args = [
            "aws".to_owned(),
            "serve".to_owned(),
            "--data".to_owned(),
            self.data.display().to_string(),
            "--python".to_owned(),
            python.display().to_string(),
        ];
        let log = open_append(&self.place.log())?;
        let mut child =
            background(&self.outer.exe, &args, &self.environment(), log).map_err(LocalAwsError::Start)?;
        let begun = tokio::time::Instant::now();
        while begun.elapsed() < PATIENCE {
            if let Some(server) = self.running().await? {
                return Ok((server, true));
            }
            if child.try_wait().map_err(LocalAwsError::Start)?.is_some() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Err(LocalAwsError::NotUp { log: self.place.log(), tail: self.tail()? })
    }

    /// It needs nothing of ours, least of all credentials.
    fn environment(&self) -> BTreeMap<String, String> {
        ["PATH", "HOME", "LANG", "TMPDIR"]
            .into_iter()
            .filter_map(|name| Some((name.to_owned(), self.outer.var(name)?.to_owned())))
            .collect()
    }

    fn tail(&self) -> Result<String, FileError> {
        let bytes = read_optional(&self.place.log())?.unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let lines: Vec<&str> = text.lines().rev().take(5).collect();
        Ok(lines.into_iter().rev().fold(String::new(), |tail, line| tail + "\n  " + line))
    }

    /// Stops it; whether there was one.
    pub async fn stop(&self) -> Result<bool, LocalAwsError> {
        let Some(server) = read_json::<Server>(&self.place.server())? else { return Ok(false) };
        let alive = server.process.is_alive();
        server
            .process
            .terminate()
            .map_err(|source| LocalAwsError::Stop { pid: server.process.pid, source })?;
        for _ in 0..100 {
            if !server.process.is_alive() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(alive)
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
