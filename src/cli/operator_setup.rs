//! What `capt run` and `capt up` have in common: the ground that an operator stands on.

use std::{path::PathBuf, str::FromStr, time::Duration};

use kube::Client;
use terraform_driver::engine::Engine;
use tokio::{
    signal::unix::{SignalKind, signal},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    aws::refuse_if_terraform_runs,
    client::{forget_made, states},
    output,
    setup::{Tools, default_region, unusable},
};
use crate::{
    aws::{Cloud, account},
    config::{AwsMode, Outer},
    gateway::Gateway,
    local::{
        aws::{LocalAws, LocalAwsError},
        serve::Server,
    },
    operator::Surroundings,
    work::{Belongs, Site, forget_all, holding},
};

/// Which AWS an operator works on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Where {
    Local,
    Real,
    /// One that speaks like AWS, at a URL.
    At(String),
}

impl FromStr for Where {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "local" => Ok(Self::Local),
            "real" => Ok(Self::Real),
            url if url.starts_with("http://") || url.starts_with("https://") => Ok(Self::At(url.to_owned())),
            _ => Err("write real, local, or a URL such as http://127.0.0.1:4599".to_owned()),
        }
    }
}

impl From<AwsMode> for Where {
    fn from(mode: AwsMode) -> Self {
        match mode {
            AwsMode::Local => Self::Local,
            AwsMode::Real => Self::Real,
        }
    }
}

/// What there is before an AWS is chosen.
pub(super) struct Start {
    outer: Outer,
    data: PathBuf,
    engine: Engine,
    cli_config: String,
    /// Runs the providers, unless every terraform shall start its own.
    gateway: Option<Gateway>,
    client: Client,
}

/// The AWS that was found.
pub(super) struct Found {
    cloud: Cloud,
    default_region: String,
    /// The local one, if that is it.
    pub(super) server: Option<Server>,
    /// What people should hear.
    pub(super) notes: Vec<String>,
}

impl Start {
    /// Finds terraform and its providers.
    pub(super) async fn new(
        outer: &Outer,
        data: PathBuf,
        tools: &Tools,
        client: Client,
    ) -> anyhow::Result<Self> {
        let (engine, discovery) = tools.find(outer).await?;
        for note in &discovery.notes {
            output::warn(note);
        }
        let cli_config = discovery.cli_config_text();
        let shares = tools.shares().unwrap_or(true);
        let gateway = shares.then(|| Gateway::of(outer, &data, discovery).staying(STAYS));
        Ok(Self { outer: outer.clone(), data, engine, cli_config, gateway, client })
    }

    /// Finds the AWS, and makes sure that the data directory is for it. What the operator itself needs of the
    /// directory it takes itself; nobody else may have it meanwhile.
    pub(super) async fn settle(&self, aws: &Where) -> anyhow::Result<Found> {
        let nowhere = Cloud::Local { endpoint: String::new() };
        let site = Site::open(&self.outer, &self.data, nowhere, self.engine.clone(), &self.cli_config)
            .map_err(|error| unusable(&self.data, error))?;
        let default_region = default_region(&self.outer);
        match aws {
            Where::Local => {
                site.claim(&Belongs::Local)?;
                let (server, notes) = self.local().await?;
                let cloud = Cloud::Local { endpoint: server.endpoint.clone() };
                Ok(Found { cloud, default_region, server: Some(server), notes })
            }
            Where::Real => {
                let account = account(&Cloud::Real.sdk(None).await).await?;
                site.claim(&Belongs::Account(account.id.clone()))?;
                let default_region = account.region.unwrap_or(default_region);
                let notes = vec![format!("AWS account {} as {}, {default_region}", account.id, account.arn)];
                Ok(Found { cloud: Cloud::Real, default_region, server: None, notes })
            }
            Where::At(endpoint) => {
                let cloud = Cloud::Local { endpoint: endpoint.clone() };
                Ok(Found { cloud, default_region, server: None, notes: Vec::new() })
            }
        }
    }

    /// The local AWS. One that has lost its memory is no reason to stop: what was in it is forgotten, and the
    /// operator makes it anew. Everything here can be broken off and done again.
    async fn local(&self) -> anyhow::Result<(Server, Vec<String>)> {
        let aws = LocalAws::of(&self.outer, &self.data);
        let (server, _) = aws.ensure(to_log).await?;
        let count = holding(&self.data)?.len().max(states(&self.client).await?);
        match aws.check_memory(&server, count) {
            Err(LocalAwsError::MemoryLost { .. }) => {}
            other => return Ok((server, other.map(|()| Vec::new())?)),
        }
        until_no_terraform_runs(&self.data).await?;
        forget_made(&self.client).await?;
        forget_all(&self.data)?;
        aws.forget_memory()?;
        aws.check_memory(&server, 0)?;
        let note = format!(
            "the local AWS was restarted and what it held is gone (it keeps its resources in memory only); \
             {count} workspace(s) are made anew"
        );
        Ok((server, vec![note]))
    }

    /// What the operator gets.
    pub(super) fn surroundings(&self, found: &Found) -> Surroundings {
        Surroundings {
            client: self.client.clone(),
            outer: self.outer.clone(),
            data: self.data.clone(),
            engine: self.engine.clone(),
            cli_config: self.cli_config.clone(),
            gateway: self.gateway.clone(),
            cloud: found.cloud.clone(),
            default_region: found.default_region.clone(),
            log_level: None,
        }
    }

    /// Resolves when the local AWS is not the one any more that the operator was started with.
    pub(super) async fn lost(&self, server: Option<&Server>) {
        let Some(server) = server else { return std::future::pending().await };
        let aws = LocalAws::of(&self.outer, &self.data);
        loop {
            tokio::time::sleep(GLANCE).await;
            // One that keeps silent is busy; it is not taken for one that is gone.
            match aws.running().await {
                Ok(Some(now)) if now.instance == server.instance => {}
                Ok(_) => return,
                Err(_) => {}
            }
        }
    }
}

/// The operator comes back for every check of drift, and what the gateway knows by then it would have to learn anew.
const STAYS: Duration = Duration::from_hours(24);

/// How often the local AWS is looked at.
const GLANCE: Duration = Duration::from_secs(5);

/// Those that were left alone fail soon: what they talk to is gone.
async fn until_no_terraform_runs(data: &std::path::Path) -> anyhow::Result<()> {
    let begun = Instant::now();
    while let Err(error) = refuse_if_terraform_runs(data) {
        if begun.elapsed() >= Duration::from_mins(5) {
            return Err(error);
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    Ok(())
}

/// Tells the log.
pub(super) fn to_log(text: &str) {
    tracing::info!("{text}");
}

/// Works until the work is done or a signal came twice. The first one asks for a good end.
pub(super) async fn until_told(
    stop: &CancellationToken,
    tell: impl Fn(&str),
    work: impl Future<Output = anyhow::Result<()>>,
) -> anyhow::Result<()> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    // A terminal that goes away is no reason to end.
    let mut hang_up = signal(SignalKind::hangup())?;
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return done,
            _ = hang_up.recv() => {}
            () = async { tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} } } => {
                if stop.is_cancelled() {
                    tell("leaving at once; running terraforms go on and are found again");
                    return Ok(());
                }
                tell("stopping; a second signal leaves at once");
                stop.cancel();
            }
        }
    }
}
