//! Templates that users bring, without AWS resources: quick, and still the real terraform.

use super::harness::{SystemHarness, example_path};

#[test]
fn one_template_hands_its_outputs_to_another_through_a_secret() {
    let capt = SystemHarness::new();
    let file = example_path("templates.yaml");
    let applied = capt.run(&["apply", &file, "-o", "json"]).expect_success();
    assert_eq!(
        applied.results(),
        [
            ("default/network".to_owned(), "applied".to_owned()),
            ("default/service".to_owned(), "applied".to_owned())
        ]
    );
    let shown = capt.terraform("service", &["output", "-no-color", "-raw", "greeting"]).expect_success();
    assert_eq!(shown.stdout, "service of demo in net-demo with a \"quoted\" value and ${not.a.template}");
    let again = capt.run(&["plan", &file, "-o", "json"]).expect_success();
    assert!(again.results().iter().all(|(_, result)| result == "unchanged"), "{again:?}");
    let destroyed = capt.run(&["destroy", &file, "-o", "json"]).expect_success();
    assert!(destroyed.results().iter().all(|(_, result)| result == "destroyed"), "{destroyed:?}");
}

#[test]
fn what_fails_is_named_with_its_address_and_holds_up_only_what_is_behind_it() {
    let capt = SystemHarness::new();
    let file = capt.write_file("bad.yaml", BAD).display().to_string();
    let applied = capt.run(&["apply", &file, "-o", "json"]);
    assert_eq!(applied.code, Some(1), "{applied:?}");
    let results = applied.results();
    let result = |name: &str| results.iter().find(|(key, _)| key == name).map(|(_, result)| result.as_str());
    assert_eq!(result("default/good"), Some("applied"));
    assert_eq!(result("default/bad"), Some("failed"));
    assert_eq!(result("default/behind"), Some("skipped"));
    let report = applied.report();
    let message = report["workspaces"]
        .as_array()
        .unwrap()
        .iter()
        .find(|it| it["name"] == "default/bad")
        .unwrap()["message"]
        .clone();
    assert!(message.as_str().unwrap().starts_with("terraform_data.bad: "), "{message}");
    // What was made is known, and goes.
    capt.run(&["destroy", &file]).expect_success();
}

const BAD: &str = r#"
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: WorkspaceTemplate
metadata: {name: good}
spec:
  template:
    spec:
      forProvider:
        source: Inline
        module: |
          resource "terraform_data" "good" {}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: WorkspaceTemplate
metadata: {name: bad}
spec:
  template:
    spec:
      forProvider:
        source: Inline
        module: |
          resource "terraform_data" "bad" {
            provisioner "local-exec" {
              command = "exit 3"
            }
          }
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: WorkspaceTemplateApply
metadata: {name: good-apply}
spec: {templateRef: {name: good, namespace: default}}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: WorkspaceTemplateApply
metadata: {name: bad-apply}
spec: {templateRef: {name: bad, namespace: default}}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: WorkspaceTemplateApply
metadata: {name: behind-apply}
spec:
  templateRef: {name: good, namespace: default}
  waitForWorkspaces: [{name: bad, namespace: default}]
"#;

/// One workspace with one object.
fn single(name: &str, region: &str, terraform: &str) -> String {
    format!(
        r#"
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: WorkspaceTemplate
metadata: {{name: {name}}}
spec:
  template:
    spec:
      forProvider:
        source: Inline
        module: |
          resource "terraform_data" "one" {{}}
          {terraform}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: WorkspaceTemplateApply
metadata: {{name: {name}}}
spec: {{templateRef: {{name: {name}, namespace: default}}, region: {region}}}
"#
    )
}

#[test]
fn a_state_in_a_backend_of_its_own_is_found_again_by_the_destroy() {
    let capt = SystemHarness::new();
    let indent = "
          ";
    let lines = ["terraform {", "  backend \"local\" {", "    path = \"kept/mine.tfstate\"", "  }", "}"];
    let elsewhere = lines.join(indent);
    let file = capt.write_file("own.yaml", &single("own", "eu-central-1", &elsewhere)).display().to_string();
    capt.run(&["apply", &file]).expect_success();
    assert!(capt.workspace_dir("own").join("kept/mine.tfstate").exists());
    let destroyed = capt.run(&["destroy", &file, "-o", "json"]).expect_success();
    assert_eq!(destroyed.results(), [("default/own".to_owned(), "destroyed".to_owned())]);
    let state = std::fs::read_to_string(capt.workspace_dir("own").join("kept/mine.tfstate")).unwrap();
    assert!(state.contains("\"resources\": []"), "{state}");
}

