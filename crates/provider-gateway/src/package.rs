//! Provider packages on disk: finds the program and verifies it against the lock file.
//!
//! Terraform verifies the lock file's hashes when it starts a provider itself, but not for reattached providers. The
//! gateway therefore verifies them before it starts the program.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Read},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::clock;

/// A package cannot be used.
#[derive(Debug, Error)]
pub enum PackageError {
    /// The package cannot be read.
    #[error("cannot read the provider package {}", path.display())]
    Read {
        /// The directory or file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The package contains no provider.
    #[error("{} contains no program named terraform-provider-…; name the directory of an unpacked provider", path.display())]
    NoProgram {
        /// The directory.
        path: PathBuf,
    },
    /// The package does not match the lock file.
    #[error(
        "the provider package {} has the hash {found}, but the lock file allows only {allowed}; the package or the \
         lock file was changed. Restore the package, or run `terraform init -upgrade` if the change is intended",
        path.display()
    )]
    Mismatch {
        /// The directory.
        path: PathBuf,
        /// Its actual hash.
        found: String,
        /// The allowed hashes.
        allowed: String,
    },
}

/// A package that was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Package {
    /// The program.
    pub program: PathBuf,
    /// `h1:` hash of the whole package, as in lock files.
    pub h1: String,
    /// SHA-256 of the program in hexadecimal.
    pub sha256: String,
}

impl Package {
    /// Rejects a package whose hash is not in the lock file.
    pub fn verify(&self, allowed: &[String], path: &Path) -> Result<(), PackageError> {
        let known: Vec<&String> = allowed.iter().filter(|hash| hash.starts_with("h1:")).collect();
        if known.iter().any(|hash| **hash == self.h1) {
            return Ok(());
        }
        let listed: Vec<&str> = known.iter().map(|hash| hash.as_str()).collect();
        let allowed = if listed.is_empty() { "archive hashes (zh:)".to_owned() } else { listed.join(", ") };
        Err(PackageError::Mismatch { path: path.to_owned(), found: self.h1.clone(), allowed })
    }
}

/// Identity of a file at the time it was read. Resetting its mtime still changes its ctime.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct FileIdentity {
    path: PathBuf,
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// A change that is younger than this may be followed by one with the same time.
const TIMESTAMP_GRANULARITY_SECONDS: i64 = 2;

impl FileIdentity {
    fn read(path: &Path) -> io::Result<Self> {
        Ok(Self::new(path, &fs::metadata(path)?))
    }

    /// Whether a later change of the file is certain to change its times.
    fn is_settled(&self, granularity: i64) -> bool {
        clock::now().as_second() - self.changed.0 > granularity
    }

    fn new(path: &Path, data: &fs::Metadata) -> Self {
        Self {
            path: path.to_owned(),
            device: data.dev(),
            inode: data.ino(),
            size: data.size(),
            modified: (data.mtime(), data.mtime_nsec()),
            changed: (data.ctime(), data.ctime_nsec()),
        }
    }
}

/// An open program with the expected content.
#[derive(Debug)]
pub struct VerifiedProgram {
    /// The open file. Its path may lead to another one by now.
    pub(crate) file: File,
    identity: FileIdentity,
}

impl VerifiedProgram {
    /// Whether nobody has written into the file since it was verified.
    pub(crate) fn is_unchanged(&self) -> bool {
        let now = self.file.metadata();
        now.is_ok_and(|now| FileIdentity::new(&self.identity.path, &now) == self.identity)
    }
}

/// Cache of hashed packages: hashing half a gigabyte takes a second.
#[derive(Debug)]
pub struct PackageCache {
    file: Option<PathBuf>,
    /// Seconds.
    granularity: i64,
    entries: Mutex<BTreeMap<PathBuf, (Vec<FileIdentity>, Package)>>,
}

impl Default for PackageCache {
    fn default() -> Self {
        Self { file: None, granularity: TIMESTAMP_GRANULARITY_SECONDS, entries: Mutex::default() }
    }
}

impl PackageCache {
    /// A cache persisted in this file. An unreadable file counts as empty.
    pub fn persisted_in(file: PathBuf) -> Self {
        let known = fs::read(&file).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        Self { file: Some(file), entries: Mutex::new(known.unwrap_or_default()), ..Self::default() }
    }

    /// Reads a package, unless its files are unchanged since the last time. Blocks while hashing, so it must not run on
    /// an async thread.
    pub fn read(&self, dir: &Path) -> Result<Package, PackageError> {
        let fail = |source| PackageError::Read { path: dir.to_owned(), source };
        let files = list_files(dir).map_err(fail)?;
        let identities: Vec<FileIdentity> =
            files.iter().map(|(_, path)| FileIdentity::read(path)).collect::<Result<_, _>>().map_err(fail)?;
        if let Some((known, package)) = self.entries.lock().get(dir)
            && *known == identities
        {
            return Ok(package.clone());
        }
        let package = hash_package(dir, &files)?;
        if !identities.iter().all(|file| file.is_settled(self.granularity)) {
            return Ok(package);
        }
        let mut known = self.entries.lock();
        known.insert(dir.to_owned(), (identities, package.clone()));
        if let Some(file) = &self.file
            && let Ok(text) = serde_json::to_vec(&*known)
        {
            // Best effort: without it the package is hashed again.
            let _next_time = crate::private_fs::write_atomic(file, &text);
        }
        Ok(package)
    }
}

