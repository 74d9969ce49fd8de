//! `capt init`: the init process (PID 1) of a container. Restarts the operator when it crashes, reaps orphaned processes,
//! and keeps the container alive while terraform processes run.

use std::{
    collections::{BTreeSet, VecDeque},
    ffi::OsString,
    time::{Duration, Instant},
};

use anyhow::Context;
use terraform_driver::exec::child_reaper::{
    ChildProcess, ForwardedSignal, ReapResult, become_subreaper, children, forward_signal, reap,
    spawn_inherited,
};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{
    output::{self, ExitStatus},
    time,
};

/// Arguments of `capt init`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  capt init -- capt run --leader-elect          as the entry point of an image
  capt init --grace 20m -- capt run

A command that exits with 0, or with 2 (usage error), is not restarted.
After SIGTERM, waits for running terraform processes; a second SIGTERM exits immediately.")]
pub(super) struct Args {
    /// How long to wait for running terraform processes after the command has exited.
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = time::parse_duration, env = "CAPT_GRACE")]
    grace: Duration,
    /// Maximum restarts within ten minutes.
    #[arg(long, value_name = "N", default_value_t = 10)]
    restarts: usize,
    /// The command and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// A single-threaded runtime is enough: this process mostly waits.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitStatus> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let code = runtime.block_on(supervise(args))?;
    Ok(ExitStatus::Child(code))
}

async fn supervise(args: &Args) -> anyhow::Result<u8> {
    become_subreaper().context("cannot become a child subreaper")?;
    let mut signals = Signals::new().context("cannot install signal handlers")?;
    let mut policy = RestartPolicy { max_restarts: args.restarts, exits: VecDeque::new() };
    let mut stopping = false;
    loop {
        let child = spawn_command(&args.command)?;
        let code = wait_for_child(child, &mut signals, &mut stopping).await?;
        match policy.decide(code, stopping, Instant::now()) {
            RestartDecision::Restart(pause) => {
                output::print_message(&format!(
                    "the command exited unexpectedly with code {code}; restarting it in {}",
                    time::format_duration(pause)
                ));
                stopping = wait_before_restart(pause, &mut signals).await?;
                if stopping {
                    return wait_for_orphans(args.grace, code, &mut signals).await;
                }
            }
            RestartDecision::Exit => return wait_for_orphans(args.grace, code, &mut signals).await,
            RestartDecision::GiveUp => {
                output::print_message(&format!("the command exited with code {code} too often; giving up"));
                return wait_for_orphans(args.grace, code, &mut signals).await;
            }
        }
    }
}

fn spawn_command(command: &[OsString]) -> anyhow::Result<i32> {
    let (program, args) = command.split_first().context("no command given; pass one after `--`")?;
    spawn_inherited(program, args).with_context(|| {
        format!("cannot start {}; check that the program after `--` exists", program.to_string_lossy())
    })
}

/// Forwards signals and reaps processes until the child exits; returns its exit code.
async fn wait_for_child(child: i32, signals: &mut Signals, stopping: &mut bool) -> anyhow::Result<u8> {
    loop {
        while let ReapResult::Exited { pid, code } = reap()? {
            if pid == child {
                return Ok(code);
            }
        }
        if let Some(signal) = signals.next().await {
            *stopping |= signal != ForwardedSignal::HangUp;
            forward_signal(child, signal)?;
        }
    }
}

/// Waits before the next attempt; returns whether a stop signal arrived.
async fn wait_before_restart(pause: Duration, signals: &mut Signals) -> anyhow::Result<bool> {
    let over = tokio::time::sleep(pause);
    tokio::pin!(over);
    loop {
        while let ReapResult::Exited { .. } = reap()? {}
        tokio::select! {
            () = &mut over => return Ok(false),
            signal = signals.next() => {
                if signal.is_some_and(|signal| signal != ForwardedSignal::HangUp) {
                    return Ok(true);
                }
            }
        }
    }
}

/// Waits until no child process is left or the grace period is over. Shims exit with their terraform; gateways are stopped
/// when nothing else is left, because they would wait for new runs until their idle timeout.
async fn wait_for_orphans(grace: Duration, code: u8, signals: &mut Signals) -> anyhow::Result<u8> {
    let over = tokio::time::sleep(grace);
    tokio::pin!(over);
    let mut announced = false;
    let mut stopped_gateways = BTreeSet::new();
    loop {
        loop {
            match reap()? {
                ReapResult::Exited { .. } => {}
                ReapResult::NoChildren => return Ok(code),
                ReapResult::NoneExited => break,
            }
        }
        for gateway in gateways_to_stop(&children()?) {
            if stopped_gateways.insert(gateway) {
                forward_signal(gateway, ForwardedSignal::Terminate)?;
            }
        }
        if !announced {
            announced = true;
            output::print_message(&format!(
                "waiting up to {} for running processes",
                time::format_duration(grace)
            ));
        }
        let leave = tokio::select! {
            () = &mut over => true,
            signal = signals.next() => signal.is_some_and(|signal| signal != ForwardedSignal::HangUp),
        };
        if leave {
            output::print_warning(
                "exiting while terraform processes still run; resources they completed are recorded in the state",
            );
            return Ok(code);
        }
    }
}

