//! Module sources of templates, the files in them, and their sizes.

use std::{fs, path::Path};

use capt_kinds::api::{WorkspaceTemplate, WorkspaceTemplateApply};
use serde_json::{Value, json};

use crate::operator::{
    harness::OperatorHarness,
    workspaces::{apply_another_workspace, wait_until_ready},
};

const API_VERSION: &str = "infrastructure.cluster.x-k8s.io/v1beta1";

/// A template with these parameters.
fn template(name: &str, parameters: &Value) -> Value {
    json!({"apiVersion": API_VERSION, "kind": "WorkspaceTemplate",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"template": {"spec": {"forProvider": parameters}}}})
}

/// An apply of the template of the same name.
fn apply(name: &str, template: &str, variables: &Value) -> Value {
    json!({"apiVersion": API_VERSION, "kind": "WorkspaceTemplateApply",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"templateRef": {"name": template}, "variables": variables}})
}

/// Waits until a condition of a workspace says this, and returns its reason and message.
async fn wait_until_told(stage: &OperatorHarness, name: &str, words: &'static str) -> (String, String) {
    let find = |it: &WorkspaceTemplateApply| {
        let conditions = it.status.clone().unwrap_or_default().conditions;
        conditions.into_iter().find(|it| it.status == "False" && it.message.contains(words))
    };
    let told = stage.wait_until(name, words, |it| find(it).is_some()).await;
    find(&told).map(|it| (it.reason, it.message)).unwrap()
}

fn workspace_dir(stage: &OperatorHarness, name: &str) -> std::path::PathBuf {
    stage.data_dir().join("workspaces/default").join(name)
}

/// All texts below a directory.
fn texts(dir: &Path, found: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(dir).into_iter().flatten().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            texts(&path, found);
        } else if let Ok(text) = fs::read_to_string(&path) {
            found.push((path.display().to_string(), text));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn c4_a_placeholder_never_makes_another_tenants_directory_a_module() {
    let mut stage = OperatorHarness::without_aws().await;
    apply_another_workspace(&stage, "victim").await;
    let victim = workspace_dir(&stage, "victim");
    assert!(victim.join("terraform.tfstate").exists());
    stage.apply_value(template("thief", &json!({"source": "Remote", "module": "${where}"}))).await;
    let victim = victim.display();
    let addresses = [
        format!("{victim}"),
        format!("file://{victim}"),
        format!("git::file://{victim}"),
        format!("../../default/{victim}"),
        format!("file::{victim}"),
    ];
    for (at, address) in addresses.iter().enumerate() {
        let name = format!("thief-{at}");
        stage.apply_value(apply(&name, "thief", &json!({"where": address}))).await;
        let (reason, _) = wait_until_told(&stage, &name, "is a local path on the operator's host").await;
        assert_eq!(reason, "TemplateInvalid", "{address}");
        assert!(!workspace_dir(&stage, &name).join("terraform.tfstate").exists(), "{address}");
    }
    let options = "git::ssh://-oProxyCommand=touch@example.com/x";
    stage.apply_value(apply("options", "thief", &json!({"where": options}))).await;
    wait_until_told(&stage, "options", "which a downloader takes for an option").await;
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn l2_l3_credentials_of_backends_and_addresses_are_in_no_argument_and_no_status() {
    let mut stage = OperatorHarness::without_aws().await;
    let module = "terraform {\n  backend \"local\" {}\n}\nresource \"terraform_data\" \"it\" {}\n";
    let backend = json!({"source": "Inline", "module": module,
        "initArgs": ["-backend-config=path=kept-hunter2.tfstate"]});
    stage.apply_value(template("backend", &backend)).await;
    stage.apply_value(apply("backend", "backend", &json!({}))).await;
    wait_until_ready(&stage, "backend").await;
    let dir = workspace_dir(&stage, "backend");
    assert!(dir.join("kept-hunter2.tfstate").exists(), "the setting is used");
    let mut runs = Vec::new();
    texts(&dir.join(".capt/runs"), &mut runs);
    let specs: Vec<_> = runs.iter().filter(|(_, text)| text.contains("-input=false")).collect();
    assert!(!specs.is_empty(), "the arguments of a run are recorded");
    assert!(specs.iter().all(|(_, text)| !text.contains("hunter2")), "{specs:#?}");

    let address = "git::https://user:hunter2@127.0.0.1:9/x.git?ref=v1";
    stage.apply_value(template("secret", &json!({"source": "Remote", "module": address}))).await;
    stage.apply_value(apply("secret", "secret", &json!({}))).await;
    wait_until_told(&stage, "secret", "cannot fetch module git::https://REDACTED@127.0.0.1:9/x.git").await;
    let is_validated = |it: &WorkspaceTemplate| it.status.is_some();
    let shown = stage.wait_until::<WorkspaceTemplate>("secret", "validated", is_validated).await;
    let status = serde_json::to_string(&(shown.status, stage.workspace("secret").await.status)).unwrap();
    assert!(!status.contains("hunter2"), "{status}");
    stage.stop().await;
}
