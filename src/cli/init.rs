//! `capt init`: the first process of a container. It starts the operator again when that dies, buries whoever
//! has no parent any more, and does not let the container end under a running terraform.

use std::{
    collections::VecDeque,
    ffi::OsString,
    time::{Duration, Instant},
};

use anyhow::Context;
use terraform_driver::exec::children::{HandedOn, Reaped, adopt_orphans, hand_on, reap, stand_in};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{
    output::{self, ExitStatus},
    time,
};

/// What to start, and how patiently.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  capt init -- capt run --leader-elect          as the entry point of an image
  capt init --grace 20m -- capt run

A command that ends with 0, or with 2 for a mistake in its arguments, is not started again.
After SIGTERM the end of every running terraform is waited for; a second one does not wait.")]
pub(super) struct Args {
    /// How long to wait for running terraforms after the command has ended.
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = time::duration, env = "CAPT_GRACE")]
    grace: Duration,
    /// How often the command may die within ten minutes before we give up.
    #[arg(long, value_name = "N", default_value_t = 10)]
    restarts: usize,
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// One thread is enough: nearly all of its life is waiting.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitStatus> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let code = runtime.block_on(live(args))?;
    Ok(ExitStatus::OfChild(code))
}

async fn live(args: &Args) -> anyhow::Result<u8> {
    adopt_orphans().context("cannot become the parent of those who lose theirs")?;
    let mut signals = Signals::new().context("cannot listen for signals")?;
    let mut policy = Policy { restarts: args.restarts, deaths: VecDeque::new() };
    let mut stopping = false;
    loop {
        let child = start(&args.command)?;
        let code = attend(child, &mut signals, &mut stopping).await?;
        match policy.after(code, stopping, Instant::now()) {
            Next::Again(pause) => {
                output::say(&format!(
                    "the command ended with {code}, which nobody asked for; it is started again in {}",
                    time::short(pause)
                ));
                stopping = rest(pause, &mut signals).await?;
                if stopping {
                    return bury(args.grace, code, &mut signals).await;
                }
            }
            Next::Leave => return bury(args.grace, code, &mut signals).await,
            Next::GiveUp => {
                output::say(&format!("the command ended with {code}, and did so too often; giving up"));
                return bury(args.grace, code, &mut signals).await;
            }
        }
    }
}

fn start(command: &[OsString]) -> anyhow::Result<i32> {
    let (program, args) = command.split_first().context("there is no command to start")?;
    stand_in(program, args).with_context(|| {
        format!("cannot start {}; name a program that exists after `--`", program.to_string_lossy())
    })
}

/// Until the child has ended; its exit code.
async fn attend(child: i32, signals: &mut Signals, stopping: &mut bool) -> anyhow::Result<u8> {
    loop {
        while let Reaped::Ended { pid, code } = reap()? {
            if pid == child {
                return Ok(code);
            }
        }
        if let Some(signal) = signals.next().await {
            *stopping |= signal != HandedOn::HangUp;
            hand_on(child, signal)?;
        }
    }
}

/// A pause before the next attempt; whether we were asked to end meanwhile.
async fn rest(pause: Duration, signals: &mut Signals) -> anyhow::Result<bool> {
    let over = tokio::time::sleep(pause);
    tokio::pin!(over);
    loop {
        while let Reaped::Ended { .. } = reap()? {}
        tokio::select! {
            () = &mut over => return Ok(false),
            signal = signals.next() => {
                if signal.is_some_and(|signal| signal != HandedOn::HangUp) {
                    return Ok(true);
                }
            }
        }
    }
}

/// Until nobody is left, or patience is. Shims end when their terraform has.
async fn bury(grace: Duration, code: u8, signals: &mut Signals) -> anyhow::Result<u8> {
    let over = tokio::time::sleep(grace);
    tokio::pin!(over);
    let mut told = false;
    loop {
        loop {
            match reap()? {
                Reaped::Ended { .. } => {}
                Reaped::Childless => return Ok(code),
                Reaped::Nobody => break,
            }
        }
        if !told {
            told = true;
            output::say(&format!("waiting up to {} for what still runs", time::short(grace)));
        }
        let leave = tokio::select! {
            () = &mut over => true,
            signal = signals.next() => signal.is_some_and(|signal| signal != HandedOn::HangUp),
        };
        if leave {
            output::warn(
                "leaving although something still runs; what terraform had finished is in its state",
            );
            return Ok(code);
        }
    }
}

/// What wakes us.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
    child: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
            child: signal(SignalKind::child())?,
        })
    }

    /// The next one to hand on; `None` if a child has ended, or may have.
    async fn next(&mut self) -> Option<HandedOn> {
        tokio::select! {
            _ = self.terminate.recv() => Some(HandedOn::Terminate),
            _ = self.interrupt.recv() => Some(HandedOn::Interrupt),
            _ = self.hang_up.recv() => Some(HandedOn::HangUp),
            _ = self.child.recv() => None,
            // Signals of one kind that come together are one; nobody is left unburied for long.
            () = tokio::time::sleep(Duration::from_secs(1)) => None,
        }
    }
}

/// When a command that died is started again.
struct Policy {
    restarts: usize,
    deaths: VecDeque<Instant>,
}

#[derive(Debug, PartialEq, Eq)]
enum Next {
    Again(Duration),
    Leave,
    GiveUp,
}

const WINDOW: Duration = Duration::from_mins(10);
const LONGEST_PAUSE: u64 = 30;

impl Policy {
    fn after(&mut self, code: u8, stopping: bool, now: Instant) -> Next {
        if stopping || matches!(code, 0 | 2) {
            return Next::Leave;
        }
        self.deaths.retain(|death| now.duration_since(*death) < WINDOW);
        if self.deaths.len() >= self.restarts {
            return Next::GiveUp;
        }
        let doubled = 1_u64.checked_shl(u32::try_from(self.deaths.len()).unwrap_or(u32::MAX));
        self.deaths.push_back(now);
        Next::Again(Duration::from_secs(doubled.unwrap_or(LONGEST_PAUSE).min(LONGEST_PAUSE)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(restarts: usize) -> Policy {
        Policy { restarts, deaths: VecDeque::new() }
    }

    #[test]
    fn pauses_grow_and_stay_bearable() {
        let (mut policy, now) = (policy(8), Instant::now());
        let pauses: Vec<Next> = (0..8).map(|_| policy.after(1, false, now)).collect();
        let wanted = [1, 2, 4, 8, 16, 30, 30, 30].map(|s| Next::Again(Duration::from_secs(s)));
        assert_eq!(pauses, wanted);
        assert_eq!(policy.after(1, false, now), Next::GiveUp);
    }

    #[test]
    fn a_death_long_ago_does_not_count() {
        let (mut policy, now) = (policy(1), Instant::now());
        assert_eq!(policy.after(70, false, now), Next::Again(Duration::from_secs(1)));
        assert_eq!(policy.after(70, false, now + WINDOW), Next::Again(Duration::from_secs(1)));
        assert_eq!(policy.after(70, false, now + WINDOW), Next::GiveUp);
    }

    #[test]
    fn what_ends_as_it_was_asked_to_or_never_can_begin_is_left_alone() {
        let mut policy = policy(9);
        assert_eq!(policy.after(0, false, Instant::now()), Next::Leave);
        assert_eq!(policy.after(2, false, Instant::now()), Next::Leave);
        assert_eq!(policy.after(143, true, Instant::now()), Next::Leave);
    }
}
