//! Test harness: a Kubernetes API with our CRDs, a fake node, and the Sandbox controllers with the service account of `deploy/`.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use capt::operator::sandbox_controllers::{SandboxControllers, remote_starter};
use capt_controllers::{
    common::{Context, Settings},
    localworkload, routegroup, sandbox as controller,
    sandbox_common::{remote_target::SandboxScope, route_snapshot::RouteSnapshotter},
};
use capt_kinds::api::{CaptControlPlane, cluster_crds};
use capt_kinds::sandbox::{LocalWorkload, RouteGroup, Sandbox};
use capt_kube::k8s::{EventPublisher, KubeClient};
use embedded_kube::{fault_injection::RequestRecord, request::Verb};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
    core::GroupVersionKind,
};
use serde_json::Value;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    crash_client::{self, CrashHandle, CrashPoint},
    fake_node::FakeNode,
    fault_injection::InjectedFaults,
    service_account,
    test_kube::{TestKube, wait_until_served},
    test_namespace::{TIMEOUT, TestNamespace},
};

/// How long a call may take. A busy machine is not what is tested.
const DEADLINE: Duration = Duration::from_mins(2);

/// How many requests are shown of a test that failed.
const TAIL_REQUESTS: usize = 60;

/// Everything that a test needs.
pub(crate) struct SandboxHarness {
    pub(crate) server: TestKube,
    pub(crate) node: FakeNode,
    /// Faults between the controllers and the API server.
    pub(crate) faults: InjectedFaults,
    /// Client with the service account of the controllers.
    operator: Client,
    /// The domain of preview hosts.
    pub(crate) preview_domain: Option<String>,
    /// The controllers' clock.
    pub(crate) clock: fn() -> Timestamp,
    running: Option<RunningControllers>,
    /// Directory of the kubeconfig for other programs.
    home: TempDir,
}

/// Running controllers that can be stopped or killed.
struct RunningControllers {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl SandboxHarness {
    /// With controllers.
    pub(crate) async fn start() -> Self {
        let mut world = Self::idle().await;
        world.start_controllers();
        world
    }

    /// Without controllers.
    pub(crate) async fn idle() -> Self {
        let server = TestKube::start().await;
        let node = FakeNode::start(server.client("node")).await;
        Self::new(server, node).await
    }

    /// Without controllers; the API listens on a port.
    pub(crate) async fn idle_listening() -> Self {
        let server = TestKube::start_listening(&[]).await;
        let node = FakeNode::start(server.client("node")).await;
        Self::new(server, node).await
    }

    /// With controllers, and pods served at the addresses that `pods` returns.
    pub(crate) async fn with_pods(pods: impl Fn(&Pod) -> String + Send + Sync + 'static) -> Self {
        let server = TestKube::start().await;
        let node = FakeNode::start_with(server.client("node"), pods).await;
        let mut world = Self::new(server, node).await;
        world.start_controllers();
        world
    }

    async fn new(server: TestKube, node: FakeNode) -> Self {
        let _already = capt::telemetry::init(capt::telemetry::LogFormat::Text, &log_filter());
        let client = server.client("setup");
        let writer = KubeClient::new(client.clone()).with_deadline(DEADLINE);
        // Only the kinds that the controllers watch: each takes time to install.
        let control_plane = cluster_crds().into_iter().filter(|it| it.spec.names.kind == "CAPTControlPlane");
        let kinds: Vec<_> = capt_kinds::sandbox::crds().into_iter().chain(control_plane).collect();
        writer.install_crds(&kinds).await.unwrap();
        let names: Vec<&str> = kinds.iter().filter_map(|it| it.metadata.name.as_deref()).collect();
        let missing = writer.wait_for_crds(&names, Duration::from_mins(10)).await.unwrap();
        assert!(missing.is_empty(), "{missing:?}");
        for object in service_account::objects() {
            apply(&client, object).await;
        }
        let operator = server.client_as(service_account::user(), "setup").await;
        for client in [client, operator] {
            wait_until_served(&Api::<Sandbox>::all(client.clone())).await;
            wait_until_served(&Api::<RouteGroup>::all(client.clone())).await;
            wait_until_served(&Api::<LocalWorkload>::all(client.clone())).await;
            wait_until_served(&Api::<CaptControlPlane>::all(client)).await;
        }
        Self {
            operator: server.client_as(service_account::user(), service_account::AGENT).await,
            server,
            node,
            faults: InjectedFaults::default(),
            preview_domain: None,
            clock: terraform_driver::clock::now,
            running: None,
            home: tempfile::tempdir().unwrap(),
        }
    }

