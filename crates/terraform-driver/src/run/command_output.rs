//! Runs one terraform command from start to end and collects its output.

use std::{path::Path, time::Duration};

use lease_deadline::RunLease;
use tokio_util::sync::CancellationToken;

use super::{
    driver::{Driver, StepContext, StepError, StepPhase},
    handle::{RunCompletion, RunHandle},
    reattach::{REATTACH_VARIABLE, ReattachLease, mentions_missing_schema},
    run_dir::{RunDir, RunExit, RunSpec, StopReason},
};
use crate::{
    clock,
    command::Invocation,
    events::{self, Diagnostic, EventKind, LineSplitter, StreamItem, TerraformProgress},
    workspace::{WorkspaceDir, files::read_tail},
};

/// Lines of plain output that are kept for an error message.
const TAIL_LINES: usize = 20;

/// Added to the output of a command that was confined and was denied something.
const CONFINED: &str = "capt confines the run: it may use its own workspace, HOME and TMPDIR, and TCP ports of HTTPS and of the configured \
    endpoints (docs/security.md; an administrator can disable this with --isolation=off)";

/// Lines of plain output that are kept in memory; twice as many at most.
const MAX_TEXT_LINES: usize = 200;

/// Characters of such a line.
const MAX_LINE_CHARS: usize = 4096;

/// Diagnostics that are kept in memory.
const MAX_DIAGNOSTICS: usize = 200;

/// Bytes of standard error that are read.
const MAX_STDERR_BYTES: u64 = 256 * 1024;

/// Grace period of commands that change nothing.
const READ_ONLY_GRACE: Duration = Duration::from_secs(20);

/// Collected output of a command.
#[derive(Debug, Default)]
pub(super) struct CommandOutput {
    pub(super) progress: TerraformProgress,
    pub(super) diagnostics: Vec<Diagnostic>,
    pub(super) text: Vec<String>,
}

impl CommandOutput {
    /// Whether the command failed because a schema was missing.
    pub(super) fn is_missing_schema(&self) -> bool {
        let told =
            |it: &Diagnostic| mentions_missing_schema(&it.summary) || mentions_missing_schema(&it.detail);
        self.diagnostics.iter().any(told) || self.text.iter().any(|line| mentions_missing_schema(line))
    }

    /// Adds the reason to a failure at something that the confinement does not allow.
    fn explain_denial(&mut self) {
        let is_denial = |text: &str| {
            let text = text.to_lowercase();
            text.contains("permission denied") || text.contains("operation not permitted")
        };
        let denied = |it: &&mut Diagnostic| is_denial(&it.summary) || is_denial(&it.detail);
        if let Some(diagnostic) = self.diagnostics.iter_mut().find(denied) {
            diagnostic.detail = format!("{} ({CONFINED})", diagnostic.detail);
        } else if self.text.iter().any(|line| is_denial(line)) {
            self.text.push(CONFINED.to_owned());
        }
    }

    /// Records a line of plain output, unless it looks like a part of a state: a command without an event stream prints the state
    /// that it cannot save, secrets included, and this text is displayed.
    fn record_text(&mut self, line: &str) {
        let start = line.trim_start();
        let is_member = start.starts_with('"') && start.contains("\":");
        if !is_member && !start.starts_with(['{', '}', '[', ']']) {
            self.push_text(line);
        }
    }

    /// Keeps the last lines, and the beginning of each.
    fn push_text(&mut self, line: &str) {
        if self.text.len() >= 2 * MAX_TEXT_LINES {
            self.text.drain(..MAX_TEXT_LINES);
        }
        self.text.push(line.chars().take(MAX_LINE_CHARS).collect());
    }

    fn record(&mut self, item: StreamItem<'_>) {
        let StreamItem::Event(event) = item else { return };
        self.progress.observe(&event);
        match event.kind {
            EventKind::Diagnostic(diagnostic) if self.diagnostics.len() < MAX_DIAGNOSTICS => {
                self.diagnostics.push(diagnostic);
            }
            EventKind::Text => self.record_text(event.message.as_str()),
            EventKind::Incomplete => self.push_text(event.message.as_str()),
            _ => {}
        }
    }
}

