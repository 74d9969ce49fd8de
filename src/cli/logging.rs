//! Log setup of long-running commands. Interactive output goes through `output` instead.

use std::fs::File;

use tracing_subscriber::{EnvFilter, fmt, layer::SubscriberExt as _, util::SubscriberInitExt as _};

/// Format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(super) enum LogFormat {
    /// Human-readable lines.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// The default filter.
pub(super) const DEFAULT_FILTER: &str = "info,kube=warn,kube_runtime=warn,hyper_util=warn,rustls=warn";

/// Installs the log subscriber, writing to standard error or to a file. A second call has no effect.
pub(super) fn init_logging(format: LogFormat, filter: &str, file: Option<File>) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(filter).map_err(|error| {
        anyhow::anyhow!("invalid log filter {filter:?}: {error}; use a filter such as `info` or `capt=debug`")
    })?;
    let registry = tracing_subscriber::registry().with(filter);
    let layer = fmt::layer().with_ansi(false).with_target(false);
    let _already_begun = match (format, file) {
        (LogFormat::Text, None) => registry.with(layer.with_writer(std::io::stderr)).try_init(),
        (LogFormat::Text, Some(file)) => {
            registry.with(layer.with_writer(std::sync::Mutex::new(file))).try_init()
        }
        (LogFormat::Json, None) => registry.with(layer.json().with_writer(std::io::stderr)).try_init(),
        (LogFormat::Json, Some(file)) => {
            registry.with(layer.json().with_writer(std::sync::Mutex::new(file))).try_init()
        }
    };
    Ok(())
}
