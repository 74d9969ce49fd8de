//! Discovers where terraform gets its providers from, without network access.
//!
//! Reads directories and the caller's CLI configuration; writes nothing. The order is: the configured mirror, the caller's CLI
//! configuration, terraform's implied local mirrors, a shallow search below default roots, the registry. The first source with
//! all required providers is used; [`ProviderDiscovery::cli_config_text`] is the generated CLI configuration for it.

mod cli_config;
mod constraint;
pub mod lock_file;
mod mirror;
mod search;

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
    path::{Path, PathBuf},
};

pub use constraint::{Constraint, ConstraintError};
pub use mirror::MirroredProvider;
pub use search::default_search_roots;
use sha2::{Digest, Sha256};

use crate::{engine::EngineKind, hex::hex};

/// A required provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderRequirement {
    /// `hashicorp`
    pub namespace: String,
    /// `aws`
    pub name: String,
    /// Accepted versions.
    pub constraint: Constraint,
}

impl ProviderRequirement {
    /// Creates a requirement; fails on an invalid constraint.
    pub fn new(namespace: &str, name: &str, constraint: &str) -> Result<Self, ConstraintError> {
        let constraint = constraint.parse()?;
        Ok(Self { namespace: namespace.to_owned(), name: name.to_owned(), constraint })
    }
}

impl fmt::Display for ProviderRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{} {}", self.namespace, self.name, self.constraint)
    }
}

/// How a mirror was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MirrorOrigin {
    /// Configured by the user.
    Setting,
    /// Named in the caller's CLI configuration.
    CliConfig(PathBuf),
    /// One of terraform's implied mirror directories.
    Implied,
    /// Found below one of the search roots.
    Search,
}

impl fmt::Display for MirrorOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setting => f.write_str("set"),
            Self::CliConfig(file) => write!(f, "named in {}", file.display()),
            Self::Implied => f.write_str("implied mirror directory"),
            Self::Search => f.write_str("found by search"),
        }
    }
}

/// Source of providers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProviderSource {
    /// A local mirror; needs no network.
    Mirror {
        /// Directory that contains `registry.terraform.io`.
        dir: PathBuf,
        /// How it was found.
        found_by: MirrorOrigin,
    },
    /// The installation block of the caller's CLI configuration (a network mirror).
    CallerConfig {
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
            Self::CallerConfig { file } => write!(f, "configured in {}", file.display()),
            Self::Registry => f.write_str("the registry"),
        }
    }
}

/// Why the configured mirror cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ProviderError {
    /// The configured directory is not a mirror.
    #[error(
        "the provider mirror {} does not exist or holds no directory named {registry}; name the directory above it",
        dir.display()
    )]
    NoMirror {
        /// The directory.
        dir: PathBuf,
        /// The directory that it must contain.
        registry: &'static str,
    },
    /// The configured mirror lacks a provider.
    #[error(
        "the provider mirror {} holds {held} for {platform}, but {wanted} is needed; fill it with `terraform providers mirror`, or name another",
        dir.display()
    )]
    MissingProvider {
        /// The directory.
        dir: PathBuf,
        /// The required provider.
        wanted: String,
        /// Available versions of it.
        held: String,
        /// The required platform.
        platform: String,
    },
}

/// Inputs of the discovery. Nothing is read from the process itself.
#[derive(Debug, Clone)]
pub struct DiscoveryInputs<'a> {
    /// Mirror configured by a flag or variable of capt.
    pub setting: Option<&'a Path>,
    /// The caller's environment.
    pub env: &'a BTreeMap<String, String>,
    /// Search roots, see [`default_search_roots`].
    pub roots: &'a [PathBuf],
    /// The engine; determines the default registry.
    pub engine: EngineKind,
}

/// Result of the discovery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderDiscovery {
    /// Source of providers.
    pub source: ProviderSource,
    /// Providers of the mirror for this platform.
    pub mirrored: Vec<MirroredProvider>,
    /// Notes for the user: incomplete mirrors, invalid files.
    pub notes: Vec<String>,
    carried: cli_config::CarriedBlocks,
}

/// The platform in the registries' notation: `linux_amd64`.
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

/// Finds a source with all required providers.
pub fn discover_providers(
    around: &DiscoveryInputs<'_>,
    wanted: &[ProviderRequirement],
) -> Result<ProviderDiscovery, ProviderError> {
    let mut finder = MirrorFinder { registry: around.engine.registry(), wanted, notes: Vec::new() };
    let config = cli_config::read_cli_config(around.env, around.engine, &mut finder.notes);
    let found = finder.find(around, &config)?;
    let (source, held) = found.unwrap_or_else(|| match &config.file {
        Some(file) if config.has_network_mirror => {
            (ProviderSource::CallerConfig { file: file.clone() }, Vec::new())
        }
        _ => (ProviderSource::Registry, Vec::new()),
    });
    Ok(ProviderDiscovery { source, mirrored: held, notes: finder.notes, carried: config.carried })
}

struct MirrorFinder<'a> {
    registry: &'static str,
    wanted: &'a [ProviderRequirement],
    notes: Vec<String>,
}

type FoundMirror = (ProviderSource, Vec<MirroredProvider>);

