//! `capt run`: runs the operator, in a cluster or with a kubeconfig.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use capt_engine::{pipeline::SizeLimits, process_env::ProcessEnv};
use capt_model::model::Limits;
use capt_util::byte_size::ByteSize;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use terraform_driver::source::SourceLimits;
use tokio_util::sync::CancellationToken;

use super::{
    kube_target::connect,
    logging::{self, LogFormat},
    memory,
    operator_setup::{AwsTarget, OperatorSetup, log_info, run_until_signalled},
    output::{self, ExitStatus},
    run_setup::{EngineArgs, default_parallelism},
    scheduling::SchedulingArgs,
    time,
};
use crate::operator::{self, OperatorSettings, StandaloneMode, TemplatePolicy};

/// Arguments of `capt run`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  capt run --leader-elect --listen :8081               in a pod
  capt run --kubeconfig ~/.kube/config --context dev   outside of the cluster
  capt run --namespace team-a --watch-filter blue      only a subset of the objects

Every flag can be set by an environment variable: CAPT_LEADER_ELECT, CAPT_LISTEN …
The first SIGTERM requests a graceful shutdown, the second exits immediately. Neither loses state.")]
pub(super) struct Args {
    /// Data directory: workspaces and terraform output.
    #[arg(long = "data", value_name = "DIR", env = "CAPT_DATA", default_value = "/var/lib/capt")]
    data: PathBuf,
    /// Kubeconfig; defaults to KUBECONFIG, ~/.kube/config or the in-cluster configuration.
    #[arg(long, value_name = "FILE", env = "CAPT_KUBECONFIG")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig.
    #[arg(long, value_name = "NAME", env = "CAPT_CONTEXT")]
    context: Option<String>,
    /// Reconcile only objects in this namespace.
    #[arg(short, long, value_name = "NAME", env = "CAPT_NAMESPACE")]
    namespace: Option<String>,
    /// Reconcile only objects whose label cluster.x-k8s.io/watch-filter has this value.
    #[arg(long, value_name = "VALUE", env = "CAPT_WATCH_FILTER")]
    watch_filter: Option<String>,
    /// Run the Sandbox controllers. Without them the operator needs no permission for Deployments and Services.
    #[arg(long, value_name = "BOOL", env = "CAPT_SANDBOXES", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", default_value = "true", action = clap::ArgAction::Set)]
    sandboxes: bool,
    /// Use leader election, so that only one of several replicas is active.
    #[arg(long, value_name = "BOOL", env = "CAPT_LEADER_ELECT", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", default_value = "false", hide_default_value = true)]
    leader_elect: bool,
    /// Namespace of the leader election Lease.
    #[arg(long, value_name = "NAME", env = "CAPT_LEADER_ELECTION_NAMESPACE", default_value = "capt-system")]
    leader_election_namespace: String,
    /// Listen address for health and metrics; `off` disables it.
    #[arg(long, value_name = "ADDRESS:PORT", env = "CAPT_LISTEN", default_value = "127.0.0.1:8081",
          alias = "health-probe-bind-address", value_parser = parse_listen_address)]
    listen: ListenAddress,
    /// Listen address of the admission webhook; `off` disables it.
    #[arg(long, value_name = "ADDRESS:PORT", env = "CAPT_WEBHOOK_LISTEN", default_value = "off",
          value_parser = parse_listen_address)]
    webhook_listen: ListenAddress,
    /// Whether to act as the Cluster API core controller: if it is absent (auto), always, or never.
    #[arg(long, value_enum, default_value_t, env = "CAPT_STANDALONE")]
    standalone: StandaloneMode,
    /// Target AWS: `real`, `local`, or the URL of an AWS-compatible endpoint.
    #[arg(long, value_name = "AWS", default_value = "real", env = "CAPT_AWS")]
    aws: AwsTarget,
    #[command(flatten)]
    tools: EngineArgs,
    /// Maximum concurrent terraform processes.
    #[arg(long, value_name = "N", default_value_t = default_parallelism(), env = "CAPT_PARALLEL")]
    parallel: usize,
    /// Memory budget of all terraform processes in megabytes; defaults to half of the available memory.
    #[arg(long, value_name = "MB", default_value_t = memory::budget(), env = "CAPT_MEMORY_BUDGET", hide_default_value = true)]
    memory_budget: u64,
    #[command(flatten)]
    scheduling: SchedulingArgs,
    /// Drift detection interval of objects that do not set their own.
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = time::parse_duration, env = "CAPT_DRIFT_INTERVAL")]
    drift_interval: Duration,
    /// Domain of preview hosts, as configured in the routers; used for endpoint URLs in the status.
    #[arg(long, value_name = "DOMAIN", env = "CAPT_PREVIEW_DOMAIN")]
    preview_domain: Option<String>,
    /// Log format.
    #[arg(long, value_enum, default_value_t, env = "CAPT_LOG_FORMAT")]
    log_format: LogFormat,
    /// Log filter, such as `info` or `capt=debug`.
    #[arg(long, value_name = "FILTER", default_value = logging::DEFAULT_FILTER, env = "CAPT_LOG", hide_default_value = true)]
    log: String,
    /// Maximum selectors per Fargate profile (account quota).
    #[arg(long, value_name = "N", default_value_t = Limits::default().selectors_per_profile, hide_short_help = true)]
    limit_selectors_per_profile: usize,
    /// Maximum labels per selector (account quota).
    #[arg(long, value_name = "N", default_value_t = Limits::default().labels_per_selector, hide_short_help = true)]
    limit_labels_per_selector: usize,
    /// Maximum Fargate profiles per cluster (account quota).
    #[arg(long, value_name = "N", default_value_t = Limits::default().profiles_per_cluster, hide_short_help = true)]
    limit_profiles_per_cluster: usize,
    #[command(flatten)]
    tenancy: TenancyArgs,
    #[command(flatten)]
    sizes: SizeArgs,
    #[command(flatten)]
    old: IgnoredFlags,
}

