//! The variables that capt writes for a built-in module are exactly those that the module declares.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on stops, and says where"
)]

use std::{collections::BTreeSet, fs, path::Path};

use capt_model::{
    manifest::{self, ManifestSource},
    model::Limits,
    modules::EmbeddedModule,
    workspaces::{WorkspaceSource, desired_workspaces},
};
use hcl_edit::structure::{Body as Hcl, Structure};

fn declared_variables(module: EmbeddedModule) -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("terraform/modules/{module}/variables.tf"));
    let text = fs::read_to_string(&path).unwrap();
    let body: Hcl = text.parse().unwrap();
    body.iter()
        .filter_map(|structure| match structure {
            Structure::Block(block) if block.ident.as_str() == "variable" => {
                Some(block.labels.first()?.as_str().to_owned())
            }
            _ => None,
        })
        .collect()
}

/// What we write for a module: its own inputs and what is handed over from other workspaces.
fn written_variables(module: EmbeddedModule, file: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
    let loaded = manifest::load(&[ManifestSource { name: file.to_owned(), text }]).unwrap();
    let valid = manifest::validate(&loaded, &Limits::default()).unwrap();
    let all = desired_workspaces(&valid).unwrap();
    let found = all.iter().find_map(|blueprint| match &blueprint.source {
        WorkspaceSource::Module { module: other, inputs } if *other == module => {
            let handed = blueprint.output_refs.iter().map(|handed| handed.name.to_owned());
            Some(inputs.keys().cloned().chain(handed).collect())
        }
        _ => None,
    });
    found.expect("the quickstart uses every module")
}

#[test]
fn the_variables_of_each_module_are_exactly_what_we_write() {
    for module in [EmbeddedModule::Vpc, EmbeddedModule::Eks, EmbeddedModule::Fargate] {
        let (declared, written) =
            (declared_variables(module), written_variables(module, "examples/quickstart.yaml"));
        assert!(!declared.is_empty());
        let missing: Vec<_> = declared.difference(&written).collect();
        let surplus: Vec<_> = written.difference(&declared).collect();
        assert!(missing.is_empty(), "{module}: declared in variables.tf and never written: {missing:?}");
        assert!(surplus.is_empty(), "{module}: written and not declared in variables.tf: {surplus:?}");
    }
}
