//! Lends the gateway's providers to the commands of one run.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use provider_gateway::{
    admin::{AskError, Client},
    digest,
    gateway::{Registered, Registration},
    probe::{Ask, Probed},
    serve::Seen,
};
use terraform_driver::{
    environment::Environment,
    providers::lock::{self, Locked},
    run::{Job, Lender, Lending, Loan, Phase, Refused},
    workspace::Workspace,
};
use tokio::time::{Instant, sleep};

use super::{handle::Gateway, scan};

/// The provider that is lent.
pub const ADDRESS: &str = "registry.terraform.io/hashicorp/aws";

/// How long one gateway may take to make room for the next.
const CHANGE: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(50);

/// What was lent last.
#[derive(Debug, Clone, Default)]
pub struct Lent {
    /// What the gateway saw of the last command that had a loan.
    pub seen: Option<Seen>,
    /// Why the last one had none.
    pub plain: Option<String>,
}

/// Lends to one run.
pub struct RunLender<'a> {
    gateway: &'a Gateway,
    workspace: String,
    tenant: String,
    /// Hears why a command runs without the gateway; once.
    tell: &'a (dyn Fn(&str) + Send + Sync),
    everything: AtomicBool,
    lent: Mutex<Lent>,
}

/// A package that can be lent.
struct Chosen {
    dir: PathBuf,
    /// What the lock file says; nothing before the first `init`.
    locked: Option<Locked>,
    version: String,
}

/// Why nothing is lent.
enum Not {
    /// There is nothing to lend.
    Needed,
    /// Terraform has to do it itself; people should know why.
    Possible(String),
    /// Nobody may go on.
    Allowed(Refused),
}

impl<'a> RunLender<'a> {
    /// For the run of a workspace. Two tenants never share a provider.
    pub fn new(
        gateway: &'a Gateway,
        workspace: String,
        tenant: String,
        tell: &'a (dyn Fn(&str) + Send + Sync),
    ) -> Self {
        let (everything, lent) = (AtomicBool::new(false), Mutex::default());
        Self { gateway, workspace, tenant, tell, everything, lent }
    }