/// What users of a namespace may do.
#[derive(Debug, clap::Args)]
struct TenancyArgs {
    /// Which `WorkspaceTemplates` a namespace without the label capt.x-k8s.io/templates may use: none, its own and those of namespaces
    /// that may use templates themselves (trusted), or all that it may refer to. A template is code that the operator executes.
    #[arg(long, value_name = "POLICY", env = "CAPT_TEMPLATES", default_value_t = TemplatePolicy::None,
          value_parser = PossibleValuesParser::new(["none", "trusted", "all"]).map(parse_template_policy))]
    templates: TemplatePolicy,
    /// Refuse workspaces without an identity, which would use the operator's own credentials. One that names none uses the
    /// identity named default.
    #[arg(long, value_name = "BOOL", env = "CAPT_REQUIRE_IDENTITY", num_args = 0..=1, require_equals = true,
          action = clap::ArgAction::Set, default_missing_value = "true", default_value = "false", hide_default_value = true)]
    require_identity: bool,
    /// Whether EKS clusters made by templates need the tag capt.x-k8s.io/owner. Disable it only where all users trust each other.
    #[arg(long, value_name = "BOOL", env = "CAPT_REQUIRE_OWNER_TAG", num_args = 0..=1, require_equals = true,
          action = clap::ArgAction::Set, default_missing_value = "true", default_value = "true", hide_default_value = true)]
    require_owner_tag: bool,
}

/// Limits on what one workspace may bring.
#[derive(Debug, clap::Args)]
struct SizeArgs {
    /// Maximum size of a module source.
    #[arg(long = "max-source-size", value_name = "SIZE", default_value_t = SizeLimits::default().source.size, env = "CAPT_MAX_SOURCE_SIZE", hide_short_help = true)]
    source_size: ByteSize,
    /// Maximum number of files and directories of a module source.
    #[arg(long = "max-source-files", value_name = "N", default_value_t = SizeLimits::default().source.files, env = "CAPT_MAX_SOURCE_FILES", hide_short_help = true)]
    source_files: usize,
    /// Maximum size of the configuration that is stored for a later destroy.
    #[arg(long = "max-bundle-size", value_name = "SIZE", default_value_t = SizeLimits::default().bundle, env = "CAPT_MAX_BUNDLE_SIZE", hide_short_help = true)]
    bundle_size: ByteSize,
    /// Maximum size of a state.
    #[arg(long = "max-state-size", value_name = "SIZE", default_value_t = SizeLimits::default().state, env = "CAPT_MAX_STATE_SIZE", hide_short_help = true)]
    state_size: ByteSize,
    /// Maximum size of the log of one terraform command.
    #[arg(long = "max-log-size", value_name = "SIZE", default_value_t = SizeLimits::default().log, env = "CAPT_MAX_LOG_SIZE", hide_short_help = true)]
    log_size: ByteSize,
}

impl SizeArgs {
    const fn limits(&self) -> SizeLimits {
        SizeLimits {
            source: SourceLimits { size: self.source_size, files: self.source_files },
            bundle: self.bundle_size,
            state: self.state_size,
            log: self.log_size,
        }
    }
}

/// Flags of the upstream operator that are accepted and ignored.
#[derive(Debug, clap::Args)]
struct IgnoredFlags {
    #[arg(long, hide = true)]
    enable_controller: Vec<String>,
    #[arg(long, hide = true)]
    metrics_bind_address: Option<String>,
}

