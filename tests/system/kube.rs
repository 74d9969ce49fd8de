//! `capt kube` with the kubectl of this machine: what a newcomer does with it.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

use serde_json::Value;

use super::harness::wait_until;

/// A running `capt kube`, killed when it goes out of sight.
struct CaptKube {
    child: Child,
    kubeconfig: String,
}

impl CaptKube {
    #[expect(clippy::disallowed_methods, reason = "a test starts the command as its caller would")]
    fn start(data: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_capt"))
            .args(["kube", "--data"])
            .arg(data)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut kubeconfig = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut kubeconfig).unwrap();
        Self { child, kubeconfig: kubeconfig.trim().to_owned() }
    }

    #[expect(clippy::disallowed_methods, reason = "kubectl is the client under test")]
    fn kubectl(&self, arguments: &[&str]) -> String {
        let output = Command::new("kubectl")
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .args(arguments)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .expect("kubectl is on PATH");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success(),
            "kubectl {arguments:?}: {text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        text
    }
}

impl CaptKube {
    /// `kubectl wait` and the filters of jsonpath give up on a kind that has no conditions yet, so they are read here.
    fn wait_until_established(&self) {
        let files = fs::read_dir("crds").unwrap().flatten().map(|it| it.path());
        let ours = files.filter(|it| it.extension().is_some_and(|it| it == "yaml")).count();
        wait_until("all kinds are established", || {
            let seen: Value = serde_json::from_str(&self.kubectl(&["get", "crds", "-o", "json"])).unwrap();
            let kinds = seen["items"].as_array().unwrap();
            kinds.len() >= ours && kinds.iter().all(is_established)
        });
    }
}

fn is_established(kind: &Value) -> bool {
    let mut conditions = kind["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|it| it["type"] == "Established" && it["status"] == "True")
}

impl Drop for CaptKube {
    fn drop(&mut self) {
        // Killed and not asked: whatever was answered must be there all the same.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn kubectl_applies_everything_and_finds_it_again_after_a_kill() {
    let data = tempfile::tempdir().unwrap();
    let kube = CaptKube::start(data.path());
    kube.kubectl(&["apply", "-f", "crds/"]);
    kube.wait_until_established();
    let applied = kube.kubectl(&["apply", "-f", "examples/"]);
    assert!(applied.contains("cluster.cluster.x-k8s.io/demo created"), "{applied}");
    let table = kube.kubectl(&["get", "captclusters"]);
    let columns: Vec<&str> = table.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(columns, ["NAME", "VPC-ID", "READY", "PHASE", "ENDPOINT", "AGE"]);
    let explained = kube.kubectl(&["explain", "captcontrolplane.spec"]);
    assert!(explained.contains("additionalFargateProfiles"), "{explained}");
    let everything =
        "captclusters,captcontrolplanes,clusters,workspacetemplates,workspacetemplateapplies,crds";
    let before = kube.kubectl(&["get", everything, "-o", "json"]);
    drop(kube);

    let again = CaptKube::start(data.path());
    assert_eq!(again.kubectl(&["get", everything, "-o", "json"]), before);
}
