//! Scans the configuration and state of a workspace: which resource types it uses, and which provider version `init` would
//! select.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use hcl_edit::structure::Body;
use provider_gateway::wire::schema::collect_identifiers;
use terraform_driver::{
    providers::{Constraint, ProviderDiscovery},
    workspace::WorkspaceDir,
};

/// All identifiers of the configuration, including modules, and all resource types of the state. A superset of the used types;
/// `None` if a file is unreadable.
pub(super) fn referenced_types(workspace: &WorkspaceDir) -> Option<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    let mut files = Vec::new();
    collect_configuration_files(workspace.root(), true, &mut files);
    for file in files {
        collect_identifiers(&String::from_utf8_lossy(&fs::read(file).ok()?), &mut found);
    }
    // The types of an unreadable state are unknown.
    let state = workspace.state().ok()?;
    found.extend(state.into_iter().flat_map(|state| state.resources).map(|resource| resource.kind));
    Some(found)
}

/// Configuration files below a directory; below `.terraform` only those of modules.
fn collect_configuration_files(dir: &Path, is_root: bool, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if path.is_dir() {
            match name.as_ref() {
                ".terraform" if is_root => collect_configuration_files(&path.join("modules"), false, files),
                hidden if hidden.starts_with('.') => {}
                _ => collect_configuration_files(&path, false, files),
            }
        } else if [".tf", ".tf.json", ".tofu", ".tofu.json"].iter().any(|end| name.ends_with(end)) {
            files.push(path);
        }
    }
}

/// The version that `init` would select, if it is unambiguous: the mirror holds one version, only the root module requires the
/// provider, and its constraint allows that version.
pub(super) fn sole_mirrored_version(
    root: &Path,
    address: &str,
    discovery: &ProviderDiscovery,
) -> Option<String> {
    let held = discovery.mirrored.iter().find(|held| held.address() == address)?;
    let [version] = held.versions.as_slice() else { return None };
    let mut files = Vec::new();
    for entry in fs::read_dir(root).ok()?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_one_of = |ends: &[&str]| ends.iter().any(|end| name.ends_with(end));
        if is_one_of(&[".tf.json", ".tofu", ".tofu.json"]) {
            // Generated files have no version constraint; other JSON files may.
            if !name.starts_with("capt_") && !name.starts_with("capt-") {
                return None;
            }
        } else if is_one_of(&[".tf"]) {
            files.push(entry.path());
        }
    }
    for file in files {
        let body: Body = fs::read_to_string(file).ok()?.parse().ok()?;
        for constraint in version_constraints(&body, &held.name)? {
            if !constraint.parse::<Constraint>().ok()?.matches(version) {
                return None;
            }
        }
    }
    Some(version.to_string())
}

/// Version constraints of a file for a provider; `None` if it has modules, which may add constraints.
fn version_constraints(body: &Body, name: &str) -> Option<Vec<String>> {
    let mut found = Vec::new();
    for block in body.blocks() {
        match block.ident.as_str() {
            "module" => return None,
            "terraform" => {
                for inner in block.body.blocks().filter(|it| it.ident.as_str() == "required_providers") {
                    if let Some(wanted) = inner.body.get_attribute(name) {
                        found.extend(literal_version(&wanted.value).ok()?);
                    }
                }
            }
            _ => {}
        }
    }
    Some(found)
}

/// A version expression that only terraform can evaluate.
struct NonLiteralVersion;

/// The literal `version` of a `required_providers` entry, if it has one.
fn literal_version(entry: &hcl_edit::expr::Expression) -> Result<Option<String>, NonLiteralVersion> {
    let text = |value: &hcl_edit::expr::Expression| {
        value.as_str().map(|it| Some(it.to_owned())).ok_or(NonLiteralVersion)
    };
    let Some(object) = entry.as_object() else { return text(entry) };
    let named = |key: &hcl_edit::expr::ObjectKey| key.as_ident().is_some_and(|it| it.as_str() == "version");
    match object.iter().find(|(key, _)| named(key)) {
        Some((_, value)) => text(value.expr()),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(text: &str) -> Option<Vec<String>> {
        version_constraints(&text.parse().unwrap(), "aws")
    }

    #[test]
    fn constraints_of_the_root_are_read() {
        let text = "terraform {\n  required_providers {\n    aws = { source = \"hashicorp/aws\", version = \">= 5\" }\n  }\n}\n";
        assert_eq!(asked(text), Some(vec![">= 5".to_owned()]));
        assert_eq!(asked("resource \"aws_vpc\" \"a\" {}\n"), Some(vec![]));
        assert_eq!(
            asked("terraform {\n  required_providers {\n    aws = \"~> 5.0\"\n  }\n}\n"),
            Some(vec!["~> 5.0".to_owned()])
        );
    }

    #[test]
    fn modules_are_for_terraform_to_look_into() {
        assert_eq!(asked("module \"a\" {\n  source = \"./a\"\n}\n"), None);
    }

    #[test]
    fn types_come_from_everywhere() {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("main.tf", "resource \"aws_vpc\" \"a\" {}");
        write("sub/more.tf.json", "{\"resource\":{\"aws_eip\":{}}}");
        write(".terraform/modules/m/main.tf", "data \"aws_ami\" \"a\" {}");
        write(".terraform/providers/x/main.tf", "aws_never");
        write(
            "terraform.tfstate",
            "{\"lineage\":\"l\",\"serial\":1,\"resources\":[{\"mode\":\"managed\",\"type\":\"aws_subnet\",\"name\":\"s\"}]}",
        );
        let found = referenced_types(&WorkspaceDir::at(dir.path())).unwrap();
        for kind in ["aws_vpc", "aws_eip", "aws_ami", "aws_subnet"] {
            assert!(found.contains(kind), "{kind}");
        }
        assert!(!found.contains("aws_never"));
    }
}
