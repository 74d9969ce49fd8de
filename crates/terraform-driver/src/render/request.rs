//! Input and output types of the renderer.

use std::{collections::BTreeMap, fmt};

use serde_json::{Map, Value};

use crate::source::ModuleSource;

/// Render request of one workspace, validated by the caller.
#[derive(Debug, Clone)]
pub struct RenderRequest {
    /// Namespace of the workspace.
    pub namespace: String,
    /// Name of the workspace.
    pub name: String,
    /// The root module.
    pub source: RootSource,
    /// Directory inside a remote source; ignored for others.
    pub entrypoint: String,
    /// Variables of the controller. A built-in module gets all of them, a user's template only those that it declares.
    pub variables: Map<String, Value>,
    /// The template's `vars`: text as for `-var`; take precedence over `variables`.
    pub vars: Vec<TemplateVar>,
    /// Contents of the template's `varFiles`.
    pub var_files: Vec<VarFile>,
    /// The template's `varmap`.
    pub varmap: Map<String, Value>,
    /// Variables from outputs of other workspaces.
    pub upstream_outputs: Map<String, Value>,
    /// The AWS provider block; `None` if not needed.
    pub provider: Option<ProviderBlock>,
    /// Whether the state holds AWS resources, which need the provider even if the configuration no longer mentions any.
    pub state_uses_aws: bool,
    /// State backend.
    pub backend: Backend,
    /// Dependency lock file, if provided.
    pub lock_file: Option<Vec<u8>>,
    /// Additional files of the root module.
    pub extra_files: BTreeMap<String, FileContents>,
}

impl RenderRequest {
    /// Creates a request with only a source.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>, source: RootSource) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            source,
            entrypoint: String::new(),
            variables: Map::new(),
            vars: Vec::new(),
            var_files: Vec::new(),
            varmap: Map::new(),
            upstream_outputs: Map::new(),
            provider: None,
            state_uses_aws: false,
            backend: Backend::default(),
            lock_file: None,
            extra_files: BTreeMap::new(),
        }
    }
}

/// The root module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RootSource {
    /// Files of a built-in module.
    Module(BTreeMap<String, Vec<u8>>),
    /// The root module as one text.
    Inline {
        /// Its language.
        format: InlineFormat,
        /// The text, substituted.
        text: String,
    },
    /// A module at an address, as in upstream.
    Remote {
        /// The parsed address.
        source: ModuleSource,
        /// Files of the root module (below the entrypoint, flat names) after the fetch. Without them the variable types are
        /// unknown, so the caller renders again after the fetch.
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
pub struct TemplateVar {
    /// The variable.
    pub key: String,
    /// Its text.
    pub value: String,
}

impl fmt::Debug for TemplateVar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Var({})", self.key)
    }
}

/// Contents of one of the template's `varFiles`.
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
    /// Endpoint of the local AWS; `None` for the real AWS.
    pub local: Option<LocalEndpoint>,
    /// Whether the local AWS uses the credentials of the environment instead of the dummy keys. Ignored without `local`.
    pub keys_from_environment: bool,
    /// Roles to assume, each with the credentials of the previous one. The block must be equal for all workspaces of an identity
    /// and region (they share a provider process), so it must not contain anything specific to a run.
    pub assume_roles: Vec<AssumeRole>,
    /// Tags for every resource.
    pub default_tags: BTreeMap<String, String>,
    /// Allowed accounts; empty for any.
    pub allowed_account_ids: Vec<String>,
}

/// Endpoint of the local AWS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalEndpoint {
    /// `http://127.0.0.1:4566`
    pub url: String,
}

/// A role to assume.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AssumeRole {
    /// ARN of the role.
    pub role_arn: String,
    /// Session name.
    pub session_name: Option<String>,
    /// External id that the trust policy requires.
    pub external_id: Option<String>,
    /// Session duration; the default of AWS if absent.
    pub duration_seconds: Option<i32>,
    /// Session tags.
    pub tags: BTreeMap<String, String>,
}

/// Requested state backend.
#[derive(Debug, Clone, PartialEq)]
pub enum Backend {
    /// In the working directory.
    Local {
        /// The file, relative to the root module.
        path: String,
    },
    /// A backend of the user, passed through.
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

/// Effective state backend; the source's own takes precedence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EffectiveBackend {
    /// In the working directory, at this path relative to the workspace.
    Local {
        /// The file.
        path: String,
    },
    /// A remote backend.
    Other {
        /// `s3`, `kubernetes`, `cloud`, …
        kind: String,
    },
}

/// File mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileMode {
    /// 0644, within a 0700 directory.
    Plain,
    /// 0600.
    Secret,
}

/// Contents and mode of a file.
#[derive(Clone, PartialEq, Eq)]
pub struct FileContents {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// File mode.
    pub mode: FileMode,
}

impl FileContents {
    /// A file without secrets.
    pub const fn plain(bytes: Vec<u8>) -> Self {
        Self { bytes, mode: FileMode::Plain }
    }

    /// A file with user values.
    pub const fn secret(bytes: Vec<u8>) -> Self {
        Self { bytes, mode: FileMode::Secret }
    }
}

impl fmt::Debug for FileContents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of {} bytes", self.mode, self.bytes.len())
    }
}

/// A module to fetch before the files are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleFetch {
    /// A local module (copied by the writer of the workspace) or an address for `init -from-module`.
    pub source: ModuleSource,
    /// Directory of the root module inside it; empty for the top level.
    pub entrypoint: String,
}

/// Rendered files of a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderedWorkspace {
    /// Files by relative path with forward slashes.
    pub files: BTreeMap<String, FileContents>,
    /// Directory of the root module, relative to the workspace; empty for the workspace itself.
    pub root: String,
    /// Module to fetch first.
    pub fetch: Option<ModuleFetch>,
    /// Effective state backend.
    pub backend: EffectiveBackend,
    /// Whether a lock file is among the files.
    pub has_lock_file: bool,
    /// False for a remote root that has not been fetched: render again when it has.
    pub types_known: bool,
    /// Variables that the template does not declare.
    pub undeclared: Vec<String>,
    /// SHA-256 over all names and contents.
    pub digest: String,
    /// SHA-256 over the inputs of `init`: the configuration and the lock file, not the variables.
    pub init_digest: String,
}
