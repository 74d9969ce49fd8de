//! The one printer: data to standard output, talk to standard error.

use std::io::{self, IsTerminal, Write};

use owo_colors::OwoColorize;
use serde::Serialize;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitStatus {
    /// What was asked for is done.
    Done,
    /// The user's input or the cloud said no.
    Refused,
    /// Interrupted; the same command continues.
    Interrupted,
    /// Our own bug.
    Bug,
    /// As the program ended that we stood in for.
    OfChild(u8),
}

impl ExitStatus {
    /// The process's exit code; 2 is clap's, for usage.
    pub const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Refused => 1,
            Self::Interrupted => 3,
            Self::Bug => 70,
            Self::OfChild(code) => code,
        }
    }
}

/// In which form data is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// For scripts.
    Json,
    /// For scripts and for people.
    Yaml,
}

/// Prints data. A reader that went away (`| head`) is no error.
pub(super) fn data(text: &str) -> io::Result<()> {
    stream(text).map(drop)
}

/// Prints a piece of data; whether anybody reads on.
pub(super) fn stream(text: &str) -> io::Result<bool> {
    let mut out = anstream::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(io::Error::new(error.kind(), format!("cannot write to standard output: {error}"))),
        Ok(()) => Ok(true),
    }
}

/// Prints a value as JSON.
pub(super) fn json<T: Serialize>(value: &T) -> io::Result<()> {
    let mut text = serde_json::to_string_pretty(value).map_err(io::Error::other)?;
    text.push('\n');
    data(&text)
}

/// Prints a value as YAML.
pub(super) fn yaml<T: Serialize>(value: &T) -> io::Result<()> {
    data(&serde_saphyr::to_string(value).map_err(io::Error::other)?)
}

/// Prints a value as it was asked for; `text` is what people see.
pub(super) fn print<T: Serialize>(
    format: Format,
    value: &T,
    text: impl FnOnce() -> String,
) -> io::Result<()> {
    match format {
        Format::Text => data(&text()),
        Format::Json => json(value),
        Format::Yaml => yaml(value),
    }
}

/// Says something to the person at the terminal. Nobody listening is no reason to fail.
pub(super) fn say(text: &str) {
    let mut err = anstream::stderr().lock();
    let _nobody_listens = writeln!(err, "{text}");
}

/// Says what went wrong, its causes, and nothing else.
pub(super) fn error(error: &anyhow::Error) {
    let mut text = format!("{} {error}", "error:".red().bold());
    for cause in error.chain().skip(1) {
        let cause = cause.to_string();
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    say(&text);
}

/// Says what deserves attention.
pub(super) fn warn(text: &str) {
    say(&format!("{} {text}", "warning:".yellow().bold()));
}

/// Whether a person watches standard error.
pub(super) fn is_watched() -> bool {
    io::stderr().is_terminal()
}

/// Whether a person can be asked.
pub(super) fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}
