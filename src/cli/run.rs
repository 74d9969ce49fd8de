//! `capt run`: the operator, in a cluster or with a kubeconfig.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use tokio_util::sync::CancellationToken;

use super::{
    access::connect,
    log::{self, LogFormat},
    memory,
    operate::{Start, Where, to_log, until_told},
    output::{self, ExitStatus},
    setup::{Tools, parallel},
    time,
};
use crate::{
    config::Outer,
    model::Limits,
    operator::{self, Settings, Standalone},
};

/// How it works.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  capt run --leader-elect --listen :8081               in a pod
  capt run --kubeconfig ~/.kube/config --context dev   from a desk, on somebody's cluster
  capt run --namespace team-a --watch-filter blue      only what is meant for this one

Every flag is also a variable: CAPT_LEADER_ELECT, CAPT_LISTEN …
The first SIGTERM asks for a good end, the second leaves at once. Neither loses anything.")]
pub(super) struct Args {
    /// The data directory: workspaces and what terraform says.
    #[arg(long = "data", value_name = "DIR", env = "CAPT_DATA", default_value = "/var/lib/capt")]
    data: PathBuf,
    /// The kubeconfig; that of the machine, or of the pod around us, otherwise.
    #[arg(long, value_name = "FILE", env = "CAPT_KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig.
    #[arg(long, value_name = "NAME", env = "CAPT_CONTEXT")]
    context: Option<String>,
    /// Only objects of this namespace.
    #[arg(short, long, value_name = "NAME", env = "CAPT_NAMESPACE")]
    namespace: Option<String>,
    /// Only objects whose label cluster.x-k8s.io/watch-filter has this value.
    #[arg(long, value_name = "VALUE", env = "CAPT_WATCH_FILTER")]
    watch_filter: Option<String>,
    /// Of several operators, only one works.
    #[arg(long, value_name = "BOOL", env = "CAPT_LEADER_ELECT", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", default_value = "false", hide_default_value = true)]
    leader_elect: bool,
    /// The namespace of the lease.
    #[arg(long, value_name = "NAME", env = "CAPT_LEADER_ELECTION_NAMESPACE", default_value = "capt-system")]
    leader_election_namespace: String,
    /// Where health and metrics are served; `off` for nowhere.
    #[arg(long, value_name = "ADDRESS:PORT", env = "CAPT_LISTEN", default_value = "127.0.0.1:8081",
          alias = "health-probe-bind-address", value_parser = listen)]
    listen: Listen,
    /// Where the admission webhook is served.
    #[arg(long, value_name = "ADDRESS:PORT", env = "CAPT_WEBHOOK_LISTEN", default_value = "off",
          value_parser = listen)]
    webhook_listen: Listen,
    /// Whether to play the part of Cluster API's core: where it is absent, always, or never.
    #[arg(long, value_enum, default_value_t, env = "CAPT_STANDALONE")]
    standalone: Standalone,
    /// Which AWS: `real`, `local`, or the URL of one that speaks like it.
    #[arg(long, value_name = "AWS", default_value = "real", env = "CAPT_AWS")]
    aws: Where,
    #[command(flatten)]
    tools: Tools,
    /// How many terraform processes may run at once.
    #[arg(long, value_name = "N", default_value_t = parallel(), env = "CAPT_PARALLEL")]
    parallel: usize,
    /// How much memory they may use together, in megabytes; half of what there is otherwise.
    #[arg(long, value_name = "MB", default_value_t = memory::budget(), env = "CAPT_MEMORY_BUDGET", hide_default_value = true)]
    memory_budget: u64,
    /// How often drift is looked for, where an object does not say.
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = time::duration, env = "CAPT_DRIFT_INTERVAL")]
    drift_interval: Duration,
    /// The domain of preview hosts, as the routers have it: endpoints are shown with their addresses.
    #[arg(long, value_name = "DOMAIN", env = "CAPT_PREVIEW_DOMAIN")]
    preview_domain: Option<String>,
    /// How the log is written.
    #[arg(long, value_enum, default_value_t, env = "CAPT_LOG_FORMAT")]
    log_format: LogFormat,
    /// What is logged, such as `info` or `capt=debug`.
    #[arg(long, value_name = "FILTER", default_value = log::USUAL, env = "CAPT_LOG", hide_default_value = true)]
    log: String,
    /// Selectors that a Fargate profile may have; a quota of the account.
    #[arg(long, value_name = "N", default_value_t = Limits::default().selectors_per_profile, hide_short_help = true)]
    limit_selectors_per_profile: usize,
    /// Labels that a selector may have; a quota of the account.
    #[arg(long, value_name = "N", default_value_t = Limits::default().labels_per_selector, hide_short_help = true)]
    limit_labels_per_selector: usize,
    /// Fargate profiles that a cluster may have; a quota of the account.
    #[arg(long, value_name = "N", default_value_t = Limits::default().profiles_per_cluster, hide_short_help = true)]
    limit_profiles_per_cluster: usize,
    #[command(flatten)]
    old: Old,
}

