//! The local AWS as a process, for tests of the operator.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

use capt_engine::aws::Cloud;
use serde::Deserialize;
use serde_json::Value;
use tempfile::TempDir;

use super::in_process_operator::cache_dir;

/// A local AWS of its own, as `capt aws start` makes one. It ends with the test.
pub(crate) struct LocalAws {
    data_dir: TempDir,
    pub(crate) endpoint: String,
}

impl LocalAws {
    /// One in which clusters come and go in two seconds.
    pub(crate) fn start() -> Self {
        let data_dir = tempfile::tempdir().unwrap();
        let started = run_capt(data_dir.path(), &["aws", "start"]);
        assert!(started.status.success(), "{}", String::from_utf8_lossy(&started.stderr));
        let record = std::fs::read(data_dir.path().join("local-aws/server.json")).unwrap();
        let record: Value = serde_json::from_slice(&record).unwrap();
        Self { data_dir, endpoint: record["endpoint"].as_str().unwrap().to_owned() }
    }

    pub(crate) fn cloud(&self) -> Cloud {
        Cloud::Local { endpoint: self.endpoint.clone() }
    }

    /// A call of the admin path.
    pub(crate) async fn admin(&self, method: &str, path: &str, body: &Value) -> Value {
        let (url, body) = (format!("{}/_capt/{path}", self.endpoint), body.to_string());
        let json = ["-H", "Content-Type: application/json", "-d", &body];
        let sent = if body == "null" { &[][..] } else { &json };
        let said = run_curl(&[&["-X", method, &url], sent].concat()).await;
        serde_json::from_str(&said).unwrap_or(Value::Null)
    }

    /// A call of one of the services that are asked by forms (EC2, IAM), as a person with the AWS command line makes it.
    pub(crate) async fn query(&self, service: &str, form: &str) -> String {
        let scope = format!("test/20260101/eu-central-1/{service}/aws4_request");
        let header =
            format!("Authorization: AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0");
        run_curl(&["-X", "POST", &self.endpoint, "-H", &header, "-d", form]).await
    }

    /// Everything that exists, as `service/type/name`.
    pub(crate) async fn list_resources(&self) -> Vec<String> {
        let all = self.admin("GET", "inventory", &Value::Null).await;
        let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
        let items = all["items"].as_array().unwrap().iter();
        let mut names: Vec<String> = items
            .map(|it| format!("{}/{}/{}", text(&it["service"]), text(&it["type"]), text(&it["name"])))
            .collect();
        names.sort();
        names
    }

    /// How often an operation of EKS was called, and how often it was refused.
    pub(crate) async fn call_counts(&self, operation: &str) -> (usize, usize) {
        let path = format!("calls?service=eks&operation={operation}");
        let all = self.admin("GET", &path, &Value::Null).await;
        let calls = all["calls"].as_array().or_else(|| all.as_array()).cloned().unwrap_or_default();
        let refused = calls.iter().filter(|it| it["status"].as_u64().unwrap_or(0) >= 400).count();
        (calls.len(), refused)
    }

    /// How often an operation was called, of whatever service.
    pub(crate) async fn count_calls(&self, operation: &str) -> usize {
        self.calls_since(0).await.0.iter().filter(|it| it.operation == operation).count()
    }

    /// What was called after the call of this number, oldest first; and the number of the last one.
    pub(crate) async fn calls_since(&self, seq: u64) -> (Vec<Call>, u64) {
        let all = self.admin("GET", &format!("calls?since={seq}"), &Value::Null).await;
        (serde_json::from_value(all["calls"].clone()).unwrap(), all["total"].as_u64().unwrap())
    }

    /// Names of the Fargate profiles that exist.
    pub(crate) async fn fargate_profiles(&self) -> Vec<String> {
        let all = self.list_resources().await;
        all.iter().filter_map(|it| it.strip_prefix("eks/fargate-profile/")).map(str::to_owned).collect()
    }
}

/// What is read at a URL.
pub(crate) async fn curl(url: &str) -> String {
    run_curl(&[url]).await
}

#[expect(clippy::disallowed_methods, reason = "a person types curl")]
async fn run_curl(args: &[&str]) -> String {
    let mut command = Command::new("curl");
    command.args(["-sS", "-f"]).args(args);
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A call of the local AWS.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Call {
    pub(crate) operation: String,
    pub(crate) status: u16,
}

impl Call {
    /// Whether it was to change something.
    pub(crate) fn is_mutation(&self) -> bool {
        let reads = ["Describe", "List", "Get", "AssumeRole", "Decode"];
        !reads.iter().any(|it| self.operation.starts_with(it))
    }
}

impl Drop for LocalAws {
    fn drop(&mut self) {
        let _stopped = run_capt(self.data_dir.path(), &["aws", "stop"]);
    }
}

/// Ends the shared providers of a data directory, if there are any.
pub(crate) fn stop_gateway(data: &Path) {
    let _ended_or_later = run_capt(data, &["gateway", "stop"]);
}

/// `capt` as a person types it.
#[expect(clippy::disallowed_methods, reason = "a test starts the command as its caller would")]
fn run_capt(data: &Path, args: &[&str]) -> Output {
    let program: PathBuf = env!("CARGO_BIN_EXE_capt").into();
    Command::new(program).args(args).env("CAPT_DATA", data).env("CAPT_CACHE", cache_dir()).output().unwrap()
}
