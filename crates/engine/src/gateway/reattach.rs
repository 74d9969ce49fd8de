//! Lets the terraform commands of one run reattach to providers that the gateway runs.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use capt_util::error_chain::format_error_chain;
use provider_gateway::{
    admin::{GatewayClient, GatewayClientError},
    digest,
    gateway::{RegisteredRun, RunRegistration},
    probe::{ProbeRequest, ProbeResult},
    serve::{RunActivity, RunClients},
};
use terraform_driver::{
    environment::Environment,
    providers::lock_file::{self, LockedProvider},
    run::{ProviderMismatch, ReattachFuture, ReattachLease, ReattachSource, StepContext, StepPhase},
    workspace::WorkspaceDir,
};
use tokio::time::{Instant, sleep};

use super::{configuration_scan, handle::GatewayHandle};

/// Address of the provider that the gateway runs.
pub const AWS_PROVIDER_ADDRESS: &str = "registry.terraform.io/hashicorp/aws";

/// Variable of a provider's environment with the rules that `capt gateway exec` confines it by.
pub const PROVIDER_RULES_VARIABLE: &str = "CAPT_PROVIDER_CONFINEMENT";

/// How long a gateway that is exiting may take to be replaced.
const RESTART_TIMEOUT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// State of the last command.
#[derive(Debug, Clone, Default)]
pub struct ReattachStatus {
    /// What the gateway observed of the last command that reattached.
    pub observed: Option<RunActivity>,
    /// Why the last command bypassed the gateway.
    pub bypass_reason: Option<String>,
}

/// Reattach source of one run, backed by the gateway.
pub struct GatewayReattachSource<'a> {
    gateway: &'a GatewayHandle,
    workspace: String,
    tenant: String,
    /// Whether journal entries are stored elsewhere before a change goes on.
    is_replicated: bool,
    /// Called once per distinct reason for bypassing the gateway.
    on_bypass: &'a (dyn Fn(&str) + Send + Sync),
    all_schemas: AtomicBool,
    status: Mutex<ReattachStatus>,
}

/// An unpacked provider package.
struct ProviderPackage {
    dir: PathBuf,
    /// Entry of the lock file; `None` before the first `init`.
    locked: Option<LockedProvider>,
    version: String,
}

/// Why a command does not reattach.
enum ReattachUnavailable {
    /// The command needs no provider of the gateway.
    NotNeeded,
    /// Terraform starts its own provider; the reason is reported to the user.
    Bypass(String),
    /// The command must not run.
    Rejected(ProviderMismatch),
}

impl<'a> GatewayReattachSource<'a> {
    /// Creates the source for a run of a workspace. Tenants never share a provider process.
    pub fn new(
        gateway: &'a GatewayHandle,
        workspace: String,
        tenant: String,
        on_bypass: &'a (dyn Fn(&str) + Send + Sync),
    ) -> Self {
        let (all_schemas, status) = (AtomicBool::new(false), Mutex::default());
        Self { gateway, workspace, tenant, is_replicated: false, on_bypass, all_schemas, status }
    }

    /// Makes changes wait until their journal entries are stored elsewhere, too.
    #[must_use]
    pub fn with_replication(self, is_replicated: bool) -> Self {
        Self { is_replicated, ..self }
    }

    /// State of the last command.
    pub fn status(&self) -> ReattachStatus {
        self.lock_status().clone()
    }

    fn lock_status(&self) -> std::sync::MutexGuard<'_, ReattachStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Digest of the tenant and the provider's environment, which together select the provider process.
    pub fn provider_environment_digest(&self, environment: &Environment) -> String {
        let env = provider_environment(environment);
        let parts = env.iter().flat_map(|(name, value)| [name.as_bytes(), value.as_bytes()]);
        digest::to_hex(digest::hash_parts([self.tenant.as_bytes()].into_iter().chain(parts)))
    }

    /// Reads resources of the workspace through the provider; `None` if the gateway is not available.
    pub async fn probe(&self, job: &StepContext<'_>, ask: ProbeRequest) -> Option<ProbeResult> {
        let chosen = self.choose_package(job.workspace, StepPhase::Planning).ok()?;
        let client = self.gateway.ensure_running().await.ok()?;
        client.probe(self.registration(job, &chosen, (None, Path::new(""))), ask).await.ok()?
    }