    /// What was lent last.
    pub fn lent(&self) -> Lent {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Lent> {
        self.lent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes whenever the provider would be another process: by its environment, or by its tenant.
    pub fn surroundings(&self, environment: &Environment) -> String {
        let env = provider_environment(environment);
        let parts = env.iter().flat_map(|(name, value)| [name.as_bytes(), value.as_bytes()]);
        digest::hex(&digest::of([self.tenant.as_bytes()].into_iter().chain(parts)))
    }

    /// Asks the provider about objects of the workspace; `None` if it cannot be asked.
    pub async fn probe(&self, job: &Job<'_>, ask: Ask) -> Option<Probed> {
        let chosen = self.choose(job.workspace, Phase::Planning).ok()?;
        let client = self.gateway.ensure().await.ok()?;
        client.probe(self.registration(job, &chosen, None), ask).await.ok()?
    }

    async fn try_lend(&self, job: &Job<'_>, phase: Phase) -> Result<Loan, Not> {
        let types = scan::types(job.workspace);
        let needed = types.as_ref().is_none_or(|types| types.iter().any(|word| word.starts_with("aws")));
        if !needed || matches!(phase, Phase::Resuming) {
            return Err(Not::Needed);
        }
        let chosen = self.choose(job.workspace, phase)?;
        if chosen.locked.is_none() {
            self.install(job.workspace, &chosen).await?;
        }
        let types = types.filter(|_| !self.everything.load(Ordering::Relaxed));
        let registered = self.register(&self.registration(job, &chosen, types)).await?;
        Ok(Loan { id: registered.run, reattach: registered.reattach.to_string() })
    }

    async fn client(&self) -> Result<Client, Not> {
        self.gateway.ensure().await.map_err(|error| Not::Possible(with_causes(&error)))
    }

    async fn register(&self, wanted: &Registration) -> Result<Registered, Not> {
        let begun = Instant::now();
        loop {
            match self.client().await?.register(wanted.clone()).await {
                // It ends in this very moment, because nobody had needed it: another one takes its place.
                Err(AskError::Gone { .. }) if begun.elapsed() < CHANGE => sleep(LOOK).await,
                answered => return answered.map_err(refusal),
            }
        }
    }

    /// Which package: what the lock file says, or else the only one there is.
    fn choose(&self, workspace: &Workspace, phase: Phase) -> Result<Chosen, Not> {
        let root = workspace.root();
        let locked = lock::locked(root, ADDRESS)
            .map_err(|error| Not::Possible(format!("its lock file cannot be read: {error}")))?;
        let Some(locked) = locked else {
            let version = scan::only_version(root, ADDRESS, &self.gateway.discovery);
            let found = version.and_then(|version| {
                let dir = self.gateway.discovery.package(ADDRESS, &version)?;
                Some(Chosen { dir, locked: None, version })
            });
            // The first `init` chooses; from then on the lock file says it. Before it there is nothing to settle.
            let first = matches!(phase, Phase::Initialising | Phase::Settling);
            let unlocked = || Not::Possible("no version of the provider is locked".to_owned());
            return found.ok_or_else(|| if first { Not::Needed } else { unlocked() });
        };
        if !locked.hashes.iter().any(|hash| hash.starts_with("h1:")) {
            let words =
                "its lock file has hashes of archives only, which say nothing about an unpacked provider";
            return Err(Not::Possible(words.to_owned()));
        }
        let mirrored = self.gateway.discovery.package(ADDRESS, &locked.version);
        let installed = lock::installed(root, ADDRESS, &locked.version);
        match mirrored.or_else(|| installed.is_dir().then_some(installed)) {
            Some(dir) => Ok(Chosen { dir, version: locked.version.clone(), locked: Some(locked) }),
            None if matches!(phase, Phase::Initialising) => Err(Not::Needed),
            None => Err(Not::Possible(format!("version {} is not unpacked anywhere", locked.version))),
        }
    }

    async fn install(&self, workspace: &Workspace, chosen: &Chosen) -> Result<(), Not> {
        let package = self.client().await?.package(&chosen.dir).await.map_err(refusal)?;
        lock::install(workspace.root(), ADDRESS, &chosen.version, &chosen.dir, &package.h1)
            .map_err(|error| Not::Possible(format!("the provider cannot be linked: {error}")))
    }

    fn registration(
        &self,
        job: &Job<'_>,
        chosen: &Chosen,
        types: Option<std::collections::BTreeSet<String>>,
    ) -> Registration {
        Registration {
            workspace: self.workspace.clone(),
            tenant: self.tenant.clone(),
            address: ADDRESS.to_owned(),
            package: chosen.dir.clone(),
            locked: chosen.locked.as_ref().map(|locked| locked.hashes.clone()),
            env: provider_environment(job.environment),
            types,
        }
    }
}

impl Lender for RunLender<'_> {
    fn lend<'b>(&'b self, job: &'b Job<'_>, phase: Phase) -> Lending<'b, Result<Option<Loan>, Refused>> {
        Box::pin(async move {
            match self.try_lend(job, phase).await {
                Ok(loan) => Ok(Some(loan)),
                Err(Not::Needed) => Ok(None),
                Err(Not::Allowed(refused)) => Err(refused),
                Err(Not::Possible(why)) => {
                    let news = self.lock().plain.replace(why.clone()).as_ref() != Some(&why);
                    if news {
                        (self.tell)(&format!("without the gateway, and slower: {why}"));
                    }
                    Ok(None)
                }
            }
        })
    }

    fn give_back(&self, loan: Loan) -> Lending<'_, ()> {
        Box::pin(async move {
            // A gateway that is gone has nothing to take back; what it saw is then not known.
            let seen = match self.gateway.client() {
                Some(client) => client.release(&loan.id).await.ok(),
                None => None,
            };
            self.lock().seen = seen;
        })
    }

    fn lend_everything(&self) -> bool {
        !self.everything.swap(true, Ordering::Relaxed)
    }
}

/// What a provider gets of a run's environment: everything but what is for terraform.
fn provider_environment(environment: &Environment) -> BTreeMap<String, String> {
    // A provider that lives long should collect its garbage as usual, and one that lives for a run need not.
    let for_terraform = |name: &str| name.starts_with("TF_") || matches!(name, "CHECKPOINT_DISABLE" | "GOGC");
    let passes = environment.variables().iter().filter(|(name, _)| !for_terraform(name));
    passes.map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn refusal(error: AskError) -> Not {
    match error {
        AskError::Refused(words) => Not::Allowed(Refused(words)),
        other => Not::Possible(with_causes(&other)),
    }
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}
