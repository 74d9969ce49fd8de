//! From validated inputs to the files of a working directory.
//!
//! Contract: pure and deterministic; same input, same bytes. Values of users go into tfvars files, where terraform
//! reads them as literals; what is generated as `.tf.json` escapes `${` and `%{`. Nothing is written here.
//!
//! Files of the result, in the order in which terraform lets a later one win:
//!
//! | file | holds |
//! |---|---|
//! | the source's own | the module, `main.tf` or `main.tf.json` |
//! | `capt_provider.tf.json` | the `provider "aws"` block, unless the source has one |
//! | `capt_provider_override.tf.json` | the local endpoints, if the source has provider blocks of its own |
//! | `capt_backend.tf.json` | the backend, unless the source has one |
//! | `terraform.tfvars.json` | the variables (`user.auto.tfvars.json` for a remote root, which may bring the former) |
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
    AssumeRole, Backend, Contents, EffectiveBackend, Fetch, InlineFormat, LocalEndpoint, Mode, ProviderBlock,
    Rendered, Request, Source, Var, VarFile,
};

/// The name of the dependency lock file.
pub const LOCK_FILE: &str = ".terraform.lock.hcl";

/// Why the files cannot be made.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum RenderError {
    /// A text of the user that is not the language it claims to be.
    #[error("{file}, line {line}: {reason}")]
    Parse {
        /// Which text, or which file of the source.
        file: String,
        /// The line, from 1.
        line: usize,
        /// What the parser says.
        reason: String,
    },
    /// A value for a variable that the module does not declare.
    #[error("vars: the module declares no variable `{name}`; add a `variable` block or take the value out")]
    Undeclared {
        /// The variable.
        name: String,
    },
    /// A variable that is not a plain string, with a value that is not a literal of HCL.
    #[error(
        "vars: the value of `{name}` has to be a literal of the type {ty}, such as [\"a\", \"b\"] or {{ k = \"v\" }}"
    )]
    NotLiteral {
        /// The variable.
        name: String,
        /// Its type, as the module writes it.
        ty: String,
    },
    /// A file name that leaves the directory, or is none.
    #[error("`{path}` is not a path inside of the workspace")]
    BadPath {
        /// The path.
        path: String,
    },
    /// A file of the source has the name of one that is generated.
    #[error("`{path}` is a name that capt writes itself; rename the file")]
    Reserved {
        /// The file.
        path: String,
    },
    /// Terraform takes a backend's settings literally and tofu as templates, so there is no spelling for both.
    #[error("backend: the setting `{name}` contains a template sequence, which cannot be passed on")]
    BackendTemplate {
        /// The setting.
        name: String,
    },
}

/// Renders a workspace.
pub fn render(request: &Request) -> Result<Rendered, RenderError> {
    let (root, source_files, fetch) = source(request)?;
    let mut files = Files { root, files: BTreeMap::new() };
    for (path, contents) in source_files.iter().chain(&request.extra) {
        files.add_foreign(path, contents.clone())?;
    }
    if let Some(lock) = &request.lock_file {
        files.add(LOCK_FILE, Contents::plain(lock.clone()));
    }
    let known = files_of_root(request, &source_files);
    let inspected = inspect::inspect(&known)?;
    let backend = generated::backend(request, &inspected, &mut files)?;
    generated::provider(request, &inspected, &mut files);
    let dropped = variables::write(request, &inspected, &mut files)?;
    let Files { root, files } = files;
    let digests = digest::of(&files, &root, fetch.as_ref());
    Ok(Rendered {
        has_lock_file: files.contains_key(&paths::join(&root, LOCK_FILE)),
        types_known: known.is_complete,
        files,
        root,
        fetch,
        backend,
        dropped,
        digest: digests.all,
        init_digest: digests.init,
    })
}

type SourceFiles = BTreeMap<String, Contents>;

/// The directory terraform runs in, the files that come from the source, and what has to be fetched.
fn source(request: &Request) -> Result<(String, SourceFiles, Option<Fetch>), RenderError> {
    match &request.source {
        Source::Module(files) => {
            let files = files.iter().map(|(path, bytes)| (path.clone(), Contents::plain(bytes.clone())));
            Ok((String::new(), files.collect(), None))
        }
        Source::Inline { format, text } => {
            let name = match format {
                InlineFormat::Hcl => "main.tf",
                InlineFormat::Json => "main.tf.json",
            };
            let file = (name.to_owned(), Contents::plain(text.clone().into_bytes()));
            Ok((String::new(), [file].into(), None))
        }
        Source::Remote { address, fetched: _ } => {
            let entrypoint = paths::entrypoint(&request.entrypoint)?;
            let fetch = Fetch { address: address.clone(), entrypoint: entrypoint.clone() };
            Ok((entrypoint, BTreeMap::new(), Some(fetch)))
        }
    }
}

/// The configuration that is known, with file names as a person sees them in a message.
struct KnownRoot<'a> {
    files: Vec<(&'a str, &'a [u8])>,
    is_complete: bool,
}

fn files_of_root<'a>(request: &'a Request, source_files: &'a SourceFiles) -> KnownRoot<'a> {
    let extra = request.extra.iter().map(|(path, contents)| (path.as_str(), contents.bytes.as_slice()));
    let own = source_files.iter().map(|(path, contents)| (path.as_str(), contents.bytes.as_slice()));
    let fetched = match &request.source {
        Source::Remote { fetched, .. } => fetched.as_ref(),
        Source::Module(_) | Source::Inline { .. } => None,
    };
    let remote = fetched.into_iter().flatten().map(|(path, bytes)| (path.as_str(), bytes.as_slice()));
    let is_complete = fetched.is_some() || !matches!(request.source, Source::Remote { .. });
    KnownRoot { files: own.chain(remote).chain(extra).collect(), is_complete }
}

/// The files so far; names are relative to the root module.
struct Files {
    root: String,
    files: BTreeMap<String, Contents>,
}

impl Files {
    fn add(&mut self, name: &str, contents: Contents) {
        self.files.insert(paths::join(&self.root, name), contents);
    }

    fn add_foreign(&mut self, path: &str, contents: Contents) -> Result<(), RenderError> {
        let name = paths::relative(path)?;
        if generated::is_reserved(&name) {
            return Err(RenderError::Reserved { path: name });
        }
        self.add(&name, contents);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
