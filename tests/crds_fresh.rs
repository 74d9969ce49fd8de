//! `crds/` contains exactly the output of `capt_kinds::api::crds()`.

#![expect(clippy::unwrap_used, reason = "a test that cannot read its files has failed")]

use std::{collections::BTreeMap, fs, path::PathBuf};

use capt_kinds::api::{crd_file_name, crd_yaml, crds};

fn crds_dir() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("crds")
}

fn generated_crds() -> BTreeMap<String, String> {
    crds().iter().map(|crd| (crd_file_name(crd), crd_yaml(crd).unwrap())).collect()
}

fn committed_crds() -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(crds_dir()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|it| it == "yaml") {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            files.insert(name, fs::read_to_string(&path).unwrap());
        }
    }
    files
}

#[test]
fn the_committed_crds_are_fresh() {
    let generated = generated_crds();
    if is_env_set("CAPT_WRITE_CRDS") {
        fs::create_dir_all(crds_dir()).unwrap();
        for name in committed_crds().keys().filter(|name| !generated.contains_key(*name)) {
            fs::remove_file(crds_dir().join(name)).unwrap();
        }
        for (name, text) in &generated {
            fs::write(crds_dir().join(name), text).unwrap();
        }
    }
    let committed = committed_crds();
    let renew = "renew them with: cargo run -- crds --write crds (or CAPT_WRITE_CRDS=1 cargo test --test suites crds_fresh)";
    assert_eq!(
        committed.keys().collect::<Vec<_>>(),
        generated.keys().collect::<Vec<_>>(),
        "crds/ holds other files than one for each kind; {renew}"
    );
    for (name, text) in &generated {
        assert!(committed[name] == *text, "crds/{name} is stale; {renew}");
    }
}

#[expect(clippy::disallowed_methods, reason = "the switch that turns this test into the writer")]
fn is_env_set(name: &str) -> bool {
    std::env::var_os(name).is_some()
}