impl PackageCache {
    /// Opens a program and verifies what was opened, so that whoever starts the open file starts what was verified. `None` if
    /// its content is another one. Blocks while hashing, unless the file is known.
    pub fn open_program(&self, program: &Path, checksum: &str) -> io::Result<Option<VerifiedProgram>> {
        let file = File::open(program)?;
        let identity = FileIdentity::new(program, &file.metadata()?);
        let is_known = self.entries.lock().values().any(|(files, package)| {
            package.sha256 == checksum && package.program == program && files.contains(&identity)
        });
        let verified = VerifiedProgram { file, identity };
        let is_expected = is_known || hash_file(&verified.file)? == checksum && verified.is_unchanged();
        Ok(is_expected.then_some(verified))
    }
}

/// All files of a package: name with forward slashes, and path.
fn list_files(dir: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    collect_files(dir, "", &mut found)?;
    found.sort();
    Ok(found)
}

fn collect_files(dir: &Path, prefix: &str, found: &mut Vec<(String, PathBuf)>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        // Symlinks are followed, as Terraform does.
        if fs::metadata(entry.path())?.is_dir() {
            collect_files(&entry.path(), &format!("{name}/"), found)?;
        } else {
            found.push((name, entry.path()));
        }
    }
    Ok(())
}

/// Go's dirhash `h1:`: a hash over the list of files with their hashes.
fn hash_package(dir: &Path, files: &[(String, PathBuf)]) -> Result<Package, PackageError> {
    let mut list = Sha256::new();
    let mut program = None;
    for (name, path) in files {
        let fail = |source| PackageError::Read { path: path.clone(), source };
        let sum = file_hash(path).map_err(fail)?;
        list.update(format!("{sum}  {name}\n"));
        if name.starts_with("terraform-provider-") && !name.contains('/') {
            program = Some((path.clone(), sum));
        }
    }
    let (program, sha256) = program.ok_or_else(|| PackageError::NoProgram { path: dir.to_owned() })?;
    Ok(Package { program, h1: format!("h1:{}", BASE64_STANDARD.encode(list.finalize())), sha256 })
}

fn file_hash(path: &Path) -> io::Result<String> {
    hash_file(&File::open(path)?)
}

fn hash_file(mut file: &File) -> io::Result<String> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(crate::digest::to_hex(hash.finalize())),
            read => hash.update(buffer.get(..read).unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Seek;

    use super::*;

    fn package() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("terraform-provider-x_v1.0.0"), "program").unwrap();
        fs::write(dir.path().join("LICENSE.txt"), "words").unwrap();
        dir
    }

    #[test]
    fn the_hash_is_gos() {
        let dir = package();
        let package = PackageCache::default().read(dir.path()).unwrap();
        let line =
            |text: &str, name: &str| format!("{}  {name}\n", crate::digest::to_hex(Sha256::digest(text)));
        let list = line("words", "LICENSE.txt") + &line("program", "terraform-provider-x_v1.0.0");
        assert_eq!(package.h1, format!("h1:{}", BASE64_STANDARD.encode(Sha256::digest(list))));
        assert!(package.program.ends_with("terraform-provider-x_v1.0.0"));
    }

    #[test]
    fn a_changed_package_is_refused() {
        let dir = package();
        let memory = dir.path().with_extension("json");
        let settled = || PackageCache { granularity: -1, ..PackageCache::persisted_in(memory.clone()) };
        let packages = settled();
        let before = packages.read(dir.path()).unwrap();
        let allowed = [before.h1.clone(), "zh:1".to_owned()];
        before.verify(&allowed, dir.path()).unwrap();
        fs::write(dir.path().join("terraform-provider-x_v1.0.0"), "PROGRAM").unwrap();
        for packages in [packages, settled()] {
            let after = packages.read(dir.path()).unwrap();
            let error = after.verify(&allowed, dir.path()).unwrap_err().to_string();
            assert!(error.contains(&before.h1) && error.contains(&after.h1), "{error}");
        }
        fs::remove_file(memory).unwrap();
    }

    #[test]
    fn h8_only_the_program_that_was_verified_is_opened() {
        let dir = package();
        let packages = PackageCache::default();
        let read = packages.read(dir.path()).unwrap();
        let open = || packages.open_program(&read.program, &read.sha256).unwrap();
        let opened = open().unwrap();
        assert!(opened.is_unchanged());
        // Another file with the same name does not change what is open; the next opening finds it.
        let other = dir.path().join("other");
        fs::write(&other, "PROGRAM").unwrap();
        fs::rename(&other, &read.program).unwrap();
        let mut text = String::new();
        (&opened.file).seek(io::SeekFrom::Start(0)).unwrap();
        (&opened.file).read_to_string(&mut text).unwrap();
        assert_eq!(text, "program");
        assert!(open().is_none());
        // The same file with another content is noticed, too.
        fs::write(&read.program, "program").unwrap();
        let opened = open().unwrap();
        fs::write(&read.program, "PROGRAM").unwrap();
        assert!(!opened.is_unchanged() && open().is_none());
    }

    #[test]
    fn a_directory_without_a_provider_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let error = PackageCache::default().read(dir.path()).unwrap_err();
        assert!(matches!(error, PackageError::NoProgram { .. }));
    }
}
