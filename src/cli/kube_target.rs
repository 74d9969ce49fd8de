//! Which Kubernetes API a command talks to, and the way there.

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};

use super::{
    DataDir,
    client::{brief, explain},
};
use crate::{config::Outer, local::up::Up};

/// Which Kubernetes API a command talks to.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Access {
    #[command(flatten)]
    pub(super) data: DataDir,
    /// The kubeconfig of another Kubernetes API than that of `capt up`.
    #[arg(long, value_name = "FILE", env = "CAPT_KUBECONFIG")]
    pub(super) kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig.
    #[arg(long, value_name = "NAME", env = "CAPT_CONTEXT")]
    pub(super) context: Option<String>,
}

impl Access {
    /// What has to be added to a command that is to find the same API.
    pub(super) fn flags(&self, outer: &Outer) -> String {
        let file = self.kubeconfig.as_ref().map(|path| format!(" --kubeconfig {}", path.display()));
        let context = self.context.as_ref().map(|name| format!(" --context {name}"));
        if file.is_none() && context.is_none() {
            return self.data.flag(outer);
        }
        file.unwrap_or_default() + &context.unwrap_or_default()
    }

    /// The one that was named, or that of `capt up`.
    pub(super) async fn client(&self, outer: &Outer) -> anyhow::Result<Client> {
        Client::try_from(self.config(outer).await?).map_err(|error| explain(&error))
    }

    /// The way to it; to the one of the machine's own kubeconfig if `capt up` has none here. For commands of people who
    /// use a cluster that somebody else runs.
    pub(super) async fn config_or_usual(&self, outer: &Outer) -> anyhow::Result<Config> {
        let named = self.kubeconfig.is_some() || self.context.is_some();
        if named || Up::of(outer, &self.data.path(outer)).running()?.is_some() {
            return self.config(outer).await;
        }
        configure(None, None).await
    }

    /// The way to it.
    pub(super) async fn config(&self, outer: &Outer) -> anyhow::Result<Config> {
        if self.kubeconfig.is_some() || self.context.is_some() {
            let path = self.kubeconfig.as_deref().map(|path| outer.absolute(path));
            return configure(path.as_deref(), self.context.as_deref()).await;
        }
        let data = self.data.path(outer);
        let server = Up::of(outer, &data).running()?.ok_or_else(|| {
            anyhow!(
                "nothing runs for the data directory {}; start it with `capt up --data {}`, or name a Kubernetes \
                 API with --kubeconfig or --context",
                data.display(),
                data.display()
            )
        })?;
        configure(server.kubeconfig.as_deref(), server.context.as_deref()).await
    }
}

/// What we call ourselves before an API server.
const AGENT: &str = concat!("capt/", env!("CARGO_PKG_VERSION"));

/// A client by a kubeconfig; by the usual places of one, or from inside of a cluster, if none is named.
pub(super) async fn connect(kubeconfig: Option<&Path>, context: Option<&str>) -> anyhow::Result<Client> {
    Client::try_from(configure(kubeconfig, context).await?).map_err(|error| explain(&error))
}

async fn configure(kubeconfig: Option<&Path>, context: Option<&str>) -> anyhow::Result<Config> {
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let mut config = match (kubeconfig, context) {
        (Some(path), _) => {
            let refused = |error| {
                anyhow!(
                    "cannot use the kubeconfig {}: {}; name one that works",
                    path.display(),
                    brief(&error)
                )
            };
            let file = Kubeconfig::read_from(path).map_err(refused)?;
            Config::from_custom_kubeconfig(file, &options).await.map_err(refused)?
        }
        (None, Some(name)) => Config::from_kubeconfig(&options).await.map_err(|error| {
            let why = brief(&error);
            anyhow!("cannot use the context {name}: {why}; `kubectl config get-contexts` lists them")
        })?,
        (None, None) => Config::infer().await.map_err(|_| {
            anyhow!("there is neither a kubeconfig nor a cluster around us; name one with --kubeconfig")
        })?,
    };
    // Whoever reads an audit log wants to know who it was.
    config.headers.push((http::header::USER_AGENT, http::HeaderValue::from_static(AGENT)));
    Ok(config)
}