impl Driver {
    /// Runs a command to its end and returns its exit code and output.
    pub(super) async fn run_command(
        &self,
        job: &StepContext<'_>,
        phase: StepPhase,
        mut invocation: Invocation,
    ) -> Result<(i32, CommandOutput), StepError> {
        if job.stop.is_cancelled() {
            return Err(StepError::Interrupted { phase });
        }
        check_lease(job, phase)?;
        let spec = self.run_spec(job, phase, &invocation);
        let dir = RunHandle::new_dir(job.workspace, &spec);
        let lease = acquire_reattach((job, phase), &mut invocation, &dir.processes_path()).await?;
        let outcome = self.run_supervised((job, phase), &invocation, (&spec, &dir)).await;
        if let (Some(source), Some(lease)) = (job.reattach, lease) {
            source.release(lease).await;
        }
        outcome
    }

    async fn run_supervised(
        &self,
        (job, phase): (&StepContext<'_>, StepPhase),
        invocation: &Invocation,
        (spec, dir): (&RunSpec, &RunDir),
    ) -> Result<(i32, CommandOutput), StepError> {
        let run = RunHandle::start(job.workspace, spec, dir.clone(), &invocation.env, &self.shim)?;
        let (ended, mut heard) = follow_run(run, phase, job, job.stop).await?;
        if let Some(bytes) = read_tail(&dir.stderr_path(), MAX_STDERR_BYTES)? {
            String::from_utf8_lossy(&bytes).lines().for_each(|line| heard.record_text(line));
        }
        let code = exit_code(&ended, phase)?;
        if code != 0 && !invocation.wrapper.is_empty() {
            heard.explain_denial();
        }
        Ok((code, heard))
    }

    fn run_spec(&self, job: &StepContext<'_>, phase: StepPhase, invocation: &Invocation) -> RunSpec {
        let applies = matches!(phase, StepPhase::Applying | StepPhase::Destroying);
        let (program, args) = invocation.command_line();
        RunSpec {
            command: invocation.args.first().cloned().unwrap_or_default(),
            program,
            args,
            cwd: invocation.cwd.clone(),
            created: clock::now(),
            grace: stop_grace(phase, job.workspace.has_remote_state(), self.limits.grace),
            silence: applies.then_some(self.limits.silence),
            deadline: self.limits.deadlines.of(phase),
            snapshots: job.workspace.snapshots_dir(),
            disk_reserve: if applies { self.limits.disk_reserve + 3 * state_size(job.workspace) } else { 0 },
            lease: job.lease.filter(|_| may_change(phase)).cloned(),
            max_log: Some(self.limits.max_log),
        }
    }
}

/// Fails if a command of this phase may not start, because the operator may not be the leader any more.
pub(super) fn check_lease(job: &StepContext<'_>, phase: StepPhase) -> Result<(), StepError> {
    match job.lease.filter(|_| may_change(phase)).map(RunLease::check) {
        Some(Err(error)) => {
            tracing::warn!(%phase, error = &error as &dyn std::error::Error, "terraform is not started");
            Err(StepError::LeaseLost { phase })
        }
        Some(Ok(())) | None => Ok(()),
    }
}

/// Whether the commands of a phase may change the state or the cloud. The others may go on without the Lease.
fn may_change(phase: StepPhase) -> bool {
    matches!(phase, StepPhase::Settling | StepPhase::Applying | StepPhase::Destroying)
}

fn state_size(workspace: &WorkspaceDir) -> u64 {
    workspace.state_path().metadata().map_or(0, |file| file.len())
}

/// Grace period of a stop. A read-only command has nothing to lose, and terraform does not always stop its providers, which may
/// wait for ever. A remote backend would stay locked, though, so it gets the full period.
fn stop_grace(phase: StepPhase, remote: bool, most: Duration) -> Duration {
    let looks = matches!(phase, StepPhase::Initialising | StepPhase::Planning);
    if looks && !remote { most.min(READ_ONLY_GRACE) } else { most }
}

/// Acquires running providers for a command and sets them in its environment.
pub(super) async fn acquire_reattach(
    (job, phase): (&StepContext<'_>, StepPhase),
    invocation: &mut Invocation,
    processes: &Path,
) -> Result<Option<ReattachLease>, StepError> {
    let Some(source) = job.reattach else { return Ok(None) };
    let lease = source.acquire(job, phase, processes).await?;
    if let Some(lease) = &lease {
        invocation.env.insert(REATTACH_VARIABLE.to_owned(), lease.reattach.clone());
    }
    Ok(lease)
}

/// Follows a run, collects its output and reports progress.
pub(super) async fn follow_run(
    run: RunHandle,
    phase: StepPhase,
    job: &StepContext<'_>,
    stop: &CancellationToken,
) -> Result<(RunCompletion, CommandOutput), StepError> {
    let mut heard = CommandOutput::default();
    let mut lines = LineSplitter::new(events::LINE_LIMIT);
    (job.on_progress)(phase, &heard.progress);
    let ended = run
        .follow(stop, |chunk| {
            events::read_chunk(&mut lines, chunk, |item| heard.record(item));
            (job.on_progress)(phase, &heard.progress);
        })
        .await?;
    lines.finish(|line| {
        if let events::StreamLine::Complete(bytes) = line {
            heard.record(StreamItem::Event(events::Event::parse(bytes)));
        }
    });
    Ok((ended, heard))
}

/// Exit code of a run; a stopped or killed run is an error of its own.
fn exit_code(ended: &RunCompletion, phase: StepPhase) -> Result<i32, StepError> {
    match ended {
        // A command that completes despite the stop has succeeded.
        RunCompletion::Exited(RunExit { code: Some(0), .. }) => Ok(0),
        RunCompletion::Exited(RunExit { stop: Some(stop), .. }) => match stop.reason {
            StopReason::Requested => Err(StepError::Interrupted { phase }),
            StopReason::LeaseLost => Err(StepError::LeaseLost { phase }),
            reason => Err(StepError::Hung { phase, reason }),
        },
        RunCompletion::Exited(RunExit { code: Some(code), .. }) => Ok(*code),
        RunCompletion::Exited(RunExit { code: None, .. }) | RunCompletion::Lost => {
            Err(StepError::Killed { phase })
        }
    }
}

/// Error of a command with an unexpected exit code.
pub(super) fn step_failed(phase: StepPhase, heard: CommandOutput) -> StepError {
    let skip = heard.text.len().saturating_sub(TAIL_LINES);
    StepError::Failed {
        phase,
        diagnostics: heard.diagnostics.into_iter().filter(Diagnostic::is_error).collect(),
        tail: heard.text[skip..].join("\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::PhaseDeadlines;

    #[test]
    fn a_torn_emergency_state_is_not_in_the_text_of_an_error() {
        let mut output = CommandOutput::default();
        let torn = r#"{"@level":"error","@message":"Emergency state dump","state":{"password":"hunter2"#;
        output.record(StreamItem::Event(events::Event::parse(torn.as_bytes())));
        for line in ["Error: Failed to persist state", "{", "  \"password\": \"hunter2\",", "  [", "}"] {
            output.record(StreamItem::Event(events::Event::parse(line.as_bytes())));
        }
        let incomplete = "(incomplete line of terraform's event stream)";
        assert_eq!(output.text, [incomplete, "Error: Failed to persist state"]);
    }

    #[test]
    fn h6_each_phase_has_a_deadline() {
        let (init, plan, apply) = (Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(3));
        let deadlines = PhaseDeadlines { init, plan, apply: Some(apply) };
        for (phase, expected) in [
            (StepPhase::Initialising, init),
            (StepPhase::Settling, plan),
            (StepPhase::Planning, plan),
            (StepPhase::Applying, apply),
            (StepPhase::Destroying, apply),
        ] {
            assert_eq!(deadlines.of(phase), Some(expected), "{phase}");
        }
    }

    #[test]
    fn only_what_has_nothing_to_lose_is_ended_soon() {
        let most = Duration::from_mins(10);
        assert_eq!(stop_grace(StepPhase::Planning, false, most), READ_ONLY_GRACE);
        assert_eq!(stop_grace(StepPhase::Planning, false, Duration::from_secs(1)), Duration::from_secs(1));
        assert_eq!(stop_grace(StepPhase::Planning, true, most), most, "its backend would stay locked");
        for phase in [StepPhase::Applying, StepPhase::Destroying, StepPhase::Settling] {
            assert_eq!(stop_grace(phase, false, most), most);
        }
    }
}
