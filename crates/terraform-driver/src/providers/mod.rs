//! Where terraform gets its providers from, found without a network.
//!
//! Contract: reads directories and the caller's CLI configuration, writes nothing. The order is: what the user set,
//! the caller's CLI configuration, terraform's implied local mirrors, a shallow search below the usual roots, the
//! registry. The first place that holds everything wanted is taken; [`Discovery::cli_config_text`] is our own CLI
//! configuration for it.

mod cli_config;
mod constraint;
pub mod lock;
mod mirror;
mod search;

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
    path::{Path, PathBuf},
};

pub use constraint::{Constraint, ConstraintError};
pub use mirror::Held;
pub use search::usual_roots;
use sha2::{Digest, Sha256};

use crate::{engine::EngineKind, hex::hex};

/// A provider that a run needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// `hashicorp`
    pub namespace: String,
    /// `aws`
    pub name: String,
    /// Versions that will do.
    pub constraint: Constraint,
}

impl Wanted {
    /// The AWS provider in the versions that the modules ask for.
    pub fn new(namespace: &str, name: &str, constraint: &str) -> Result<Self, ConstraintError> {
        let constraint = constraint.parse()?;
        Ok(Self { namespace: namespace.to_owned(), name: name.to_owned(), constraint })
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{} {}", self.namespace, self.name, self.constraint)
    }
}

/// How a mirror was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FoundBy {
    /// The user named it.
    Setting,
    /// The caller's CLI configuration names it.
    CliConfig(PathBuf),
    /// It is one of the directories that terraform looks into by itself.
    Implied,
    /// It lies below one of the usual roots.
    Search,
}

impl fmt::Display for FoundBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setting => f.write_str("set"),
            Self::CliConfig(file) => write!(f, "named in {}", file.display()),
            Self::Implied => f.write_str("a directory that terraform looks into"),
            Self::Search => f.write_str("found by search"),
        }
    }
}

/// Where providers come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProviderSource {
    /// A directory; no network is needed.
    Mirror {
        /// The directory that holds `registry.terraform.io`.
        dir: PathBuf,
        /// How it was found.
        found_by: FoundBy,
    },
    /// What the caller's CLI configuration says, as it stands there (a network mirror).
    Caller {
        /// The file.
        file: PathBuf,
    },
    /// The registry, over the network.
    Registry,
}

impl fmt::Display for ProviderSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mirror { dir, found_by } => write!(f, "{} ({found_by})", dir.display()),
            Self::Caller { file } => write!(f, "as {} says", file.display()),
            Self::Registry => f.write_str("the registry"),
        }
    }
}

/// Why the providers cannot be had from where they have to come.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ProviderError {
    /// The directory that the user named is none.
    #[error(
        "the provider mirror {} does not exist or holds no directory named {registry}; name the directory above it",
        dir.display()
    )]
    NoMirror {
        /// The directory.
        dir: PathBuf,
        /// The directory that has to be in it.
        registry: &'static str,
    },
    /// The directory that the user named lacks a provider.
    #[error(
        "the provider mirror {} holds {held} for {platform}, and {wanted} is needed; fill it with `terraform providers mirror`, or name another",
        dir.display()
    )]
    Lacking {
        /// The directory.
        dir: PathBuf,
        /// What is needed.
        wanted: String,
        /// What is there of it.
        held: String,
        /// The platform that was looked for.
        platform: String,
    },
}

/// What the caller knows about the machine. Nothing is read from the process.
#[derive(Debug, Clone)]
pub struct Surroundings<'a> {
    /// The mirror that a flag or a variable of ours names.
    pub setting: Option<&'a Path>,
    /// The caller's environment.
    pub env: &'a BTreeMap<String, String>,
    /// Where to search, see [`usual_roots`].
    pub roots: &'a [PathBuf],
    /// The engine decides the registry that a short address means.
    pub engine: EngineKind,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Discovery {
    /// Where providers come from.
    pub source: ProviderSource,
    /// What the mirror holds for this platform.
    pub held: Vec<Held>,
    /// Worth telling: mirrors that lack something, files that cannot be read.
    pub notes: Vec<String>,
    carried: cli_config::Carried,
}

/// `linux_amd64`, as the registries call it.
pub fn platform() -> String {
    let os = match std::env::consts::OS {
        "macos" => "darwin",
        os => os,
    };
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        arch => arch,
    };
    format!("{os}_{arch}")
}

/// Finds the place that holds everything wanted.
pub fn discover(around: &Surroundings<'_>, wanted: &[Wanted]) -> Result<Discovery, ProviderError> {
    let mut finder = Finder { registry: around.engine.registry(), wanted, notes: Vec::new() };
    let config = cli_config::read(around.env, around.engine, &mut finder.notes);
    let found = finder.find(around, &config)?;
    let (source, held) = found.unwrap_or_else(|| match &config.file {
        Some(file) if config.has_network_mirror => {
            (ProviderSource::Caller { file: file.clone() }, Vec::new())
        }
        _ => (ProviderSource::Registry, Vec::new()),
    });
    Ok(Discovery { source, held, notes: finder.notes, carried: config.carried })
}

struct Finder<'a> {
    registry: &'static str,
    wanted: &'a [Wanted],
    notes: Vec<String>,
}

