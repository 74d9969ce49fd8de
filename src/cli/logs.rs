//! `capt logs`: prints the terraform output from a run directory, and follows it.

use std::{
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, bail};
use capt_engine::{pipeline, process_env::ProcessEnv};
use capt_model::{model::names, workspaces::WorkspaceKey};
use terraform_driver::{
    events::{Diagnostic, Event, EventKind, LineSplitter, StreamItem, StreamLine, read_chunk},
    run::run_dir::{RunDir, RunExit},
    workspace::{files::read_optional, is_lock_held},
};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::{Instant, sleep},
};

use super::{
    DataDirArg,
    output::{self, ExitStatus},
};

/// Arguments of `capt logs`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  capt logs demo-vpc                           the newest terraform command
  capt logs demo-eks-controlplane-apply -f     follow until it ends
  capt logs demo-vpc --command apply           the newest apply
  capt logs prod/demo-vpc --data /var/lib/capt

Reads the workspace directory; no process has to run.")]
pub(super) struct Args {
    /// The workspace: name of its `WorkspaceTemplateApply` or of its directory.
    name: String,
    #[command(flatten)]
    data: DataDirArg,
    /// Namespace of the workspace.
    #[arg(short, long, value_name = "NAME", default_value = "default")]
    namespace: String,
    /// Follow the output while terraform runs.
    #[arg(short, long)]
    follow: bool,
    /// Only this terraform command: init, plan or apply.
    #[arg(long, value_name = "NAME")]
    command: Option<String>,
}

/// How often new output is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// How long to wait for the next command of the same run.
const NEXT_COMMAND_WAIT: Duration = Duration::from_secs(3);

pub(super) async fn run(args: &Args, process_env: &ProcessEnv) -> anyhow::Result<ExitStatus> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    // Ctrl-C is the normal way to stop following, so it is no failure.
    tokio::select! {
        done = print_runs(args, process_env) => done,
        _ = terminate.recv() => Ok(ExitStatus::Done),
        _ = interrupt.recv() => Ok(ExitStatus::Done),
    }
}

async fn print_runs(args: &Args, process_env: &ProcessEnv) -> anyhow::Result<ExitStatus> {
    let data = args.data.path(process_env);
    let runs = runs_dir(&data, args)?;
    let mut shown: Option<PathBuf> = None;
    let mut since = Instant::now();
    loop {
        let newest = newest_run(&runs, args.command.as_deref())?;
        match newest.filter(|dir| shown.as_deref().is_none_or(|last| dir.path() > last)) {
            Some(dir) => {
                if !print_run(&dir, args.follow).await? || !args.follow {
                    return Ok(ExitStatus::Done);
                }
                shown = Some(dir.path().to_owned());
                since = Instant::now();
            }
            None if !args.follow => {
                output::print_message("terraform has not run in this workspace yet");
                return Ok(ExitStatus::Done);
            }
            None if shown.is_some() && since.elapsed() >= NEXT_COMMAND_WAIT => return Ok(ExitStatus::Done),
            None => sleep(POLL_INTERVAL).await,
        }
    }
}

/// The runs directory of a workspace, by either of its names.
fn runs_dir(data: &Path, args: &Args) -> anyhow::Result<PathBuf> {
    let (namespace, name) = args.name.split_once('/').unwrap_or((&args.namespace, &args.name));
    for name in [name, names::workspace_name(name)] {
        let workspace = pipeline::workspace_dir(data, &WorkspaceKey::new(namespace, name));
        if workspace.dir().is_dir() {
            return Ok(workspace.runs_dir());
        }
    }
    let there = list_workspaces(&data.join("workspaces"));
    if there.is_empty() {
        bail!(
            "{} contains no workspace; pass the data directory of the operator with --data",
            data.display()
        );
    }
    bail!(
        "no workspace {namespace}/{name} in {}; existing workspaces: {} (-n selects another namespace)",
        data.display(),
        there.join(", ")
    )
}

/// Some of the existing workspaces; unreadable directories are skipped.
fn list_workspaces(root: &Path) -> Vec<String> {
    let names = |dir: &Path| -> Vec<String> {
        let entries = std::fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok);
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    };
    let below =
        |space: String| names(&root.join(&space)).into_iter().map(move |name| format!("{space}/{name}"));
    let mut found: Vec<String> = names(root).into_iter().flat_map(below).collect();
    found.sort();
    found.truncate(20);
    found
}

/// The newest run of the command.
fn newest_run(runs: &Path, command: Option<&str>) -> anyhow::Result<Option<RunDir>> {
    for dir in RunDir::list(runs)?.into_iter().rev() {
        if let Some(spec) = dir.spec()?
            && command.is_none_or(|wanted| spec.command == wanted)
        {
            return Ok(Some(dir));
        }
    }
    Ok(None)
}

