//! Parsed addresses of modules.
//!
//! A [`ModuleSource`] exists only for an address that was parsed. [`ModuleSource::parse`] refuses everything that reads the machine
//! on which terraform runs, or that adds options to a command of its downloader; it is for the addresses of API objects. A local
//! module takes a [`LocalModules`], which only the command line makes: its user may read the files anyway.
//!
//! Addresses may contain credentials. `Display` and `Debug` leave them out; only [`ModuleSource::address`] has them.

mod parse;
mod redact;
mod reserved;
mod tree;

use std::{
    fmt,
    path::{Path, PathBuf},
};

pub(crate) use reserved::is_state_or_plan;
use thiserror::Error;
pub use tree::{SourceLimits, SourceTree, SourceTreeError, is_larger_than, read_source};

/// Permission to use modules on this machine. Only the command line makes one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalModules(());

impl LocalModules {
    /// The permission of a user of the command line, who reads the same files without capt.
    pub const fn of_the_command_line() -> Self {
        Self(())
    }
}

/// The address of a module, parsed.
#[derive(Clone, PartialEq, Eq)]
pub struct ModuleSource {
    address: String,
    kind: ModuleSourceKind,
}

/// Where a module comes from. Contains no credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModuleSourceKind {
    /// A module registry.
    Registry {
        /// Host of the registry; `None` is the default of the engine.
        host: Option<String>,
        /// `<namespace>/<name>/<provider>`
        name: String,
    },
    /// An archive at an HTTP URL.
    Https {
        /// Host, with the port if there is one.
        host: String,
    },
    /// A git repository.
    Git {
        /// Its address, without credentials, subdirectory and options.
        url: String,
        /// Branch, tag or commit; `None` is the default branch.
        reference: Option<String>,
    },
    /// An OCI registry.
    Oci {
        /// Host, with the port if there is one.
        host: String,
    },
    /// An archive in a bucket of S3 or GCS.
    Bucket {
        /// Host, with the port if there is one.
        host: String,
    },
    /// On this machine.
    Local(LocalModule),
}

/// A module on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalModule {
    /// The directory to copy; `None` if terraform fetches the address (`git::file://…`).
    directory: Option<PathBuf>,
}

/// Why an address is refused. Contains no credentials.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SourceError {
    /// It has no text.
    #[error(
        "the module address is empty; use the address of a module, or a configuration with source: Inline"
    )]
    Empty,
    /// It is on the machine on which terraform runs.
    #[error(
        "module {address} is a local path on the operator's host; use an address that terraform can fetch, or write the \
         configuration inline"
    )]
    Local {
        /// The address.
        address: String,
    },
    /// The downloader would take a part of it for an option.
    #[error(
        "module {address}: {part} begins with `-`, which a downloader takes for an option; correct the address"
    )]
    Option {
        /// The address.
        address: String,
        /// The part.
        part: &'static str,
    },
    /// It has an option that reads the machine on which terraform runs.
    #[error("module {address}: `{name}` refers to files or settings of the operator's host; remove it")]
    HostOption {
        /// The address.
        address: String,
        /// The option.
        name: String,
    },
    /// A part of it has no valid form.
    #[error("module {address}: {problem}; correct the address")]
    Malformed {
        /// The address.
        address: String,
        /// What is wrong.
        problem: &'static str,
    },
    /// No supported kind of address.
    #[error(
        "module {address} is not a supported address; use a registry address such as terraform-aws-modules/vpc/aws, \
         https://HOST/PATH, git::https://HOST/PATH, git::ssh://USER@HOST/PATH, oci://HOST/PATH, s3::https://HOST/PATH or \
         gcs::https://HOST/PATH"
    )]
    Unsupported {
        /// The address.
        address: String,
    },
}

impl ModuleSource {
    /// Parses an address of an API object.
    pub fn parse(address: &str) -> Result<Self, SourceError> {
        let address = address.trim();
        let kind = parse::parse_remote(address)?;
        Ok(Self { address: address.to_owned(), kind })
    }

    /// Parses an address that may be on this machine. Relative paths start at `base`.
    pub fn parse_with_local(address: &str, base: &Path, _: LocalModules) -> Result<Self, SourceError> {
        let trimmed = address.trim();
        if parse::is_local_path(trimmed) {
            let path = if trimmed.starts_with('/') { PathBuf::from(trimmed) } else { base.join(trimmed) };
            let address = explicit_local_path(path.display().to_string());
            let local = LocalModule { directory: Some(PathBuf::from(&address)) };
            return Ok(Self { address, kind: ModuleSourceKind::Local(local) });
        }
        if !trimmed.starts_with('-') && parse::is_local(trimmed) {
            let local = LocalModule { directory: None };
            return Ok(Self { address: trimmed.to_owned(), kind: ModuleSourceKind::Local(local) });
        }
        Self::parse(trimmed)
    }

    /// The address as terraform gets it, credentials included.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Where the module comes from.
    pub fn kind(&self) -> &ModuleSourceKind {
        &self.kind
    }

    /// The directory to copy, if the module is one of this machine.
    pub fn directory(&self) -> Option<&Path> {
        match &self.kind {
            ModuleSourceKind::Local(local) => local.directory.as_deref(),
            _ => None,
        }
    }

    /// Replaces the credentials of the address in a text.
    pub fn redact(&self, text: &str) -> String {
        redact::redact_text(&self.address, text)
    }
}

/// Terraform recognises a local path only by a leading `/` or `.`.
fn explicit_local_path(path: String) -> String {
    if path.starts_with(['/', '.']) { path } else { format!("./{path}") }
}

/// The address without credentials.
impl fmt::Display for ModuleSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&redact::redact_address(&self.address))
    }
}

impl fmt::Debug for ModuleSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ModuleSource({self})")
    }
}

#[cfg(test)]
mod tests;
