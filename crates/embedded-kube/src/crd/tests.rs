//! CRDs of this repository are served.

use std::path::PathBuf;

use serde_json::Value;

use super::*;

fn crds() -> Vec<(String, Value)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../crds");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|it| it == "yaml") {
            let text = std::fs::read_to_string(&path).unwrap();
            let documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
            found.extend(documents.into_iter().map(|it| (path.display().to_string(), it)));
        }
    }
    assert!(found.len() > 3, "{}", found.len());
    found
}

#[test]
fn our_own_crds_become_resources() {
    for (path, crd) in crds() {
        let resources = resources(&crd, 7);
        assert!(!resources.is_empty(), "{path}");
        for resource in resources {
            assert!(resource.custom && resource.schema_since == 7, "{path}");
            assert!(!resource.kind.is_empty() && !resource.columns.is_empty(), "{path}");
        }
    }
}
