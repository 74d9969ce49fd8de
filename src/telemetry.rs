//! What the process tells about itself: logs for people, metrics for machines.
//!
//! Everybody may use this room, so it uses nothing of ours. Logs go to standard error; standard output is data.
//!
//! No secrets: what comes out of a Secret, a variable or an output is kept in
//! [`Sensitive`](terraform_driver::output::Sensitive), whose `Debug` hides it, and is never formatted into a message.
//! A log line names objects, not their content.

pub mod metrics;

use std::{fmt, io, str::FromStr, sync::Arc};

pub use metrics::Metrics;
use tracing::{Dispatch, Subscriber};
use tracing_subscriber::{EnvFilter, Layer, Registry, layer::SubscriberExt as _, reload};

/// How a log line looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Why the log cannot be as it is asked to.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// A filter that cannot be read.
    #[error(
        "{filter:?} is not a log filter; write a level such as info, or directives such as info,capt=debug"
    )]
    Filter {
        /// The filter.
        filter: String,
        /// What is wrong with it.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A format that does not exist.
    #[error("{0:?} is not a log format; write text or json")]
    Format(String),
    /// Somebody else set up the log of this process.
    #[error("the log of this process is set up already; do it once, at the start")]
    Twice(#[source] tracing::dispatcher::SetGlobalDefaultError),
    /// The log that the level belongs to is gone.
    #[error("the log level cannot be changed any more; start the process again")]
    Gone(#[source] reload::Error),
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

/// Changes what is logged while the process runs.
#[derive(Clone)]
pub struct LogLevel(Arc<dyn Fn(EnvFilter) -> Result<(), reload::Error> + Send + Sync>);

impl LogLevel {
    /// From now on only what this filter lets through, such as `info` or `info,capt::runs=debug`.
    pub fn set(&self, filter: &str) -> Result<(), TelemetryError> {
        (self.0)(parse(filter)?).map_err(TelemetryError::Gone)
    }
}

impl fmt::Debug for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LogLevel")
    }
}

/// Sets up the log of this process, once. The returned handle changes the filter later.
pub fn init(format: LogFormat, filter: &str) -> Result<LogLevel, TelemetryError> {
    let (log, level) = log(format, filter, io::stderr)?;
    tracing::dispatcher::set_global_default(log).map_err(TelemetryError::Twice)?;
    Ok(level)
}

/// A log that writes to `writer`, without making it the process's own.
pub fn log<W>(format: LogFormat, filter: &str, writer: W) -> Result<(Dispatch, LogLevel), TelemetryError>
where
    W: for<'a> tracing_subscriber::fmt::MakeWriter<'a> + Send + Sync + 'static,
{
    let (filter, handle) = reload::Layer::new(parse(filter)?);
    let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(writer);
    let lines: Box<dyn Layer<_> + Send + Sync> = match format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    let subscriber: Box<dyn Subscriber + Send + Sync> =
        Box::new(Registry::default().with(filter).with(lines));
    Ok((Dispatch::new(subscriber), LogLevel(Arc::new(move |filter| handle.reload(filter)))))
}

/// Strict: a directive that means nothing is an error and not left out.
fn parse(filter: &str) -> Result<EnvFilter, TelemetryError> {
    let refuse = |source| TelemetryError::Filter { filter: filter.to_owned(), source };
    if filter.trim().is_empty() {
        return Err(refuse("it is empty".into()));
    }
    EnvFilter::builder().parse(filter.trim()).map_err(|error| refuse(error.into()))
}

#[cfg(test)]
mod tests;
