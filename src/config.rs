//! Settings: the only reader of the environment.
//!
//! Flags win over variables; both are read once, at the start, and handed on as values.

use std::{
    collections::BTreeMap,
    env,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// What the process was started in.
#[derive(Clone)]
pub struct Outer {
    /// The environment. Never printed: it holds credentials.
    pub env: BTreeMap<String, String>,
    /// The current directory.
    pub cwd: PathBuf,
    /// Our own executable, which is also the shim and the local AWS.
    pub exe: PathBuf,
}

/// What cannot be found out about the place we run in.
#[derive(Debug, Error)]
#[error("cannot tell {what}")]
pub struct OuterError {
    what: &'static str,
    #[source]
    source: std::io::Error,
}

impl Outer {
    /// Reads it. Variables that are not valid text are left out: nothing here could use them.
    #[expect(clippy::disallowed_methods, reason = "config is the reader of the environment")]
    pub fn read() -> Result<Self, OuterError> {
        let env = env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        Ok(Self {
            env,
            cwd: env::current_dir().map_err(|source| OuterError { what: "the current directory", source })?,
            exe: env::current_exe().map_err(|source| OuterError { what: "our own executable", source })?,
        })
    }

    /// A variable that is set to something.
    pub fn var(&self, name: &str) -> Option<&str> {
        self.env.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The home directory, if there is one.
    pub fn home(&self) -> Option<&Path> {
        self.var("HOME").map(Path::new)
    }

    /// Where things live that can be made again: `CAPT_CACHE`, `XDG_CACHE_HOME/capt`, `~/.cache/capt`.
    pub fn cache(&self) -> PathBuf {
        if let Some(dir) = self.var("CAPT_CACHE") {
            return self.cwd.join(dir);
        }
        if let Some(dir) = self.var("XDG_CACHE_HOME") {
            return self.cwd.join(dir).join("capt");
        }
        self.home().map_or_else(|| self.cwd.join(".capt-cache"), |home| home.join(".cache").join("capt"))
    }

    /// A path as the user meant it, absolute.
    pub fn absolute(&self, path: &Path) -> PathBuf {
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

/// Which AWS a command works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AwsMode {
    /// A model on this machine; costs nothing, needs no account.
    #[default]
    Local,
    /// The account that the default credential chain leads to.
    Real,
}
