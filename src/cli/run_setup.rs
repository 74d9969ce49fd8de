//! Preparation of plan, apply and destroy: engine, providers, AWS, data directory.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use capt_engine::{
    aws::{Cloud, get_caller_identity},
    gateway::GatewayHandle,
    pipeline::{
        CloudBinding, DataDirectory, DataDirectoryError, find_engine, list_workspaces_with_resources,
    },
    process_env::ProcessEnv,
};
use capt_model::workspaces::ProviderDefaults;
use clap::{Args, builder::BoolishValueParser};
use terraform_driver::{
    engine::{Engine, EngineKind},
    providers::{
        DiscoveryInputs, ProviderDiscovery, ProviderRequirement, default_search_roots, discover_providers,
    },
    workspace::is_lock_held,
};

use super::{DataDirArg, manifest_files::DesiredWorkspaces, output};
use crate::{aws_mode::AwsMode, local::aws_daemon::LocalAwsDaemon};

/// Arguments of every command that runs terraform.
#[derive(Debug, Clone, Args)]
pub(super) struct RunArgs {
    #[command(flatten)]
    pub(super) data: DataDirArg,
    /// Target AWS: the local AWS, or the account of the default credential chain.
    #[arg(long, value_enum, default_value_t, env = "CAPT_AWS")]
    pub(super) aws: AwsMode,
    #[command(flatten)]
    pub(super) tools: EngineArgs,
    /// Maximum concurrent terraform processes.
    #[arg(long, value_name = "N", default_value_t = default_parallelism())]
    pub(super) parallel: usize,
}

/// Engine and provider arguments.
#[derive(Debug, Clone, Args)]
pub(super) struct EngineArgs {
    /// `terraform`, `tofu`, or the path of a binary; searched on PATH by default.
    #[arg(long, env = "CAPT_ENGINE")]
    pub(super) engine: Option<String>,
    /// Provider mirror: the directory that contains `registry.terraform.io`; discovered by default.
    #[arg(long, value_name = "DIR", env = "CAPT_PROVIDER_MIRROR")]
    pub(super) provider_mirror: Option<PathBuf>,
    /// Disable the provider gateway: every terraform starts its own providers, which is much slower.
    #[arg(long)]
    pub(super) no_gateway: bool,
    /// Whether runs may use only their own files and the ports that they need: as far as the kernel can (auto), or not at all if it cannot
    /// (require), or without limits (off).
    #[arg(long, value_enum, default_value_t, value_name = "MODE", env = "CAPT_ISOLATION")]
    pub(super) isolation: Isolation,
    /// Overrides --no-gateway.
    #[arg(long, value_name = "BOOL", env = "CAPT_GATEWAY", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_parser = BoolishValueParser::new(), hide = true)]
    pub(super) gateway: Option<bool>,
}

/// Whether runs are confined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(super) enum Isolation {
    /// As far as the kernel can.
    #[default]
    Auto,
    /// Or nothing runs.
    Require,
    /// No.
    Off,
}

impl Isolation {
    /// Whether runs are confined; an error if they must be and cannot.
    pub(super) fn is_on(self) -> anyhow::Result<bool> {
        match (self, isolation::probe().problem()) {
            (Self::Off, _) => Ok(false),
            (Self::Require, Some(problem)) => {
                bail!(
                    "runs cannot be confined on this machine: {problem}; use another kernel, or --isolation=off"
                )
            }
            (Self::Auto | Self::Require, _) => Ok(true),
        }
    }
}

/// AWS provider versions that the built-in modules support.
const AWS_PROVIDER_CONSTRAINT: &str = ">= 5.61, < 7";

/// Two per core, because terraform mostly waits for AWS.
pub(super) fn default_parallelism() -> usize {
    std::thread::available_parallelism().map_or(4, |cores| cores.get() * 2)
}

/// An opened data directory and its provider defaults.
pub(super) struct RunEnvironment {
    pub(super) data_dir: DataDirectory,
    pub(super) place: ProviderDefaults,
}

impl EngineArgs {
    /// Whether to use the provider gateway, if set by flag or variable. Flags win over variables.
    pub(super) fn uses_gateway(&self) -> Option<bool> {
        if self.no_gateway { Some(false) } else { self.gateway }
    }

    /// Locates the engine and its providers.
    pub(super) async fn locate(
        &self,
        process_env: &ProcessEnv,
    ) -> anyhow::Result<(Engine, ProviderDiscovery)> {
        let engine = find_engine(process_env, self.engine.as_deref()).await?;
        let discovery = self.discover_providers(process_env, engine.kind)?;
        Ok((engine, discovery))
    }

