//! A command attached to the background process of `capt up`.

use std::time::Duration;

use anyhow::anyhow;
use capt_engine::{
    aws::{Cloud, get_caller_identity},
    process_env::ProcessEnv,
};
use kube::Client;
use tokio::{
    signal::unix::{SignalKind, signal},
    time::{Instant, sleep},
};

use super::UpOptions;
use crate::{
    aws_mode::AwsMode,
    cli::{
        kube_target::connect,
        live_view::{LiveView, follow_trees},
        object_watch::ObjectWatch,
        output::{self, ExitStatus},
        run_setup::{EngineArgs, Isolation},
        tree::{TargetReadiness, TreeNode},
    },
    local::{
        aws_daemon::LocalAwsDaemon,
        up_daemon::{UpDaemon, UpRecord, UpSettings},
    },
};

/// Runs the slow and error-prone preparation in the foreground, where the user sees its messages.
pub(super) async fn prepare_tools(
    process_env: &ProcessEnv,
    options: &UpOptions,
    settings: &UpSettings,
) -> anyhow::Result<()> {
    let tools = EngineArgs {
        engine: settings.engine.clone(),
        provider_mirror: settings.provider_mirror.clone(),
        no_gateway: settings.no_gateway,
        gateway: None,
        isolation: if settings.no_isolation { Isolation::Off } else { Isolation::Auto },
    };
    let (_, discovery) = tools.locate(process_env).await?;
    discovery.notes.iter().for_each(|note| output::print_warning(note));
    match settings.aws {
        AwsMode::Local => {
            LocalAwsDaemon::new(process_env, &options.data.path(process_env))
                .ensure_running(output::print_message)
                .await?;
        }
        AwsMode::Real => {
            get_caller_identity(&Cloud::Real.sdk_config(None).await).await?;
        }
    }
    Ok(())
}

/// Attaches to the background process, or starts it.
pub(in crate::cli) async fn ensure_daemon(
    process_env: &ProcessEnv,
    options: &UpOptions,
    up: &UpDaemon,
    settings: &UpSettings,
) -> anyhow::Result<UpRecord> {
    if up.running()?.is_none() {
        prepare_tools(process_env, options, settings).await?;
    }
    let (server, started) = up.ensure_running(settings).await?;
    if started {
        output::print_message(&format!(
            "capt is running in the background (process {}); its log is {}",
            server.process.pid,
            up.files().log_file().display()
        ));
        server.notes.iter().for_each(|note| output::print_message(note));
    } else {
        output::print_message(&format!("capt is already running (process {})", server.process.pid));
    }
    Ok(server)
}

/// A connection to the background process and its Kubernetes API.
pub(in crate::cli) struct UpSession {
    pub(in crate::cli) client: Client,
    pub(in crate::cli) up: UpDaemon,
    pub(in crate::cli) server: UpRecord,
    /// Flags that make another command use the same data directory.
    pub(in crate::cli) flags: String,
    timeout: Option<Duration>,
}

/// Why following stopped without a result.
pub(in crate::cli) enum FollowError {
    /// The user detached.
    Detached,
    /// The timeout expired.
    TimedOut(Duration),
    /// The background process or its API is gone.
    Broken(anyhow::Error),
}

impl FollowError {
    /// The result of the command.
    pub(in crate::cli) fn into_exit_status(self, remedy: &str) -> anyhow::Result<ExitStatus> {
        match self {
            Self::Detached => {
                output::print_message(&format!("detached; the background process continues; {remedy}"));
                Ok(ExitStatus::Interrupted)
            }
            Self::TimedOut(patience) => Err(anyhow!(
                "timed out after {}; the background process continues; {remedy}",
                crate::cli::time::format_duration(patience)
            )),
            Self::Broken(error) => Err(error),
        }
    }
}

impl UpSession {
    /// Connects to the Kubernetes API of a background process.
    pub(in crate::cli) async fn open(
        up: UpDaemon,
        server: UpRecord,
        flags: String,
        timeout: Option<Duration>,
    ) -> anyhow::Result<Self> {
        let client = connect(server.kubeconfig.as_deref(), server.context.as_deref()).await?;
        Ok(Self { client, up, server, flags, timeout })
    }

