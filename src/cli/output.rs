//! All terminal output: data to standard output, messages to standard error.

use std::io::{self, IsTerminal, Write};

use owo_colors::OwoColorize;
use serde::Serialize;

/// Result of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitStatus {
    /// The command succeeded.
    Done,
    /// The input was invalid, or a remote API rejected the request.
    Refused,
    /// Interrupted by a signal; running the same command again continues.
    Interrupted,
    /// Internal error.
    Bug,
    /// The exit code of the supervised child process.
    Child(u8),
}

impl ExitStatus {
    /// The process exit code; clap uses 2 for usage errors.
    pub const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Refused => 1,
            Self::Interrupted => 3,
            Self::Bug => 70,
            Self::Child(code) => code,
        }
    }
}

/// Output format of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum OutputFormat {
    /// Human-readable text.
    #[default]
    Text,
    /// JSON.
    Json,
    /// YAML.
    Yaml,
}

/// Prints data. A closed pipe (`| head`) is no error.
pub(super) fn print_data(text: &str) -> io::Result<()> {
    write_data(text).map(drop)
}

/// Prints data; returns false if standard output was closed.
pub(super) fn write_data(text: &str) -> io::Result<bool> {
    let mut out = anstream::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(io::Error::new(error.kind(), format!("cannot write to standard output: {error}"))),
        Ok(()) => Ok(true),
    }
}

/// Prints a value as JSON.
pub(super) fn print_json<T: Serialize>(value: &T) -> io::Result<()> {
    let mut text = serde_json::to_string_pretty(value).map_err(io::Error::other)?;
    text.push('\n');
    print_data(&text)
}

/// Prints a value as YAML.
pub(super) fn print_yaml<T: Serialize>(value: &T) -> io::Result<()> {
    print_data(&serde_saphyr::to_string(value).map_err(io::Error::other)?)
}

/// Prints a value in the requested format; `text` renders the text format.
pub(super) fn print_formatted<T: Serialize>(
    format: OutputFormat,
    value: &T,
    text: impl FnOnce() -> String,
) -> io::Result<()> {
    match format {
        OutputFormat::Text => print_data(&text()),
        OutputFormat::Json => print_json(value),
        OutputFormat::Yaml => print_yaml(value),
    }
}

/// Prints a message to standard error. Write errors are ignored.
pub(super) fn print_message(text: &str) {
    let mut err = anstream::stderr().lock();
    let _nobody_listens = writeln!(err, "{text}");
}

/// Prints an error with its causes, without repetitions.
pub(super) fn print_error(error: &anyhow::Error) {
    let mut text = format!("{} {error}", "error:".red().bold());
    for cause in error.chain().skip(1) {
        let cause = cause.to_string();
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    print_message(&text);
}

/// Prints a warning.
pub(super) fn print_warning(text: &str) {
    print_message(&format!("{} {text}", "warning:".yellow().bold()));
}

/// Whether standard error is a terminal.
pub(super) fn is_stderr_terminal() -> bool {
    io::stderr().is_terminal()
}

/// Whether the user can be prompted.
pub(super) fn is_interactive() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}