impl IgnoredFlags {
    fn warn(&self) {
        if !self.enable_controller.is_empty() {
            output::print_warning("--enable-controller is ignored: one process runs all controllers");
        }
        if self.metrics_bind_address.is_some() {
            output::print_warning(
                "--metrics-bind-address is ignored: metrics are served together with health, at --listen",
            );
        }
    }
}

/// A listen address, or `off`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ListenAddress(Option<SocketAddr>);

/// `:8081` means all interfaces, as in Go.
fn parse_listen_address(text: &str) -> Result<ListenAddress, String> {
    let whole = if text.starts_with(':') { format!("0.0.0.0{text}") } else { text.to_owned() };
    match whole.as_str() {
        "off" | "0" => Ok(ListenAddress(None)),
        _ => whole
            .parse()
            .map(|address| ListenAddress(Some(address)))
            .map_err(|_| "use an address and a port such as 127.0.0.1:8081 or :8081, or off".to_owned()),
    }
}

/// Of the possible values only.
fn parse_template_policy(text: impl AsRef<str>) -> TemplatePolicy {
    text.as_ref().parse().unwrap_or_default()
}

pub(super) async fn run(args: &Args, process_env: &ProcessEnv) -> anyhow::Result<ExitStatus> {
    args.old.warn();
    logging::init_logging(args.log_format, &args.log, None)?;
    let stop = CancellationToken::new();
    run_until_signalled(&stop, log_info, Box::pin(run_operator(args, process_env, &stop))).await?;
    Ok(ExitStatus::Done)
}

async fn run_operator(args: &Args, process_env: &ProcessEnv, stop: &CancellationToken) -> anyhow::Result<()> {
    let data = process_env.absolute_path(&args.data);
    let kubeconfig = args.kubeconfig.as_deref().map(|path| process_env.absolute_path(path));
    let client = connect(kubeconfig.as_deref(), args.context.as_deref()).await?;
    let start = OperatorSetup::new(process_env, data, &args.tools, client).await?;
    let begun = async {
        let found = start.resolve_aws(&args.aws).await?;
        found.notes.iter().for_each(|note| log_info(note));
        anyhow::Ok(start.dependencies(&found))
    };
    // Nothing has started yet, so a stop needs no graceful shutdown.
    let surroundings = tokio::select! {
        surroundings = begun => surroundings?,
        () = stop.cancelled() => return Ok(()),
    };
    operator::run(surroundings, args.settings(), stop.clone()).await
}

impl Args {
    fn settings(&self) -> OperatorSettings {
        OperatorSettings {
            namespace: self.namespace.clone(),
            watch_filter: self.watch_filter.clone(),
            sandboxes: self.sandboxes,
            leader_election: self.leader_elect.then(|| self.leader_election_namespace.clone()),
            listen: self.listen.0,
            webhook_listen: self.webhook_listen.0,
            standalone: self.standalone,
            parallel: self.parallel.max(1),
            memory_budget_mb: self.memory_budget,
            scheduling: self.scheduling.settings(),
            drift_interval: self.drift_interval,
            preview_domain: self.preview_domain.clone(),
            templates: self.tenancy.templates,
            require_identity: self.tenancy.require_identity,
            require_owner_tag: self.tenancy.require_owner_tag,
            size_limits: self.sizes.limits(),
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
        assert_eq!(settings.templates, TemplatePolicy::None, "a template is code");
        assert_eq!(settings.drift_interval, Duration::from_mins(10));
        assert_eq!(settings.standalone, StandaloneMode::Auto);
    }

    #[test]
    fn flags_as_other_operators_have_them_are_understood() {
        let settings = parse(&["--leader-elect", "--health-probe-bind-address=:9000"]).settings();
        assert_eq!(settings.leader_election.as_deref(), Some("capt-system"));
        assert_eq!(settings.listen, Some(SocketAddr::from(([0, 0, 0, 0], 9000))));
        assert_eq!(parse(&["--leader-elect=false"]).settings().leader_election, None);
        assert_eq!(parse(&["--listen", "off"]).settings().listen, None);
        assert_eq!(parse(&["--templates", "trusted"]).settings().templates, TemplatePolicy::Trusted);
    }

    #[test]
    fn the_aws_is_real_local_or_a_url() {
        assert_eq!(parse(&[]).aws, AwsTarget::Real);
        assert_eq!(parse(&["--aws", "local"]).aws, AwsTarget::Local);
        assert_eq!(
            parse(&["--aws", "http://aws:4599"]).aws,
            AwsTarget::Endpoint("http://aws:4599".to_owned())
        );
        assert!(Line::try_parse_from(["run", "--aws", "mars"]).is_err());
    }
}
