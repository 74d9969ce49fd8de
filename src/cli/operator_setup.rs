//! Operator setup shared by `capt run` and `capt up`: engine, providers, AWS, data directory, signals.

use std::{
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

use anyhow::bail;
use capt_engine::{
    aws::{Cloud, get_caller_identity},
    gateway::GatewayHandle,
    pipeline::{
        CloudBinding, DataDirectory, list_workspaces, list_workspaces_with_resources, remove_all_workspaces,
    },
    process_env::ProcessEnv,
};
use kube::Client;
use terraform_driver::{engine::Engine, run::RunHandle};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    kube_api::{count_states, reset_workspaces},
    output,
    run_setup::{EngineArgs, default_region, describe_data_dir_error},
};
use crate::{
    aws_mode::AwsMode,
    local::{
        aws_daemon::{LocalAwsDaemon, LocalAwsError},
        aws_record::LocalAwsRecord,
    },
    operator::Dependencies,
};

/// The AWS that an operator manages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AwsTarget {
    Local,
    Real,
    /// An AWS-compatible endpoint.
    Endpoint(String),
}

impl FromStr for AwsTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "local" if cfg!(feature = "local") => Ok(Self::Local),
            "real" => Ok(Self::Real),
            url if url.starts_with("http://") || url.starts_with("https://") => {
                Ok(Self::Endpoint(url.to_owned()))
            }
            "local" => Err("this capt was built without the local AWS; use real, or a URL".to_owned()),
            _ => Err("use real, local, or a URL such as http://127.0.0.1:4599".to_owned()),
        }
    }
}

impl From<AwsMode> for AwsTarget {
    fn from(mode: AwsMode) -> Self {
        match mode {
            AwsMode::Local => Self::Local,
            AwsMode::Real => Self::Real,
        }
    }
}

/// Everything an operator needs except AWS.
pub(super) struct OperatorSetup {
    process_env: ProcessEnv,
    data: PathBuf,
    engine: Engine,
    cli_config: String,
    /// The provider gateway; `None` if every terraform starts its own providers.
    gateway: Option<GatewayHandle>,
    is_isolated: bool,
    client: Client,
}

/// The resolved AWS.
pub(super) struct AwsSetup {
    cloud: Cloud,
    default_region: String,
    /// The local AWS, if that is the target.
    pub(super) server: Option<LocalAwsRecord>,
    /// Messages for the user.
    pub(super) notes: Vec<String>,
}

impl OperatorSetup {
    /// Locates terraform and its providers.
    pub(super) async fn new(
        process_env: &ProcessEnv,
        data: PathBuf,
        tools: &EngineArgs,
        client: Client,
    ) -> anyhow::Result<Self> {
        let (engine, discovery) = tools.locate(process_env).await?;
        for note in &discovery.notes {
            output::print_warning(note);
        }
        let cli_config = discovery.cli_config_text();
        let shares = tools.uses_gateway().unwrap_or(true);
        let gateway = shares.then(|| {
            GatewayHandle::new(process_env, &data, discovery).with_idle_timeout(GATEWAY_IDLE_TIMEOUT)
        });
        let is_isolated = tools.isolation.is_on()?;
        Ok(Self { process_env: process_env.clone(), data, engine, cli_config, gateway, is_isolated, client })
    }

    /// Resolves the AWS target and binds the data directory to it. The lock on the directory is released on return; the
    /// operator takes its own.
    pub(super) async fn resolve_aws(&self, aws: &AwsTarget) -> anyhow::Result<AwsSetup> {
        let nowhere = Cloud::Local { endpoint: String::new() };
        let data_dir = DataDirectory::open(
            &self.process_env,
            &self.data,
            nowhere,
            self.engine.clone(),
            &self.cli_config,
        )
        .map_err(|error| describe_data_dir_error(&self.data, error))?;
        let default_region = default_region(&self.process_env);
        match aws {
            AwsTarget::Local => {
                data_dir.bind_cloud(&CloudBinding::Local)?;
                let (server, notes) = self.start_local_aws().await?;
                let cloud = Cloud::Local { endpoint: server.endpoint.clone() };
                Ok(AwsSetup { cloud, default_region, server: Some(server), notes })
            }
            AwsTarget::Real => {
                let account = get_caller_identity(&Cloud::Real.sdk_config(None).await).await?;
                data_dir.bind_cloud(&CloudBinding::Account(account.id.clone()))?;
                let default_region = account.region.unwrap_or(default_region);
                let notes = vec![format!("AWS account {} as {}, {default_region}", account.id, account.arn)];
                Ok(AwsSetup { cloud: Cloud::Real, default_region, server: None, notes })
            }
            AwsTarget::Endpoint(endpoint) => {
                let cloud = Cloud::Local { endpoint: endpoint.clone() };
                Ok(AwsSetup { cloud, default_region, server: None, notes: Vec::new() })
            }
        }
    }