#[test]
fn resources_are_not_made_a_second_time_in_another_region() {
    let capt = SystemHarness::new();
    let file = capt.write_file("here.yaml", &single("here", "eu-central-1", "")).display().to_string();
    capt.run(&["apply", &file]).expect_success();
    capt.write_file("here.yaml", &single("here", "us-east-1", ""));
    let moved = capt.run(&["apply", &file]);
    assert_eq!(moved.code, Some(1), "{moved:?}");
    let said = "the workspace holds resources in eu-central-1, but is now configured for us-east-1";
    assert!(moved.stdout.contains(said), "{}", moved.stdout);
}

#[test]
fn nothing_is_destroyed_under_what_stands_on_it() {
    let capt = SystemHarness::new();
    let whole = std::fs::read_to_string(example_path("templates.yaml")).unwrap();
    capt.run(&["apply", &example_path("templates.yaml")]).expect_success();
    let documents: Vec<&str> = whole.split("\n---\n").collect();
    let network = capt.write_file("network.yaml", &[documents[0], documents[2]].join("\n---\n"));
    let refused = capt.run(&["destroy", &network.display().to_string()]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    let said = "default/network cannot be destroyed while default/service depends on it";
    assert!(refused.stderr.contains(said), "{}", refused.stderr);
    capt.run(&["destroy", &example_path("templates.yaml")]).expect_success();
}

#[test]
fn a_change_that_needs_no_apply_counts_for_the_destroy() {
    let capt = SystemHarness::new();
    let kept = single(
        "kept",
        "us-west-2",
        "resource \"terraform_data\" \"kept\" {\n            lifecycle { prevent_destroy = true }\n          }",
    );
    let file = capt.write_file("kept.yaml", &kept).display().to_string();
    capt.run(&["apply", &file]).expect_success();
    assert_eq!(capt.run(&["destroy", &file]).code, Some(1), "it is protected");
    capt.write_file("kept.yaml", &kept.replace("prevent_destroy = true", "prevent_destroy = false"));
    let again = capt.run(&["apply", &file, "-o", "json"]).expect_success();
    assert!(again.results().iter().all(|(_, result)| result == "unchanged"), "{again:?}");
    capt.run(&["destroy", &file]).expect_success();
}

#[test]
fn h2_the_state_in_a_local_module_is_ignored_with_a_notice_and_never_used() {
    let capt = SystemHarness::new();
    let state = r#"{"version": 4, "terraform_version": "1.9.0", "serial": 900, "lineage": "by-hand", "outputs": {}, "resources": []}"#;
    std::fs::create_dir(capt.data_dir().with_file_name("by-hand")).unwrap();
    capt.write_file("by-hand/main.tf", "resource \"terraform_data\" \"one\" {}\n");
    capt.write_file("by-hand/terraform.tfstate", state);
    let manifest = single("local", "eu-central-1", "").replace(
        "source: Inline\n        module: |\n          resource \"terraform_data\" \"one\" {}\n          \n",
        "source: Remote\n        module: ./by-hand\n",
    );
    assert!(manifest.contains("./by-hand"), "{manifest}");
    let file = capt.write_file("local.yaml", &manifest).display().to_string();
    let applied = capt.run(&["apply", &file]).expect_success();
    let said = format!("{}{}", applied.stdout, applied.stderr);
    assert!(said.contains("ignored terraform.tfstate of module"), "{said}");
    let own = || std::fs::read_to_string(capt.workspace_dir("local").join("terraform.tfstate")).unwrap();
    assert!(!own().contains("by-hand"), "{}", own());
    let again = capt.run(&["plan", &file, "-o", "json"]).expect_success();
    assert_eq!(again.results(), [("default/local".to_owned(), "unchanged".to_owned())]);
    assert!(!own().contains("by-hand"), "a later run does not take it either");
}
