//! The gateway as started by the commands: shared by all runs, private to the user, and stopped on request.

use std::{
    fs,
    os::unix::fs::{FileTypeExt, PermissionsExt},
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::harness::{SystemHarness, wait_until};

const CONFIGURATION_CANARY: &str = "canary-of-the-configuration";
const STATE_CANARY: &str = "canary-of-the-state";

/// A workspace with its own provider block, with a secret value in configuration and state.
fn manifest() -> String {
    format!(
        r#"
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: WorkspaceTemplate
metadata: {{name: role}}
spec:
  template:
    spec:
      forProvider:
        source: Inline
        module: |
          provider "aws" {{
            region = "eu-central-1"
            default_tags {{ tags = {{ canary = "{CONFIGURATION_CANARY}" }} }}
          }}
          resource "aws_iam_role" "it" {{
            name               = "canary"
            description        = "{STATE_CANARY}"
            assume_role_policy = jsonencode({{
              Version   = "2012-10-17"
              Statement = [{{ Effect = "Allow", Action = "sts:AssumeRole", Principal = {{ Service = "eks.amazonaws.com" }} }}]
            }})
          }}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: WorkspaceTemplateApply
metadata: {{name: role}}
spec: {{templateRef: {{name: role, namespace: default}}, region: eu-central-1}}
"#
    )
}

/// Everything below a directory.
fn all_files(dir: &Path) -> Vec<PathBuf> {
    let mut found = vec![dir.to_owned()];
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(all_files(&path)) } else { found.push(path) }
    }
    found
}

fn is_running(pid: &Value) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

#[test]
fn the_gateway_is_private_says_nothing_of_values_and_ends_with_its_providers() {
    let capt = SystemHarness::new();
    let file = capt.write_file("role.yaml", &manifest()).display().to_string();
    let applied = capt.run(&["apply", &file]).expect_success();
    assert!(!applied.stderr.contains("without the gateway"), "{}", applied.stderr);
    let status = capt.run(&["gateway", "status", "-o", "json"]).expect_success().report();
    assert_eq!(status["running"], true, "it stays for the next command: {status}");
    let started = status["counts"]["started"].clone();
    capt.run(&["plan", &file]).expect_success();
    let status = capt.run(&["gateway", "status", "-o", "json"]).expect_success().report();
    assert_eq!(status["counts"]["started"], started, "the second command needs no new provider");
    assert_eq!(status["runs"], 0, "{status}");

    let dir = capt.data_dir().join("gateway");
    let (mut journals, mut sockets) = (0, 0);
    for path in all_files(&dir) {
        let data = fs::symlink_metadata(&path).unwrap();
        let mode = data.permissions().mode() & 0o777;
        let wanted = if data.is_dir() { 0o700 } else { 0o600 };
        // The provider creates its socket in a private directory.
        let is_providers = data.file_type().is_socket() && !path.parent().unwrap().ends_with("s");
        assert!(mode == wanted || is_providers, "{mode:o} {}", path.display());
        sockets += usize::from(data.file_type().is_socket());
        if path.ends_with("journal.jsonl") {
            journals += 1;
        } else if data.is_file() {
            let bytes = fs::read(&path).unwrap();
            let text = String::from_utf8_lossy(&bytes);
            for canary in [CONFIGURATION_CANARY, STATE_CANARY] {
                assert!(!text.contains(canary), "{canary} in {}: {text}", path.display());
            }
        }
    }
    assert_eq!((journals, sockets > 0), (1, true));

    let providers = status["providers"].as_array().unwrap();
    let pids: Vec<Value> =
        providers.iter().map(|it| it["pid"].clone()).chain([status["pid"].clone()]).collect();
    assert!(pids.len() > 1 && pids.iter().all(is_running), "{status}");
    for pid in &pids {
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap();
        assert!(!line.contains("canary"), "{line}");
    }
    let stopped = capt.run(&["stop"]).expect_success();
    assert!(stopped.stderr.contains("stopped the provider gateway"), "{}", stopped.stderr);
    wait_until("all processes are gone", || !pids.iter().any(is_running));
    assert!(!dir.join("server.json").exists());
    let left: Vec<PathBuf> = all_files(&dir)
        .into_iter()
        .filter(|path| fs::symlink_metadata(path).is_ok_and(|data| data.file_type().is_socket()))
        .collect();
    assert!(left.is_empty(), "sockets are left: {left:?}");
    // A destroy starts its own providers again.
    capt.run(&["destroy", &file]).expect_success();
}

#[test]
fn without_the_gateway_it_is_not_started() {
    let capt = SystemHarness::new();
    let file = capt.write_file("role.yaml", &manifest()).display().to_string();
    capt.run(&["plan", &file, "--no-gateway"]).expect_success();
    assert!(!capt.data_dir().join("gateway").exists());
}
