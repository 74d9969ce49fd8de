//! The data directory, with the engine and the AWS account that it is used with.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use capt_model::workspaces::WorkspaceKey;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use terraform_driver::{
    engine::{Engine, EngineError},
    environment::{Environment, EnvironmentError, EnvironmentInputs, TerraformCredentials},
    exec::ShimProgram,
    hex::hex,
    render::RenderedWorkspace,
    run::{ConfigurationDigests, Driver, PhaseDeadlines, RunLease, RunLimits},
    workspace::{
        FileLock, LockError, WorkspaceDir,
        files::{FileError, create_private_dir, read_json, read_optional, write_atomic, write_json},
    },
};
use thiserror::Error;

use super::{
    confinement::ConfinementInputs, scratch_dirs::ScratchDirs, size_limits::SizeLimits,
    terraform_steps::TerraformSteps, workspace_record::list_workspaces_with_resources,
};
use crate::{
    aws::{Cloud, LOCAL_ACCESS_KEY, Principal, PrincipalSource, SdkConfig},
    gateway::GatewayHandle,
    process_env::ProcessEnv,
};

/// Why the data directory cannot be used.
#[derive(Debug, Error)]
pub enum DataDirectoryError {
    /// Another capt process holds the directory's lock.
    #[error(
        "the data directory {} is in use by {holder}; wait until it is done, or use another one with --data",
        data.display()
    )]
    InUse {
        /// The directory.
        data: PathBuf,
        /// The process that holds the lock.
        holder: String,
    },
    /// The directory holds resources of another AWS account.
    #[error(
        "the data directory {} holds resources of {holds}, not of {wanted}; \
         use another directory with --data",
        data.display()
    )]
    CloudMismatch {
        /// The directory.
        data: PathBuf,
        /// The account of the existing resources.
        holds: CloudBinding,
        /// The requested account.
        wanted: CloudBinding,
    },
    /// No usable terraform.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The engine cannot be executed.
    #[error("cannot run {}; name another with --engine PATH", program.display())]
    Run {
        /// The engine.
        program: PathBuf,
        /// The operating system's error.
        #[source]
        source: std::io::Error,
    },
    /// The environment of the commands is invalid.
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
}

/// AWS account that a data directory is bound to; stored in `DATA/cloud.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CloudBinding {
    /// The local AWS.
    Local,
    /// A real AWS account.
    Account(String),
}

impl fmt::Display for CloudBinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local => f.write_str("the local AWS"),
            Self::Account(id) => write!(f, "the AWS account {id}"),
        }
    }
}

/// `HOME` of runs that use the credentials of this process on a real AWS. All others have one of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RunHome {
    /// The user's, for commands that trust their manifests: git and SSO find their files.
    #[default]
    User,
    /// One of the workspace, in which the user's `~/.aws` is linked: for an operator, whose objects have many authors.
    Workspace,
}

/// A data directory, locked by this process until the value is dropped.
pub struct DataDirectory {
    /// The directory.
    pub path: PathBuf,
    /// The AWS that the commands talk to.
    pub cloud: Cloud,
    /// Runs terraform.
    pub driver: Box<dyn TerraformSteps>,
    /// The gateway that runs providers; `None` if terraform starts its own.
    pub gateway: Option<GatewayHandle>,
    /// `HOME` of runs with the credentials of this process.
    pub home: RunHome,
    /// Whether commands and providers are confined.
    pub is_isolated: bool,
    process_env: ProcessEnv,
    cli_config: PathBuf,
    cli_config_text: String,
    size_limits: SizeLimits,
    lease: OnceLock<RunLease>,
    _lock: FileLock,
}

