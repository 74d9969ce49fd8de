//! An operator in this process, on any Kubernetes API; terraform runs under the real shim.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use capt::operator::{
    self, Dependencies, OperatorSettings, SchedulingSettings, StandaloneMode, TemplatePolicy,
};
use capt_engine::{
    aws::Cloud,
    gateway::GatewayHandle,
    pipeline::{SizeLimits, find_engine},
    process_env::ProcessEnv,
};
use capt_model::model::Limits;
use kube::Client;
use terraform_driver::{
    engine::EngineKind,
    providers::{DiscoveryInputs as Around, ProviderRequirement, default_search_roots, discover_providers},
};
use tokio::{runtime::Runtime, task::JoinHandle};
use tokio_util::sync::CancellationToken;

/// Time for the tasks of a killed operator to end. A second operator must not overlap with it.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_mins(1);

/// An operator on its own runtime, so that it can be killed with everything that it spawned.
pub(crate) struct InProcessOperator {
    stop: CancellationToken,
    task: Option<JoinHandle<anyhow::Result<()>>>,
    runtime: Option<Runtime>,
}

/// Options that differ from the defaults.
#[derive(Default)]
pub(crate) struct OperatorOptions<'a> {
    /// Terraform binary.
    pub(crate) engine: Option<&'a Path>,
    /// Run terraform without the provider gateway.
    pub(crate) gateway_bypass: bool,
    /// Confine runs. Most tests watch what terraform does by files outside of the workspace.
    pub(crate) is_isolated: bool,
}

impl InProcessOperator {
    /// Starts the operator in a data directory.
    #[allow(dead_code, reason = "for the tests of the contract, which share this file")]
    pub(crate) async fn start(
        client: Client,
        data: &Path,
        cloud: &Cloud,
        settings: &OperatorSettings,
    ) -> Self {
        Self::start_with(OperatorOptions::default(), client, data, cloud, settings).await
    }

    /// Starts the operator with another terraform, or without the gateway.
    pub(crate) async fn start_with(
        how: OperatorOptions<'_>,
        client: Client,
        data: &Path,
        cloud: &Cloud,
        settings: &OperatorSettings,
    ) -> Self {
        let process_env = process_env(data);
        let engine = how.engine.map(|path| path.display().to_string());
        let engine = find_engine(&process_env, engine.as_deref()).await.unwrap();
        let around = Around {
            setting: None,
            env: &process_env.env,
            roots: &default_search_roots(process_env.home()),
            engine: EngineKind::Terraform,
        };
        let wanted = ProviderRequirement::new("hashicorp", "aws", ">= 5.61, < 7").unwrap();
        let found = discover_providers(&around, &[wanted]).unwrap();
        let cli_config = found.cli_config_text();
        let gateway = (!how.gateway_bypass).then(|| GatewayHandle::new(&process_env, data, found));
        let surroundings = Dependencies {
            client,
            process_env,
            data: data.to_owned(),
            engine,
            cli_config,
            gateway,
            is_isolated: how.is_isolated,
            cloud: cloud.clone(),
            default_region: "eu-central-1".to_owned(),
            log_level: None,
        };
        let stop = CancellationToken::new();
        // One worker: with two, one of them drops tasks at the end while the other one still runs those that were waiting for their
        // locks, which no killed process does.
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let work = runtime.spawn(operator::run(surroundings, settings.clone(), stop.clone()));
        Self { stop, task: Some(work), runtime: Some(runtime) }
    }

    /// Stops it as SIGTERM does; terraform keeps running.
    pub(crate) async fn stop(mut self) {
        self.stop.cancel();
        self.task.take().unwrap().await.unwrap().unwrap();
        self.abort().await;
    }

    /// Ends it as SIGKILL does: no cleanup.
    pub(crate) async fn abort(mut self) {
        let runtime = self.runtime.take().unwrap();
        let ended = tokio::task::spawn_blocking(move || runtime.shutdown_timeout(SHUTDOWN_TIMEOUT));
        ended.await.unwrap();
    }

    pub(crate) fn assert_running(&self) {
        assert!(!self.task.as_ref().is_some_and(JoinHandle::is_finished), "the operator ended by itself");
    }
}

impl Drop for InProcessOperator {
    /// Dropping a runtime inside another one would abort the process of a failing test.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

pub(crate) fn settings() -> OperatorSettings {
    OperatorSettings {
        namespace: None,
        watch_filter: None,
        sandboxes: true,
        leader_election: None,
        listen: None,
        webhook_listen: None,
        standalone: StandaloneMode::Auto,
        parallel: 4,
        memory_budget_mb: 100_000,
        scheduling: SchedulingSettings::default(),
        drift_interval: Duration::from_mins(10),
        preview_domain: None,
        templates: TemplatePolicy::All,
        require_identity: false,
        require_owner_tag: false,
        size_limits: SizeLimits::default(),
        limits: Limits::default(),
    }
}

/// The process environment, with the `capt` binary as executable.
#[expect(clippy::disallowed_methods, reason = "a test reads the environment that it was started in")]
fn process_env(data: &Path) -> ProcessEnv {
    let mut env: BTreeMap<String, String> = std::env::vars().collect();
    env.insert("CAPT_CACHE".to_owned(), cache_dir().display().to_string());
    let cwd = data.parent().unwrap_or(data).to_owned();
    ProcessEnv { env, cwd, exe: env!("CARGO_BIN_EXE_capt").into() }
}

/// Log filter of the operator: errors only, or `CAPT_LOG`, such as `capt=debug`.
#[expect(clippy::disallowed_methods, reason = "a test reads the environment that it was started in")]
pub(crate) fn log_filter() -> String {
    std::env::var("CAPT_LOG").unwrap_or_else(|_| "error".to_owned())
}

/// `CAPT_CACHE`, or the cache directory that `make` uses.
#[expect(clippy::disallowed_methods, reason = "a test reads the environment that it was started in")]
pub(crate) fn cache_dir() -> PathBuf {
    std::env::var_os("CAPT_CACHE")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join(".cache"), PathBuf::from)
}