type Found = (ProviderSource, Vec<Held>);

impl Finder<'_> {
    fn find(
        &mut self,
        around: &Surroundings<'_>,
        config: &cli_config::CliConfig,
    ) -> Result<Option<Found>, ProviderError> {
        if let Some(dir) = around.setting {
            return self.setting(dir).map(Some);
        }
        let configured = config.file.iter().flat_map(|file| {
            config.mirrors.iter().map(|dir| (dir.clone(), FoundBy::CliConfig(file.clone())))
        });
        let implied = search::implied_mirrors(around.env).into_iter().map(|dir| (dir, FoundBy::Implied));
        for (dir, found_by) in configured.chain(implied) {
            if let Some(found) = self.try_mirror(&dir, &found_by) {
                return Ok(Some(found));
            }
        }
        // Searching costs a few thousand directory entries, so it is done only now.
        let mut searched = search::search(around.roots, self.registry);
        Ok(searched.find_map(|dir| self.try_mirror(&dir, &FoundBy::Search)))
    }

    fn setting(&self, dir: &Path) -> Result<Found, ProviderError> {
        if !dir.join(self.registry).is_dir() {
            return Err(ProviderError::NoMirror { dir: dir.to_owned(), registry: self.registry });
        }
        let held = mirror::list(dir, self.registry, &platform());
        if let Some(lacking) = self.wanted.iter().find(|wanted| !satisfied(wanted, &held)) {
            return Err(ProviderError::Lacking {
                dir: dir.to_owned(),
                wanted: lacking.to_string(),
                held: describe(lacking, &held),
                platform: platform(),
            });
        }
        Ok((ProviderSource::Mirror { dir: dir.to_owned(), found_by: FoundBy::Setting }, held))
    }

    fn try_mirror(&mut self, dir: &Path, found_by: &FoundBy) -> Option<Found> {
        let held = mirror::list(dir, self.registry, &platform());
        let lacking = self.wanted.iter().find(|wanted| !satisfied(wanted, &held));
        match lacking {
            None if held.is_empty() => None,
            None => Some((ProviderSource::Mirror { dir: dir.to_owned(), found_by: found_by.clone() }, held)),
            Some(lacking) => {
                if !held.is_empty() {
                    let what = describe(lacking, &held);
                    self.notes.push(format!(
                        "the provider mirror {} holds {what}, and {lacking} is needed",
                        dir.display()
                    ));
                }
                None
            }
        }
    }
}

fn satisfied(wanted: &Wanted, held: &[Held]) -> bool {
    held.iter().any(|held| {
        held.namespace == wanted.namespace
            && held.name == wanted.name
            && held.versions.iter().any(|version| wanted.constraint.matches(version))
    })
}

fn describe(wanted: &Wanted, held: &[Held]) -> String {
    let same = held.iter().find(|held| held.namespace == wanted.namespace && held.name == wanted.name);
    let Some(same) = same else { return format!("no {}/{}", wanted.namespace, wanted.name) };
    let versions: Vec<String> = same.versions.iter().map(ToString::to_string).collect();
    format!("{}/{} {}", same.namespace, same.name, versions.join(", "))
}

impl Discovery {
    /// The unpacked package of a provider in the mirror; `None` if it is packed, or not there.
    pub fn package(&self, address: &str, version: &str) -> Option<PathBuf> {
        let ProviderSource::Mirror { dir, .. } = &self.source else { return None };
        let package = dir.join(address).join(version).join(platform());
        package.is_dir().then_some(package)
    }

    /// Our CLI configuration: the mirror for what it holds, the registry for everything else, and the caller's
    /// credentials for private registries. It may hold tokens: write it so that only we can read it.
    pub fn cli_config_text(&self) -> String {
        let mut text = "# Written by capt. Changes are lost.\ndisable_checkpoint = true\n".to_owned();
        match &self.source {
            ProviderSource::Mirror { dir, .. } => text.push_str(&self.mirror_block(dir)),
            ProviderSource::Caller { .. } => text.push_str(&self.carried.installation),
            ProviderSource::Registry => text.push_str("provider_installation {\n  direct {}\n}\n"),
        }
        text.push_str(&self.carried.credentials);
        text
    }

    fn mirror_block(&self, dir: &Path) -> String {
        let addresses: Vec<String> = self.held.iter().map(|held| format!("\"{}\"", held.address())).collect();
        let addresses = addresses.join(", ");
        let path = dir.to_string_lossy().replace('\\', "\\\\").replace('"', "\\\"");
        let mut text = String::from("provider_installation {\n");
        // A String takes everything.
        let _ = write!(
            text,
            "  filesystem_mirror {{\n    path    = \"{path}\"\n    include = [{addresses}]\n  }}\n  direct {{\n    exclude = [{addresses}]\n  }}\n}}\n"
        );
        text
    }

    /// Changes whenever `init` could choose other providers.
    pub fn digest(&self) -> String {
        let held: Vec<String> = self.held.iter().map(|held| format!("{held:?}")).collect();
        let text = format!("{:?}\n{}\n{}", self.source, held.join("\n"), self.cli_config_text());
        hex(&Sha256::digest(text))
    }
}

#[cfg(test)]
mod tests;
