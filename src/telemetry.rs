//! Logging and metrics.
//!
//! Every module may use this one, so it uses no other module of this crate. Logs go to standard error; standard output is
//! reserved for data.
//!
//! Logs must not contain secrets: values from Secrets, variables and outputs are held in
//! [`Sensitive`](terraform_driver::output::Sensitive), whose `Debug` redacts them, and are never formatted into a message.
//! A log line names objects, not their content.

pub mod metrics;

use std::{fmt, io, str::FromStr, sync::Arc};

pub use metrics::Metrics;
use tracing::{Dispatch, Subscriber};
use tracing_subscriber::{EnvFilter, Layer, Registry, layer::SubscriberExt as _, reload};

/// Format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Human-readable lines.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// Why logging could not be configured.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The filter does not parse.
    #[error(
        "{filter:?} is not a log filter; write a level such as info, or directives such as info,capt=debug"
    )]
    Filter {
        /// The filter.
        filter: String,
        /// The parse error.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// An unknown format.
    #[error("{0:?} is not a log format; write text or json")]
    Format(String),
    /// A global subscriber is already installed.
    #[error("logging is already initialized; initialize it once, at process start")]
    AlreadyInitialized(#[source] tracing::dispatcher::SetGlobalDefaultError),
    /// The subscriber of this handle no longer exists.
    #[error("the log level cannot be changed any more because its subscriber is gone; restart the process")]
    SubscriberGone(#[source] reload::Error),
}

impl FromStr for LogFormat {
    type Err = TelemetryError;

    fn from_str(text: &str) -> Result<Self, TelemetryError> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            other => Err(TelemetryError::Format(other.to_owned())),
        }
    }
}

impl fmt::Display for LogFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text => "text",
            Self::Json => "json",
        })
    }
}

/// Handle that changes the log filter at run time.
#[derive(Clone)]
pub struct LogLevel(Arc<dyn Fn(EnvFilter) -> Result<(), reload::Error> + Send + Sync>);

impl LogLevel {
    /// Replaces the filter, such as `info` or `info,capt_engine::runs=debug`.
    pub fn set(&self, filter: &str) -> Result<(), TelemetryError> {
        (self.0)(parse_filter(filter)?).map_err(TelemetryError::SubscriberGone)
    }
}

impl fmt::Debug for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LogLevel")
    }
}

/// Installs the global subscriber. The returned handle changes the filter later.
pub fn init(format: LogFormat, filter: &str) -> Result<LogLevel, TelemetryError> {
    let (log, level) = build_subscriber(format, filter, io::stderr)?;
    tracing::dispatcher::set_global_default(log).map_err(TelemetryError::AlreadyInitialized)?;
    Ok(level)
}

/// Builds a subscriber that writes to `writer` without installing it globally.
pub fn build_subscriber<W>(
    format: LogFormat,
    filter: &str,
    writer: W,
) -> Result<(Dispatch, LogLevel), TelemetryError>
where
    W: for<'a> tracing_subscriber::fmt::MakeWriter<'a> + Send + Sync + 'static,
{
    let (filter, handle) = reload::Layer::new(parse_filter(filter)?);
    let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(writer);
    let lines: Box<dyn Layer<_> + Send + Sync> = match format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    let subscriber: Box<dyn Subscriber + Send + Sync> =
        Box::new(Registry::default().with(filter).with(lines));
    Ok((Dispatch::new(subscriber), LogLevel(Arc::new(move |filter| handle.reload(filter)))))
}

/// Strict: an invalid directive is an error instead of being ignored.
fn parse_filter(filter: &str) -> Result<EnvFilter, TelemetryError> {
    let refuse = |source| TelemetryError::Filter { filter: filter.to_owned(), source };
    if filter.trim().is_empty() {
        return Err(refuse("the filter is empty".into()));
    }
    EnvFilter::builder().parse(filter.trim()).map_err(|error| refuse(error.into()))
}

#[cfg(test)]
mod tests;
