//! Test harness: runs `capt` in its own directory with its own local AWS.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;
use tempfile::TempDir;

use crate::operator::log_capture::tail;

pub(crate) struct SystemHarness {
    dir: TempDir,
}

/// What a command said.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl CommandOutput {
    fn from_output(output: &Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// The result of each workspace, by name.
    pub(crate) fn results(&self) -> Vec<(String, String)> {
        let report: Value =
            serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"));
        let entry = |it: &Value| (text(&it["name"]), text(&it["result"]));
        report["workspaces"].as_array().expect("workspaces").iter().map(entry).collect()
    }

    pub(crate) fn report(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    #[track_caller]
    pub(crate) fn expect_success(self) -> Self {
        assert_eq!(self.code, Some(0), "{}\n{}", self.stdout, self.stderr);
        self
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

impl SystemHarness {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn data_dir(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    pub(crate) fn workspace_dir(&self, name: &str) -> PathBuf {
        self.data_dir().join("workspaces/default").join(name)
    }

    /// A file for the commands to work on.
    pub(crate) fn write_file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    #[expect(clippy::disallowed_methods, reason = "a test starts the command as its caller would")]
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_capt"));
        // A cache directory of the caller's, or the one that `make` uses.
        let cache = std::env::var_os("CAPT_CACHE").unwrap_or_else(|| repository().join(".cache").into());
        command.args(args).env("CAPT_DATA", self.data_dir()).env("CAPT_CACHE", cache).stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> CommandOutput {
        CommandOutput::from_output(&self.command(args).output().unwrap())
    }

    pub(crate) fn start(&self, args: &[&str]) -> Child {
        self.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    pub(crate) fn finish(child: Child) -> CommandOutput {
        CommandOutput::from_output(&child.wait_with_output().unwrap())
    }

    /// Terraform, typed by hand in a workspace's directory, with the caller's own environment.
    #[expect(clippy::disallowed_methods, reason = "a person types this")]
    pub(crate) fn terraform(&self, workspace: &str, args: &[&str]) -> CommandOutput {
        let mut command = Command::new("terraform");
        CommandOutput::from_output(
            &command.args(args).current_dir(self.workspace_dir(workspace)).output().unwrap(),
        )
    }

    /// Everything that exists, as `service type` with how many there are of each.
    pub(crate) fn count_resources_by_type(&self) -> Vec<(String, usize)> {
        let said = self.run(&["aws", "inventory", "-o", "json"]).expect_success();
        let mut counts: Vec<(String, usize)> = Vec::new();
        for item in said.report()["items"].as_array().expect("items") {
            let name = format!("{} {}", text(&item["service"]), text(&item["type"]));
            match counts.iter_mut().find(|(other, _)| *other == name) {
                Some((_, count)) => *count += 1,
                None => counts.push((name, 1)),
            }
        }
        counts
    }

    pub(crate) fn count_resources(&self, what: &str) -> usize {
        self.count_resources_by_type().iter().find(|(name, _)| name == what).map_or(0, |(_, count)| *count)
    }

    /// Where the local AWS answers: host and port.
    pub(crate) fn aws_address(&self) -> String {
        let status = self.run(&["aws", "status", "-o", "json"]).expect_success().report();
        text(&status["endpoint"]).trim_start_matches("http://").to_owned()
    }

    /// A call of the local AWS's admin path.
    pub(crate) fn admin_request(&self, method: &str, path: &str, body: &str) -> Value {
        request_json(&self.aws_address(), method, path, body)
    }

    /// kubectl with a kubeconfig and nothing else of the caller's.
    #[expect(clippy::disallowed_methods, reason = "a person types this")]
    pub(crate) fn kubectl(&self, kubeconfig: &Path, args: &[&str]) -> CommandOutput {
        let mut command = Command::new("kubectl");
        command.args(args).env("KUBECONFIG", kubeconfig).env("HOME", self.dir.path()).stdin(Stdio::null());
        CommandOutput::from_output(&command.output().expect("kubectl is on the PATH"))
    }

    /// The calls of one operation that the local AWS got: their results.
    pub(crate) fn calls_of_operation(&self, operation: &str) -> Vec<Value> {
        let answer = self.admin_request("GET", "/_capt/calls", "");
        let calls = answer["calls"].as_array().expect("calls").clone();
        calls.into_iter().filter(|call| call["operation"] == operation).collect()
    }
}

impl Drop for SystemHarness {
    /// Stops the servers, also of a failed test, which prints the tail of its terraform logs.
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", tail(&self.data_dir()));
        }
        let _best_effort = self.command(&["gateway", "stop"]).output();
        let _best_effort = self.command(&["aws", "stop", "--force"]).output();
    }
}

pub(crate) fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub(crate) fn example_path(name: &str) -> String {
    repository().join("examples").join(name).display().to_string()
}

/// Timeout of every wait; only bounds a hang.
const TIMEOUT: Duration = Duration::from_mins(15);

#[track_caller]
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < TIMEOUT, "still waiting after {TIMEOUT:?} for: {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn request_json(address: &str, method: &str, path: &str, body: &str) -> Value {
    let text = send_http(address, &format!("{method} {path}"), "Content-Type: application/json\r\n", body);
    if text.trim().is_empty() { Value::Null } else { serde_json::from_str(&text).unwrap() }
}

/// One request, given by method and path, and its answer, which must be a good one.
pub(crate) fn send_http(address: &str, request: &str, headers: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    write!(
        stream,
        "{request} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").expect("an HTTP answer");
    assert!(head.starts_with("HTTP/1.1 2"), "{request}: {answer}");
    if head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
        unchunk(body)
    } else {
        body.to_owned()
    }
}

fn unchunk(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
        if size == 0 {
            break;
        }
        whole.push_str(&rest[..size]);
        body = rest[size..].trim_start_matches("\r\n");
    }
    whole
}
