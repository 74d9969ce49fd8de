//! `capt logs`: terraform's own words, from the directory of a run; live, if they still come.

use std::{
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, bail};
use terraform_driver::{
    events::{Diagnostic, Event, Item, Kind, Line, Lines, read_chunk},
    run::record::{Exit, RunDir},
    workspace::{files::read_optional, is_held},
};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::{Instant, sleep},
};

use super::{
    DataDir,
    output::{self, ExitStatus},
};
use crate::{blueprint::Key, config::Outer, model::names, work};

/// Of which.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  capt logs demo-vpc                           the newest command of its terraform
  capt logs demo-eks-controlplane-apply -f     live, to its end
  capt logs demo-vpc --command apply           the newest apply, whatever came after it
  capt logs prod/demo-vpc --data /var/lib/capt

The words come from the workspace's directory, so nothing has to run.")]
pub(super) struct Args {
    /// The workspace, by the name of its object or of its directory.
    name: String,
    #[command(flatten)]
    data: DataDir,
    /// Its namespace.
    #[arg(short, long, value_name = "NAME", default_value = "default")]
    namespace: String,
    /// Go on while terraform does.
    #[arg(short, long)]
    follow: bool,
    /// Only commands of this name: init, plan, apply.
    #[arg(long, value_name = "NAME")]
    command: Option<String>,
}

/// How often is looked for more.
const LOOK: Duration = Duration::from_millis(200);
/// How soon after one command the next one of the same run begins.
const NEXT: Duration = Duration::from_secs(3);

pub(super) async fn run(args: &Args, outer: &Outer) -> anyhow::Result<ExitStatus> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    // Leaving is how following ends, so it is no failure.
    tokio::select! {
        done = show(args, outer) => done,
        _ = terminate.recv() => Ok(ExitStatus::Done),
        _ = interrupt.recv() => Ok(ExitStatus::Done),
    }
}

async fn show(args: &Args, outer: &Outer) -> anyhow::Result<ExitStatus> {
    let data = args.data.path(outer);
    let runs = runs(&data, args)?;
    let mut shown: Option<PathBuf> = None;
    let mut since = Instant::now();
    loop {
        let newest = newest(&runs, args.command.as_deref())?;
        match newest.filter(|dir| shown.as_deref().is_none_or(|last| dir.path() > last)) {
            Some(dir) => {
                if !print(&dir, args.follow).await? || !args.follow {
                    return Ok(ExitStatus::Done);
                }
                shown = Some(dir.path().to_owned());
                since = Instant::now();
            }
            None if !args.follow => {
                output::say("terraform has not run there yet");
                return Ok(ExitStatus::Done);
            }
            None if shown.is_some() && since.elapsed() >= NEXT => return Ok(ExitStatus::Done),
            None => sleep(LOOK).await,
        }
    }
}

/// Where the runs of a workspace are, by either of its names.
fn runs(data: &Path, args: &Args) -> anyhow::Result<PathBuf> {
    let (namespace, name) = args.name.split_once('/').unwrap_or((&args.namespace, &args.name));
    for name in [name, names::workspace(name)] {
        let workspace = work::workspace(data, &Key::new(namespace, name));
        if workspace.dir().is_dir() {
            return Ok(workspace.runs());
        }
    }
    let there = workspaces(&data.join("workspaces"));
    if there.is_empty() {
        bail!("{} holds no workspace; name the data directory of the operator with --data", data.display());
    }
    bail!(
        "there is no workspace {namespace}/{name} in {}; there are {} (-n names another namespace)",
        data.display(),
        there.join(", ")
    )
}

