//! Certificate stores: the trait, and a directory for a single process.

use std::{collections::BTreeMap, fmt, path::PathBuf};

use futures::future::{BoxFuture, FutureExt as _};
use terraform_driver::workspace::files::{create_private_dir, read_json, write_json};

/// PEM files of a certificate bundle, by name. `Debug` shows only the names.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct CertificateFiles(BTreeMap<String, String>);

impl CertificateFiles {
    /// The content of a file.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(super) fn insert(&mut self, name: &str, text: &str) {
        self.0.insert(name.to_owned(), text.to_owned());
    }

    /// All contents, for writing them to the store.
    pub fn reveal(&self) -> &BTreeMap<String, String> {
        &self.0
    }
}

impl From<BTreeMap<String, String>> for CertificateFiles {
    fn from(texts: BTreeMap<String, String>) -> Self {
        Self(texts)
    }
}

impl fmt::Debug for CertificateFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Why a store operation failed.
#[derive(Debug, thiserror::Error)]
pub enum CertificateStoreError {
    /// Changed since they were loaded.
    #[error("another replica wrote the certificates concurrently")]
    Conflict,
    /// Anything else.
    #[error("the stored certificates could not be {verb}")]
    Failed {
        /// `read` or `written`.
        verb: &'static str,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// A pending store operation.
pub type StoreFuture<'a, T> = BoxFuture<'a, Result<T, CertificateStoreError>>;

/// Stores certificates.
pub trait CertificateStore: fmt::Debug + Send + Sync {
    /// Loads the stored files, if any.
    fn load(&self) -> StoreFuture<'_, Option<CertificateFiles>>;
    /// Replaces the files that were loaded last. A shared store fails with [`CertificateStoreError::Conflict`] if they changed meanwhile.
    fn save<'a>(&'a self, kept: &'a CertificateFiles) -> StoreFuture<'a, ()>;
}

/// A file in a directory that a single process uses.
#[derive(Clone, Debug)]
pub struct CertificateDirectory(PathBuf);

impl CertificateDirectory {
    /// A store in this directory, created if missing.
    pub fn new(path: PathBuf) -> Self {
        Self(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("webhook-certificates.json")
    }
}

/// Blocking I/O is acceptable: the file is small and accessed once an hour.
impl CertificateStore for CertificateDirectory {
    fn load(&self) -> StoreFuture<'_, Option<CertificateFiles>> {
        let read = match read_json::<BTreeMap<String, String>>(&self.file()) {
            // An unparsable file reads as an empty bundle, which is then reissued.
            Err(terraform_driver::workspace::files::FileError::InvalidJson { .. }) => {
                Ok(Some(CertificateFiles::default()))
            }
            Err(error) => Err(CertificateStoreError::Failed { verb: "read", source: error.into() }),
            Ok(found) => Ok(found.map(CertificateFiles)),
        };
        futures::future::ready(read).boxed()
    }

    fn save<'a>(&'a self, kept: &'a CertificateFiles) -> StoreFuture<'a, ()> {
        let written = create_private_dir(&self.0).and_then(|()| write_json(&self.file(), &kept.0));
        let written =
            written.map_err(|error| CertificateStoreError::Failed { verb: "written", source: error.into() });
        futures::future::ready(written).boxed()
    }
}
