//! Process environment. The only module that reads environment variables.
//!
//! Flags take precedence over variables; both are read once at startup and passed on as values.

use std::{
    collections::BTreeMap,
    env,
    path::{Path, PathBuf},
};

use thiserror::Error;

/// Environment variables, current directory and executable of the process.
#[derive(Clone)]
pub struct ProcessEnv {
    /// Environment variables. Contain credentials: never print them.
    pub env: BTreeMap<String, String>,
    /// The current directory.
    pub cwd: PathBuf,
    /// Path of this executable, which also runs as shim and as local AWS.
    pub exe: PathBuf,
}

/// The process environment cannot be determined.
#[derive(Debug, Error)]
#[error("cannot determine {what}")]
pub struct ProcessEnvError {
    what: &'static str,
    #[source]
    source: std::io::Error,
}

impl ProcessEnv {
    /// Reads the process environment. Variables that are not valid UTF-8 are ignored.
    #[expect(clippy::disallowed_methods, reason = "process_env is the reader of the environment")]
    pub fn read() -> Result<Self, ProcessEnvError> {
        let env = env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        Ok(Self {
            env,
            cwd: env::current_dir()
                .map_err(|source| ProcessEnvError { what: "the current directory", source })?,
            exe: env::current_exe()
                .map_err(|source| ProcessEnvError { what: "the executable path", source })?,
        })
    }

    /// A variable that is set and not empty.
    pub fn var(&self, name: &str) -> Option<&str> {
        self.env.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The home directory.
    pub fn home(&self) -> Option<&Path> {
        self.var("HOME").map(Path::new)
    }

    /// Cache directory: `CAPT_CACHE`, `XDG_CACHE_HOME/capt` or `~/.cache/capt`.
    pub fn cache_dir(&self) -> PathBuf {
        if let Some(dir) = self.var("CAPT_CACHE") {
            return self.cwd.join(dir);
        }
        if let Some(dir) = self.var("XDG_CACHE_HOME") {
            return self.cwd.join(dir).join("capt");
        }
        self.home().map_or_else(|| self.cwd.join(".capt-cache"), |home| home.join(".cache").join("capt"))
    }

    /// Makes a path absolute relative to the current directory, without `.` components.
    pub fn absolute_path(&self, path: &Path) -> PathBuf {
        let mut whole = PathBuf::new();
        for part in self.cwd.join(path).components() {
            match part {
                std::path::Component::CurDir => {}
                other => whole.push(other),
            }
        }
        whole
    }
}
