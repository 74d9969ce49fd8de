//! `capt up-serve`: the background process of `capt up`. Runs the embedded Kubernetes API (unless an external one is used)
//! and the operator, and restarts the operator when the local AWS is replaced.

use std::path::Path;

use anyhow::anyhow;
use capt_engine::{pipeline::SizeLimits, process_env::ProcessEnv};
use capt_model::model::Limits;
use embedded_kube::cluster::EmbeddedKube;
use kube::Client;
use terraform_driver::{
    clock,
    exec::ProcessId,
    workspace::{
        LockError,
        files::{create_private_dir, remove_optional, write_json},
    },
};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::{
    cli::{
        DataDirArg,
        kube_api::{discover_kinds, install_crds},
        kube_target::connect,
        logging, memory,
        operator_setup::{AwsSetup, OperatorSetup, log_info, run_until_signalled},
        output::ExitStatus,
        run_setup::{EngineArgs, Isolation, default_parallelism},
    },
    local::{
        embedded_api,
        up_daemon::{UpDaemon, UpRecord, UpSettings},
    },
    operator::{self, StandaloneMode},
};

/// Arguments of `capt up-serve`.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    data: DataDirArg,
}

pub(in crate::cli) async fn run(args: &Args, process_env: &ProcessEnv) -> anyhow::Result<ExitStatus> {
    let data = args.data.path(process_env);
    logging::init_logging(
        logging::LogFormat::Text,
        process_env.var("CAPT_LOG").unwrap_or(logging::DEFAULT_FILTER),
        None,
    )?;
    let up = UpDaemon::new(process_env, &data);
    let settings = up.settings()?.unwrap_or_default();
    let stop = CancellationToken::new();
    let serving = UpServer { process_env, up: &up, data: &data, settings: &settings, stop: stop.clone() };
    run_until_signalled(&stop, log_info, Box::pin(serving.run(None))).await?;
    Ok(ExitStatus::Done)
}

/// Delay between attempts after startup; the command that started the process is gone by then.
const RETRY_DELAY: std::time::Duration = std::time::Duration::from_secs(10);

fn own_process() -> anyhow::Result<ProcessId> {
    ProcessId::from_pid(std::process::id()).ok_or_else(|| anyhow!("cannot identify this process in /proc"))
}

/// The server process of one data directory.
pub(super) struct UpServer<'a> {
    pub(super) process_env: &'a ProcessEnv,
    pub(super) up: &'a UpDaemon,
    pub(super) data: &'a Path,
    pub(super) settings: &'a UpSettings,
    pub(super) stop: CancellationToken,
}