    pub(super) fn discover_providers(
        &self,
        process_env: &ProcessEnv,
        engine: EngineKind,
    ) -> anyhow::Result<ProviderDiscovery> {
        let around = DiscoveryInputs {
            setting: self.provider_mirror.as_deref(),
            env: &process_env.env,
            roots: &default_search_roots(process_env.home()),
            engine,
        };
        let wanted = ProviderRequirement::new("hashicorp", "aws", AWS_PROVIDER_CONSTRAINT)
            .context("internal error: invalid provider constraint")?;
        Ok(discover_providers(&around, &[wanted])?)
    }
}

impl RunArgs {
    /// The command line uses the default credential chain; an object with another identity would be applied to the wrong
    /// account.
    pub(super) fn reject_identities(&self, asked: &DesiredWorkspaces) -> anyhow::Result<()> {
        let units = asked.manifests.clusters.iter();
        let identities = units.flat_map(|unit| {
            let network = unit.network.as_ref().and_then(|it| it.valid.identity.as_ref());
            network.into_iter().chain(unit.control_plane.as_ref().and_then(|it| it.valid.identity.as_ref()))
        });
        let applies = asked.manifests.applies.values().filter_map(|it| it.valid.identity.as_ref());
        match identities.chain(applies).next() {
            Some(name) if self.aws == AwsMode::Real => bail!(
                "identityRef {name} is not supported by the command line, and the default credential chain may select \
                another account; remove identityRef, and select the account with AWS_PROFILE"
            ),
            _ => Ok(()),
        }
    }

    /// Opens the data directory, locates terraform, and starts the local AWS if it is the target.
    pub(super) async fn prepare(&self, process_env: &ProcessEnv) -> anyhow::Result<RunEnvironment> {
        let data = self.data.path(process_env);
        let (engine, discovery) = self.tools.locate(process_env).await?;
        for note in &discovery.notes {
            output::print_warning(note);
        }
        // Locked before anything starts; the AWS binding follows below.
        let nowhere = Cloud::Local { endpoint: String::new() };
        let mut dir = DataDirectory::open(process_env, &data, nowhere, engine, &discovery.cli_config_text())
            .map_err(|error| describe_data_dir_error(&data, error))?;
        dir.is_isolated = self.tools.isolation.is_on()?;
        let (cloud, region) = match self.aws {
            AwsMode::Local => {
                dir.bind_cloud(&CloudBinding::Local)?;
                (self.start_local_aws(process_env).await?, None)
            }
            AwsMode::Real => {
                let account = get_caller_identity(&Cloud::Real.sdk_config(None).await).await?;
                let region = account.region.as_deref().unwrap_or("the region of each object");
                output::print_message(&format!("AWS account {} as {}, {region}", account.id, account.arn));
                dir.bind_cloud(&CloudBinding::Account(account.id))?;
                (Cloud::Real, account.region)
            }
        };
        let place = ProviderDefaults {
            local_endpoint: match &cloud {
                Cloud::Local { endpoint } => Some(endpoint.clone()),
                Cloud::Real => None,
            },
            default_region: region.unwrap_or_else(|| default_region(process_env)),
        };
        dir.cloud = cloud;
        let shares = self.tools.uses_gateway().unwrap_or(true);
        dir.gateway = shares.then(|| GatewayHandle::new(process_env, &data, discovery));
        Ok(RunEnvironment { data_dir: dir, place })
    }

    async fn start_local_aws(&self, process_env: &ProcessEnv) -> anyhow::Result<Cloud> {
        let data = self.data.path(process_env);
        let aws = LocalAwsDaemon::new(process_env, &data);
        let (server, started) = aws.ensure_running(output::print_message).await?;
        if started {
            output::print_message(&format!(
                "the local AWS runs in the background at {} (`capt aws stop` stops it; use --aws real for a real account)",
                server.endpoint
            ));
        } else {
            output::print_message(&format!(
                "using the local AWS at {} (use --aws real for a real account)",
                server.endpoint
            ));
        }
        aws.verify_instance(&server, list_workspaces_with_resources(&data)?.len())?;
        Ok(Cloud::Local { endpoint: server.endpoint })
    }
}

/// Adds the --data hint to errors of the data directory.
pub(super) fn describe_data_dir_error(data: &Path, error: DataDirectoryError) -> anyhow::Error {
    let is_file = matches!(error, DataDirectoryError::File(_));
    let error = anyhow::Error::from(error);
    if is_file {
        let hint =
            format!("cannot use the data directory {}; choose another one with --data", data.display());
        return error.context(hint);
    }
    error
}

/// For destructive commands that do not open the directory.
pub(super) fn refuse_if_in_use(data: &Path) -> anyhow::Result<()> {
    if is_lock_held(&data.join("lock"))? {
        return Err(
            DataDirectoryError::InUse { data: data.to_owned(), holder: "another capt".to_owned() }.into()
        );
    }
    Ok(())
}

/// Region of objects without one.
pub(super) fn default_region(process_env: &ProcessEnv) -> String {
    process_env
        .var("AWS_REGION")
        .or_else(|| process_env.var("AWS_DEFAULT_REGION"))
        .unwrap_or("us-east-1")
        .to_owned()
}