/// Prints one run, until its end with `follow`; returns false if standard output was closed.
async fn print_run(dir: &RunDir, follow: bool) -> anyhow::Result<bool> {
    if let Some(spec) = dir.spec()? {
        output::print_message(&format!("terraform {}, started {:.0}", spec.command, spec.created));
    }
    let path = dir.events_path();
    let mut file = File::open(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let (mut lines, mut buffer) = (LineSplitter::default(), vec![0; 64 * 1024]);
    loop {
        let over = !follow || dir.exit()?.is_some() || !is_lock_held(&dir.lock_path())?;
        let mut text = String::new();
        loop {
            let read = file.read(&mut buffer).with_context(|| format!("cannot read {}", path.display()))?;
            if read == 0 {
                break;
            }
            read_chunk(&mut lines, &buffer[..read], |item| render_item(&item, &mut text));
        }
        if over {
            lines.finish(|line| {
                if let StreamLine::Complete(line) = line {
                    render_item(&StreamItem::Event(Event::parse(line)), &mut text);
                }
            });
            let beside = read_optional(&dir.stderr_path())?.unwrap_or_default();
            text += &String::from_utf8_lossy(&beside);
        }
        if !text.is_empty() && !output::write_data(&text)? {
            return Ok(false);
        }
        if over {
            output::print_message(&describe_exit(dir.exit()?.as_ref(), is_lock_held(&dir.lock_path())?));
            return Ok(true);
        }
        sleep(POLL_INTERVAL).await;
    }
}

fn describe_exit(exit: Option<&RunExit>, runs: bool) -> String {
    match exit {
        Some(RunExit { code: Some(code), finished, .. }) => {
            format!("terraform exited with code {code} at {finished:.0}")
        }
        Some(RunExit { signal, finished, .. }) => {
            format!("terraform was killed by signal {} at {finished:.0}", signal.unwrap_or_default())
        }
        None if runs => "terraform is still running; use -f to follow it".to_owned(),
        None => "terraform is gone and left no exit record".to_owned(),
    }
}

/// Renders one item of the event stream as terraform would print it.
fn render_item(item: &StreamItem<'_>, text: &mut String) {
    match item {
        StreamItem::Event(event) => match &event.kind {
            EventKind::Diagnostic(diagnostic) => render_diagnostic(diagnostic, text),
            _ if event.message.as_str().is_empty() => {}
            _ => push_line(event.message.as_str(), text),
        },
        StreamItem::Oversized { bytes } => push_line(&format!("(omitted a line of {bytes} bytes)"), text),
    }
}

/// The message of a diagnostic event is only its first line; the details are in the other fields.
fn render_diagnostic(diagnostic: &Diagnostic, text: &mut String) {
    let severity = if diagnostic.is_error() { "Error" } else { "Warning" };
    push_line(&format!("{severity}: {}", diagnostic.summary), text);
    if let Some(address) = &diagnostic.address {
        push_line(&format!("  with {address}"), text);
    }
    if let Some(at) = &diagnostic.range {
        push_line(&format!("  on {} line {}", at.filename, at.line), text);
    }
    for line in diagnostic.detail.lines() {
        push_line(&format!("  {line}"), text);
    }
}

fn push_line(line: &str, text: &mut String) {
    text.push_str(line.trim_end());
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use terraform_driver::events::read_all;

    use super::*;

    fn rendered(stream: &str) -> String {
        let mut text = String::new();
        read_all(stream.as_bytes(), |item| render_item(&item, &mut text));
        text
    }

    #[test]
    fn events_are_the_lines_that_terraform_would_print() {
        let stream = r#"{"@level":"info","@message":"Terraform 1.14.0","type":"version","terraform":"1.14.0","ui":"1.2"}
{"@level":"info","@message":"aws_vpc.this: Creating...","type":"apply_start","hook":{"resource":{"addr":"aws_vpc.this"},"action":"create"}}
plain text among it
{"@level":"info","@message":"something new","type":"invented_later"}
"#;
        assert_eq!(
            rendered(stream),
            "Terraform 1.14.0\naws_vpc.this: Creating...\nplain text among it\nsomething new\n"
        );
    }

    #[test]
    fn an_error_is_shown_with_where_and_why() {
        let stream = r#"{"@level":"error","@message":"Error: creating EC2 VPC","type":"diagnostic","diagnostic":{"severity":"error","summary":"creating EC2 VPC","detail":"VpcLimitExceeded:\nthe maximum is reached","address":"aws_vpc.this","range":{"filename":"main.tf","start":{"line":3,"column":1,"byte":0},"end":{"line":3,"column":2,"byte":1}}}}"#;
        assert_eq!(
            rendered(stream),
            "Error: creating EC2 VPC\n  with aws_vpc.this\n  on main.tf line 3\n  VpcLimitExceeded:\n  the maximum is reached\n"
        );
    }

    #[test]
    fn a_state_that_could_only_be_printed_is_not_printed_again() {
        let stream = r#"{"@level":"error","@message":"Emergency state dump","type":"log","state":{"password":"hush"}}"#;
        assert!(!rendered(stream).contains("hush"));
    }

    #[test]
    fn how_it_ended_is_said() {
        let exit: RunExit = serde_json::from_value(serde_json::json!(
            {"code": 1, "signal": null, "stop": null, "finished": "2026-01-01T00:00:01.5Z"}
        ))
        .unwrap();
        assert_eq!(describe_exit(Some(&exit), false), "terraform exited with code 1 at 2026-01-01T00:00:01Z");
        assert!(describe_exit(None, true).contains("still running"));
        assert!(describe_exit(None, false).contains("no exit record"));
    }
}