/// Some of those that are there. One that cannot be looked at is as good as none.
fn workspaces(root: &Path) -> Vec<String> {
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

/// The newest run that was really asked for.
fn newest(runs: &Path, command: Option<&str>) -> anyhow::Result<Option<RunDir>> {
    for dir in RunDir::all(runs)?.into_iter().rev() {
        if let Some(spec) = dir.spec()?
            && command.is_none_or(|wanted| spec.command == wanted)
        {
            return Ok(Some(dir));
        }
    }
    Ok(None)
}

/// Prints one run, to its end if it is to be followed; whether anybody reads on.
async fn print(dir: &RunDir, follow: bool) -> anyhow::Result<bool> {
    if let Some(spec) = dir.spec()? {
        output::say(&format!("terraform {}, begun {:.0}", spec.command, spec.created));
    }
    let path = dir.events();
    let mut file = File::open(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let (mut lines, mut buffer) = (Lines::default(), vec![0; 64 * 1024]);
    loop {
        let over = !follow || dir.exit()?.is_some() || !is_held(&dir.lock())?;
        let mut text = String::new();
        loop {
            let read = file.read(&mut buffer).with_context(|| format!("cannot read {}", path.display()))?;
            if read == 0 {
                break;
            }
            read_chunk(&mut lines, &buffer[..read], |item| render(&item, &mut text));
        }
        if over {
            lines.finish(|line| {
                if let Line::Whole(line) = line {
                    render(&Item::Event(Event::parse(line)), &mut text);
                }
            });
            let beside = read_optional(&dir.stderr())?.unwrap_or_default();
            text += &String::from_utf8_lossy(&beside);
        }
        if !text.is_empty() && !output::stream(&text)? {
            return Ok(false);
        }
        if over {
            output::say(&ending(dir.exit()?.as_ref(), is_held(&dir.lock())?));
            return Ok(true);
        }
        sleep(LOOK).await;
    }
}

fn ending(exit: Option<&Exit>, runs: bool) -> String {
    match exit {
        Some(Exit { code: Some(code), finished, .. }) => {
            format!("terraform ended with {code} at {finished:.0}")
        }
        Some(Exit { signal, finished, .. }) => {
            format!("terraform was ended by signal {} at {finished:.0}", signal.unwrap_or_default())
        }
        None if runs => "terraform still runs; -f goes on".to_owned(),
        None => "terraform is gone, and nobody wrote down how it ended".to_owned(),
    }
}

/// One line of the stream as terraform would print it.
fn render(item: &Item<'_>, text: &mut String) {
    match item {
        Item::Event(event) => match &event.kind {
            Kind::Diagnostic(diagnostic) => diagnose(diagnostic, text),
            _ if event.message.as_str().is_empty() => {}
            _ => add(event.message.as_str(), text),
        },
        Item::Oversized { bytes } => add(&format!("(a line of {bytes} bytes is left out)"), text),
    }
}

/// The message of a diagnostic is its first line only; what helps is in the rest.
fn diagnose(diagnostic: &Diagnostic, text: &mut String) {
    let severity = if diagnostic.is_error() { "Error" } else { "Warning" };
    add(&format!("{severity}: {}", diagnostic.summary), text);
    if let Some(address) = &diagnostic.address {
        add(&format!("  with {address}"), text);
    }
    if let Some(at) = &diagnostic.range {
        add(&format!("  on {} line {}", at.filename, at.line), text);
    }
    for line in diagnostic.detail.lines() {
        add(&format!("  {line}"), text);
    }
}

fn add(line: &str, text: &mut String) {
    text.push_str(line.trim_end());
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use terraform_driver::events::read_all;

    use super::*;

    fn rendered(stream: &str) -> String {
        let mut text = String::new();
        read_all(stream.as_bytes(), |item| render(&item, &mut text));
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
        let exit: Exit = serde_json::from_value(serde_json::json!(
            {"code": 1, "signal": null, "stop": null, "finished": "2026-01-01T00:00:01.5Z"}
        ))
        .unwrap();
        assert_eq!(ending(Some(&exit), false), "terraform ended with 1 at 2026-01-01T00:00:01Z");
        assert!(ending(None, true).contains("still runs"));
        assert!(ending(None, false).contains("nobody wrote down"));
    }
}
