//! One terraform command from start to end, heard and judged.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{
    driver::{Driver, Job, Phase, StepError},
    handle::{Ended, Run},
    lend::{Loan, VARIABLE, misses_a_schema},
    record::{Exit, RunSpec, StopReason},
};
use crate::{
    clock,
    command::Invocation,
    events::{self, Diagnostic, Item, Kind, Lines, Progress},
    workspace::files::read_optional,
};

/// How much of what is not part of the stream is kept for an error message.
const TAIL_LINES: usize = 20;

/// How long one that only looks is waited for.
const LOOKS: Duration = Duration::from_secs(20);

/// What a command said.
#[derive(Debug, Default)]
pub(super) struct Heard {
    pub(super) progress: Progress,
    pub(super) diagnostics: Vec<Diagnostic>,
    pub(super) text: Vec<String>,
}

impl Heard {
    /// Whether it ended because it was given too few schemas.
    pub(super) fn misses_a_schema(&self) -> bool {
        let told = |it: &Diagnostic| misses_a_schema(&it.summary) || misses_a_schema(&it.detail);
        self.diagnostics.iter().any(told) || self.text.iter().any(|line| misses_a_schema(line))
    }

    fn take(&mut self, item: Item<'_>) {
        let Item::Event(event) = item else { return };
        self.progress.observe(&event);
        match event.kind {
            Kind::Diagnostic(diagnostic) => self.diagnostics.push(diagnostic),
            Kind::Text => self.text.push(event.message.as_str().to_owned()),
            _ => {}
        }
    }
}

impl Driver {
    /// Runs a command to its end; its exit code, if terraform ended by itself.
    pub(super) async fn command(
        &self,
        job: &Job<'_>,
        phase: Phase,
        mut invocation: Invocation,
    ) -> Result<(i32, Heard), StepError> {
        if job.stop.is_cancelled() {
            return Err(StepError::Interrupted { phase });
        }
        let loan = borrow(job, phase, &mut invocation).await?;
        let outcome = self.carry_out(job, phase, &invocation).await;
        if let (Some(lender), Some(loan)) = (job.lender, loan) {
            lender.give_back(loan).await;
        }
        outcome
    }

    async fn carry_out(
        &self,
        job: &Job<'_>,
        phase: Phase,
        invocation: &Invocation,
    ) -> Result<(i32, Heard), StepError> {
        let spec = self.spec(job, phase, invocation);
        let dir = Run::new_dir(job.workspace, &spec);
        let run = Run::start(job.workspace, &spec, dir.clone(), &invocation.env, &self.shim)?;
        let (ended, mut heard) = follow(run, phase, job, job.stop).await?;
        if let Some(bytes) = read_optional(&dir.stderr())? {
            heard.text.extend(String::from_utf8_lossy(&bytes).lines().map(str::to_owned));
        }
        Ok((judge(&ended, phase)?, heard))
    }

    fn spec(&self, job: &Job<'_>, phase: Phase, invocation: &Invocation) -> RunSpec {
        let applies = matches!(phase, Phase::Applying | Phase::Destroying);
        RunSpec {
            command: invocation.args.first().cloned().unwrap_or_default(),
            program: invocation.program.clone(),
            args: invocation.args.clone(),
            cwd: invocation.cwd.clone(),
            created: clock::now(),
            grace: grace(phase, job.workspace.has_remote_state(), self.limits.grace),
            silence: applies.then_some(self.limits.silence),
            deadline: (!applies).then_some(self.limits.deadline),
            snapshots: job.workspace.meta().join("state"),
        }
    }
}

/// How long a command that was asked to stop is waited for. One that only looks has nothing to lose, and terraform does not
/// always ask its providers to stop: what they wait for may never come. A backend of one's own would stay locked, though.
fn grace(phase: Phase, remote: bool, most: Duration) -> Duration {
    let looks = matches!(phase, Phase::Initialising | Phase::Planning);
    if looks && !remote { most.min(LOOKS) } else { most }
}

/// Borrows running providers for a command, if somebody lends any.
pub(super) async fn borrow(
    job: &Job<'_>,
    phase: Phase,
    invocation: &mut Invocation,
) -> Result<Option<Loan>, StepError> {
    let Some(lender) = job.lender else { return Ok(None) };
    let loan = lender.lend(job, phase).await?;
    if let Some(loan) = &loan {
        invocation.env.insert(VARIABLE.to_owned(), loan.reattach.clone());
    }
    Ok(loan)
}

/// Follows a run and hands on what it says.
pub(super) async fn follow(
    run: Run,
    phase: Phase,
    job: &Job<'_>,
    stop: &CancellationToken,
) -> Result<(Ended, Heard), StepError> {
    let mut heard = Heard::default();
    let mut lines = Lines::new(events::LINE_LIMIT);
    (job.hear)(phase, &heard.progress);
    let ended = run
        .follow(stop, |chunk| {
            events::read_chunk(&mut lines, chunk, |item| heard.take(item));
            (job.hear)(phase, &heard.progress);
        })
        .await?;
    lines.finish(|line| {
        if let events::Line::Whole(bytes) = line {
            heard.take(Item::Event(events::Event::parse(bytes)));
        }
    });
    Ok((ended, heard))
}

/// A run that was stopped has not failed, and one that was killed has not said why.
fn judge(ended: &Ended, phase: Phase) -> Result<i32, StepError> {
    match ended {
        // Asked to stop, and done anyway: then it is done.
        Ended::Known(Exit { code: Some(0), .. }) => Ok(0),
        Ended::Known(Exit { stop: Some(stop), .. }) => match stop.reason {
            StopReason::Requested => Err(StepError::Interrupted { phase }),
            reason => Err(StepError::Hung { phase, reason }),
        },
        Ended::Known(Exit { code: Some(code), .. }) => Ok(*code),
        Ended::Known(Exit { code: None, .. }) | Ended::Lost => Err(StepError::Killed { phase }),
    }
}

/// The error of a command that ended with a code it should not have.
pub(super) fn failed(phase: Phase, heard: Heard) -> StepError {
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

    #[test]
    fn only_what_has_nothing_to_lose_is_ended_soon() {
        let most = Duration::from_mins(10);
        assert_eq!(grace(Phase::Planning, false, most), LOOKS);
        assert_eq!(grace(Phase::Planning, false, Duration::from_secs(1)), Duration::from_secs(1));
        assert_eq!(grace(Phase::Planning, true, most), most, "its backend would stay locked");
        for phase in [Phase::Applying, Phase::Destroying, Phase::Settling] {
            assert_eq!(grace(phase, false, most), most);
        }
    }
}
