//! Flags that select the Kubernetes API of a command, and the client configuration for it.

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use capt_engine::process_env::ProcessEnv;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};

use super::{
    DataDirArg,
    kube_api::{describe_api_error, root_cause},
};
use crate::local::up_daemon::UpDaemon;

/// Flags that select the Kubernetes API of a command.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct KubeTarget {
    #[command(flatten)]
    pub(super) data: DataDirArg,
    /// Kubeconfig of the Kubernetes API to use instead of the one of `capt up`.
    #[arg(long, value_name = "FILE", env = "CAPT_KUBECONFIG")]
    pub(super) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig.
    #[arg(long, value_name = "NAME", env = "CAPT_CONTEXT")]
    pub(super) context: Option<String>,
}

impl KubeTarget {
    /// The flags that make another command use the same API.
    pub(super) fn command_flags(&self, process_env: &ProcessEnv) -> String {
        let file = self.kubeconfig.as_ref().map(|path| format!(" --kubeconfig {}", path.display()));
        let context = self.context.as_ref().map(|name| format!(" --context {name}"));
        if file.is_none() && context.is_none() {
            return self.data.command_flag(process_env);
        }
        file.unwrap_or_default() + &context.unwrap_or_default()
    }

    /// A client for the selected API, or for the one of `capt up`.
    pub(super) async fn client(&self, process_env: &ProcessEnv) -> anyhow::Result<Client> {
        Client::try_from(self.config(process_env).await?).map_err(|error| describe_api_error(&error))
    }

    /// Like [`Self::config`], but falls back to the default kubeconfig if no `capt up` runs here. For commands that are used
    /// against shared clusters.
    pub(super) async fn config_or_default(&self, process_env: &ProcessEnv) -> anyhow::Result<Config> {
        let named = self.kubeconfig.is_some() || self.context.is_some();
        if named || UpDaemon::new(process_env, &self.data.path(process_env)).running()?.is_some() {
            return self.config(process_env).await;
        }
        load_config(None, None).await
    }

    /// Client configuration of the selected API, or of the one of `capt up`.
    pub(super) async fn config(&self, process_env: &ProcessEnv) -> anyhow::Result<Config> {
        if self.kubeconfig.is_some() || self.context.is_some() {
            let path = self.kubeconfig.as_deref().map(|path| process_env.absolute_path(path));
            return load_config(path.as_deref(), self.context.as_deref()).await;
        }
        let data = self.data.path(process_env);
        let server = UpDaemon::new(process_env, &data).running()?.ok_or_else(|| {
            anyhow!(
                "no `capt up` process runs for the data directory {}; start one with `capt up --data {}`, or select \
                another Kubernetes API with --kubeconfig or --context",
                data.display(),
                data.display()
            )
        })?;
        load_config(server.kubeconfig.as_deref(), server.context.as_deref()).await
    }
}

/// `User-Agent` of all requests.
const USER_AGENT: &str = concat!("capt/", env!("CARGO_PKG_VERSION"));

/// A client for a kubeconfig; for the default kubeconfig or the in-cluster configuration if neither is given.
pub(super) async fn connect(kubeconfig: Option<&Path>, context: Option<&str>) -> anyhow::Result<Client> {
    Client::try_from(load_config(kubeconfig, context).await?).map_err(|error| describe_api_error(&error))
}

async fn load_config(kubeconfig: Option<&Path>, context: Option<&str>) -> anyhow::Result<Config> {
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let mut config = match (kubeconfig, context) {
        (Some(path), _) => {
            let refused = |error| {
                anyhow!(
                    "cannot use the kubeconfig {}: {}; correct it, or pass another one with --kubeconfig",
                    path.display(),
                    root_cause(&error)
                )
            };
            let file = Kubeconfig::read_from(path).map_err(refused)?;
            Config::from_custom_kubeconfig(file, &options).await.map_err(refused)?
        }
        (None, Some(name)) => Config::from_kubeconfig(&options).await.map_err(|error| {
            let why = root_cause(&error);
            anyhow!("cannot use the context {name}: {why}; `kubectl config get-contexts` lists them")
        })?,
        (None, None) => Config::infer().await.map_err(|_| {
            anyhow!("found neither a kubeconfig nor an in-cluster configuration; pass --kubeconfig")
        })?,
    };
    // Identifies capt in audit logs.
    config.headers.push((http::header::USER_AGENT, http::HeaderValue::from_static(USER_AGENT)));
    Ok(config)
}
