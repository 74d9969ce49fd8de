//! Everything that plan, apply and destroy need before they begin.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::{Args, builder::BoolishValueParser};
use terraform_driver::{
    engine::{Engine, EngineKind},
    providers::{Discovery, Surroundings, Wanted, discover, usual_roots},
    workspace::is_held,
};

use super::{DataDir, files::Asked, output};
use crate::{
    aws::{Cloud, account},
    blueprint::Place,
    config::{AwsMode, Outer},
    gateway::Gateway,
    local::aws::LocalAws,
    work::{Belongs, Site, SiteError, find_engine, holding},
};

/// What every command that runs terraform takes.
#[derive(Debug, Clone, Args)]
pub(super) struct Setup {
    #[command(flatten)]
    pub(super) data: DataDir,
    /// Which AWS: the local one on this machine, or the account of the default credential chain.
    #[arg(long, value_enum, default_value_t, env = "CAPT_AWS")]
    pub(super) aws: AwsMode,
    #[command(flatten)]
    pub(super) tools: Tools,
    /// How many terraform processes may run at once.
    #[arg(long, value_name = "N", default_value_t = parallel())]
    pub(super) parallel: usize,
}

/// Which terraform, and where it finds its providers.
#[derive(Debug, Clone, Args)]
pub(super) struct Tools {
    /// `terraform`, `tofu`, or the path of one; found on PATH otherwise.
    #[arg(long, env = "CAPT_ENGINE")]
    pub(super) engine: Option<String>,
    /// The directory above `registry.terraform.io` that holds the providers; searched for otherwise.
    #[arg(long, value_name = "DIR", env = "CAPT_PROVIDER_MIRROR")]
    pub(super) provider_mirror: Option<PathBuf>,
    /// Let every terraform start its own providers, as it does by itself: much slower, for comparison.
    #[arg(long)]
    pub(super) no_gateway: bool,
    /// Undoes --no-gateway.
    #[arg(long, value_name = "BOOL", env = "CAPT_GATEWAY", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_parser = BoolishValueParser::new(), hide = true)]
    pub(super) gateway: Option<bool>,
}

/// The provider versions that the built-in modules ask for.
const AWS_PROVIDER: &str = ">= 5.61, < 7";

/// Two per core: half of the time a terraform waits for AWS.
pub(super) fn parallel() -> usize {
    std::thread::available_parallelism().map_or(4, |cores| cores.get() * 2)
}

/// A place to work in.
pub(super) struct Ready {
    pub(super) site: Site,
    pub(super) place: Place,
}

impl Tools {
    /// Whether terraforms share running providers, if somebody said so or the contrary. Flags win over variables.
    pub(super) fn shares(&self) -> Option<bool> {
        if self.no_gateway { Some(false) } else { self.gateway }
    }

    /// The engine, and where its providers are.
    pub(super) async fn find(&self, outer: &Outer) -> anyhow::Result<(Engine, Discovery)> {
        let engine = find_engine(outer, self.engine.as_deref()).await?;
        let discovery = self.providers(outer, engine.kind)?;
        Ok((engine, discovery))
    }

    pub(super) fn providers(&self, outer: &Outer, engine: EngineKind) -> anyhow::Result<Discovery> {
        let around = Surroundings {
            setting: self.provider_mirror.as_deref(),
            env: &outer.env,
            roots: &usual_roots(outer.home()),
            engine,
        };
        let wanted = Wanted::new("hashicorp", "aws", AWS_PROVIDER).context("our own constraint")?;
        Ok(discover(&around, &[wanted])?)
    }
}

impl Setup {
    /// A real account is chosen by the credential chain here; an object that asks for another identity must not
    /// end up in the wrong one.
    pub(super) fn refuse_identities(&self, asked: &Asked) -> anyhow::Result<()> {
        let units = asked.manifests.units.iter();
        let identities = units.flat_map(|unit| {
            let network = unit.network.as_ref().and_then(|it| it.valid.identity.as_ref());
            network.into_iter().chain(unit.control_plane.as_ref().and_then(|it| it.valid.identity.as_ref()))
        });
        let applies = asked.manifests.applies.values().filter_map(|it| it.valid.identity.as_ref());
        match identities.chain(applies).next() {
            Some(name) if self.aws == AwsMode::Real => bail!(
                "identityRef {name} is not used by the command line yet, and the default credential chain may lead \
                 to another account; take it out, and choose the account with AWS_PROFILE"
            ),
            _ => Ok(()),
        }
    }

    /// Opens the data directory, finds terraform, and starts the local AWS if that is the one.
    pub(super) async fn open(&self, outer: &Outer) -> anyhow::Result<Ready> {
        let data = self.data.path(outer);
        let (engine, discovery) = self.tools.find(outer).await?;
        for note in &discovery.notes {
            output::warn(note);
        }
        // Ours before anything is started for it. Which AWS it is for turns out below.
        let nowhere = Cloud::Local { endpoint: String::new() };
        let mut site = Site::open(outer, &data, nowhere, engine, &discovery.cli_config_text())
            .map_err(|error| unusable(&data, error))?;
        let (cloud, region) = match self.aws {
            AwsMode::Local => {
                site.claim(&Belongs::Local)?;
                (self.local(outer).await?, None)
            }
            AwsMode::Real => {
                let account = account(&Cloud::Real.sdk(None).await).await?;
                let region = account.region.as_deref().unwrap_or("the region of each object");
                output::say(&format!("AWS account {} as {}, {region}", account.id, account.arn));
                site.claim(&Belongs::Account(account.id))?;
                (Cloud::Real, account.region)
            }
        };
        let place = Place {
            local_endpoint: match &cloud {
                Cloud::Local { endpoint } => Some(endpoint.clone()),
                Cloud::Real => None,
            },
            default_region: region.unwrap_or_else(|| default_region(outer)),
        };
        site.cloud = cloud;
        let shares = self.tools.shares().unwrap_or(true);
        site.gateway = shares.then(|| Gateway::of(outer, &data, discovery));
        Ok(Ready { site, place })
    }

    async fn local(&self, outer: &Outer) -> anyhow::Result<Cloud> {
        let data = self.data.path(outer);
        let aws = LocalAws::of(outer, &data);
        let (server, started) = aws.ensure(output::say).await?;
        if started {
            output::say(&format!(
                "the local AWS runs in the background at {} (`capt aws stop` ends it; --aws real for a real account)",
                server.endpoint
            ));
        } else {
            output::say(&format!(
                "using the local AWS at {} (--aws real for a real account)",
                server.endpoint
            ));
        }
        aws.check_memory(&server, holding(&data)?.len())?;
        Ok(Cloud::Local { endpoint: server.endpoint })
    }
}

/// What a data directory that cannot be opened needs said: the flag that names another.
pub(super) fn unusable(data: &Path, error: SiteError) -> anyhow::Error {
    let is_file = matches!(error, SiteError::File(_));
    let error = anyhow::Error::from(error);
    if is_file {
        let hint =
            format!("the data directory {} cannot be used; choose another with --data", data.display());
        return error.context(hint);
    }
    error
}

/// For commands that take something away without opening the directory.
pub(super) fn refuse_if_in_use(data: &Path) -> anyhow::Result<()> {
    if is_held(&data.join("lock"))? {
        return Err(SiteError::InUse { data: data.to_owned(), holder: "another capt".to_owned() }.into());
    }
    Ok(())
}

/// For objects that name no region.
pub(super) fn default_region(outer: &Outer) -> String {
    outer.var("AWS_REGION").or_else(|| outer.var("AWS_DEFAULT_REGION")).unwrap_or("us-east-1").to_owned()
}
