//! Where the operator's own words go. Everything else of the command line talks through `output`.

use std::fs::File;

use tracing_subscriber::{EnvFilter, fmt, layer::SubscriberExt as _, util::SubscriberInitExt as _};

/// In which form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(super) enum LogFormat {
    /// A line each, for people.
    #[default]
    Text,
    /// An object each, for machines.
    Json,
}

/// What is worth a line if nobody says otherwise.
pub(super) const USUAL: &str = "info,kube=warn,kube_runtime=warn,hyper_util=warn,rustls=warn";

/// Begins to log, to standard error or to a file. A second beginning changes nothing.
pub(super) fn begin(format: LogFormat, filter: &str, file: Option<File>) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(filter).map_err(|error| {
        anyhow::anyhow!("cannot read the log filter {filter:?}: {error}; try `info` or `capt=debug`")
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
