//! The examples with and without the gateway: plans, resources, outputs and destroys are equal.

use std::{collections::BTreeMap, fs};

use serde_json::Value;

use super::harness::{SystemHarness, example_path};

/// Together they use every module.
const EXAMPLES: [&str; 4] = ["quickstart.yaml", "network.yaml", "template-driven.yaml", "templates.yaml"];

/// What one way of doing it says and leaves, without what differs from run to run.
fn apply_and_destroy(file: &str, way: &[&str]) -> BTreeMap<String, String> {
    let capt = SystemHarness::new();
    let file = example_path(file);
    let run = |command: &str| capt.run(&[&[command, &file, "-o", "json"], way].concat()).expect_success();
    let mut all = BTreeMap::new();
    for command in ["plan", "apply", "plan again", "destroy"] {
        let report = run(command.split(' ').next().unwrap()).report();
        all.insert(command.to_owned(), normalize(report));
        if command == "apply" {
            for entry in fs::read_dir(capt.data_dir().join("workspaces/default")).unwrap() {
                let dir = entry.unwrap().path();
                let state: Value =
                    serde_json::from_slice(&fs::read(dir.join("terraform.tfstate")).unwrap()).unwrap();
                let name = dir.file_name().unwrap().to_string_lossy().into_owned();
                all.insert(format!("the state of {name}"), normalize(state));
            }
        }
    }
    all
}

/// Without ids, times, versions of a state, and hashes of what has ids in it.
fn normalize(mut value: Value) -> String {
    blank_run_specific_fields(&mut value);
    format!("{value:#}\n")
}

/// Without ids. Short numbers stay: CIDRs, ports, counts.
fn strip_ids(text: &str) -> String {
    let mut kept = String::new();
    let mut run = String::new();
    for letter in text.chars().chain(['\0']) {
        if letter.is_ascii_hexdigit() || (letter == '-' && run.len() >= 4) {
            run.push(letter);
            continue;
        }
        kept.push_str(if run.len() >= 8 { "#" } else { &run });
        run.clear();
        kept.push(letter);
    }
    kept.pop();
    kept
}

fn blank_run_specific_fields(value: &mut Value) {
    const RUN_SPECIFIC_KEYS: [&str; 14] = [
        "lineage",
        "serial",
        "hash",
        "seconds",
        "elapsed",
        "private",
        "created_at",
        "modified_at",
        "directory",
        // What the local AWS makes up.
        "create_date",
        "unique_id",
        "public_ip",
        "public_dns",
        "private_ip",
    ];
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !RUN_SPECIFIC_KEYS.contains(&name.as_str()));
            fields.values_mut().for_each(blank_run_specific_fields);
            // Objects may be found by their ids.
            *fields = std::mem::take(fields).into_iter().map(|(name, it)| (strip_ids(&name), it)).collect();
        }
        Value::Array(items) => {
            items.iter_mut().for_each(blank_run_specific_fields);
            // Sets are ordered by their ids, which are gone by now.
            items.sort_by_key(ToString::to_string);
        }
        Value::String(text) => {
            let is_random = text.contains("127.0.0.1:") || text.starts_with("LS0t");
            *text = if is_random { "#".to_owned() } else { strip_ids(text) };
        }
        _ => {}
    }
}

#[test]
#[ignore = "a quarter of an hour of plain terraform: make alike"]
fn the_examples_are_alike_with_and_without_the_gateway() {
    let mut different = Vec::new();
    for file in EXAMPLES {
        let (plain, shared) = (apply_and_destroy(file, &["--no-gateway"]), apply_and_destroy(file, &[]));
        assert_eq!(plain.keys().collect::<Vec<_>>(), shared.keys().collect::<Vec<_>>(), "{file}");
        for (what, plain) in plain.iter().filter(|(what, plain)| **plain != shared[*what]) {
            let shared = &shared[what];
            different.push(format!("{what} of {file}:\n--- plain\n{plain}\n--- gateway\n{shared}"));
        }
        println!("{file}: {} difference(s) so far", different.len());
    }
    assert!(different.is_empty(), "{}", different.join("\n\n"));
}
