//! Which terraform or tofu is used, and whether it is new enough.
//!
//! Contract: `find` looks at the file system only; running `version -json` is the work of `exec`, what it printed
//! is read here. The two engines are equal: nothing below asks which one it is except where their registries differ.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fmt,
    path::{Path, PathBuf},
};

use semver::Version;
use serde::Deserialize;

/// The oldest engine whose command line and event stream the driver relies on.
pub const OLDEST: Version = Version::new(1, 10, 0);

/// The two engines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EngineKind {
    /// `HashiCorp` Terraform.
    Terraform,
    /// `OpenTofu`.
    OpenTofu,
}

impl EngineKind {
    /// The file name it is usually installed under.
    pub const fn program(self) -> &'static str {
        match self {
            Self::Terraform => "terraform",
            Self::OpenTofu => "tofu",
        }
    }

    /// The registry host that a provider address without a host means.
    pub const fn registry(self) -> &'static str {
        match self {
            Self::Terraform => "registry.terraform.io",
            Self::OpenTofu => "registry.opentofu.org",
        }
    }

    /// `version -json` prints the same fields for both, so the name of the file decides.
    fn of(path: &Path) -> Self {
        let resolved = path.canonicalize();
        let named_tofu = |path: &Path| {
            path.file_name().is_some_and(|name| name.to_string_lossy().to_lowercase().contains("tofu"))
        };
        if named_tofu(path) || resolved.is_ok_and(|path| named_tofu(&path)) {
            Self::OpenTofu
        } else {
            Self::Terraform
        }
    }
}

impl fmt::Display for EngineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Terraform => "Terraform",
            Self::OpenTofu => "OpenTofu",
        })
    }
}

/// An engine that was found, is executable and is new enough.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Engine {
    /// Which of the two.
    pub kind: EngineKind,
    /// The absolute path of the program.
    pub path: PathBuf,
    /// What `version -json` said.
    pub version: Version,
}

/// A program that was found; its version is not known yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Which of the two.
    pub kind: EngineKind,
    /// The absolute path of the program.
    pub path: PathBuf,
}

/// Why there is no usable engine.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum EngineError {
    /// Nothing of that name exists.
    #[error(
        "{wanted} was not found in {looked_in}; install terraform or tofu (1.10 or newer), or name it with --engine PATH"
    )]
    Missing {
        /// What was looked for.
        wanted: String,
        /// Where.
        looked_in: String,
    },
    /// A file is there, and it cannot be executed.
    #[error("{} is not executable; make it so with `chmod +x`, or name another with --engine PATH", path.display())]
    NotExecutable {
        /// The file.
        path: PathBuf,
    },
    /// A directory is there.
    #[error("{} is a directory; name the program in it with --engine PATH", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
    },
    /// It works, and it is older than [`OLDEST`].
    #[error(
        "{} is {kind} {found}, and at least {OLDEST} is needed; install a newer one, or name another with --engine PATH",
        path.display()
    )]
    TooOld {
        /// Which engine.
        kind: EngineKind,
        /// The program.
        path: PathBuf,
        /// Its version.
        found: Version,
    },
    /// It printed something that is not the answer to `version -json`.
    #[error(
        "{} did not answer `version -json` as terraform or tofu do ({reason}); name another with --engine PATH",
        path.display()
    )]
    Unreadable {
        /// The program.
        path: PathBuf,
        /// What was wrong with the answer.
        reason: String,
    },
}

/// Finds the engine: `wanted` is a path or a name (none: terraform, then tofu), `path` the value of `PATH`, and
/// `base` the directory that a relative path is relative to.
pub fn find(wanted: Option<&str>, path: &OsStr, base: &Path) -> Result<Candidate, EngineError> {
    match wanted {
        Some(wanted) if wanted.contains('/') => {
            let path = base.join(wanted);
            if !path.exists() {
                return Err(EngineError::Missing {
                    wanted: wanted.to_owned(),
                    looked_in: base.display().to_string(),
                });
            }
            if path.is_dir() {
                return Err(EngineError::Directory { path });
            }
            executable(&path)
        }
        Some(wanted) => on_path(wanted, path, base),
        None => on_path(EngineKind::Terraform.program(), path, base).or_else(|first| {
            match on_path(EngineKind::OpenTofu.program(), path, base) {
                // A terraform that cannot be executed is what the user wants to hear about, not that tofu is absent too.
                Err(EngineError::Missing { looked_in, .. })
                    if matches!(first, EngineError::Missing { .. }) =>
                {
                    Err(EngineError::Missing { wanted: "terraform or tofu".to_owned(), looked_in })
                }
                Err(EngineError::Missing { .. }) => Err(first),
                other => other,
            }
        }),
    }
}

fn on_path(name: &str, path: &OsStr, base: &Path) -> Result<Candidate, EngineError> {
    let mut blocked = None;
    for directory in std::env::split_paths(path) {
        let candidate = base.join(directory).join(name);
        match executable(&candidate) {
            Ok(found) => return Ok(found),
            Err(error @ EngineError::NotExecutable { .. }) if candidate.is_file() => {
                blocked.get_or_insert(error);
            }
            Err(_) => {}
        }
    }
    Err(blocked.unwrap_or_else(|| EngineError::Missing {
        wanted: name.to_owned(),
        looked_in: format!("PATH ({})", path.to_string_lossy()),
    }))
}

fn executable(path: &Path) -> Result<Candidate, EngineError> {
    use std::os::unix::fs::PermissionsExt;
    let runs = path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0);
    if runs {
        Ok(Candidate { kind: EngineKind::of(path), path: path.to_owned() })
    } else {
        Err(EngineError::NotExecutable { path: path.to_owned() })
    }
}

#[derive(Deserialize)]
struct VersionAnswer {
    terraform_version: String,
    #[serde(default)]
    provider_selections: BTreeMap<String, String>,
}

/// What `version -json` says beside the version: the providers a directory has selected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionReport {
    /// The engine's version.
    pub version: Version,
    /// Provider address → version, when run in an initialised directory.
    pub providers: BTreeMap<String, String>,
}

/// Reads the answer to `version -json`.
pub fn parse_version(stdout: &[u8], path: &Path) -> Result<VersionReport, EngineError> {
    let unreadable = |reason: String| EngineError::Unreadable { path: path.to_owned(), reason };
    let answer: VersionAnswer =
        serde_json::from_slice(stdout).map_err(|error| unreadable(error.to_string()))?;
    let version = Version::parse(answer.terraform_version.trim_start_matches('v'))
        .map_err(|error| unreadable(format!("version `{}`: {error}", answer.terraform_version)))?;
    Ok(VersionReport { version, providers: answer.provider_selections })
}

impl Candidate {
    /// Joins a candidate with what it answered to `version -json`, and refuses it if it is too old.
    pub fn verify(self, version_json: &[u8]) -> Result<Engine, EngineError> {
        let VersionReport { version, .. } = parse_version(version_json, &self.path)?;
        let Self { kind, path } = self;
        // A pre-release of the oldest accepted version has the features; semver would sort it below.
        let release = Version::new(version.major, version.minor, version.patch);
        if release < OLDEST {
            return Err(EngineError::TooOld { kind, path, found: version });
        }
        Ok(Engine { kind, path, version })
    }
}

#[cfg(test)]
mod tests;