impl DataDirectory {
    /// Locks the directory. `cli_config` is the text of the generated terraform CLI configuration.
    pub fn open(
        process_env: &ProcessEnv,
        data: &Path,
        cloud: Cloud,
        engine: Engine,
        cli_config: &str,
    ) -> Result<Self, DataDirectoryError> {
        let ours = lock_data_dir(data)?;
        let path = data.join("cli.tfrc");
        // Avoid an fsync when the file is unchanged.
        if read_optional(&path)?.as_deref() != Some(cli_config.as_bytes()) {
            write_atomic(&path, cli_config.as_bytes(), true)?;
        }
        Ok(Self {
            path: data.to_owned(),
            cloud,
            driver: driver(process_env, engine, PhaseDeadlines::default()),
            gateway: None,
            home: RunHome::default(),
            is_isolated: false,
            process_env: process_env.clone(),
            cli_config: path,
            cli_config_text: cli_config.to_owned(),
            size_limits: SizeLimits::default(),
            lease: OnceLock::new(),
            _lock: ours,
        })
    }

    /// Sets the limits of every workspace.
    pub fn set_size_limits(&mut self, limits: SizeLimits) {
        self.size_limits = limits;
        self.driver.set_max_log(limits.log.0);
    }

    /// The limits of every workspace.
    pub const fn size_limits(&self) -> &SizeLimits {
        &self.size_limits
    }

    /// Sets how long commands may take.
    pub fn set_deadlines(&mut self, engine: Engine, deadlines: PhaseDeadlines) {
        self.driver = driver(&self.process_env, engine, deadlines);
    }

    /// Binds the directory to an AWS account. Refreshing a state against another account would drop every resource
    /// from it, so a directory that holds resources is never rebound.
    pub fn bind_cloud(&self, wanted: &CloudBinding) -> Result<(), DataDirectoryError> {
        let path = self.path.join("cloud.json");
        match read_json::<CloudBinding>(&path)? {
            Some(holds) if holds == *wanted => Ok(()),
            Some(holds) if !list_workspaces_with_resources(&self.path)?.is_empty() => {
                Err(DataDirectoryError::CloudMismatch {
                    data: self.path.clone(),
                    holds,
                    wanted: wanted.clone(),
                })
            }
            _ => Ok(write_json(&path, wanted)?),
        }
    }

    /// Binds all runs that start from now on to the leadership of this process. A process leads once at most.
    pub fn set_lease(&self, lease: RunLease) {
        self.lease.get_or_init(|| lease);
    }

    /// The leadership of this process; `None` without leader election.
    pub fn lease(&self) -> Option<&RunLease> {
        self.lease.get()
    }

    /// The directory of a workspace.
    pub fn workspace_dir(&self, key: &WorkspaceKey) -> WorkspaceDir {
        workspace_dir(&self.path, key)
    }

    /// Digests of the rendered configuration: one decides whether `init` is skipped, one is part of the plan hash.
    pub fn digests(
        &self,
        rendered: &RenderedWorkspace,
        fetched: &[(String, Vec<u8>)],
    ) -> ConfigurationDigests {
        let mut hash = Sha256::new();
        for (path, bytes) in fetched {
            hash.update(format!("{path} {}\n", bytes.len()));
            hash.update(bytes);
        }
        let source: String = hex(hash.finalize());
        ConfigurationDigests {
            configuration: format!("{} {source}", rendered.digest),
            installation: format!("{} {source}\n{}", rendered.init_digest, self.cli_config_text),
        }
    }

    /// `HOME` and `TMPDIR` of a workspace.
    pub(crate) fn scratch_dirs(&self, workspace: &WorkspaceDir) -> ScratchDirs {
        let system_tmp = Path::new(self.process_env.var("TMPDIR").unwrap_or("/tmp"));
        ScratchDirs::of(&self.path, system_tmp, workspace)
    }

    /// Removes the directory of a workspace, with its `HOME` and `TMPDIR`.
    pub(crate) fn remove_workspace(&self, workspace: WorkspaceDir) -> Result<(), FileError> {
        self.scratch_dirs(&workspace).remove()?;
        workspace.remove()
    }