/// Flags of the operator that this one replaces. They are taken, and do nothing.
#[derive(Debug, clap::Args)]
struct Old {
    #[arg(long, hide = true)]
    enable_controller: Vec<String>,
    #[arg(long, hide = true)]
    metrics_bind_address: Option<String>,
}

impl Old {
    fn warn(&self) {
        if !self.enable_controller.is_empty() {
            output::warn("--enable-controller is ignored: one process runs all controllers");
        }
        if self.metrics_bind_address.is_some() {
            output::warn("--metrics-bind-address is ignored: metrics are served beside health, at --listen");
        }
    }
}

/// An address, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Listen(Option<SocketAddr>);

/// `:8081` is every address of the machine, as people know it from elsewhere.
fn listen(text: &str) -> Result<Listen, String> {
    let whole = if text.starts_with(':') { format!("0.0.0.0{text}") } else { text.to_owned() };
    match whole.as_str() {
        "off" | "0" => Ok(Listen(None)),
        _ => whole
            .parse()
            .map(|address| Listen(Some(address)))
            .map_err(|_| "write an address and a port such as 127.0.0.1:8081 or :8081, or off".to_owned()),
    }
}

pub(super) async fn run(args: &Args, outer: &Outer) -> anyhow::Result<ExitStatus> {
    args.old.warn();
    log::begin(args.log_format, &args.log, None)?;
    let stop = CancellationToken::new();
    until_told(&stop, to_log, Box::pin(work(args, outer, &stop))).await?;
    Ok(ExitStatus::Done)
}

async fn work(args: &Args, outer: &Outer, stop: &CancellationToken) -> anyhow::Result<()> {
    let data = outer.absolute(&args.data);
    let kubeconfig = args.kubeconfig.as_deref().map(|path| outer.absolute(path));
    let client = connect(kubeconfig.as_deref(), args.context.as_deref()).await?;
    let start = Start::new(outer, data, &args.tools, client).await?;
    let begun = async {
        let found = start.settle(&args.aws).await?;
        found.notes.iter().for_each(|note| to_log(note));
        anyhow::Ok(start.surroundings(&found))
    };
    // Nothing is under way yet that would need a good end.
    let surroundings = tokio::select! {
        surroundings = begun => surroundings?,
        () = stop.cancelled() => return Ok(()),
    };
    operator::run(surroundings, args.settings(), stop.clone()).await
}

impl Args {
    fn settings(&self) -> Settings {
        Settings {
            namespace: self.namespace.clone(),
            watch_filter: self.watch_filter.clone(),
            leader_election: self.leader_elect.then(|| self.leader_election_namespace.clone()),
            listen: self.listen.0,
            webhook_listen: self.webhook_listen.0,
            standalone: self.standalone,
            parallel: self.parallel.max(1),
            memory_budget_mb: self.memory_budget,
            drift_interval: self.drift_interval,
            preview_domain: self.preview_domain.clone(),
            limits: Limits {
                selectors_per_profile: self.limit_selectors_per_profile,
                labels_per_selector: self.limit_labels_per_selector,
                profiles_per_cluster: self.limit_profiles_per_cluster,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn parse(args: &[&str]) -> Args {
        Line::try_parse_from([&["run"], args].concat()).unwrap().args
    }

    #[test]
    fn without_flags_it_serves_health_to_this_machine_alone_and_elects_nobody() {
        let settings = parse(&[]).settings();
        assert_eq!(settings.listen, Some(SocketAddr::from(([127, 0, 0, 1], 8081))));
        assert_eq!((settings.webhook_listen, settings.leader_election), (None, None));
        assert_eq!(settings.drift_interval, Duration::from_mins(10));
        assert_eq!(settings.standalone, Standalone::Auto);
    }

    #[test]
    fn flags_as_other_operators_have_them_are_understood() {
        let settings = parse(&["--leader-elect", "--health-probe-bind-address=:9000"]).settings();
        assert_eq!(settings.leader_election.as_deref(), Some("capt-system"));
        assert_eq!(settings.listen, Some(SocketAddr::from(([0, 0, 0, 0], 9000))));
        assert_eq!(parse(&["--leader-elect=false"]).settings().leader_election, None);
        assert_eq!(parse(&["--listen", "off"]).settings().listen, None);
    }

    #[test]
    fn the_aws_is_real_local_or_a_url() {
        assert_eq!(parse(&[]).aws, Where::Real);
        assert_eq!(parse(&["--aws", "local"]).aws, Where::Local);
        assert_eq!(parse(&["--aws", "http://aws:4599"]).aws, Where::At("http://aws:4599".to_owned()));
        assert!(Line::try_parse_from(["run", "--aws", "mars"]).is_err());
    }
}
