//! Locates terraform or tofu and checks its version.
//!
//! Reads only the file system; the caller runs `version -json`, whose output is parsed here. Both engines are treated alike
//! except for their default registry.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fmt,
    path::{Path, PathBuf},
};

use semver::Version;
use serde::Deserialize;

/// Minimum supported version of the engine.
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
    /// Usual file name of the program.
    pub const fn program(self) -> &'static str {
        match self {
            Self::Terraform => "terraform",
            Self::OpenTofu => "tofu",
        }
    }

    /// Default registry host of provider addresses.
    pub const fn registry(self) -> &'static str {
        match self {
            Self::Terraform => "registry.terraform.io",
            Self::OpenTofu => "registry.opentofu.org",
        }
    }

    /// Detects the engine by its file name, because `version -json` prints the same fields for both.
    fn from_path(path: &Path) -> Self {
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

/// An executable engine of a supported version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Engine {
    /// Terraform or `OpenTofu`.
    pub kind: EngineKind,
    /// Absolute path of the program.
    pub path: PathBuf,
    /// Version from `version -json`.
    pub version: Version,
}

/// An executable whose version is not verified yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineCandidate {
    /// Terraform or `OpenTofu`.
    pub kind: EngineKind,
    /// Absolute path of the program.
    pub path: PathBuf,
}

/// Why there is no usable engine.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum EngineError {
    /// The program does not exist.
    #[error(
        "{wanted} was not found in {looked_in}; install terraform or tofu (1.10 or newer), or name it with --engine PATH"
    )]
    NotFound {
        /// The requested program.
        wanted: String,
        /// The searched locations.
        looked_in: String,
    },
    /// The file is not executable.
    #[error("{} is not executable; make it so with `chmod +x`, or name another with --engine PATH", path.display())]
    NotExecutable {
        /// The file.
        path: PathBuf,
    },
    /// The path is a directory.
    #[error("{} is a directory; name the program in it with --engine PATH", path.display())]
    IsDirectory {
        /// The directory.
        path: PathBuf,
    },
    /// The version is older than [`OLDEST`].
    #[error(
        "{} is {kind} {found}, and at least {OLDEST} is needed; install a newer one, or name another with --engine PATH",
        path.display()
    )]
    TooOld {
        /// Kind of the engine.
        kind: EngineKind,
        /// The program.
        path: PathBuf,
        /// Its version.
        found: Version,
    },
    /// The output of `version -json` cannot be parsed.
    #[error(
        "{} did not answer `version -json` as terraform or tofu do ({reason}); name another with --engine PATH",
        path.display()
    )]
    InvalidVersionOutput {
        /// The program.
        path: PathBuf,
        /// The parse error.
        reason: String,
    },
}

/// Locates the engine. `wanted` is a path or a name (`None`: terraform, then tofu), `path` the value of `PATH`, `base` the
/// directory for relative paths.
pub fn locate(wanted: Option<&str>, path: &OsStr, base: &Path) -> Result<EngineCandidate, EngineError> {
    match wanted {
        Some(wanted) if wanted.contains('/') => {
            let path = base.join(wanted);
            if !path.exists() {
                return Err(EngineError::NotFound {
                    wanted: wanted.to_owned(),
                    looked_in: base.display().to_string(),
                });
            }
            if path.is_dir() {
                return Err(EngineError::IsDirectory { path });
            }
            check_executable(&path)
        }
        Some(wanted) => find_on_path(wanted, path, base),
        None => find_on_path(EngineKind::Terraform.program(), path, base).or_else(|first| {
            match find_on_path(EngineKind::OpenTofu.program(), path, base) {
                // Prefer the error about a non-executable terraform over the absence of tofu.
                Err(EngineError::NotFound { looked_in, .. })
                    if matches!(first, EngineError::NotFound { .. }) =>
                {
                    Err(EngineError::NotFound { wanted: "terraform or tofu".to_owned(), looked_in })
                }
                Err(EngineError::NotFound { .. }) => Err(first),
                other => other,
            }
        }),
    }
}

fn find_on_path(name: &str, path: &OsStr, base: &Path) -> Result<EngineCandidate, EngineError> {
    let mut blocked = None;
    for directory in std::env::split_paths(path) {
        let candidate = base.join(directory).join(name);
        match check_executable(&candidate) {
            Ok(found) => return Ok(found),
            Err(error @ EngineError::NotExecutable { .. }) if candidate.is_file() => {
                blocked.get_or_insert(error);
            }
            Err(_) => {}
        }
    }
    Err(blocked.unwrap_or_else(|| EngineError::NotFound {
        wanted: name.to_owned(),
        looked_in: format!("PATH ({})", path.to_string_lossy()),
    }))
}

fn check_executable(path: &Path) -> Result<EngineCandidate, EngineError> {
    use std::os::unix::fs::PermissionsExt;
    let runs = path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0);
    if runs {
        Ok(EngineCandidate { kind: EngineKind::from_path(path), path: path.to_owned() })
    } else {
        Err(EngineError::NotExecutable { path: path.to_owned() })
    }
}

#[derive(Deserialize)]
struct VersionOutput {
    terraform_version: String,
    #[serde(default)]
    provider_selections: BTreeMap<String, String>,
}

/// Parsed output of `version -json`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionReport {
    /// The engine's version.
    pub version: Version,
    /// Selected provider versions by address, in an initialised directory.
    pub providers: BTreeMap<String, String>,
}

/// Parses the output of `version -json`.
pub fn parse_version(stdout: &[u8], path: &Path) -> Result<VersionReport, EngineError> {
    let unreadable = |reason: String| EngineError::InvalidVersionOutput { path: path.to_owned(), reason };
    let answer: VersionOutput =
        serde_json::from_slice(stdout).map_err(|error| unreadable(error.to_string()))?;
    let version = Version::parse(answer.terraform_version.trim_start_matches('v'))
        .map_err(|error| unreadable(format!("version `{}`: {error}", answer.terraform_version)))?;
    Ok(VersionReport { version, providers: answer.provider_selections })
}

impl EngineCandidate {
    /// Verifies the version of a candidate from the output of `version -json`.
    pub fn verify(self, version_json: &[u8]) -> Result<Engine, EngineError> {
        let VersionReport { version, .. } = parse_version(version_json, &self.path)?;
        let Self { kind, path } = self;
        // Accept pre-releases of the minimum version, which semver orders below it.
        let release = Version::new(version.major, version.minor, version.patch);
        if release < OLDEST {
            return Err(EngineError::TooOld { kind, path, found: version });
        }
        Ok(Engine { kind, path, version })
    }
}

#[cfg(test)]
mod tests;
