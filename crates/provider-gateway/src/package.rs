//! A provider's package on disk: which program is in it, and whether it is what the lock file says.
//!
//! Terraform checks the lock file's hashes when it starts a provider itself. One that is handed to it running is not
//! checked by anybody, so it is done here, before the program is started for the first time.

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

/// Why a package cannot be used.
#[derive(Debug, Error)]
pub enum PackageError {
    /// It cannot be read.
    #[error("cannot read the provider package {}", path.display())]
    Read {
        /// The directory or file.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// It holds no provider.
    #[error("{} holds no program named terraform-provider-…; name the directory of an unpacked provider", path.display())]
    NoProgram {
        /// The directory.
        path: PathBuf,
    },
    /// It is not what was locked.
    #[error(
        "the provider package {} has the hash {found}, and the lock file allows only {allowed}; somebody changed the \
         package or the lock file. Restore the package, or run `terraform init -upgrade` if the change is meant",
        path.display()
    )]
    Mismatch {
        /// The directory.
        path: PathBuf,
        /// What it has.
        found: String,
        /// What it should have.
        allowed: String,
    },
}

/// A package that was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Package {
    /// The program.
    pub program: PathBuf,
    /// The hash of the whole package, as lock files have it.
    pub h1: String,
    /// Of the program alone, in hexadecimal.
    pub sha256: String,
}

impl Package {
    /// Refuses a package that is not one of those that were locked.
    pub fn verify(&self, allowed: &[String], path: &Path) -> Result<(), PackageError> {
        let known: Vec<&String> = allowed.iter().filter(|hash| hash.starts_with("h1:")).collect();
        if known.iter().any(|hash| **hash == self.h1) {
            return Ok(());
        }
        let listed: Vec<&str> = known.iter().map(|hash| hash.as_str()).collect();
        let allowed = if listed.is_empty() { "hashes of archives".to_owned() } else { listed.join(", ") };
        Err(PackageError::Mismatch { path: path.to_owned(), found: self.h1.clone(), allowed })
    }
}

/// A file as it was when it was read. One that was changed and given its old time back still has another change time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Identity {
    path: PathBuf,
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Identity {
    fn of(path: &Path) -> io::Result<Self> {
        let data = fs::metadata(path)?;
        Ok(Self {
            path: path.to_owned(),
            device: data.dev(),
            inode: data.ino(),
            size: data.size(),
            modified: (data.mtime(), data.mtime_nsec()),
            changed: (data.ctime(), data.ctime_nsec()),
        })
    }
}

/// Packages that were read before: half a gigabyte takes a second.
#[derive(Debug, Default)]
pub struct Packages {
    file: Option<PathBuf>,
    known: Mutex<BTreeMap<PathBuf, (Vec<Identity>, Package)>>,
}

impl Packages {
    /// Those that a file remembers. One that cannot be read is as good as an empty one.
    pub fn remembered_in(file: PathBuf) -> Self {
        let known = fs::read(&file).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        Self { file: Some(file), known: Mutex::new(known.unwrap_or_default()) }
    }

    /// Reads a package, unless none of its files has changed since the last time. Takes as long as reading takes, so
    /// it is not for a thread that others wait for.
    pub fn read(&self, dir: &Path) -> Result<Package, PackageError> {
        let fail = |source| PackageError::Read { path: dir.to_owned(), source };
        let files = files(dir).map_err(fail)?;
        let identities: Vec<Identity> =
            files.iter().map(|(_, path)| Identity::of(path)).collect::<Result<_, _>>().map_err(fail)?;
        if let Some((known, package)) = self.known.lock().get(dir)
            && *known == identities
        {
            return Ok(package.clone());
        }
        let package = hash(dir, &files)?;
        let mut known = self.known.lock();
        known.insert(dir.to_owned(), (identities, package.clone()));
        if let Some(file) = &self.file
            && let Ok(text) = serde_json::to_vec(&*known)
        {
            // Not remembered is read again, and nothing worse.
            let _next_time = crate::disk::replace(file, &text);
        }
        Ok(package)
    }
}

/// Every file of a package: its name with forward slashes, and its path.
fn files(dir: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    collect(dir, "", &mut found)?;
    found.sort();
    Ok(found)
}

fn collect(dir: &Path, prefix: &str, found: &mut Vec<(String, PathBuf)>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        // Links are followed, as terraform does.
        if fs::metadata(entry.path())?.is_dir() {
            collect(&entry.path(), &format!("{name}/"), found)?;
        } else {
            found.push((name, entry.path()));
        }
    }
    Ok(())
}

/// The `h1:` hash of Go's dirhash: over a list of the files with their own hashes.
fn hash(dir: &Path, files: &[(String, PathBuf)]) -> Result<Package, PackageError> {
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
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(crate::digest::hex(&hash.finalize())),
            read => hash.update(buffer.get(..read).unwrap_or_default()),
        }
    }
}

#[cfg(test)]
mod tests {
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
        let package = Packages::default().read(dir.path()).unwrap();
        let line =
            |text: &str, name: &str| format!("{}  {name}\n", crate::digest::hex(&Sha256::digest(text)));
        let list = line("words", "LICENSE.txt") + &line("program", "terraform-provider-x_v1.0.0");
        assert_eq!(package.h1, format!("h1:{}", BASE64_STANDARD.encode(Sha256::digest(list))));
        assert!(package.program.ends_with("terraform-provider-x_v1.0.0"));
    }

    #[test]
    fn a_changed_package_is_refused() {
        let dir = package();
        let memory = dir.path().with_extension("json");
        let packages = Packages::remembered_in(memory.clone());
        let before = packages.read(dir.path()).unwrap();
        let allowed = [before.h1.clone(), "zh:1".to_owned()];
        before.verify(&allowed, dir.path()).unwrap();
        fs::write(dir.path().join("terraform-provider-x_v1.0.0"), "PROGRAM").unwrap();
        for packages in [packages, Packages::remembered_in(memory.clone())] {
            let after = packages.read(dir.path()).unwrap();
            let error = after.verify(&allowed, dir.path()).unwrap_err().to_string();
            assert!(error.contains(&before.h1) && error.contains(&after.h1), "{error}");
        }
        fs::remove_file(memory).unwrap();
    }

    #[test]
    fn a_directory_without_a_provider_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let error = Packages::default().read(dir.path()).unwrap_err();
        assert!(matches!(error, PackageError::NoProgram { .. }));
    }
}
