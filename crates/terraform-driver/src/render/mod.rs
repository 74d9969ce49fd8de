//! Renders validated inputs to the files of a workspace.
//!
//! Pure and deterministic: equal inputs give equal bytes; writes nothing. User values go into tfvars files, which terraform reads
//! as literals; generated `.tf.json` files escape `${` and `%{`.
//!
//! Rendered files, in terraform's order of precedence (later ones win):
//!
//! | file | contents |
//! |---|---|
//! | files of the source | the module, `main.tf` or `main.tf.json` |
//! | `capt_provider.tf.json` | the `provider "aws"` block, unless the source has one |
//! | `capt_provider_override.tf.json` | the local endpoints, if the source has its own provider blocks |
//! | `capt_backend.tf.json` | the backend, unless the source has one |
//! | `terraform.tfvars.json` | the variables (`user.auto.tfvars.json` for a remote root, which may contain the former) |
//! | `upstream.auto.tfvars.json` | outputs of other workspaces |
//! | `varfile-NNN.auto.tfvars[.json]` | the template's `varFiles`, in their order |
//! | `varmap.auto.tfvars.json` | the template's `varmap` |

mod digest;
mod generated;
mod inspect;
pub(crate) mod literal;
mod paths;
mod request;
mod variables;

use std::collections::BTreeMap;

pub use request::{
    AssumeRole, Backend, EffectiveBackend, FileContents, FileMode, InlineFormat, LocalEndpoint, ModuleFetch,
    ProviderBlock, RenderRequest, RenderedWorkspace, RootSource, TemplateVar, VarFile,
};

/// File name of the dependency lock file.
pub const LOCK_FILE: &str = ".terraform.lock.hcl";

/// Why the files cannot be rendered.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum RenderError {
    /// Invalid HCL or JSON of the user.
    #[error("{file}, line {line}: {reason}")]
    Parse {
        /// The text or the file of the source.
        file: String,
        /// The line, from 1.
        line: usize,
        /// Error of the parser.
        reason: String,
    },
    /// A value for a variable that the module does not declare.
    #[error("vars: the module declares no variable `{name}`; add a `variable` block or take the value out")]
    Undeclared {
        /// The variable.
        name: String,
    },
    /// A value that is not an HCL literal, for a variable that is not a plain string.
    #[error(
        "vars: the value of `{name}` has to be a literal of the type {ty}, such as [\"a\", \"b\"] or {{ k = \"v\" }}"
    )]
    NotLiteral {
        /// The variable.
        name: String,
        /// Its type, as the module writes it.
        ty: String,
    },
    /// A path outside the workspace, or an invalid one.
    #[error("`{path}` is not a path inside the workspace")]
    BadPath {
        /// The path.
        path: String,
    },
    /// A file of the source has the name of a generated file.
    #[error("`{path}` is a name that capt writes itself; rename the file")]
    Reserved {
        /// The file.
        path: String,
    },
    /// A backend setting with a template sequence: terraform reads it literally, tofu as a template, and no escape works for both.
    #[error("backend: the setting `{name}` contains a template sequence, which cannot be passed on")]
    BackendTemplate {
        /// The setting.
        name: String,
    },
}

/// Renders a workspace.
pub fn render(request: &RenderRequest) -> Result<RenderedWorkspace, RenderError> {
    let (root, source_files, fetch) = resolve_source(request)?;
    let mut files = FileSet { root, files: BTreeMap::new() };
    for (path, contents) in source_files.iter().chain(&request.extra_files) {
        files.add_from_source(path, contents.clone())?;
    }
    if let Some(lock) = &request.lock_file {
        files.add(LOCK_FILE, FileContents::plain(lock.clone()));
    }
    let known = known_root(request, &source_files);
    let inspected = inspect::inspect_root(&known)?;
    let backend = generated::add_backend(request, &inspected, &mut files)?;
    generated::add_provider(request, &inspected, &mut files);
    let dropped = variables::add_variable_files(request, &inspected, &mut files)?;
    let FileSet { root, files } = files;
    let digests = digest::digest_files(&files, &root, fetch.as_ref());
    Ok(RenderedWorkspace {
        has_lock_file: files.contains_key(&paths::join(&root, LOCK_FILE)),
        types_known: known.is_complete,
        files,
        root,
        fetch,
        backend,
        undeclared: dropped,
        digest: digests.all,
        init_digest: digests.init,
    })
}

type SourceFiles = BTreeMap<String, FileContents>;

/// Directory of the root module, files of the source, and the module to fetch.
fn resolve_source(
    request: &RenderRequest,
) -> Result<(String, SourceFiles, Option<ModuleFetch>), RenderError> {
    match &request.source {
        RootSource::Module(files) => {
            let files = files.iter().map(|(path, bytes)| (path.clone(), FileContents::plain(bytes.clone())));
            Ok((String::new(), files.collect(), None))
        }
        RootSource::Inline { format, text } => {
            let name = match format {
                InlineFormat::Hcl => "main.tf",
                InlineFormat::Json => "main.tf.json",
            };
            let file = (name.to_owned(), FileContents::plain(text.clone().into_bytes()));
            Ok((String::new(), [file].into(), None))
        }
        RootSource::Remote { source, fetched: _ } => {
            let entrypoint = paths::normalize_entrypoint(&request.entrypoint)?;
            let fetch = ModuleFetch { source: source.clone(), entrypoint: entrypoint.clone() };
            Ok((entrypoint, BTreeMap::new(), Some(fetch)))
        }
    }
}

/// The available configuration files, with their names for messages.
struct KnownRoot<'a> {
    files: Vec<(&'a str, &'a [u8])>,
    is_complete: bool,
}

fn known_root<'a>(request: &'a RenderRequest, source_files: &'a SourceFiles) -> KnownRoot<'a> {
    let extra = request.extra_files.iter().map(|(path, contents)| (path.as_str(), contents.bytes.as_slice()));
    let own = source_files.iter().map(|(path, contents)| (path.as_str(), contents.bytes.as_slice()));
    let fetched = match &request.source {
        RootSource::Remote { fetched, .. } => fetched.as_ref(),
        RootSource::Module(_) | RootSource::Inline { .. } => None,
    };
    let remote = fetched.into_iter().flatten().map(|(path, bytes)| (path.as_str(), bytes.as_slice()));
    let is_complete = fetched.is_some() || !matches!(request.source, RootSource::Remote { .. });
    KnownRoot { files: own.chain(remote).chain(extra).collect(), is_complete }
}

/// Files rendered so far; names are relative to the root module.
struct FileSet {
    root: String,
    files: BTreeMap<String, FileContents>,
}

impl FileSet {
    fn add(&mut self, name: &str, contents: FileContents) {
        self.files.insert(paths::join(&self.root, name), contents);
    }

    fn add_from_source(&mut self, path: &str, contents: FileContents) -> Result<(), RenderError> {
        let name = paths::normalize_relative(path)?;
        if generated::is_reserved(&name) {
            return Err(RenderError::Reserved { path: name });
        }
        self.add(&name, contents);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
