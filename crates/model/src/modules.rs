//! The Terraform modules embedded in the binary.

use std::collections::BTreeMap;

use rust_embed::RustEmbed;

/// The hand-written modules under `terraform/modules`.
#[derive(RustEmbed)]
#[folder = "../../terraform/modules"]
#[include = "*/*.tf"]
struct EmbeddedFiles;

/// A built-in module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, strum::Display, strum::EnumString, strum::EnumIter)]
#[strum(serialize_all = "lowercase")]
pub enum EmbeddedModule {
    /// A VPC, or the discovery of an existing one.
    Vpc,
    /// An EKS cluster with its roles, addons and system profile.
    Eks,
    /// One Fargate profile.
    Fargate,
}

impl EmbeddedModule {
    /// Contents of the module's files, by file name.
    pub fn files(self) -> BTreeMap<String, Vec<u8>> {
        let folder = format!("{self}/");
        EmbeddedFiles::iter()
            .filter_map(|path| {
                let name = path.strip_prefix(&folder)?.to_owned();
                Some((name, EmbeddedFiles::get(&path)?.data.into_owned()))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use strum::IntoEnumIterator;

    use super::*;

    #[test]
    fn every_module_is_in_the_binary_with_its_variables_and_outputs() {
        for module in EmbeddedModule::iter() {
            let files = module.files();
            for needed in ["main.tf", "variables.tf", "outputs.tf", "versions.tf"] {
                assert!(files.get(needed).is_some_and(|bytes| !bytes.is_empty()), "{module}/{needed}");
            }
            assert!(files.keys().all(|name| !name.contains('/')), "{module}: {:?}", files.keys());
        }
    }
}
