//! Templates that users bring, without AWS resources: quick, and still the real terraform.

use crate::capt::{Capt, example};

#[test]
fn one_template_hands_its_outputs_to_another_through_a_secret() {
    let capt = Capt::new();
    let file = example("templates.yaml");
    let applied = capt.run(&["apply", &file, "-o", "json"]).ok();
    assert_eq!(
        applied.results(),
        [
            ("default/network".to_owned(), "applied".to_owned()),
            ("default/service".to_owned(), "applied".to_owned())
        ]
    );
    let shown = capt.terraform("service", &["output", "-no-color", "-raw", "greeting"]).ok();
    assert_eq!(shown.stdout, "service of demo in net-demo with a \"quoted\" value and ${not.a.template}");
    let again = capt.run(&["plan", &file, "-o", "json"]).ok();
    assert!(again.results().iter().all(|(_, result)| result == "unchanged"), "{again:?}");
    let destroyed = capt.run(&["destroy", &file, "-o", "json"]).ok();
    assert!(destroyed.results().iter().all(|(_, result)| result == "destroyed"), "{destroyed:?}");
}

#[test]
fn what_fails_is_named_with_its_address_and_holds_up_only_what_is_behind_it() {
    let capt = Capt::new();
    let file = capt.write("bad.yaml", BAD).display().to_string();
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
    capt.run(&["destroy", &file]).ok();
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