/// The gateway daemons, if no other process is left that could use them.
fn gateways_to_stop(children: &[ChildProcess]) -> Vec<i32> {
    let is_gateway = |child: &ChildProcess| matches!(child.command.as_slice(), [_, group, command, ..] if group == "gateway" && command == "serve");
    // A zombie without a command line is reaped in the next round.
    if children.iter().all(|child| child.command.is_empty() || is_gateway(child)) {
        children.iter().filter(|child| is_gateway(child)).map(|child| child.pid).collect()
    } else {
        Vec::new()
    }
}

/// The signals this process handles.
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

    /// The next signal to forward; `None` if a child may have exited.
    async fn next(&mut self) -> Option<ForwardedSignal> {
        tokio::select! {
            _ = self.terminate.recv() => Some(ForwardedSignal::Terminate),
            _ = self.interrupt.recv() => Some(ForwardedSignal::Interrupt),
            _ = self.hang_up.recv() => Some(ForwardedSignal::HangUp),
            _ = self.child.recv() => None,
            // SIGCHLDs coalesce; polling reaps whatever a lost signal missed.
            () = tokio::time::sleep(Duration::from_secs(1)) => None,
        }
    }
}

/// Restart policy of the command: exponential backoff, limited restarts.
struct RestartPolicy {
    max_restarts: usize,
    exits: VecDeque<Instant>,
}

#[derive(Debug, PartialEq, Eq)]
enum RestartDecision {
    Restart(Duration),
    Exit,
    GiveUp,
}

const RESTART_WINDOW: Duration = Duration::from_mins(10);
const MAX_BACKOFF_SECONDS: u64 = 30;

impl RestartPolicy {
    fn decide(&mut self, code: u8, stopping: bool, now: Instant) -> RestartDecision {
        if stopping || matches!(code, 0 | 2) {
            return RestartDecision::Exit;
        }
        self.exits.retain(|death| now.duration_since(*death) < RESTART_WINDOW);
        if self.exits.len() >= self.max_restarts {
            return RestartDecision::GiveUp;
        }
        let doubled = 1_u64.checked_shl(u32::try_from(self.exits.len()).unwrap_or(u32::MAX));
        self.exits.push_back(now);
        RestartDecision::Restart(Duration::from_secs(
            doubled.unwrap_or(MAX_BACKOFF_SECONDS).min(MAX_BACKOFF_SECONDS),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(restarts: usize) -> RestartPolicy {
        RestartPolicy { max_restarts: restarts, exits: VecDeque::new() }
    }

    fn child(pid: i32, command: &[&str]) -> ChildProcess {
        ChildProcess { pid, command: command.iter().map(OsString::from).collect() }
    }

    #[test]
    fn gateways_are_stopped_once_nothing_else_runs() {
        let gateway = child(7, &["/bin/capt", "gateway", "serve", "--data", "/d"]);
        let shim = child(8, &["/bin/capt", "shim", "gateway", "serve"]);
        let zombie = child(9, &[]);
        assert_eq!(gateways_to_stop(&[gateway.clone(), shim.clone()]), [] as [i32; 0]);
        assert_eq!(gateways_to_stop(&[gateway.clone(), zombie]), [7]);
        assert_eq!(gateways_to_stop(&[gateway]), [7]);
        assert_eq!(gateways_to_stop(&[shim]), [] as [i32; 0]);
    }

    #[test]
    fn pauses_grow_and_stay_bearable() {
        let (mut policy, now) = (policy(8), Instant::now());
        let pauses: Vec<RestartDecision> = (0..8).map(|_| policy.decide(1, false, now)).collect();
        let wanted = [1, 2, 4, 8, 16, 30, 30, 30].map(|s| RestartDecision::Restart(Duration::from_secs(s)));
        assert_eq!(pauses, wanted);
        assert_eq!(policy.decide(1, false, now), RestartDecision::GiveUp);
    }

    #[test]
    fn a_death_long_ago_does_not_count() {
        let (mut policy, now) = (policy(1), Instant::now());
        assert_eq!(policy.decide(70, false, now), RestartDecision::Restart(Duration::from_secs(1)));
        assert_eq!(
            policy.decide(70, false, now + RESTART_WINDOW),
            RestartDecision::Restart(Duration::from_secs(1))
        );
        assert_eq!(policy.decide(70, false, now + RESTART_WINDOW), RestartDecision::GiveUp);
    }

    #[test]
    fn what_ends_as_it_was_asked_to_or_never_can_begin_is_left_alone() {
        let mut policy = policy(9);
        assert_eq!(policy.decide(0, false, Instant::now()), RestartDecision::Exit);
        assert_eq!(policy.decide(2, false, Instant::now()), RestartDecision::Exit);
        assert_eq!(policy.decide(143, true, Instant::now()), RestartDecision::Exit);
    }
}
