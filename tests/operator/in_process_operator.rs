//! An operator in this process, on whatever Kubernetes API; terraform runs under the real shim.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use capt::{
    aws::Cloud,
    config::Outer,
    gateway::Gateway,
    model::Limits,
    operator::{self, Settings, Standalone, Surroundings},
    work::find_engine,
};
use kube::Client;
use terraform_driver::{
    engine::EngineKind,
    providers::{Surroundings as Around, Wanted, discover, usual_roots},
};
use tokio::{runtime::Runtime, task::JoinHandle};
use tokio_util::sync::CancellationToken;

/// How long the tasks of an operator that is killed may take to end. Two operators at once would not be what a kill leaves.
const PATIENCE: Duration = Duration::from_mins(1);

/// An operator on threads of its own, so that it can be killed with everything that it spawned.
pub(crate) struct Running {
    stop: CancellationToken,
    work: Option<JoinHandle<anyhow::Result<()>>>,
    runtime: Option<Runtime>,
}

/// What is unlike everybody's.
#[derive(Default)]
pub(crate) struct How<'a> {
    /// Another terraform.
    pub(crate) engine: Option<&'a Path>,
    /// Every terraform starts its own providers.
    pub(crate) plain: bool,
}

impl Running {
    /// Starts it in a data directory.
    #[allow(dead_code, reason = "for the tests of the contract, which share this file")]
    pub(crate) async fn start(client: Client, data: &Path, cloud: &Cloud, settings: &Settings) -> Self {
        Self::with(How::default(), client, data, cloud, settings).await
    }

    /// With another terraform than everybody's, or without the gateway.
    pub(crate) async fn with(
        how: How<'_>,
        client: Client,
        data: &Path,
        cloud: &Cloud,
        settings: &Settings,
    ) -> Self {
        let outer = outer(data);
        let engine = how.engine.map(|path| path.display().to_string());
        let engine = find_engine(&outer, engine.as_deref()).await.unwrap();
        let around = Around {
            setting: None,
            env: &outer.env,
            roots: &usual_roots(outer.home()),
            engine: EngineKind::Terraform,
        };
        let wanted = Wanted::new("hashicorp", "aws", ">= 5.61, < 7").unwrap();
        let found = discover(&around, &[wanted]).unwrap();
        let cli_config = found.cli_config_text();
        let gateway = (!how.plain).then(|| Gateway::of(&outer, data, found));
        let surroundings = Surroundings {
            client,
            outer,
            data: data.to_owned(),
            engine,
            cli_config,
            gateway,
            cloud: cloud.clone(),
            default_region: "eu-central-1".to_owned(),
            log_level: None,
        };
        let stop = CancellationToken::new();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let work = runtime.spawn(operator::run(surroundings, settings.clone(), stop.clone()));
        Self { stop, work: Some(work), runtime: Some(runtime) }
    }

    /// Ends it as a signal would; terraform goes on.
    pub(crate) async fn stop(mut self) {
        self.stop.cancel();
        self.work.take().unwrap().await.unwrap().unwrap();
        self.abort().await;
    }

    /// Ends it as a kill would: nothing is tidied up.
    pub(crate) async fn abort(mut self) {
        let runtime = self.runtime.take().unwrap();
        let ended = tokio::task::spawn_blocking(move || runtime.shutdown_timeout(PATIENCE));
        ended.await.unwrap();
    }

    pub(crate) fn still_works(&self) {
        assert!(!self.work.as_ref().is_some_and(JoinHandle::is_finished), "the operator ended by itself");
    }
}

impl Drop for Running {
    /// A test that fails must not take the process down by dropping a runtime inside of another one.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

pub(crate) fn settings() -> Settings {
    Settings {
        namespace: None,
        watch_filter: None,
        leader_election: None,
        listen: None,
        webhook_listen: None,
        standalone: Standalone::Auto,
        parallel: 4,
        memory_budget_mb: 100_000,
        drift_interval: Duration::from_mins(10),
        preview_domain: None,
        limits: Limits::default(),
    }
}

/// What the process was started in, with the real command as our own executable.
#[expect(clippy::disallowed_methods, reason = "a test reads the environment that it was started in")]
fn outer(data: &Path) -> Outer {
    let mut env: BTreeMap<String, String> = std::env::vars().collect();
    env.insert("CAPT_CACHE".to_owned(), cache().display().to_string());
    let cwd = data.parent().unwrap_or(data).to_owned();
    Outer { env, cwd, exe: env!("CARGO_BIN_EXE_capt").into() }
}

/// What the operator logs: nothing but errors, unless somebody wants to see more, such as `capt=debug`.
#[expect(clippy::disallowed_methods, reason = "a test reads the environment that it was started in")]
pub(crate) fn log_filter() -> String {
    std::env::var("CAPT_LOG").unwrap_or_else(|_| "error".to_owned())
}

/// A cache directory of the caller's, or the one that `make` uses.
#[expect(clippy::disallowed_methods, reason = "a test reads the environment that it was started in")]
pub(crate) fn cache() -> PathBuf {
    std::env::var_os("CAPT_CACHE")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join(".cache"), PathBuf::from)
}