    async fn try_acquire(
        &self,
        job: &StepContext<'_>,
        phase: StepPhase,
        processes: &Path,
    ) -> Result<ReattachLease, ReattachUnavailable> {
        let types = configuration_scan::referenced_types(job.workspace);
        let needed = types.as_ref().is_none_or(|types| types.iter().any(|word| word.starts_with("aws")));
        if !needed || matches!(phase, StepPhase::Resuming) {
            return Err(ReattachUnavailable::NotNeeded);
        }
        let chosen = self.choose_package(job.workspace, phase)?;
        if chosen.locked.is_none() {
            self.install_package(job.workspace, &chosen).await?;
        }
        let types = types.filter(|_| !self.all_schemas.load(Ordering::Relaxed));
        let registered = self.register(&self.registration(job, &chosen, (types, processes))).await?;
        Ok(ReattachLease { id: registered.run, reattach: registered.reattach.to_string() })
    }

    async fn ensure_client(&self) -> Result<GatewayClient, ReattachUnavailable> {
        self.gateway
            .ensure_running()
            .await
            .map_err(|error| ReattachUnavailable::Bypass(format_error_chain(&error)))
    }

    async fn register(&self, wanted: &RunRegistration) -> Result<RegisteredRun, ReattachUnavailable> {
        let begun = Instant::now();
        loop {
            match self.ensure_client().await?.register(wanted.clone()).await {
                // The daemon is exiting by its idle timeout; retry with a new one.
                Err(GatewayClientError::Unavailable { .. }) if begun.elapsed() < RESTART_TIMEOUT => {
                    sleep(POLL_INTERVAL).await;
                }
                answered => return answered.map_err(classify_ask_error),
            }
        }
    }

    /// Chooses the package: the locked version, or the only version in the mirror.
    fn choose_package(
        &self,
        workspace: &WorkspaceDir,
        phase: StepPhase,
    ) -> Result<ProviderPackage, ReattachUnavailable> {
        let root = workspace.root();
        let locked = lock_file::read_lock_entry(root, AWS_PROVIDER_ADDRESS).map_err(|error| {
            ReattachUnavailable::Bypass(format!("cannot read the dependency lock file: {error}"))
        })?;
        let Some(locked) = locked else {
            let version = configuration_scan::sole_mirrored_version(
                root,
                AWS_PROVIDER_ADDRESS,
                &self.gateway.discovery,
            );
            let found = version.and_then(|version| {
                let dir = self.gateway.discovery.unpacked_package(AWS_PROVIDER_ADDRESS, &version)?;
                Some(ProviderPackage { dir, locked: None, version })
            });
            // The first `init` selects and locks a version; before that there is nothing to recover.
            let first = matches!(phase, StepPhase::Initialising | StepPhase::Settling);
            let unlocked = || ReattachUnavailable::Bypass("the provider version is not locked".to_owned());
            return found.ok_or_else(|| if first { ReattachUnavailable::NotNeeded } else { unlocked() });
        };
        if !locked.hashes.iter().any(|hash| hash.starts_with("h1:")) {
            let words = "the lock file has only zh: hashes, which cannot verify an unpacked provider";
            return Err(ReattachUnavailable::Bypass(words.to_owned()));
        }
        let mirrored = self.gateway.discovery.unpacked_package(AWS_PROVIDER_ADDRESS, &locked.version);
        let installed = lock_file::installed_path(root, AWS_PROVIDER_ADDRESS, &locked.version);
        match mirrored.or_else(|| installed.is_dir().then_some(installed)) {
            Some(dir) => Ok(ProviderPackage { dir, version: locked.version.clone(), locked: Some(locked) }),
            None if matches!(phase, StepPhase::Initialising) => Err(ReattachUnavailable::NotNeeded),
            None => Err(ReattachUnavailable::Bypass(format!(
                "provider version {} is not unpacked locally",
                locked.version
            ))),
        }
    }

    async fn install_package(
        &self,
        workspace: &WorkspaceDir,
        chosen: &ProviderPackage,
    ) -> Result<(), ReattachUnavailable> {
        let package = self.ensure_client().await?.package(&chosen.dir).await.map_err(classify_ask_error)?;
        lock_file::link_package(
            workspace.root(),
            AWS_PROVIDER_ADDRESS,
            &chosen.version,
            &chosen.dir,
            &package.h1,
        )
        .map_err(|error| ReattachUnavailable::Bypass(format!("cannot link the provider: {error}")))
    }