    /// Environment of a workspace's commands for a principal; `None` is the operator's own identity.
    pub fn environment(
        &self,
        workspace: &WorkspaceDir,
        template: &[(String, String)],
        principal: Option<&Principal>,
    ) -> Result<Environment, DataDirectoryError> {
        let provider_home = self.path.join("home");
        create_private_dir(&provider_home)?;
        let scratch = self.scratch_dirs(workspace);
        scratch.create()?;
        let real = self.cloud == Cloud::Real;
        // A run with another principal must not read the operator's own credential files.
        let own_chain = principal.is_none_or(|it| matches!(it.source, PrincipalSource::Default));
        // The credential chain reads files below the home directory; the local AWS must not see them.
        let user_home = self.process_env.home().filter(|_| real && own_chain);
        scratch.link_aws_files(user_home)?;
        let inputs = EnvironmentInputs {
            cli_config: &self.cli_config,
            home: user_home.filter(|_| self.home == RunHome::User).unwrap_or(&scratch.home),
            tmp: &scratch.tmp,
            credentials: match principal {
                Some(principal) => principal.terraform_credentials(&self.cloud).0,
                None if real => TerraformCredentials::Inherited,
                None => TerraformCredentials::Static {
                    access_key_id: LOCAL_ACCESS_KEY.to_owned(),
                    secret_access_key: LOCAL_ACCESS_KEY.to_owned(),
                    session_token: None,
                },
            },
            template,
        };
        // Providers of the gateway are shared by workspaces, so they cannot have the directories of one.
        let environment = Environment::build(&self.process_env.env, &inputs)?
            .with_provider_home(user_home.unwrap_or(&provider_home));
        // A provider block that is not generated, as in a nested module, has neither endpoints nor credentials.
        let environment = match &self.cloud {
            Cloud::Local { endpoint } => environment.with_aws_endpoint(endpoint),
            Cloud::Real => environment,
        };
        if !self.is_isolated {
            return Ok(environment);
        }
        let confinement = ConfinementInputs {
            process_env: &self.process_env,
            data: &self.path,
            cloud: &self.cloud,
            engine: self.driver.engine(),
            cli_config: (&self.cli_config, &self.cli_config_text),
            user_home,
            is_user_trusted: self.home == RunHome::User,
            template,
        };
        Ok(confinement.confine(environment, workspace, &scratch)?)
    }
}

impl DataDirectory {
    /// SDK configuration for a region and principal; `None` is the operator's own identity.
    pub async fn sdk_config(&self, region: Option<&str>, principal: Option<&Principal>) -> SdkConfig {
        match principal {
            Some(principal) => self.cloud.sdk_config_as(principal, region).await,
            None => self.cloud.sdk_config(region).await,
        }
    }
}

/// Directory of a workspace below a data directory.
pub fn workspace_dir(data: &Path, key: &WorkspaceKey) -> WorkspaceDir {
    WorkspaceDir::at(data.join("workspaces").join(&key.namespace).join(&key.name))
}

fn driver(process_env: &ProcessEnv, engine: Engine, deadlines: PhaseDeadlines) -> Box<Driver> {
    let shim = ShimProgram { program: process_env.exe.clone(), args: vec!["shim".to_owned()] };
    Box::new(Driver { engine, shim, limits: run_limits(process_env, deadlines) })
}

/// `CAPT_DISK_RESERVE_MIB` sets how much space each apply reserves.
fn run_limits(process_env: &ProcessEnv, deadlines: PhaseDeadlines) -> RunLimits {
    let defaults = RunLimits { deadlines, ..RunLimits::default() };
    let mebibytes = process_env.var("CAPT_DISK_RESERVE_MIB").and_then(|text| text.trim().parse::<u32>().ok());
    RunLimits { disk_reserve: mebibytes.map_or(defaults.disk_reserve, |it| u64::from(it) << 20), ..defaults }
}

/// Locks a data directory, so that no other capt uses it until the lock is dropped.
pub fn lock_data_dir(data: &Path) -> Result<FileLock, DataDirectoryError> {
    create_private_dir(data)?;
    let holder = format!("another capt (process {})", std::process::id());
    FileLock::acquire(&data.join("lock"), &holder).map_err(|error| match error {
        LockError::Held { holder, .. } => DataDirectoryError::InUse { data: data.to_owned(), holder },
        LockError::File(error) => DataDirectoryError::File(error),
    })
}
