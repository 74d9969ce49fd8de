//! A background process that runs, and somebody who looks at what it does.

use std::time::Duration;

use anyhow::anyhow;
use kube::Client;
use tokio::{
    signal::unix::{SignalKind, signal},
    time::{Instant, sleep},
};

use super::Options;
use crate::{
    aws::{Cloud, account},
    cli::{
        access::connect,
        output::{self, ExitStatus},
        setup::Tools,
        show::{Show, follow},
        tree::{Node, Verdict},
        watch::Watched,
    },
    config::{AwsMode, Outer},
    local::{
        aws::LocalAws,
        up::{Server, Settings, Up},
    },
};

/// What can go wrong, and what takes long, is done here, where somebody reads what is said of it.
pub(super) async fn prepare(outer: &Outer, options: &Options, settings: &Settings) -> anyhow::Result<()> {
    let tools = Tools {
        engine: settings.engine.clone(),
        provider_mirror: settings.provider_mirror.clone(),
        no_gateway: settings.no_gateway,
        gateway: None,
    };
    let (_, discovery) = tools.find(outer).await?;
    discovery.notes.iter().for_each(|note| output::warn(note));
    match settings.aws {
        AwsMode::Local => {
            LocalAws::of(outer, &options.data.path(outer)).ensure(output::say).await?;
        }
        AwsMode::Real => {
            account(&Cloud::Real.sdk(None).await).await?;
        }
    }
    Ok(())
}

/// Finds the background process, or starts it.
pub(in crate::cli) async fn bring_up(
    outer: &Outer,
    options: &Options,
    up: &Up,
    settings: &Settings,
) -> anyhow::Result<Server> {
    if up.running()?.is_none() {
        prepare(outer, options, settings).await?;
    }
    let (server, started) = up.ensure(settings).await?;
    if started {
        output::say(&format!(
            "capt runs in the background (process {}); its log is {}",
            server.process.pid,
            up.place().log().display()
        ));
        server.notes.iter().for_each(|note| output::say(note));
    } else {
        output::say(&format!("capt runs already (process {})", server.process.pid));
    }
    Ok(server)
}

/// Somebody who looks.
pub(in crate::cli) struct Session {
    pub(in crate::cli) client: Client,
    pub(in crate::cli) up: Up,
    pub(in crate::cli) server: Server,
    /// What makes a command find the same data directory.
    pub(in crate::cli) flags: String,
    timeout: Option<Duration>,
}

/// Why somebody stopped looking.
pub(in crate::cli) enum Left {
    /// They went away.
    Detached,
    /// It took too long.
    TimedOut(Duration),
    /// There is nothing left to look at.
    Broken(anyhow::Error),
}

impl Left {
    /// How a command ends then.
    pub(in crate::cli) fn end(self, remedy: &str) -> anyhow::Result<ExitStatus> {
        match self {
            Self::Detached => {
                output::say(&format!("the background process goes on; {remedy}"));
                Ok(ExitStatus::Interrupted)
            }
            Self::TimedOut(patience) => Err(anyhow!(
                "it is not done after {}; the background process goes on; {remedy}",
                crate::cli::time::short(patience)
            )),
            Self::Broken(error) => Err(error),
        }
    }
}

impl Session {
    /// With the Kubernetes API of a background process.
    pub(in crate::cli) async fn open(
        up: Up,
        server: Server,
        flags: String,
        timeout: Option<Duration>,
    ) -> anyhow::Result<Self> {
        let client = connect(server.kubeconfig.as_deref(), server.context.as_deref()).await?;
        Ok(Self { client, up, server, flags, timeout })
    }

    /// Shows what happens until `done` has seen enough, or until there is a reason to stop looking.
    pub(in crate::cli) async fn follow<T>(
        &self,
        show: &mut Show,
        keep: impl Fn(Vec<Node>) -> Vec<Node>,
        done: impl FnMut(&[Node]) -> Option<T>,
    ) -> Result<T, Left> {
        let broken = |error: std::io::Error| Left::Broken(error.into());
        let mut terminate = signal(SignalKind::terminate()).map_err(broken)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(broken)?;
        // Who serves in the same process decides what a signal means there.
        let left = async {
            if self.is_ours() {
                return std::future::pending().await;
            }
            tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
        };
        let looking = async {
            let watched =
                Watched::start(&self.client, None, self.flags.clone()).await.map_err(Left::Broken)?;
            Ok(follow(&watched, show, keep, done).await)
        };
        let overdue = async {
            match self.timeout {
                Some(patience) => sleep(patience).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            seen = looking => seen,
            () = left => Err(Left::Detached),
            error = self.died() => Err(Left::Broken(error)),
            () = overdue => Err(Left::TimedOut(self.timeout.unwrap_or_default())),
        }
    }

    /// Whether we are the process that serves.
    fn is_ours(&self) -> bool {
        u32::try_from(self.server.process.pid) == Ok(std::process::id())
    }

    /// Resolves when the background process has ended without being asked by us.
    async fn died(&self) -> anyhow::Error {
        if self.is_ours() {
            return std::future::pending().await;
        }
        while self.server.process.is_alive() {
            sleep(Duration::from_millis(500)).await;
        }
        let (log, tail) = (self.up.place().log(), self.up.place().tail().unwrap_or_default());
        anyhow!(
            "the background process has ended; the same command starts it again and goes on (its log is {}{tail})",
            log.display()
        )
    }
}

/// How long a verdict must hold before it counts: objects of one file come one after the other.
const READY: Duration = Duration::from_millis(800);
const STUCK: Duration = Duration::from_secs(3);

/// Takes a verdict for one only when it lasts.
#[derive(Default)]
pub(in crate::cli) struct Steady {
    last: Option<(Verdict, Instant)>,
}

impl Steady {
    pub(in crate::cli) fn judge(&mut self, verdict: Verdict) -> Verdict {
        self.judge_at(verdict, Instant::now())
    }

    fn judge_at(&mut self, verdict: Verdict, now: Instant) -> Verdict {
        let since = match &self.last {
            Some((last, since)) if *last == verdict => *since,
            _ => now,
        };
        self.last = Some((verdict.clone(), since));
        let needed = match verdict {
            Verdict::Ready => READY,
            Verdict::Stuck(_) => STUCK,
            Verdict::Going => return verdict,
        };
        if now.duration_since(since) >= needed { verdict } else { Verdict::Going }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_counts_when_it_has_lasted() {
        let (mut steady, begun) = (Steady::default(), Instant::now());
        let stuck = || Verdict::Stuck(vec!["no template".to_owned()]);
        assert_eq!(steady.judge_at(stuck(), begun), Verdict::Going);
        assert_eq!(steady.judge_at(Verdict::Going, begun + STUCK / 2), Verdict::Going);
        assert_eq!(steady.judge_at(stuck(), begun + STUCK), Verdict::Going, "it begins anew");
        assert_eq!(steady.judge_at(stuck(), begun + STUCK * 2), stuck());
        assert_eq!(steady.judge_at(Verdict::Ready, begun + STUCK * 3), Verdict::Going);
        assert_eq!(steady.judge_at(Verdict::Ready, begun + STUCK * 3 + READY), Verdict::Ready);
    }
}