    /// Starts the local AWS. If it lost its resources, resets the states so that the operator recreates them. Idempotent.
    async fn start_local_aws(&self) -> anyhow::Result<(LocalAwsRecord, Vec<String>)> {
        let aws = LocalAwsDaemon::new(&self.process_env, &self.data);
        let (server, _) = aws.ensure_running(log_info).await?;
        let count = list_workspaces_with_resources(&self.data)?.len().max(count_states(&self.client).await?);
        match aws.verify_instance(&server, count) {
            Err(LocalAwsError::MemoryLost { .. }) => {}
            other => return Ok((server, other.map(|()| Vec::new())?)),
        }
        wait_until_no_terraform_runs(&self.data).await?;
        reset_workspaces(&self.client).await?;
        remove_all_workspaces(&self.data)?;
        aws.forget_instance()?;
        aws.verify_instance(&server, 0)?;
        let note = format!(
            "the local AWS was restarted and lost its resources (they are kept in memory only); recreating {count} \
            workspace(s)"
        );
        Ok((server, vec![note]))
    }

    /// The operator's dependencies.
    pub(super) fn dependencies(&self, found: &AwsSetup) -> Dependencies {
        Dependencies {
            client: self.client.clone(),
            process_env: self.process_env.clone(),
            data: self.data.clone(),
            engine: self.engine.clone(),
            cli_config: self.cli_config.clone(),
            gateway: self.gateway.clone(),
            is_isolated: self.is_isolated,
            cloud: found.cloud.clone(),
            default_region: found.default_region.clone(),
            log_level: None,
        }
    }

    /// Resolves when the local AWS instance that the operator was started with is gone.
    pub(super) async fn wait_until_local_aws_lost(&self, server: Option<&LocalAwsRecord>) {
        let Some(server) = server else { return std::future::pending().await };
        let aws = LocalAwsDaemon::new(&self.process_env, &self.data);
        loop {
            tokio::time::sleep(LOCAL_AWS_POLL_INTERVAL).await;
            // An unresponsive instance is busy, not gone.
            match aws.running().await {
                Ok(Some(now)) if now.instance == server.instance => {}
                Ok(_) => return,
                Err(_) => {}
            }
        }
    }
}

/// A terraform process that outlived its caller still writes to its workspace.
pub(super) fn refuse_if_terraform_runs(data: &Path) -> anyhow::Result<()> {
    for (key, record) in list_workspaces(data)? {
        if let Some(run) = RunHandle::find_alive(&record.workspace_dir(data, &key))? {
            bail!(
                "terraform is still running in {}; wait until it exits, then run the same command again (its output is \
                in {})",
                record.workspace_dir(data, &key).dir().display(),
                run.dir().path().display()
            );
        }
    }
    Ok(())
}

/// Long enough to survive drift intervals: a restarted gateway would have to start and configure its providers again.
const GATEWAY_IDLE_TIMEOUT: Duration = Duration::from_hours(24);

/// How often the local AWS instance is checked.
const LOCAL_AWS_POLL_INTERVAL: Duration = Duration::from_secs(5);

/// Orphaned terraform processes fail soon, because their AWS endpoint is gone.
async fn wait_until_no_terraform_runs(data: &std::path::Path) -> anyhow::Result<()> {
    let begun = Instant::now();
    while let Err(error) = refuse_if_terraform_runs(data) {
        if begun.elapsed() >= Duration::from_mins(5) {
            return Err(error);
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    Ok(())
}

/// Logs a message at info level.
pub(super) fn log_info(text: &str) {
    tracing::info!("{text}");
}

/// Runs the work until it completes. The first stop signal requests a graceful shutdown, the second returns at once.
pub(super) async fn run_until_signalled(
    stop: &CancellationToken,
    tell: impl Fn(&str),
    work: impl Future<Output = anyhow::Result<()>>,
) -> anyhow::Result<()> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    // Closing the terminal does not stop the process.
    let mut hang_up = signal(SignalKind::hangup())?;
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return done,
            _ = hang_up.recv() => {}
            () = async { tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} } } => {
                if stop.is_cancelled() {
                    tell("exiting immediately; running terraform processes continue and are adopted by the next start");
                    return Ok(());
                }
                tell("shutting down; send a second signal to exit immediately");
                stop.cancel();
            }
        }
    }
}