    /// Shows the objects until `done` returns a result, or until a signal, the timeout or a failure.
    pub(in crate::cli) async fn follow<T>(
        &self,
        show: &mut LiveView,
        keep: impl Fn(Vec<TreeNode>) -> Vec<TreeNode>,
        done: impl FnMut(&[TreeNode]) -> Option<T>,
    ) -> Result<T, FollowError> {
        let broken = |error: std::io::Error| FollowError::Broken(error.into());
        let mut terminate = signal(SignalKind::terminate()).map_err(broken)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(broken)?;
        // In the foreground mode the serving code handles signals.
        let left = async {
            if self.is_own_process() {
                return std::future::pending().await;
            }
            tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
        };
        let looking = async {
            let watched = ObjectWatch::start(&self.client, None, self.flags.clone())
                .await
                .map_err(FollowError::Broken)?;
            Ok(follow_trees(&watched, show, keep, done).await)
        };
        let overdue = async {
            match self.timeout {
                Some(patience) => sleep(patience).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            seen = looking => seen,
            () = left => Err(FollowError::Detached),
            error = self.wait_until_daemon_exits() => Err(FollowError::Broken(error)),
            () = overdue => Err(FollowError::TimedOut(self.timeout.unwrap_or_default())),
        }
    }

    /// Whether this process is the serving one.
    fn is_own_process(&self) -> bool {
        u32::try_from(self.server.process.pid) == Ok(std::process::id())
    }

    /// Resolves when the background process exits.
    async fn wait_until_daemon_exits(&self) -> anyhow::Error {
        if self.is_own_process() {
            return std::future::pending().await;
        }
        while self.server.process.is_alive() {
            sleep(Duration::from_millis(500)).await;
        }
        let (log, tail) = (self.up.files().log_file(), self.up.files().log_tail().unwrap_or_default());
        anyhow!(
            "the background process exited; run the same command again to restart it (its log is {}{tail})",
            log.display()
        )
    }
}

/// How long a readiness must hold before it counts, because objects appear one after the other.
const READY_HOLD: Duration = Duration::from_millis(800);
const STUCK_HOLD: Duration = Duration::from_secs(3);

/// Debounces readiness changes.
#[derive(Default)]
pub(in crate::cli) struct ReadinessDebounce {
    last: Option<(TargetReadiness, Instant)>,
}

impl ReadinessDebounce {
    pub(in crate::cli) fn settle(&mut self, verdict: TargetReadiness) -> TargetReadiness {
        self.settle_at(verdict, Instant::now())
    }

    fn settle_at(&mut self, verdict: TargetReadiness, now: Instant) -> TargetReadiness {
        let since = match &self.last {
            Some((last, since)) if *last == verdict => *since,
            _ => now,
        };
        self.last = Some((verdict.clone(), since));
        let needed = match verdict {
            TargetReadiness::Ready => READY_HOLD,
            TargetReadiness::Stuck(_) => STUCK_HOLD,
            TargetReadiness::Pending => return verdict,
        };
        if now.duration_since(since) >= needed { verdict } else { TargetReadiness::Pending }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_counts_when_it_has_lasted() {
        let (mut steady, begun) = (ReadinessDebounce::default(), Instant::now());
        let stuck = || TargetReadiness::Stuck(vec!["no template".to_owned()]);
        assert_eq!(steady.settle_at(stuck(), begun), TargetReadiness::Pending);
        assert_eq!(
            steady.settle_at(TargetReadiness::Pending, begun + STUCK_HOLD / 2),
            TargetReadiness::Pending
        );
        assert_eq!(
            steady.settle_at(stuck(), begun + STUCK_HOLD),
            TargetReadiness::Pending,
            "the hold starts again"
        );
        assert_eq!(steady.settle_at(stuck(), begun + STUCK_HOLD * 2), stuck());
        assert_eq!(
            steady.settle_at(TargetReadiness::Ready, begun + STUCK_HOLD * 3),
            TargetReadiness::Pending
        );
        assert_eq!(
            steady.settle_at(TargetReadiness::Ready, begun + STUCK_HOLD * 3 + READY_HOLD),
            TargetReadiness::Ready
        );
    }
}