impl UpServer<'_> {
    /// Serves until stopped. Sends the record through `tell` once it serves.
    pub(super) async fn run(&self, tell: Option<oneshot::Sender<UpRecord>>) -> anyhow::Result<()> {
        create_private_dir(self.up.files().dir())?;
        let _alone = self.up.files().acquire_lock().await.map_err(|error| match error {
            LockError::Held { holder, .. } => anyhow!(
                "the data directory {} is already served by {holder}; stop it first with `capt stop --data {}`",
                self.data.display(),
                self.data.display()
            ),
            LockError::File(error) => error.into(),
        })?;
        // Removes the record of a killed predecessor; under the lock it can only be stale.
        remove_optional(&self.up.files().server_file())?;
        let embedded = if self.settings.uses_external_api() {
            None
        } else {
            Some(embedded_api::start_api(&embedded_api::api_dir(self.data), None, false).await?)
        };
        let outcome = self.run_operator_loop(embedded.as_ref(), tell).await;
        self.up.files().remove_record(own_process()?)?;
        if let Some(kube) = embedded {
            kube.stop().await;
        }
        outcome
    }

    async fn run_operator_loop(
        &self,
        embedded: Option<&EmbeddedKube>,
        mut tell: Option<oneshot::Sender<UpRecord>>,
    ) -> anyhow::Result<()> {
        let client = self.connect_client(embedded).await?;
        let tools = EngineArgs {
            engine: self.settings.engine.clone(),
            provider_mirror: self.settings.provider_mirror.clone(),
            no_gateway: self.settings.no_gateway,
            gateway: None,
            isolation: if self.settings.no_isolation { Isolation::Off } else { Isolation::Auto },
        };
        let start = OperatorSetup::new(self.process_env, self.data.to_owned(), &tools, client).await?;
        let aws = self.settings.aws.into();
        let mut is_up = false;
        // One iteration per local AWS instance.
        while !self.stop.is_cancelled() {
            let found = tokio::select! {
                found = start.resolve_aws(&aws) => found,
                () = self.stop.cancelled() => break,
            };
            let found = match found {
                // The starting command is gone and cannot report the error; retry instead.
                Err(error) if is_up => {
                    tracing::error!("operator setup failed, retrying: {error:#}");
                    self.wait_before_retry().await;
                    continue;
                }
                found => found?,
            };
            is_up = true;
            found.notes.iter().for_each(|note| log_info(note));
            let server = self.write_record(embedded, &found)?;
            if let Some(tell) = tell.take() {
                let _nobody_listens = tell.send(server);
            }
            self.run_operator(&start, &found).await?;
        }
        Ok(())
    }

    async fn wait_before_retry(&self) {
        tokio::select! {
            () = tokio::time::sleep(RETRY_DELAY) => {}
            () = self.stop.cancelled() => {}
        }
    }

    async fn connect_client(&self, embedded: Option<&EmbeddedKube>) -> anyhow::Result<Client> {
        if let Some(kube) = embedded {
            install_crds(&kube.client()).await?;
            return Ok(kube.client());
        }
        let client = connect(self.settings.kubeconfig.as_deref(), self.settings.context.as_deref()).await?;
        // CRDs of an external API are its owner's decision; only report what is missing.
        discover_kinds(&client).await?;
        Ok(client)
    }

    fn write_record(&self, embedded: Option<&EmbeddedKube>, found: &AwsSetup) -> anyhow::Result<UpRecord> {
        let own = embedded.and_then(|kube| kube.kubeconfig_path()).map(Path::to_owned);
        let server = UpRecord {
            process: own_process()?,
            kubeconfig: own.or_else(|| self.settings.kubeconfig.clone()),
            context: self.settings.context.clone(),
            started: clock::now(),
            aws: self.settings.aws,
            notes: found.notes.clone(),
        };
        write_json(&self.up.files().server_file(), &server)?;
        Ok(server)
    }

    /// Runs the operator until stopped, or until the local AWS instance is gone.
    async fn run_operator(&self, start: &OperatorSetup, found: &AwsSetup) -> anyhow::Result<()> {
        let stop = self.stop.child_token();
        let mut working =
            std::pin::pin!(operator::run(start.dependencies(found), self.operator_settings(), stop.clone()));
        tokio::select! {
            ended = &mut working => {
                ended?;
                if self.stop.is_cancelled() { Ok(()) } else { Err(anyhow!("the operator stopped unexpectedly")) }
            }
            () = start.wait_until_local_aws_lost(found.server.as_ref()) => {
                log_info("the local AWS is gone; restarting the operator with a new one");
                stop.cancel();
                working.await
            }
        }
    }

    fn operator_settings(&self) -> operator::OperatorSettings {
        operator::OperatorSettings {
            namespace: None,
            watch_filter: None,
            sandboxes: true,
            // An external API may have another capt operator. The namespace `default` always exists.
            leader_election: self.settings.uses_external_api().then(|| "default".to_owned()),
            listen: None,
            webhook_listen: None,
            standalone: StandaloneMode::Auto,
            parallel: self.settings.parallel.unwrap_or_else(default_parallelism).max(1),
            memory_budget_mb: memory::budget(),
            scheduling: operator::SchedulingSettings::default(),
            drift_interval: std::time::Duration::from_mins(10),
            preview_domain: None,
            // The objects are those of the user who started it.
            templates: operator::TemplatePolicy::All,
            // All objects are of the user of this machine.
            require_identity: false,
            require_owner_tag: false,
            size_limits: SizeLimits::default(),
            limits: Limits::default(),
        }
    }
}
