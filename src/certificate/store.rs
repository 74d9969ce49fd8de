//! Where certificates are kept: a Secret, written by whoever has a client, or a file.

use std::{collections::BTreeMap, fmt, path::PathBuf};

use futures::future::{BoxFuture, FutureExt as _};
use terraform_driver::workspace::files::{private_dir, read_json, write_json};

/// Certificates and keys as text, by name: the data of a Secret. `Debug` shows the names alone.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Kept(BTreeMap<String, String>);

impl Kept {
    /// A text by its name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(super) fn put(&mut self, name: &str, text: &str) {
        self.0.insert(name.to_owned(), text.to_owned());
    }

    /// All texts, for the one place that writes them down.
    pub fn reveal(&self) -> &BTreeMap<String, String> {
        &self.0
    }
}

impl From<BTreeMap<String, String>> for Kept {
    fn from(texts: BTreeMap<String, String>) -> Self {
        Self(texts)
    }
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Why certificates could not be kept.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Somebody else wrote since they were loaded.
    #[error("another replica has just written the certificates")]
    Conflict,
    /// Anything else.
    #[error("the certificates could not be {verb}")]
    Failed {
        /// `read` or `written`.
        verb: &'static str,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// The work of a store.
pub type StoreFuture<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// Keeps certificates.
pub trait Store: fmt::Debug + Send + Sync {
    /// What is kept; nothing if nothing is.
    fn load(&self) -> StoreFuture<'_, Option<Kept>>;
    /// Keeps this in place of what was loaded last. A store that others write to says [`StoreError::Conflict`] if it is not
    /// what was loaded any more.
    fn save<'a>(&'a self, kept: &'a Kept) -> StoreFuture<'a, ()>;
}

/// A file in a directory, for a process that is alone there.
#[derive(Clone, Debug)]
pub struct Directory(PathBuf);

impl Directory {
    /// In this directory, which is made if it is not there.
    pub fn new(path: PathBuf) -> Self {
        Self(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("webhook-certificates.json")
    }
}

/// The file is small and touched once an hour, so the runtime can wait for it.
impl Store for Directory {
    fn load(&self) -> StoreFuture<'_, Option<Kept>> {
        let read = match read_json::<BTreeMap<String, String>>(&self.file()) {
            // What is garbled reads as something that makes no sense, and is made anew.
            Err(terraform_driver::workspace::files::FileError::Garbled { .. }) => Ok(Some(Kept::default())),
            Err(error) => Err(StoreError::Failed { verb: "read", source: error.into() }),
            Ok(found) => Ok(found.map(Kept)),
        };
        futures::future::ready(read).boxed()
    }

    fn save<'a>(&'a self, kept: &'a Kept) -> StoreFuture<'a, ()> {
        let written = private_dir(&self.0).and_then(|()| write_json(&self.file(), &kept.0));
        let written = written.map_err(|error| StoreError::Failed { verb: "written", source: error.into() });
        futures::future::ready(written).boxed()
    }
}
