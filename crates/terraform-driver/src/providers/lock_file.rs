//! The dependency lock file, as far as one provider goes, and what `init` leaves of it on disk.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use hcl_edit::structure::Body;

use super::platform;
use crate::render::{LOCK_FILE, literal};

/// An entry of a lock file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Locked {
    /// The version.
    pub version: String,
    /// The hashes that are allowed.
    pub hashes: Vec<String>,
}

/// The entry of a provider; `None` if there is none, or if the text is no lock file.
pub fn entry(text: &str, address: &str) -> Option<Locked> {
    let body: Body = text.parse().ok()?;
    let block = body.blocks().find(|block| {
        block.ident.as_str() == "provider" && block.labels.first().is_some_and(|it| it.as_str() == address)
    })?;
    let value = |name| block.body.get_attribute(name).and_then(|it| literal::value(&it.value));
    let hashes = value("hashes")?;
    let hashes = hashes.as_array()?.iter().filter_map(|hash| hash.as_str().map(str::to_owned)).collect();
    Some(Locked { version: value("version")?.as_str()?.to_owned(), hashes })
}

/// The entry of a root's lock file.
pub fn locked(root: &Path, address: &str) -> io::Result<Option<Locked>> {
    match fs::read_to_string(root.join(LOCK_FILE)) {
        Ok(text) => Ok(entry(&text, address)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Where `init` puts a provider, or a link to it.
pub fn installed(root: &Path, address: &str, version: &str) -> PathBuf {
    root.join(".terraform/providers").join(address).join(version).join(platform())
}

/// Does for one provider what `init` would do with an unpacked mirror, without reading half a gigabyte: a link to the
/// package and an entry in the lock file. A person who runs terraform in the directory finds everything in its place.
pub fn install(root: &Path, address: &str, version: &str, package: &Path, h1: &str) -> io::Result<()> {
    let place = installed(root, address, version);
    if let Some(parent) = place.parent() {
        fs::create_dir_all(parent)?;
    }
    if !place.exists() {
        match std::os::unix::fs::symlink(package, &place) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    if locked(root, address)?.is_none() {
        let mut file = fs::OpenOptions::new().create(true).append(true).open(root.join(LOCK_FILE))?;
        let text = format!(
            "\nprovider \"{address}\" {{\n  version = \"{version}\"\n  hashes = [\n    \"{h1}\",\n  ]\n}}\n"
        );
        file.write_all(text.as_bytes())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const AWS: &str = "registry.terraform.io/hashicorp/aws";

    #[test]
    fn what_was_installed_is_found_again() {
        let (root, package) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        assert_eq!(locked(root.path(), AWS).unwrap(), None);
        for _ in 0..2 {
            install(root.path(), AWS, "5.100.0", package.path(), "h1:abc=").unwrap();
        }
        let expected = Locked { version: "5.100.0".to_owned(), hashes: vec!["h1:abc=".to_owned()] };
        assert_eq!(locked(root.path(), AWS).unwrap(), Some(expected));
        let link = installed(root.path(), AWS, "5.100.0");
        assert_eq!(fs::read_link(link).unwrap(), package.path());
    }

    #[test]
    fn an_entry_among_others_is_read() {
        let text = r#"
            # Written by terraform.
            provider "registry.terraform.io/hashicorp/random" {
              version = "3.0.0"
              hashes  = ["h1:r="]
            }
            provider "registry.terraform.io/hashicorp/aws" {
              version     = "5.1.0"
              constraints = ">= 5.0.0"
              hashes = [
                "h1:a=",
                "zh:b",
              ]
            }
        "#;
        let found = entry(text, AWS).unwrap();
        assert_eq!((found.version.as_str(), found.hashes.len()), ("5.1.0", 2));
        assert_eq!(entry(text, "registry.terraform.io/hashicorp/null"), None);
        assert_eq!(entry("not a lock {", AWS), None);
    }
}
