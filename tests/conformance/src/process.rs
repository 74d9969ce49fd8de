//! Processes: the servers of the real control plane, and kubectl.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use tokio::{
    io::AsyncWriteExt as _,
    process::{Child, Command},
};

use crate::context::TIMEOUT;

/// What a command printed and how it ended.
#[derive(Debug, Clone)]
pub struct KubectlOutput {
    /// The exit code; -1 where a signal ended it.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl KubectlOutput {
    /// As an observation: code, and the lines of both streams that are not empty.
    pub fn to_transcript(&self) -> Value {
        let mut seen = json!({ "code": self.code });
        for (name, text) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            if !text.is_empty() {
                seen[name] = text.lines().map(normalise_line).collect();
            }
        }
        seen
    }
}

/// Column widths depend on ages and generated names; the indentation of a line is kept.
fn normalise_line(line: &str) -> String {
    let indentation = line.len() - line.trim_start().len();
    let (start, rest) = line.split_at(indentation);
    let mut tidy = start.to_owned();
    let mut spaces = 0;
    for letter in rest.trim_end().chars() {
        if letter == ' ' || letter == '\t' {
            spaces += 1;
            continue;
        }
        tidy.push_str(match spaces {
            0 => "",
            1 => " ",
            _ => "  ",
        });
        spaces = 0;
        tidy.push(letter);
    }
    tidy
}

/// A server that is killed when it is dropped; its output goes into a file beside its data.
pub(crate) fn spawn_server(program: &Path, arguments: &[String], log: &Path) -> Result<Child> {
    let output = std::fs::File::create(log).with_context(|| format!("create {}", log.display()))?;
    command(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output)
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("start {}", program.display()))
}

/// A call of kubectl with a home, a cache and a kubeconfig of its own.
pub(crate) struct Kubectl {
    pub(crate) program: PathBuf,
    pub(crate) kubeconfig: PathBuf,
    pub(crate) home: PathBuf,
    pub(crate) namespace: String,
}

impl Kubectl {
    pub(crate) async fn run(&self, arguments: &[String], stdin: Option<&str>) -> Result<KubectlOutput> {
        let mut child = self.command(arguments).stdin(Stdio::piped()).spawn().context("start kubectl")?;
        if let Some(mut pipe) = child.stdin.take() {
            // A command that ends without reading its input closes the pipe; its answer says why.
            let _ = pipe.write_all(stdin.unwrap_or_default().as_bytes()).await;
        }
        let output = tokio::time::timeout(TIMEOUT, child.wait_with_output())
            .await
            .with_context(|| format!("kubectl {} did not end", arguments.join(" ")))??;
        Ok(KubectlOutput {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    /// Starts it without waiting, for the commands that watch.
    pub(crate) fn start(&self, arguments: &[String]) -> Result<Child> {
        self.command(arguments).stdin(Stdio::null()).spawn().context("start kubectl")
    }

    fn command(&self, arguments: &[String]) -> Command {
        let mut command = command(&self.program);
        command
            .env_clear()
            .env("HOME", &self.home)
            .env("PATH", "/usr/bin:/bin")
            .env("KUBECONFIG", &self.kubeconfig)
            .env("KUBECTL_EXTERNAL_DIFF", "diff -u0 -N")
            .arg("--cache-dir")
            .arg(self.home.join("cache"))
            .args(["-n", &self.namespace])
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }
}

/// The version of a kubectl, by its own word.
pub(crate) async fn kubectl_version(program: &Path) -> Option<String> {
    let output = command(program).args(["version", "--client", "-o", "json"]).output().await.ok()?;
    let version: Value = serde_json::from_slice(&output.stdout).ok()?;
    Some(version.pointer("/clientVersion/gitVersion")?.as_str()?.to_owned())
}

#[expect(clippy::disallowed_methods, reason = "exec is where processes are started")]
fn command(program: &Path) -> Command {
    Command::new(program)
}
