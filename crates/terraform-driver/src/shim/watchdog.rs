//! Watchdog and stop sequence of a run: one SIGINT to terraform, a grace period, then SIGKILL to the process group.

use std::{io, time::Duration};

use tokio::time::Instant;

use crate::{
    clock, exec,
    run::run_dir::{RunStop, StopReason},
};

/// Detects a silent or overdue engine.
pub(super) struct Watchdog {
    silence: Option<Duration>,
    deadline: Option<Instant>,
    last_output: (u64, Instant),
}

impl Watchdog {
    pub(super) fn new(silence: Option<Duration>, deadline: Option<Duration>, now: Instant) -> Self {
        Self { silence, deadline: deadline.map(|limit| now + limit), last_output: (0, now) }
    }

    /// Returns why the run must be stopped, if it must; `said` is the number of bytes written so far. Terraform's heartbeat in
    /// `apply` is ten seconds, so a long silence is a hang, while an EKS cluster may well take 45 minutes of heartbeats.
    pub(super) fn expired(&mut self, said: u64, now: Instant) -> Option<StopReason> {
        if said != self.last_output.0 {
            self.last_output = (said, now);
        }
        if self.deadline.is_some_and(|deadline| now >= deadline) {
            return Some(StopReason::Overdue);
        }
        let quiet = now.duration_since(self.last_output.1);
        self.silence.is_some_and(|limit| quiet >= limit).then_some(StopReason::Silent)
    }
}

/// Stop sequence of one run. Idempotent: a second SIGINT would make terraform abandon its providers.
pub(super) struct StopSequence {
    pid: i32,
    grace: Duration,
    started: Option<(RunStop, Instant)>,
}

impl StopSequence {
    pub(super) fn new(pid: i32, grace: Duration) -> Self {
        Self { pid, grace, started: None }
    }

    pub(super) fn start(&mut self, reason: StopReason) -> io::Result<()> {
        if self.started.is_none() {
            self.started = Some((RunStop { reason, at: clock::now(), killed: false }, Instant::now()));
            exec::send_interrupt(self.pid)?;
        }
        Ok(())
    }

    pub(super) fn kill_if_overdue(&mut self) -> io::Result<()> {
        if let Some((stop, since)) = &mut self.started
            && since.elapsed() >= self.grace
        {
            stop.killed = true;
            exec::kill_group(self.pid)?;
        }
        Ok(())
    }

    pub(super) fn stop_record(&self) -> Option<RunStop> {
        self.started.map(|(stop, _)| stop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_run_that_keeps_talking_is_never_hung() {
        let start = Instant::now();
        let mut patience = Watchdog::new(Some(90 * SECOND), None, start);
        for beat in 1..300_u32 {
            assert_eq!(patience.expired(u64::from(beat), start + SECOND * 10 * beat), None);
        }
    }

    #[test]
    fn silence_is_a_hang_once_it_has_lasted() {
        let start = Instant::now();
        let mut patience = Watchdog::new(Some(90 * SECOND), None, start);
        assert_eq!(patience.expired(7, start + 10 * SECOND), None);
        assert_eq!(patience.expired(7, start + 99 * SECOND), None);
        assert_eq!(patience.expired(7, start + 100 * SECOND), Some(StopReason::Silent));
    }

    #[test]
    fn a_deadline_counts_from_the_start_whatever_is_said() {
        let start = Instant::now();
        let mut patience = Watchdog::new(None, Some(30 * SECOND), start);
        assert_eq!(patience.expired(1, start + 29 * SECOND), None);
        assert_eq!(patience.expired(2, start + 30 * SECOND), Some(StopReason::Overdue));
    }
}
