//! The place where the work happens: a data directory, an engine, an AWS.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use terraform_driver::{
    engine::{Engine, EngineError},
    environment::{Credentials, Environment, EnvironmentError, Inputs},
    exec::ShimProgram,
    hex::hex,
    render::Rendered,
    run::{Digests, Driver, Limits},
    workspace::{
        FileLock, LockError, Workspace,
        files::{FileError, private_dir, read_json, read_optional, write_atomic, write_json},
    },
};
use thiserror::Error;

use super::record::holding;
use crate::{
    aws::{Cloud, Principal, SdkConfig, Source},
    blueprint::Key,
    config::Outer,
    gateway::Gateway,
};

/// Why there is no place to work in.
#[derive(Debug, Error)]
pub enum SiteError {
    /// Another capt works there.
    #[error(
        "the data directory {} is in use by {holder}; wait until it is done, or use another one with --data",
        data.display()
    )]
    InUse {
        /// The directory.
        data: PathBuf,
        /// Who has it.
        holder: String,
    },
    /// The directory holds resources of another AWS.
    #[error(
        "the data directory {} holds resources of {holds}, and this would be {wanted}; \
         use another directory with --data",
        data.display()
    )]
    OtherCloud {
        /// The directory.
        data: PathBuf,
        /// What it holds.
        holds: Belongs,
        /// What was asked for.
        wanted: Belongs,
    },
    /// No usable terraform.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Terraform is there and does not run.
    #[error("cannot run {}; name another with --engine PATH", program.display())]
    Run {
        /// The engine.
        program: PathBuf,
        /// The system's answer.
        #[source]
        source: std::io::Error,
    },
    /// The environment of its commands.
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
}

/// Which AWS the resources of a data directory are in; in `DATA/cloud.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Belongs {
    /// The local one.
    Local,
    /// A real account.
    Account(String),
}

impl fmt::Display for Belongs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local => f.write_str("the local AWS"),
            Self::Account(id) => write!(f, "the AWS account {id}"),
        }
    }
}

/// A data directory that is ours for now.
pub struct Site {
    /// The directory.
    pub data: PathBuf,
    /// Which AWS.
    pub cloud: Cloud,
    /// Runs terraform.
    pub driver: Driver,
    /// What lends running providers; nothing if terraform shall start its own.
    pub gateway: Option<Gateway>,
    outer: Outer,
    cli_config: PathBuf,
    cli_config_text: String,
    _ours: FileLock,
}

impl Site {
    /// Takes the directory. `cli_config` is the text of our own terraform CLI configuration.
    pub fn open(
        outer: &Outer,
        data: &Path,
        cloud: Cloud,
        engine: Engine,
        cli_config: &str,
    ) -> Result<Self, SiteError> {
        let ours = take(data)?;
        let path = data.join("cli.tfrc");
        // A write goes to the disk and waits for it; most of the time nothing has changed.
        if read_optional(&path)?.as_deref() != Some(cli_config.as_bytes()) {
            write_atomic(&path, cli_config.as_bytes(), true)?;
        }
        let shim = ShimProgram { program: outer.exe.clone(), args: vec!["shim".to_owned()] };
        Ok(Self {
            data: data.to_owned(),
            cloud,
            driver: Driver { engine, shim, limits: Limits::default() },
            gateway: None,
            outer: outer.clone(),
            cli_config: path,
            cli_config_text: cli_config.to_owned(),
            _ours: ours,
        })
    }

    /// Makes sure that the directory is for this AWS: a state of one, refreshed against another, would lose
    /// everything in it.
    pub fn claim(&self, wanted: &Belongs) -> Result<(), SiteError> {
        let path = self.data.join("cloud.json");
        match read_json::<Belongs>(&path)? {
            Some(holds) if holds == *wanted => Ok(()),
            Some(holds) if !holding(&self.data)?.is_empty() => {
                Err(SiteError::OtherCloud { data: self.data.clone(), holds, wanted: wanted.clone() })
            }
            _ => Ok(write_json(&path, wanted)?),
        }
    }

    /// The directory of a workspace.
    pub fn workspace(&self, key: &Key) -> Workspace {
        workspace(&self.data, key)
    }

    /// The digests of what was rendered, for init and for the plan's hash.
    pub fn digests(&self, rendered: &Rendered, fetched: &[(String, Vec<u8>)]) -> Digests {
        let mut hash = Sha256::new();
        for (path, bytes) in fetched {
            hash.update(format!("{path} {}\n", bytes.len()));
            hash.update(bytes);
        }
        let source: String = hex(&hash.finalize());
        Digests {
            configuration: format!("{} {source}", rendered.digest),
            installation: format!("{} {source}\n{}", rendered.init_digest, self.cli_config_text),
        }
    }

    /// The environment of a workspace's commands, as somebody or as the operator itself.
    pub fn environment(
        &self,
        template: &[(String, String)],
        principal: Option<&Principal>,
    ) -> Result<Environment, SiteError> {
        let home = self.data.join("home");
        private_dir(&home)?;
        let real = self.cloud == Cloud::Real;
        // Whoever acts as somebody else must not find the operator's own files.
        let own_chain = principal.is_none_or(|it| matches!(it.source, Source::Default));
        let inputs = Inputs {
            cli_config: &self.cli_config,
            // The credential chain reads files below the home directory; the local AWS must not see them.
            home: if real && own_chain { self.outer.home().unwrap_or(&home) } else { &home },
            // Providers put their sockets here, and a socket's path must be short.
            tmp: Path::new(self.outer.var("TMPDIR").unwrap_or("/tmp")),
            credentials: match principal {
                Some(principal) => principal.terraform(&self.cloud).0,
                None if real => Credentials::Outer,
                None => Credentials::None,
            },
            template,
        };
        Ok(Environment::build(&self.outer.env, &inputs)?)
    }
}

impl Site {
    /// The AWS SDK for a region, as somebody or as the operator itself.
    pub async fn sdk(&self, region: Option<&str>, principal: Option<&Principal>) -> SdkConfig {
        match principal {
            Some(principal) => self.cloud.sdk_as(principal, region).await,
            None => self.cloud.sdk(region).await,
        }
    }
}

/// The directory of a workspace below a data directory.
pub fn workspace(data: &Path, key: &Key) -> Workspace {
    Workspace::at(data.join("workspaces").join(&key.namespace).join(&key.name))
}

fn take(data: &Path) -> Result<FileLock, SiteError> {
    private_dir(data)?;
    let holder = format!("another capt (process {})", std::process::id());
    FileLock::take(&data.join("lock"), &holder).map_err(|error| match error {
        LockError::Held { holder, .. } => SiteError::InUse { data: data.to_owned(), holder },
        LockError::File(error) => SiteError::File(error),
    })
}
