//! What a workspace mentions: which types it can meet, and whether its provider can be chosen without `init`.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use hcl_edit::structure::Body;
use provider_gateway::wire::schema::words;
use terraform_driver::{
    providers::{Constraint, Discovery},
    workspace::Workspace,
};

/// Every word of the configuration, its modules included, and every type of the state.
pub(super) fn types(workspace: &Workspace) -> Option<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    let mut files = Vec::new();
    configuration(workspace.root(), true, &mut files);
    for file in files {
        words(&String::from_utf8_lossy(&fs::read(file).ok()?), &mut found);
    }
    // A state that cannot be read: then nobody knows what is in it.
    let state = workspace.state().ok()?;
    found.extend(state.into_iter().flat_map(|state| state.resources).map(|resource| resource.kind));
    Some(found)
}

/// Configuration files below a directory; of `.terraform` only the modules.
fn configuration(dir: &Path, is_root: bool, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if path.is_dir() {
            match name.as_ref() {
                ".terraform" if is_root => configuration(&path.join("modules"), false, files),
                hidden if hidden.starts_with('.') => {}
                _ => configuration(&path, false, files),
            }
        } else if [".tf", ".tf.json", ".tofu", ".tofu.json"].iter().any(|end| name.ends_with(end)) {
            files.push(path);
        }
    }
}

/// The version that `init` would choose, where that is plain to see: the mirror holds one version only, nothing but
/// the root module asks for the provider, and its constraint, if it has one, allows that version.
pub(super) fn only_version(root: &Path, address: &str, discovery: &Discovery) -> Option<String> {
    let held = discovery.held.iter().find(|held| held.address() == address)?;
    let [version] = held.versions.as_slice() else { return None };
    let mut files = Vec::new();
    for entry in fs::read_dir(root).ok()?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_one_of = |ends: &[&str]| ends.iter().any(|end| name.ends_with(end));
        if is_one_of(&[".tf.json", ".tofu", ".tofu.json"]) {
            // Those of ours ask for no version; one of somebody else's may.
            if !name.starts_with("capt_") && !name.starts_with("capt-") {
                return None;
            }
        } else if is_one_of(&[".tf"]) {
            files.push(entry.path());
        }
    }
    for file in files {
        let body: Body = fs::read_to_string(file).ok()?.parse().ok()?;
        for constraint in constraints(&body, &held.name)? {
            if !constraint.parse::<Constraint>().ok()?.matches(version) {
                return None;
            }
        }
    }
    Some(version.to_string())
}

/// What a file asks of a provider; `None` if it has modules, which may ask for more.
fn constraints(body: &Body, name: &str) -> Option<Vec<String>> {
    let mut found = Vec::new();
    for block in body.blocks() {
        match block.ident.as_str() {
            "module" => return None,
            "terraform" => {
                for inner in block.body.blocks().filter(|it| it.ident.as_str() == "required_providers") {
                    if let Some(wanted) = inner.body.get_attribute(name) {
                        found.extend(version(&wanted.value).ok()?);
                    }
                }
            }
            _ => {}
        }
    }
    Some(found)
}

/// Something that only terraform understands.
struct Obscure;

/// The `version` of an entry: nothing, or text.
fn version(entry: &hcl_edit::expr::Expression) -> Result<Option<String>, Obscure> {
    let text =
        |value: &hcl_edit::expr::Expression| value.as_str().map(|it| Some(it.to_owned())).ok_or(Obscure);
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
        constraints(&text.parse().unwrap(), "aws")
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
        let found = types(&Workspace::at(dir.path())).unwrap();
        for kind in ["aws_vpc", "aws_eip", "aws_ami", "aws_subnet"] {
            assert!(found.contains(kind), "{kind}");
        }
        assert!(!found.contains("aws_never"));
    }
}