    /// Starts the controllers.
    pub(crate) fn start_controllers(&mut self) {
        self.start_controllers_until_crash(None);
    }

    /// Starts the controllers with a client that crashes at this point.
    pub(crate) fn start_controllers_until_crash(&mut self, death: Option<CrashPoint>) -> CrashHandle {
        let (client, fate) = crash_client::wrap_client(self.faults.client(self.operator_client()), death);
        let kube = KubeClient::new(client).with_deadline(DEADLINE);
        let events = EventPublisher::new(kube.clone(), "capt/sandbox", "test");
        let settings = Settings { preview_domain: self.preview_domain.clone(), ..Settings::default() };
        let stop = CancellationToken::new();
        let crew =
            SandboxControllers { kube: kube.clone(), settings: settings.clone(), metrics: Arc::new(()) };
        let ground = SandboxScope::ManagementCluster(remote_starter(&crew, &TaskTracker::new(), &stop));
        let context = Context::new(kube, settings, events, "v1beta2").with_clock(self.clock);
        let context = Arc::new(context);
        let board = Arc::new(RouteSnapshotter::start(&context));
        let sandboxes = controller::run(&context, Arc::clone(&board), ground, stop.clone().cancelled_owned());
        let groups = routegroup::run(Arc::clone(&context), board, stop.clone().cancelled_owned());
        let locals = localworkload::run(context, stop.clone().cancelled_owned());
        let all = async move {
            tokio::join!(sandboxes, groups, locals);
        };
        let work = tokio::spawn(all);
        self.running = Some(RunningControllers { stop, task: work });
        fate
    }

    /// Stops the controllers as SIGTERM does, and checks their requests against RBAC.
    pub(crate) async fn stop_controllers(&mut self) {
        let RunningControllers { stop, task: work } = self.running.take().unwrap();
        stop.cancel();
        work.await.unwrap();
        service_account::assert_requests_allowed(&self.requests());
    }

    /// Ends the controllers as SIGKILL does.
    pub(crate) async fn kill_controllers(&mut self) {
        let RunningControllers { task: work, .. } = self.running.take().unwrap();
        work.abort();
        let _cancelled = work.await;
    }

    /// Writes the kubeconfig, if the API listens, and returns its path.
    pub(crate) fn write_kubeconfig(&self) -> String {
        let path = self.home.path().join("kubeconfig");
        std::fs::write(&path, self.server.kubeconfig()).unwrap();
        path.display().to_string()
    }

    pub(crate) fn client(&self) -> Client {
        self.server.client("hand")
    }

    /// A client with the service account of `deploy/`.
    pub(crate) fn operator_client(&self) -> Client {
        self.operator.clone()
    }

    /// Creates the namespace `shop`.
    pub(crate) async fn create_namespace(&self) -> TestNamespace {
        TestNamespace::create(self.client(), "shop").await
    }

    /// Requests of the controllers.
    pub(crate) fn requests(&self) -> Vec<RequestRecord> {
        let mut all = self.server.requests();
        all.retain(|it| it.agent == service_account::AGENT);
        all
    }

    /// Write requests of the controllers.
    pub(crate) fn writes(&self) -> Vec<RequestRecord> {
        let mut all = self.requests();
        all.retain(RequestRecord::is_write);
        all
    }

