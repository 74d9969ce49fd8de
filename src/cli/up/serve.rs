//! `capt up-serve`: the background process itself. The Kubernetes API unless it is somebody else's, the operator,
//! and an eye on the local AWS.

use std::path::Path;

use anyhow::anyhow;
use embedded_kube::cluster::EmbeddedKube;
use kube::Client;
use terraform_driver::{
    clock,
    exec::ProcessId,
    workspace::{
        LockError,
        files::{private_dir, remove_optional, write_json},
    },
};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::{
    cli::{
        DataDir,
        access::connect,
        client::{install_kinds, kinds},
        log, memory,
        operate::{Found, Start, to_log, until_told},
        output::ExitStatus,
        setup::{Tools, parallel},
    },
    config::Outer,
    local::{
        kube as embedded_api,
        up::{Server, Settings, Up},
    },
    model::Limits,
    operator::{self, Standalone},
};

/// Where.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    data: DataDir,
}

pub(in crate::cli) async fn run(args: &Args, outer: &Outer) -> anyhow::Result<ExitStatus> {
    let data = args.data.path(outer);
    log::begin(log::LogFormat::Text, outer.var("CAPT_LOG").unwrap_or(log::USUAL), None)?;
    let up = Up::of(outer, &data);
    let settings = up.settings()?.unwrap_or_default();
    let stop = CancellationToken::new();
    let serving = Serving { outer, up: &up, data: &data, settings: &settings, stop: stop.clone() };
    until_told(&stop, to_log, Box::pin(serving.run(None))).await?;
    Ok(ExitStatus::Done)
}

/// How soon something is tried again that nobody is there to hear of.
const AGAIN: std::time::Duration = std::time::Duration::from_secs(10);

fn ourselves() -> anyhow::Result<ProcessId> {
    ProcessId::of(std::process::id()).ok_or_else(|| anyhow!("cannot find our own process"))
}

/// What is served.
pub(super) struct Serving<'a> {
    pub(super) outer: &'a Outer,
    pub(super) up: &'a Up,
    pub(super) data: &'a Path,
    pub(super) settings: &'a Settings,
    pub(super) stop: CancellationToken,
}

impl Serving<'_> {
    /// Serves until it is asked to stop. `tell` hears once that it does.
    pub(super) async fn run(&self, tell: Option<oneshot::Sender<Server>>) -> anyhow::Result<()> {
        private_dir(self.up.place().dir())?;
        let _alone = self.up.place().take().await.map_err(|error| match error {
            LockError::Held { holder, .. } => anyhow!(
                "the data directory {} is served already, by {holder}; end that one first with `capt stop --data {}`",
                self.data.display(),
                self.data.display()
            ),
            LockError::File(error) => error.into(),
        })?;
        // Of one that was killed: from here on whoever is written down there is us.
        remove_optional(&self.up.place().server())?;
        let embedded = if self.settings.is_elsewhere() {
            None
        } else {
            Some(embedded_api::start(&embedded_api::dir(self.data), None, false).await?)
        };
        let outcome = self.operate(embedded.as_ref(), tell).await;
        self.up.place().forget(ourselves()?)?;
        if let Some(kube) = embedded {
            kube.stop().await;
        }
        outcome
    }

    async fn operate(
        &self,
        embedded: Option<&EmbeddedKube>,
        mut tell: Option<oneshot::Sender<Server>>,
    ) -> anyhow::Result<()> {
        let client = self.client(embedded).await?;
        let tools = Tools {
            engine: self.settings.engine.clone(),
            provider_mirror: self.settings.provider_mirror.clone(),
            no_gateway: self.settings.no_gateway,
            gateway: None,
        };
        let start = Start::new(self.outer, self.data.to_owned(), &tools, client).await?;
        let aws = self.settings.aws.into();
        let mut is_up = false;
        // Each turn is for one life of the local AWS.
        while !self.stop.is_cancelled() {
            let found = tokio::select! {
                found = start.settle(&aws) => found,
                () = self.stop.cancelled() => break,
            };
            let found = match found {
                // Whoever started us is not there any more to hear of it, and the machine may be less busy later.
                Err(error) if is_up => {
                    tracing::error!("trying again soon: {error:#}");
                    self.pause().await;
                    continue;
                }
                found => found?,
            };
            is_up = true;
            found.notes.iter().for_each(|note| to_log(note));
            let server = self.record(embedded, &found)?;
            if let Some(tell) = tell.take() {
                let _nobody_listens = tell.send(server);
            }
            self.turn(&start, &found).await?;
        }
        Ok(())
    }

    async fn pause(&self) {
        tokio::select! {
            () = tokio::time::sleep(AGAIN) => {}
            () = self.stop.cancelled() => {}
        }
    }

    async fn client(&self, embedded: Option<&EmbeddedKube>) -> anyhow::Result<Client> {
        if let Some(kube) = embedded {
            install_kinds(&kube.client()).await?;
            return Ok(kube.client());
        }
        let client = connect(self.settings.kubeconfig.as_deref(), self.settings.context.as_deref()).await?;
        // Whose API it is, decides what is installed there; we only say what is missing.
        kinds(&client).await?;
        Ok(client)
    }

    fn record(&self, embedded: Option<&EmbeddedKube>, found: &Found) -> anyhow::Result<Server> {
        let own = embedded.and_then(|kube| kube.kubeconfig_path()).map(Path::to_owned);
        let server = Server {
            process: ourselves()?,
            kubeconfig: own.or_else(|| self.settings.kubeconfig.clone()),
            context: self.settings.context.clone(),
            started: clock::now(),
            aws: self.settings.aws,
            notes: found.notes.clone(),
        };
        write_json(&self.up.place().server(), &server)?;
        Ok(server)
    }

    /// Operates until it is asked to stop, or until the local AWS is another one.
    async fn turn(&self, start: &Start, found: &Found) -> anyhow::Result<()> {
        let stop = self.stop.child_token();
        let mut working =
            std::pin::pin!(operator::run(start.surroundings(found), self.operator_settings(), stop.clone()));
        tokio::select! {
            ended = &mut working => {
                ended?;
                if self.stop.is_cancelled() { Ok(()) } else { Err(anyhow!("the operator has ended by itself")) }
            }
            () = start.lost(found.server.as_ref()) => {
                to_log("the local AWS is gone; everything is begun anew in the next one");
                stop.cancel();
                working.await
            }
        }
    }

    fn operator_settings(&self) -> operator::Settings {
        operator::Settings {
            namespace: None,
            watch_filter: None,
            // On somebody else's API there may be another one of us. That namespace is always there.
            leader_election: self.settings.is_elsewhere().then(|| "default".to_owned()),
            listen: None,
            webhook_listen: None,
            standalone: Standalone::Auto,
            parallel: self.settings.parallel.unwrap_or_else(parallel).max(1),
            memory_budget_mb: memory::budget(),
            drift_interval: std::time::Duration::from_mins(10),
            preview_domain: None,
            limits: Limits::default(),
        }
    }
}