    /// Where the gateway may start providers from. A run can write into its workspace, and the gateway is not confined as the run
    /// is; a package that terraform installed there is accepted only if there is no mirror to take it from.
    fn package_roots(&self, workspace: &WorkspaceDir) -> Vec<PathBuf> {
        let mirrored = self.gateway.discovery.unpacked_packages(AWS_PROVIDER_ADDRESS);
        if mirrored.is_empty() { vec![lock_file::installed_dir(workspace.root())] } else { mirrored }
    }

    fn registration(
        &self,
        job: &StepContext<'_>,
        chosen: &ProviderPackage,
        (types, processes): (Option<BTreeSet<String>>, &Path),
    ) -> RunRegistration {
        RunRegistration {
            workspace: self.workspace.clone(),
            tenant: self.tenant.clone(),
            address: AWS_PROVIDER_ADDRESS.to_owned(),
            package: chosen.dir.clone(),
            package_roots: self.package_roots(job.workspace),
            locked: chosen.locked.as_ref().map(|locked| locked.hashes.clone()),
            env: provider_environment(job.environment),
            types,
            lease: job.lease.cloned(),
            is_replicated: self.is_replicated,
            // The gateway has another working directory.
            clients: RunClients::Recorded {
                file: std::path::absolute(processes).unwrap_or_else(|_| processes.to_owned()),
            },
        }
    }
}

impl ReattachSource for GatewayReattachSource<'_> {
    fn acquire<'b>(
        &'b self,
        job: &'b StepContext<'_>,
        phase: StepPhase,
        processes: &'b Path,
    ) -> ReattachFuture<'b, Result<Option<ReattachLease>, ProviderMismatch>> {
        Box::pin(async move {
            match self.try_acquire(job, phase, processes).await {
                Ok(lease) => Ok(Some(lease)),
                Err(ReattachUnavailable::NotNeeded) => Ok(None),
                Err(ReattachUnavailable::Rejected(refused)) => Err(refused),
                Err(ReattachUnavailable::Bypass(why)) => {
                    let news = self.lock_status().bypass_reason.replace(why.clone()).as_ref() != Some(&why);
                    if news {
                        (self.on_bypass)(&format!("running without the gateway, which is slower: {why}"));
                    }
                    Ok(None)
                }
            }
        })
    }

    fn release(&self, lease: ReattachLease) -> ReattachFuture<'_, ()> {
        Box::pin(async move {
            // If the gateway has exited, its observations are lost.
            let seen = match self.gateway.client() {
                Some(client) => client.release(&lease.id).await.ok(),
                None => None,
            };
            self.lock_status().observed = seen;
        })
    }

    fn request_all_schemas(&self) -> bool {
        !self.all_schemas.swap(true, Ordering::Relaxed)
    }
}

/// Environment of a provider: the run's environment without the variables for terraform itself.
fn provider_environment(environment: &Environment) -> BTreeMap<String, String> {
    // GOGC is raised for short-lived processes only; a long-lived provider needs the default.
    let for_terraform = |name: &str| name.starts_with("TF_") || matches!(name, "CHECKPOINT_DISABLE" | "GOGC");
    // The gateway gives each provider process a `TMPDIR` of its own.
    let passes = environment.variables().iter().filter(|(name, _)| {
        !for_terraform(name) && !matches!(name.as_str(), "TMPDIR" | PROVIDER_RULES_VARIABLE)
    });
    let home = environment.provider_home().map(|home| ("HOME".to_owned(), home.display().to_string()));
    let rules = environment.provider_rules().map(|it| (PROVIDER_RULES_VARIABLE.to_owned(), it.to_owned()));
    passes.map(|(name, value)| (name.clone(), value.clone())).chain(home).chain(rules).collect()
}

fn classify_ask_error(error: GatewayClientError) -> ReattachUnavailable {
    match error {
        GatewayClientError::Rejected(words) => ReattachUnavailable::Rejected(ProviderMismatch(words)),
        other => ReattachUnavailable::Bypass(format_error_chain(&other)),
    }
}