impl MirrorFinder<'_> {
    fn find(
        &mut self,
        around: &DiscoveryInputs<'_>,
        config: &cli_config::CliConfig,
    ) -> Result<Option<FoundMirror>, ProviderError> {
        if let Some(dir) = around.setting {
            return self.check_configured_mirror(dir).map(Some);
        }
        let configured = config.file.iter().flat_map(|file| {
            config.mirrors.iter().map(|dir| (dir.clone(), MirrorOrigin::CliConfig(file.clone())))
        });
        let implied = search::implied_mirrors(around.env).into_iter().map(|dir| (dir, MirrorOrigin::Implied));
        for (dir, found_by) in configured.chain(implied) {
            if let Some(found) = self.try_mirror(&dir, &found_by) {
                return Ok(Some(found));
            }
        }
        // The search reads thousands of directory entries, so it comes last.
        let mut searched = search::search_mirrors(around.roots, self.registry);
        Ok(searched.find_map(|dir| self.try_mirror(&dir, &MirrorOrigin::Search)))
    }

    fn check_configured_mirror(&self, dir: &Path) -> Result<FoundMirror, ProviderError> {
        if !dir.join(self.registry).is_dir() {
            return Err(ProviderError::NoMirror { dir: dir.to_owned(), registry: self.registry });
        }
        let held = mirror::list_mirror(dir, self.registry, &platform());
        if let Some(lacking) = self.wanted.iter().find(|wanted| !is_satisfied(wanted, &held)) {
            return Err(ProviderError::MissingProvider {
                dir: dir.to_owned(),
                wanted: lacking.to_string(),
                held: describe_held(lacking, &held),
                platform: platform(),
            });
        }
        Ok((ProviderSource::Mirror { dir: dir.to_owned(), found_by: MirrorOrigin::Setting }, held))
    }

    fn try_mirror(&mut self, dir: &Path, found_by: &MirrorOrigin) -> Option<FoundMirror> {
        let held = mirror::list_mirror(dir, self.registry, &platform());
        let lacking = self.wanted.iter().find(|wanted| !is_satisfied(wanted, &held));
        match lacking {
            None if held.is_empty() => None,
            None => Some((ProviderSource::Mirror { dir: dir.to_owned(), found_by: found_by.clone() }, held)),
            Some(lacking) => {
                if !held.is_empty() {
                    let what = describe_held(lacking, &held);
                    self.notes.push(format!(
                        "the provider mirror {} holds {what}, but {lacking} is needed",
                        dir.display()
                    ));
                }
                None
            }
        }
    }
}

fn is_satisfied(wanted: &ProviderRequirement, held: &[MirroredProvider]) -> bool {
    held.iter().any(|held| {
        held.namespace == wanted.namespace
            && held.name == wanted.name
            && held.versions.iter().any(|version| wanted.constraint.matches(version))
    })
}

fn describe_held(wanted: &ProviderRequirement, held: &[MirroredProvider]) -> String {
    let same = held.iter().find(|held| held.namespace == wanted.namespace && held.name == wanted.name);
    let Some(same) = same else { return format!("no {}/{}", wanted.namespace, wanted.name) };
    let versions: Vec<String> = same.versions.iter().map(ToString::to_string).collect();
    format!("{}/{} {}", same.namespace, same.name, versions.join(", "))
}

impl ProviderDiscovery {
    /// Unpacked package of a provider in the mirror; `None` if it is packed or missing.
    pub fn unpacked_package(&self, address: &str, version: &str) -> Option<PathBuf> {
        let ProviderSource::Mirror { dir, .. } = &self.source else { return None };
        let package = dir.join(address).join(version).join(platform());
        package.is_dir().then_some(package)
    }

    /// Unpacked packages of all versions of a provider in the mirror.
    pub fn unpacked_packages(&self, address: &str) -> Vec<PathBuf> {
        let same = self.mirrored.iter().filter(|held| held.address() == address);
        let versions = same.flat_map(|held| &held.versions);
        versions.filter_map(|version| self.unpacked_package(address, &version.to_string())).collect()
    }

    /// The generated CLI configuration: the mirror for its providers, the registry for all others, and the caller's credentials
    /// for private registries. It may contain tokens: write it with mode 0600.
    pub fn cli_config_text(&self) -> String {
        let mut text = "# Written by capt. Changes are lost.\ndisable_checkpoint = true\n".to_owned();
        match &self.source {
            ProviderSource::Mirror { dir, .. } => text.push_str(&self.mirror_block(dir)),
            ProviderSource::CallerConfig { .. } => text.push_str(&self.carried.installation),
            ProviderSource::Registry => text.push_str("provider_installation {\n  direct {}\n}\n"),
        }
        text.push_str(&self.carried.credentials);
        text
    }

    fn mirror_block(&self, dir: &Path) -> String {
        let addresses: Vec<String> =
            self.mirrored.iter().map(|held| format!("\"{}\"", held.address())).collect();
        let addresses = addresses.join(", ");
        let path = dir.to_string_lossy().replace('\\', "\\\\").replace('"', "\\\"");
        let mut text = String::from("provider_installation {\n");
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "  filesystem_mirror {{\n    path    = \"{path}\"\n    include = [{addresses}]\n  }}\n  direct {{\n    exclude = [{addresses}]\n  }}\n}}\n"
        );
        text
    }

    /// Digest that changes whenever `init` could select other providers.
    pub fn digest(&self) -> String {
        let held: Vec<String> = self.mirrored.iter().map(|held| format!("{held:?}")).collect();
        let text = format!("{:?}\n{}\n{}", self.source, held.join("\n"), self.cli_config_text());
        hex(Sha256::digest(text))
    }
}

#[cfg(test)]
mod tests;
