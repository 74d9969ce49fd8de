//! Module sources of templates, the files in them, and their sizes.

use std::{
    fs,
    io::{Cursor, Read, Write},
    net::TcpListener,
    path::{Path, PathBuf},
    thread,
};

use capt_engine::aws::Cloud;
use capt_kinds::api::{WorkspaceTemplate, WorkspaceTemplateApply};
use capt_util::byte_size::ByteSize;
use serde_json::{Value, json};
use zip::{ZipWriter, write::SimpleFileOptions};

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

fn workspace_dir(stage: &OperatorHarness, name: &str) -> PathBuf {
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

/// The bytes of a zip file.
fn archive(files: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in files {
        zip.start_file(*name, SimpleFileOptions::default()).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// Serves these bytes to everybody, and returns the address.
fn serve(bytes: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/module.zip", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, mut request) = (stream.unwrap(), Vec::new());
            let mut chunk = [0; 1024];
            while !request.ends_with(b"\r\n\r\n") {
                match stream.read(&mut chunk) {
                    Ok(count) if count > 0 => request.extend_from_slice(&chunk[..count]),
                    _ => break,
                }
            }
            let head =
                format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", bytes.len());
            let body: &[u8] = if request.starts_with(b"HEAD") { &[] } else { &bytes };
            // A client that has enough closes the connection.
            let _closed = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
        }
    });
    address
}

const MODULE: &str = "resource \"terraform_data\" \"it\" {}\n";

#[tokio::test(flavor = "multi_thread")]
async fn h2_h6_a_source_with_a_state_or_beyond_its_limit_is_refused_and_a_good_one_is_applied() {
    let mut stage = OperatorHarness::idle(Cloud::Local { endpoint: "http://127.0.0.1:9".to_owned() }).await;
    stage.settings.size_limits.source.size = ByteSize::mebibytes(1);
    stage.start().await;
    let main = || ("main.tf", MODULE.as_bytes().to_vec());
    let foreign = json!({"version": 4, "terraform_version": "1.9.0", "serial": 900, "lineage": "theirs",
        "outputs": {}, "resources": []});
    let sources = [
        ("good", archive(&[main()])),
        ("state", archive(&[main(), ("terraform.tfstate", foreign.to_string().into_bytes())])),
        ("values", archive(&[main(), ("zzz.auto.tfvars.json", b"{}".to_vec())])),
        // Small in the archive.
        ("huge", archive(&[main(), ("huge.bin", vec![0; 4 << 20])])),
    ];
    for (name, bytes) in sources {
        let address = serve(bytes);
        stage.apply_value(template(name, &json!({"source": "Remote", "module": address}))).await;
        stage.apply_value(apply(name, name, &json!({}))).await;
    }
    wait_until_ready(&stage, "good").await;
    wait_until_told(&stage, "state", "contains \"terraform.tfstate\"").await;
    wait_until_told(&stage, "values", "contains \"zzz.auto.tfvars.json\"").await;
    let (_, message) = wait_until_told(&stage, "huge", "is larger than 1Mi").await;
    assert!(message.contains("--max-source-size"), "{message}");
    for name in ["state", "values", "huge"] {
        let dir = workspace_dir(&stage, name);
        assert!(!dir.join("terraform.tfstate").exists() && !dir.join("huge.bin").exists(), "{name}");
    }
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h6_a_state_and_a_log_beyond_their_limits_end_in_a_condition_with_a_remedy() {
    let mut stage = OperatorHarness::idle(Cloud::Local { endpoint: "http://127.0.0.1:9".to_owned() }).await;
    stage.settings.size_limits.state = ByteSize(64 * 1024);
    stage.settings.size_limits.log = ByteSize(128 * 1024);
    stage.start().await;
    let text = format!("join(\"\", [for i in range(1000) : \"{}\"])", "x".repeat(100));
    let large = format!("resource \"terraform_data\" \"it\" {{\n  input = {text}\n}}\n");
    let endless = "resource \"terraform_data\" \"it\" {\n  provisioner \"local-exec\" {\n    \
                   command = \"while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; sleep 0.001; done\"\n  }\n}\n";
    for (name, module) in [("state", large.as_str()), ("log", endless)] {
        stage.apply_value(template(name, &json!({"source": "Inline", "module": module}))).await;
        stage.apply_value(apply(name, name, &json!({}))).await;
    }
    wait_until_told(&stage, "state", "--max-state-size").await;
    let kept = workspace_dir(&stage, "state").join("terraform.tfstate");
    assert!(kept.exists(), "what was created is known");
    wait_until_told(&stage, "log", "--max-log-size").await;
    let mut logs = Vec::new();
    texts(&workspace_dir(&stage, "log").join(".capt/runs"), &mut logs);
    let longest = logs.iter().map(|(_, text)| text.len()).max().unwrap();
    assert!(longest <= 128 * 1024, "{longest}");
    stage.stop().await;
}
