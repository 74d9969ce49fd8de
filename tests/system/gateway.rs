//! The gateway as the commands start it: shared by all, seen by nobody else, and gone when it is told to go.

use std::{
    fs,
    os::unix::fs::{FileTypeExt, PermissionsExt},
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::capt::{Capt, until};

const CONFIGURED: &str = "canary-of-the-configuration";
const MADE: &str = "canary-of-the-state";

/// A workspace with its own provider block, and a value in each that nobody else should see.
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
            default_tags {{ tags = {{ canary = "{CONFIGURED}" }} }}
          }}
          resource "aws_iam_role" "it" {{
            name               = "canary"
            description        = "{MADE}"
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
fn everything(dir: &Path) -> Vec<PathBuf> {
    let mut found = vec![dir.to_owned()];
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(everything(&path)) } else { found.push(path) }
    }
    found
}

fn lives(pid: &Value) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

#[test]
fn the_gateway_is_private_says_nothing_of_values_and_ends_with_its_providers() {
    let capt = Capt::new();
    let file = capt.write("role.yaml", &manifest()).display().to_string();
    let applied = capt.run(&["apply", &file]).ok();
    assert!(!applied.stderr.contains("without the gateway"), "{}", applied.stderr);
    let status = capt.run(&["gateway", "status", "-o", "json"]).ok().report();
    assert_eq!(status["running"], true, "it stays for the next command: {status}");
    let started = status["counts"]["started"].clone();
    capt.run(&["plan", &file]).ok();
    let status = capt.run(&["gateway", "status", "-o", "json"]).ok().report();
    assert_eq!(status["counts"]["started"], started, "the second command needs no new provider");
    assert_eq!(status["runs"], 0, "{status}");

    let dir = capt.data().join("gateway");
    let (mut journals, mut sockets) = (0, 0);
    for path in everything(&dir) {
        let data = fs::symlink_metadata(&path).unwrap();
        let mode = data.permissions().mode() & 0o777;
        let wanted = if data.is_dir() { 0o700 } else { 0o600 };
        // The provider makes its own socket, in a directory that nobody else can enter.
        let is_providers = data.file_type().is_socket() && !path.parent().unwrap().ends_with("s");
        assert!(mode == wanted || is_providers, "{mode:o} {}", path.display());
        sockets += usize::from(data.file_type().is_socket());
        if path.ends_with("journal.jsonl") {
            journals += 1;
        } else if data.is_file() {
            let bytes = fs::read(&path).unwrap();
            let text = String::from_utf8_lossy(&bytes);
            for canary in [CONFIGURED, MADE] {
                assert!(!text.contains(canary), "{canary} in {}: {text}", path.display());
            }
        }
    }
    assert_eq!((journals, sockets > 0), (1, true));

    let providers = status["providers"].as_array().unwrap();
    let pids: Vec<Value> =
        providers.iter().map(|it| it["pid"].clone()).chain([status["pid"].clone()]).collect();
    assert!(pids.len() > 1 && pids.iter().all(lives), "{status}");
    for pid in &pids {
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap();
        assert!(!line.contains("canary"), "{line}");
    }
    let stopped = capt.run(&["stop"]).ok();
    assert!(stopped.stderr.contains("the shared providers are stopped"), "{}", stopped.stderr);
    until("all processes are gone", || !pids.iter().any(lives));
    assert!(!dir.join("server.json").exists());
    let left: Vec<PathBuf> = everything(&dir)
        .into_iter()
        .filter(|path| fs::symlink_metadata(path).is_ok_and(|data| data.file_type().is_socket()))
        .collect();
    assert!(left.is_empty(), "sockets are left: {left:?}");
    // A destroy starts its own providers again.
    capt.run(&["destroy", &file]).ok();
}

#[test]
fn without_the_gateway_it_is_not_started() {
    let capt = Capt::new();
    let file = capt.write("role.yaml", &manifest()).display().to_string();
    capt.run(&["plan", &file, "--no-gateway"]).ok();
    assert!(!capt.data().join("gateway").exists());
}
