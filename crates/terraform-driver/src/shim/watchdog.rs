//! When and how a run is stopped: one SIGINT to terraform, patience, then the end of the whole group.

use std::{io, time::Duration};

use tokio::time::Instant;

use crate::{
    clock, exec,
    run::record::{Stop, StopReason},
};

/// Looks whether the engine is still making itself heard.
pub(super) struct Patience {
    silence: Option<Duration>,
    deadline: Option<Instant>,
    heard: (u64, Instant),
}

impl Patience {
    pub(super) fn new(silence: Option<Duration>, deadline: Option<Duration>, now: Instant) -> Self {
        Self { silence, deadline: deadline.map(|limit| now + limit), heard: (0, now) }
    }

    /// `said` is how much it has written so far. Terraform's heartbeat in `apply` is ten seconds, so a long
    /// silence there is a hang, while forty-five minutes of heartbeats are an ordinary EKS cluster.
    pub(super) fn spent(&mut self, said: u64, now: Instant) -> Option<StopReason> {
        if said != self.heard.0 {
            self.heard = (said, now);
        }
        if self.deadline.is_some_and(|deadline| now >= deadline) {
            return Some(StopReason::Overdue);
        }
        let quiet = now.duration_since(self.heard.1);
        self.silence.is_some_and(|limit| quiet >= limit).then_some(StopReason::Silent)
    }
}

/// The stop of one run. Asking twice changes nothing: a second SIGINT would make terraform abandon what
/// its providers are doing.
pub(super) struct Stopping {
    pid: i32,
    grace: Duration,
    begun: Option<(Stop, Instant)>,
}

impl Stopping {
    pub(super) fn new(pid: i32, grace: Duration) -> Self {
        Self { pid, grace, begun: None }
    }

    pub(super) fn begin(&mut self, reason: StopReason) -> io::Result<()> {
        if self.begun.is_none() {
            self.begun = Some((Stop { reason, at: clock::now(), killed: false }, Instant::now()));
            exec::interrupt(self.pid)?;
        }
        Ok(())
    }

    pub(super) fn kill_if_overdue(&mut self) -> io::Result<()> {
        if let Some((stop, since)) = &mut self.begun
            && since.elapsed() >= self.grace
        {
            stop.killed = true;
            exec::kill_group(self.pid)?;
        }
        Ok(())
    }

    pub(super) fn stop(&self) -> Option<Stop> {
        self.begun.map(|(stop, _)| stop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_run_that_keeps_talking_is_never_hung() {
        let start = Instant::now();
        let mut patience = Patience::new(Some(90 * SECOND), None, start);
        for beat in 1..300_u32 {
            assert_eq!(patience.spent(u64::from(beat), start + SECOND * 10 * beat), None);
        }
    }

    #[test]
    fn silence_is_a_hang_once_it_has_lasted() {
        let start = Instant::now();
        let mut patience = Patience::new(Some(90 * SECOND), None, start);
        assert_eq!(patience.spent(7, start + 10 * SECOND), None);
        assert_eq!(patience.spent(7, start + 99 * SECOND), None);
        assert_eq!(patience.spent(7, start + 100 * SECOND), Some(StopReason::Silent));
    }

    #[test]
    fn a_deadline_counts_from_the_start_whatever_is_said() {
        let start = Instant::now();
        let mut patience = Patience::new(None, Some(30 * SECOND), start);
        assert_eq!(patience.spent(1, start + 29 * SECOND), None);
        assert_eq!(patience.spent(2, start + 30 * SECOND), Some(StopReason::Overdue));
    }
}