    /// Whether a watch of Sandboxes or related objects was restarted after this many requests. An API server may end watches at any
    /// time, and then all Sandboxes are reconciled: a test that counts reconciles has to repeat its measurement.
    pub(crate) fn has_watch_restart_since(&self, after: usize) -> bool {
        let around = ["sandboxes", "deployments", "services", "pods"];
        let is_anew = |it: &RequestRecord| {
            it.verb == Some(Verb::List) && it.namespace.is_empty() && around.contains(&it.resource.as_str())
        };
        self.requests().split_off(after).iter().any(is_anew)
    }

    /// How many watches of the controllers were restarted: all lists of all namespaces but the first of each kind.
    pub(crate) fn watch_restarts(&self) -> usize {
        let mut lists = self.requests();
        lists.retain(|it| it.verb == Some(Verb::List) && it.namespace.is_empty());
        let kinds: BTreeSet<_> = lists.iter().map(|it| (&it.group, &it.resource)).collect();
        lists.len() - kinds.len()
    }

    /// Waits until the controllers have written nothing for a while and have no request in flight.
    pub(crate) async fn settle(&self) {
        let begun = Instant::now();
        // On a busy machine the controllers may pause in the middle of their work.
        let (mut before, mut quiet) = (usize::MAX, 0);
        while quiet < 3 {
            assert!(begun.elapsed() < TIMEOUT, "the controllers go on writing");
            let writes = self.writes().len();
            quiet = if writes == before && self.faults.in_flight() == 0 { quiet + 1 } else { 0 };
            before = writes;
            tokio::time::sleep(Duration::from_millis(400)).await;
        }
    }

    /// Waits for a period of this length without any of these writes; otherwise panics with the writes of the last period. The
    /// first periods may still contain the end of earlier work; a controller that writes periodically fails in all of them.
    pub(crate) async fn wait_for_idle_period(
        &self,
        length: Duration,
        writes: impl Fn() -> Vec<RequestRecord>,
    ) {
        const ATTEMPTS: usize = 5;
        for attempt in 1..=ATTEMPTS {
            let before = writes().len();
            // The absence of a write can only be seen by waiting. A slow machine writes less, and not more.
            tokio::time::sleep(length).await;
            let since = writes().split_off(before);
            if since.is_empty() {
                return;
            }
            assert!(attempt < ATTEMPTS, "a controller writes again and again: {since:#?}");
        }
    }
}

/// On failure, prints the last requests: whether the controllers were idle, retrying, or waiting for a response.
impl Drop for SandboxHarness {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let (requests, now) = (self.requests(), terraform_driver::clock::now());
        eprintln!("what the controllers asked for last, {} requests in all, until {now}:", requests.len());
        for it in requests.iter().rev().take(TAIL_REQUESTS).rev() {
            let RequestRecord {
                at, duration: took, verb, resource, subresource, namespace, name, code, ..
            } = it;
            let verb = verb.map_or("", Verb::name);
            eprintln!("{at} {took:?}: {verb} {resource} {subresource} {namespace}/{name}: {code}");
        }
    }
}

pub(crate) async fn apply(client: &Client, value: Value) {
    let object: DynamicObject = serde_json::from_value(value).unwrap();
    let types = object.types.clone().unwrap();
    let (group, version) = types.api_version.split_once('/').unwrap_or(("", &types.api_version));
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &types.kind));
    let api: Api<DynamicObject> = match &object.metadata.namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &kind),
        None => Api::all_with(client.clone(), &kind),
    };
    let name = object.metadata.name.clone().unwrap();
    api.patch(&name, &PatchParams::apply("test").force(), &Patch::Apply(&object)).await.unwrap();
}

/// Log filter of the controllers: errors only, or `CAPT_LOG`, such as `capt=debug`. Refused connections are not logged, because a
/// starting server is polled until it answers.
#[expect(clippy::disallowed_methods, reason = "a test reads the environment that it was started in")]
fn log_filter() -> String {
    std::env::var("CAPT_LOG").unwrap_or_else(|_| "error,kube_client=off".to_owned())
}
