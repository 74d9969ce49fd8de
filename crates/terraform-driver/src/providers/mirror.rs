//! Lists the providers of a mirror directory, in terraform's two layouts.
//!
//! Unpacked: `HOST/NAMESPACE/TYPE/VERSION/PLATFORM/`; packed: `HOST/NAMESPACE/TYPE/terraform-provider-TYPE_VERSION_PLATFORM.zip`.

use std::{collections::BTreeSet, fs, path::Path};

use semver::Version;

/// A provider of a mirror, with its versions for one platform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MirroredProvider {
    /// `registry.terraform.io`
    pub registry: String,
    /// `hashicorp`
    pub namespace: String,
    /// `aws`
    pub name: String,
    /// The versions, oldest first.
    pub versions: Vec<Version>,
}

impl MirroredProvider {
    /// `registry.terraform.io/hashicorp/aws`
    pub fn address(&self) -> String {
        format!("{}/{}/{}", self.registry, self.namespace, self.name)
    }
}

/// Lists the providers of a mirror; empty for any other directory.
pub(super) fn list_mirror(dir: &Path, registry: &str, platform: &str) -> Vec<MirroredProvider> {
    let mut all = Vec::new();
    let host = dir.join(registry);
    for namespace in entry_names(&host) {
        for name in entry_names(&host.join(&namespace)) {
            let versions = versions(&host.join(&namespace).join(&name), &name, platform);
            if !versions.is_empty() {
                let namespace = namespace.clone();
                let versions = versions.into_iter().collect();
                all.push(MirroredProvider { registry: registry.to_owned(), namespace, name, versions });
            }
        }
    }
    all
}

fn versions(dir: &Path, name: &str, platform: &str) -> BTreeSet<Version> {
    let unpacked = |entry: &str| {
        let version = Version::parse(entry).ok()?;
        dir.join(entry).join(platform).is_dir().then_some(version)
    };
    let packed = |entry: &str| {
        let middle = entry.strip_prefix("terraform-provider-")?.strip_prefix(name)?.strip_prefix('_')?;
        let version = middle.strip_suffix(".zip")?.strip_suffix(platform)?.strip_suffix('_')?;
        Version::parse(version).ok()
    };
    entry_names(dir).iter().filter_map(|entry| unpacked(entry).or_else(|| packed(entry))).collect()
}

/// The names in a directory, sorted; empty if it cannot be read.
fn entry_names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}
