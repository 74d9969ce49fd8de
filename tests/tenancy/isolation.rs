//! What the code of a template can reach: its own workspace, and nothing of others.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use capt_engine::aws::Cloud;
use capt_kinds::api::WorkspaceTemplateApply;
use terraform_driver::workspace::WorkspaceDir;

use crate::operator::harness::{OperatorHarness, has_condition};

fn can_confine() -> bool {
    let problem = isolation::probe().problem();
    if let Some(problem) = &problem {
        eprintln!("skipped: {problem}");
    }
    problem.is_none()
}

async fn isolated_operator() -> OperatorHarness {
    let mut stage = OperatorHarness::idle(Cloud::Local { endpoint: "http://127.0.0.1:9".to_owned() }).await;
    stage.is_isolated = true;
    stage.start().await;
    stage
}

fn workspace(name: &str, module: &str) -> String {
    let module = module.replace('\n', "\n          ");
    format!(
        r"
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: WorkspaceTemplate
metadata: {{name: {name}, namespace: default}}
spec:
  template:
    spec:
      forProvider:
        source: Inline
        module: |
          {module}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: WorkspaceTemplateApply
metadata: {{name: {name}, namespace: default}}
spec:
  templateRef: {{name: {name}}}
"
    )
}

/// A victim's state, and a program that stands for the operator.
struct Victim {
    state: String,
    operator: std::process::Child,
}

impl Victim {
    #[expect(clippy::disallowed_methods, reason = "a test starts a process")]
    fn new(data: &Path) -> Self {
        let dir = data.join("workspaces/team-b/victim");
        fs::create_dir_all(&dir).unwrap();
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).unwrap();
        let state = dir.join("terraform.tfstate");
        fs::write(&state, "B-SECRET-VALUE").unwrap();
        let mut command = std::process::Command::new("sleep");
        let operator = command.arg("3600").env("AWS_SECRET_ACCESS_KEY", "OPERATOR-SECRET").spawn().unwrap();
        Self { state: state.display().to_string(), operator }
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        self.operator.kill().unwrap();
        self.operator.wait().unwrap();
    }
}

#[test]
fn c1_a_state_that_is_a_link_to_that_of_another_is_not_read() {
    let data = tempfile::tempdir().unwrap();
    let [victim, thief] = ["victim", "thief"].map(|name| data.path().join(name));
    for dir in [&victim, &thief] {
        fs::create_dir(dir).unwrap();
    }
    fs::write(
        victim.join("terraform.tfstate"),
        r#"{"version": 4, "serial": 1, "lineage": "x", "resources": []}"#,
    )
    .unwrap();
    assert!(WorkspaceDir::at(&victim).state().unwrap().is_some());
    std::os::unix::fs::symlink(victim.join("terraform.tfstate"), thief.join("terraform.tfstate")).unwrap();
    let workspace = WorkspaceDir::at(&thief);
    assert!(workspace.state().is_err() && workspace.state_bytes().is_err());
    std::os::unix::fs::symlink(&victim, thief.join("module")).unwrap();
    assert!(workspace.with_root("module").state_bytes().is_err(), "a directory is no way around it");
}

#[tokio::test(flavor = "multi_thread")]
async fn c1_a_template_reads_no_state_and_no_environment_of_others() {
    if !can_confine() {
        return;
    }
    let mut stage = isolated_operator().await;
    let mut victim = Victim::new(&stage.data_dir());
    let (target, environ) = (victim.state.clone(), format!("/proc/{}/environ", victim.operator.id()));
    // What a provisioner gets is in a file of its own workspace.
    let script = format!(
        "(cat {target}; cat {environ}; cat /proc/[0-9]*/environ; echo owned > {target}) > loot 2>&1; kill {}; true",
        victim.operator.id()
    );
    let steal = format!(
        "resource \"terraform_data\" \"it\" {{\n  provisioner \"local-exec\" {{ command = \"{script}\" }}\n}}"
    );
    stage.apply(&workspace("steal", &steal)).await;
    let is_ready = |it: &WorkspaceTemplateApply| {
        has_condition(&it.status.clone().unwrap_or_default().conditions, "Ready", "True")
    };
    stage.wait_until("steal", "the run is over, and worked in its own workspace", is_ready).await;
    let loot = fs::read_to_string(stage.data_dir().join("workspaces/default/steal/loot")).unwrap();
    assert!(loot.contains("Permission denied"), "{loot}");
    assert!(!loot.contains("SECRET"), "{loot}");
    assert_eq!(fs::read_to_string(&target).unwrap(), "B-SECRET-VALUE");
    assert!(victim.operator.try_wait().unwrap().is_none(), "it was not killed");
    // What terraform itself reads fails the run, and the condition says why.
    stage.apply(&workspace("read", &format!("output \"loot\" {{ value = file(\"{target}\") }}"))).await;
    let failed = stage
        .wait_until::<WorkspaceTemplateApply>("read", "failed, with the reason", |it| {
            let conditions = it.status.clone().unwrap_or_default().conditions;
            conditions.iter().any(|it| it.message.contains("capt confines the run"))
        })
        .await;
    assert!(!format!("{failed:?}").contains("B-SECRET"), "{failed:?}");
    stage.stop().await;
}
