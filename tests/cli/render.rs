//! `capt render`: the same bytes for the same files, and nothing needed but the files.

use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt, path::Path};

use super::harness::{CliHarness, QUICKSTART};

const WORKSPACES: [&str; 4] = ["demo-vpc", "demo-eks-controlplane", "demo-apps-fargate", "demo-jobs-fargate"];

/// Every file below a directory: its mode and its bytes.
fn read_tree(dir: &Path) -> BTreeMap<String, (u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut left = vec![dir.to_owned()];
    while let Some(next) = left.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                left.push(path);
            } else {
                let name = path.strip_prefix(dir).unwrap().display().to_string();
                let mode = path.metadata().unwrap().permissions().mode() & 0o777;
                found.insert(name, (mode, fs::read(&path).unwrap()));
            }
        }
    }
    found
}

/// The ground gives every command an empty `PATH`, no credentials and no python.
#[test]
fn every_example_renders_without_terraform_and_without_aws() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let mut count = 0;
    for entry in fs::read_dir(examples).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|it| it == "yaml") {
            let ground = CliHarness::new();
            let said = ground.capt(&["render", path.to_str().unwrap(), "-o", "out"]).run().assert_success();
            assert!(!said.stdout.is_empty(), "{}", path.display());
            assert!(!ground.has(".capt"), "render makes no data directory");
            count += 1;
        }
    }
    assert!(count > 0);
}

#[test]
fn the_directories_are_printed_on_standard_output_and_nothing_else_is() {
    let ground = CliHarness::new();
    ground.write("demo.yaml", QUICKSTART);
    let said = ground.render().assert_success();
    let wanted = WORKSPACES.map(|name| ground.path("out/default").join(name).display().to_string());
    assert_eq!(said.stdout.lines().collect::<Vec<_>>(), wanted);
    assert!(wanted.iter().all(|dir| Path::new(dir).join("main.tf").is_file()));
}

#[test]
fn values_of_workspaces_that_are_not_there_yet_are_said_to_be_left_out() {
    let ground = CliHarness::new();
    ground.write("demo.yaml", QUICKSTART);
    let said = ground.render().assert_success();
    for line in [
        "default/demo-eks-controlplane: vpc_id comes from default/demo-vpc, which has not been applied yet; omitted",
        "default/demo-apps-fargate: pod_execution_role_arn comes from default/demo-eks-controlplane, which has not been applied yet; omitted",
    ] {
        assert!(said.stderr.lines().any(|it| it == line), "{}", said.stderr);
    }
}

#[test]
fn two_runs_give_the_same_bytes() {
    let ground = CliHarness::new();
    ground.write("demo.yaml", QUICKSTART);
    ground.capt(&["render", "demo.yaml", "-o", "one"]).run().assert_success();
    ground.capt(&["render", "demo.yaml", "-o", "two"]).run().assert_success();
    let (one, two) = (read_tree(&ground.path("one")), read_tree(&ground.path("two")));
    assert!(one.len() > 20, "{:?}", one.keys());
    assert_eq!(one.keys().collect::<Vec<_>>(), two.keys().collect::<Vec<_>>());
    for (name, contents) in &one {
        assert!(two[name] == *contents, "{name} differs");
    }
    ground.capt(&["render", "demo.yaml", "-o", "one"]).run().assert_success();
    assert!(read_tree(&ground.path("one")) == one, "a second render over the first changes nothing");
}

#[test]
fn the_order_of_documents_and_files_does_not_matter() {
    let ground = CliHarness::new();
    let mut documents: Vec<&str> = QUICKSTART.split("---\n").collect();
    ground.write("demo.yaml", QUICKSTART);
    for (index, document) in documents.iter().enumerate() {
        ground.write(&format!("split/{index}.yaml"), document);
    }
    documents.reverse();
    ground.write("reversed.yaml", documents.join("---\n"));
    for (input, out) in [("demo.yaml", "one"), ("reversed.yaml", "two"), ("split", "three")] {
        ground.capt(&["render", input, "-o", out]).run().assert_success();
    }
    let one = read_tree(&ground.path("one"));
    assert!(read_tree(&ground.path("two")) == one && read_tree(&ground.path("three")) == one);
}

#[test]
fn files_with_values_are_for_our_eyes_only() {
    let ground = CliHarness::new();
    ground.write("demo.yaml", QUICKSTART);
    ground.render().assert_success();
    let tree = read_tree(&ground.path("out"));
    for (name, (mode, _)) in tree.iter().filter(|(name, _)| name.ends_with(".tfvars.json")) {
        assert_eq!(*mode, 0o600, "{name}");
    }
    let mode = ground.path("out/default/demo-vpc").metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o700);
}

const OWN_MODULE: &str = "\
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: WorkspaceTemplate
metadata: {name: own}
spec: {template: {spec: {forProvider: {source: Remote, module: ./module}}}}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: WorkspaceTemplateApply
metadata: {name: mine}
spec: {templateRef: {name: own}}
";

#[test]
fn a_file_that_left_the_module_leaves_the_directory_and_a_persons_own_stays() {
    let ground = CliHarness::new();
    ground.write("demo.yaml", OWN_MODULE);
    ground.write("module/main.tf", "locals { a = 1 }\n");
    ground.write("module/gone.tf", "locals { b = 2 }\n");
    ground.write("module/files/gone.txt", "old");
    ground.render().assert_success();
    assert!(ground.has("out/default/mine/gone.tf") && ground.has("out/default/mine/files/gone.txt"));

    ground.write("out/default/mine/notes.txt", "mine");
    ground.write("out/default/mine/debug_override.tf", "# mine");
    ground.write("out/default/mine/files/notes.txt", "mine");
    for file in ["module/gone.tf", "module/files/gone.txt"] {
        fs::remove_file(ground.path(file)).unwrap();
    }
    ground.write("module/new.tf", "locals { c = 3 }\n");
    ground.render().assert_success();
    for file in ["gone.tf", "files/gone.txt"] {
        assert!(!ground.has(&format!("out/default/mine/{file}")), "{file} is stale");
    }
    for file in ["main.tf", "new.tf", "notes.txt", "debug_override.tf", "files/notes.txt"] {
        assert!(ground.has(&format!("out/default/mine/{file}")), "{file} was lost");
    }
}

#[test]
fn a_variable_that_left_the_manifest_leaves_the_directory() {
    let ground = CliHarness::new();
    ground.write("demo.yaml", QUICKSTART);
    ground.render().assert_success();
    ground.write("demo.yaml", QUICKSTART.replace("    environment: demo", "    stage: test"));
    ground.render().assert_success();
    let values = ground.read("out/default/demo-eks-controlplane/terraform.tfvars.json");
    assert!(values.contains("\"stage\": \"test\"") && !values.contains("environment"), "{values}");
}

#[test]
fn for_a_real_aws_no_endpoint_of_the_local_one_is_written() {
    let ground = CliHarness::new();
    ground.write("demo.yaml", QUICKSTART);
    ground.capt(&["render", "demo.yaml", "-o", "out", "--aws", "real"]).run().assert_success();
    let provider = ground.read("out/default/demo-vpc/capt_provider.tf.json");
    assert!(!provider.contains("127.0.0.1") && !provider.contains("access_key"), "{provider}");
}
