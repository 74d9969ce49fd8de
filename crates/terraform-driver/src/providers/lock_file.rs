//! Entries of the dependency lock file, and the installation of a provider package as `init` does it.

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
pub struct LockedProvider {
    /// The version.
    pub version: String,
    /// Accepted hashes.
    pub hashes: Vec<String>,
}

/// Parses the entry of a provider; `None` if there is none, or if the text is not a lock file.
pub fn parse_lock_entry(text: &str, address: &str) -> Option<LockedProvider> {
    let body: Body = text.parse().ok()?;
    let block = body.blocks().find(|block| {
        block.ident.as_str() == "provider" && block.labels.first().is_some_and(|it| it.as_str() == address)
    })?;
    let value = |name| block.body.get_attribute(name).and_then(|it| literal::literal_value(&it.value));
    let hashes = value("hashes")?;
    let hashes = hashes.as_array()?.iter().filter_map(|hash| hash.as_str().map(str::to_owned)).collect();
    Some(LockedProvider { version: value("version")?.as_str()?.to_owned(), hashes })
}

/// Reads the entry of a provider from the lock file of a root module.
pub fn read_lock_entry(root: &Path, address: &str) -> io::Result<Option<LockedProvider>> {
    match fs::read_to_string(root.join(LOCK_FILE)) {
        Ok(text) => Ok(parse_lock_entry(&text, address)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Directory where `init` installs providers.
pub fn installed_dir(root: &Path) -> PathBuf {
    root.join(".terraform/providers")
}

/// Path where `init` installs a provider, or a link to it.
pub fn installed_path(root: &Path, address: &str, version: &str) -> PathBuf {
    installed_dir(root).join(address).join(version).join(platform())
}

/// Installs one provider as `init` does from an unpacked mirror, without hashing half a gigabyte: links the package and adds the
/// lock file entry. The directory stays usable with plain terraform.
pub fn link_package(root: &Path, address: &str, version: &str, package: &Path, h1: &str) -> io::Result<()> {
    let place = installed_path(root, address, version);
    if let Some(parent) = place.parent() {
        fs::create_dir_all(parent)?;
    }
    if !place.exists() {
        match std::os::unix::fs::symlink(package, &place) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    if read_lock_entry(root, address)?.is_none() {
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
        assert_eq!(read_lock_entry(root.path(), AWS).unwrap(), None);
        for _ in 0..2 {
            link_package(root.path(), AWS, "5.100.0", package.path(), "h1:abc=").unwrap();
        }
        let expected = LockedProvider { version: "5.100.0".to_owned(), hashes: vec!["h1:abc=".to_owned()] };
        assert_eq!(read_lock_entry(root.path(), AWS).unwrap(), Some(expected));
        let link = installed_path(root.path(), AWS, "5.100.0");
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
        let found = parse_lock_entry(text, AWS).unwrap();
        assert_eq!((found.version.as_str(), found.hashes.len()), ("5.1.0", 2));
        assert_eq!(parse_lock_entry(text, "registry.terraform.io/hashicorp/null"), None);
        assert_eq!(parse_lock_entry("not a lock {", AWS), None);
    }
}
