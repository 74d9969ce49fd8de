//! What goes into rendering and what comes out.

use std::{collections::BTreeMap, fmt};

use serde_json::{Map, Value};

/// The inputs of one workspace, validated by the caller.
#[derive(Debug, Clone)]
pub struct Request {
    /// The object's namespace.
    pub namespace: String,
    /// The object's name.
    pub name: String,
    /// The root module.
    pub source: Source,
    /// Directory inside of a remote source; means nothing for the others.
    pub entrypoint: String,
    /// Variables from the controller: exactly these for a module of ours; for a user's template those that it
    /// declares, the others are dropped.
    pub variables: Map<String, Value>,
    /// The template's `vars`: text with the meaning of `-var`, and stronger than `variables`.
    pub vars: Vec<Var>,
    /// The template's `varFiles`, read.
    pub var_files: Vec<VarFile>,
    /// The template's `varmap`.
    pub varmap: Map<String, Value>,
    /// Values that are outputs of other workspaces.
    pub upstream: Map<String, Value>,
    /// The AWS provider; none for a root that needs none.
    pub provider: Option<ProviderBlock>,
    /// Where the state is.
    pub backend: Backend,
    /// The dependency lock file, if one is shipped.
    pub lock_file: Option<Vec<u8>>,
    /// Further files of the root, such as credentials beside `main.tf`.
    pub extra: BTreeMap<String, Contents>,
}

impl Request {
    /// A request with nothing but a source.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>, source: Source) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            source,
            entrypoint: String::new(),
            variables: Map::new(),
            vars: Vec::new(),
            var_files: Vec::new(),
            varmap: Map::new(),
            upstream: Map::new(),
            provider: None,
            backend: Backend::default(),
            lock_file: None,
            extra: BTreeMap::new(),
        }
    }
}

/// The root module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Files of a module of ours, copied flat.
    Module(BTreeMap<String, Vec<u8>>),
    /// The whole root in one text.
    Inline {
        /// Its language.
        format: InlineFormat,
        /// The text, substituted.
        text: String,
    },
    /// A local path or a go-getter address; it *is* the root, as with upstream.
    Remote {
        /// The address.
        address: String,
        /// The files of the root module (entrypoint applied, flat names) once they are there. Without them the types
        /// of the variables are not known, so the caller renders again after the fetch.
        fetched: Option<BTreeMap<String, Vec<u8>>>,
    },
}

/// The language of an inline module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InlineFormat {
    /// `main.tf`
    #[default]
    Hcl,
    /// `main.tf.json`
    Json,
}

/// One of the template's `vars`.
#[derive(Clone, PartialEq, Eq)]
pub struct Var {
    /// The variable.
    pub key: String,
    /// Its text.
    pub value: String,
}

impl fmt::Debug for Var {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Var({})", self.key)
    }
}

/// One of the template's `varFiles`, read.
#[derive(Clone, PartialEq, Eq)]
pub struct VarFile {
    /// For messages: `Secret default/demo-vpc-connection key vpc_config`.
    pub origin: String,
    /// Its language.
    pub format: InlineFormat,
    /// Its text.
    pub text: String,
}

impl fmt::Debug for VarFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VarFile({}, {:?})", self.origin, self.format)
    }
}

/// The `provider "aws"` block.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProviderBlock {
    /// The region.
    pub region: String,
    /// The local AWS; none for the real one.
    pub local: Option<LocalEndpoint>,
    /// The credentials of the environment are for the local AWS, too: the block brings no keys of its own then. Means
    /// nothing without `local`.
    pub keys_from_environment: bool,
    /// Roles to assume, one with the credentials of the other. The block has to be the same for all workspaces that
    /// share an identity and a region, so nothing in it may tell one run from another.
    pub assume_roles: Vec<AssumeRole>,
    /// Tags for every resource.
    pub default_tags: BTreeMap<String, String>,
    /// Accounts that may be touched; empty for any.
    pub allowed_account_ids: Vec<String>,
}

/// Where the local AWS listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalEndpoint {
    /// `http://127.0.0.1:4566`
    pub url: String,
}

/// A role to assume.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AssumeRole {
    /// The role.
    pub role_arn: String,
    /// The name of the session.
    pub session_name: Option<String>,
    /// The external id that its trust policy asks for.
    pub external_id: Option<String>,
    /// How long the session lives; what AWS chooses if left out.
    pub duration_seconds: Option<i32>,
    /// Tags of the session.
    pub tags: BTreeMap<String, String>,
}

/// Where the state is to be.
#[derive(Debug, Clone, PartialEq)]
pub enum Backend {
    /// In the working directory.
    Local {
        /// The file, relative to the root module.
        path: String,
    },
    /// The user's own, passed through.
    Other {
        /// `s3`, `kubernetes`, …
        kind: String,
        /// Its settings.
        settings: Map<String, Value>,
    },
}

impl Default for Backend {
    fn default() -> Self {
        Self::Local { path: "terraform.tfstate".to_owned() }
    }
}

/// Where the state will be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EffectiveBackend {
    /// In the working directory, at this path relative to the workspace.
    Local {
        /// The file.
        path: String,
    },
    /// Elsewhere.
    Other {
        /// `s3`, `kubernetes`, `cloud`, …
        kind: String,
    },
}

/// Who may read a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Everybody who may read the directory.
    Plain,
    /// Nobody but us: 0600.
    Secret,
}

/// A file.
#[derive(Clone, PartialEq, Eq)]
pub struct Contents {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Who may read it.
    pub mode: Mode,
}

impl Contents {
    /// A file without secrets.
    pub const fn plain(bytes: Vec<u8>) -> Self {
        Self { bytes, mode: Mode::Plain }
    }

    /// A file with values of users.
    pub const fn secret(bytes: Vec<u8>) -> Self {
        Self { bytes, mode: Mode::Secret }
    }
}

impl fmt::Debug for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of {} bytes", self.mode, self.bytes.len())
    }
}

/// What has to be there before the files are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fetch {
    /// A local path (copied by the writer of the workspace) or a go-getter address (`init -from-module`).
    pub address: String,
    /// The directory inside of it that is the root; empty for its top.
    pub entrypoint: String,
}

impl Fetch {
    /// Whether the address is a path of this machine, by terraform's own rule.
    pub fn is_local_path(&self) -> bool {
        ["/", "./", "../"].iter().any(|start| self.address.starts_with(start))
            || matches!(self.address.as_str(), "." | "..")
    }
}

/// The files of a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// Relative path with forward slashes → file.
    pub files: BTreeMap<String, Contents>,
    /// The directory terraform runs in, relative to the workspace; empty for the workspace itself.
    pub root: String,
    /// What has to be fetched first.
    pub fetch: Option<Fetch>,
    /// Where the state will be.
    pub backend: EffectiveBackend,
    /// Whether a lock file is among the files.
    pub has_lock_file: bool,
    /// False for a remote root that has not been fetched: render again when it has.
    pub types_known: bool,
    /// Variables of the controller that the template does not declare.
    pub dropped: Vec<String>,
    /// sha256 over all names and bytes.
    pub digest: String,
    /// The same over what `init` depends on: the configuration and the lock file, not the variables.
    pub init_digest: String,
}
