//! A Kubernetes API with our kinds, a node, and the controllers of Sandboxes as the account of `deploy/`.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use capt::{
    api::{CaptControlPlane, cluster_crds},
    controllers::{
        common::{Context, Settings, board::Board, outpost::Ground},
        localworkload, routegroup, sandbox as controller,
    },
    k8s::{Events, Kube},
    operator::sandboxes::{Crew, outposts},
};
use embedded_kube::{faults::Logged, request::Verb};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
    core::GroupVersionKind,
};
use sandbox::api::{LocalWorkload, RouteGroup, Sandbox};
use serde_json::Value;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    account,
    mortal::{self, Death, Fate},
    node::Node,
    server::{Server, until_served},
    shop::{PATIENCE, Shop},
    trouble::InjectedFaults,
};

/// How long a call may take. A busy machine is not what is tested.
const DEADLINE: Duration = Duration::from_mins(2);

/// How many requests are shown of a test that failed.
const LAST: usize = 60;

/// Everything that a test needs.
pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) node: Node,
    /// On the controllers' way to the API server.
    pub(crate) trouble: InjectedFaults,
    /// As the controllers are known there.
    operator: Client,
    /// The domain of preview hosts.
    pub(crate) preview_domain: Option<String>,
    /// The controllers' clock.
    pub(crate) clock: fn() -> Timestamp,
    running: Option<Running>,
    /// Where a kubeconfig lies, for other programs.
    home: TempDir,
}

/// The controllers, as a process that can end and be killed.
struct Running {
    stop: CancellationToken,
    work: JoinHandle<()>,
}

impl World {
    /// With controllers.
    pub(crate) async fn start() -> Self {
        let mut world = Self::idle().await;
        world.begin();
        world
    }

    /// Without controllers.
    pub(crate) async fn idle() -> Self {
        let server = Server::start().await;
        let node = Node::start(server.client("node")).await;
        Self::with(server, node).await
    }

    /// Without controllers, and for other programs too.
    pub(crate) async fn listening() -> Self {
        let server = Server::listening(&[]).await;
        let node = Node::start(server.client("node")).await;
        Self::with(server, node).await
    }

    /// With controllers, and pods that somebody starts at the addresses that they give.
    pub(crate) async fn with_pods(pods: impl Fn(&Pod) -> String + Send + Sync + 'static) -> Self {
        let server = Server::start().await;
        let node = Node::start_with(server.client("node"), pods).await;
        let mut world = Self::with(server, node).await;
        world.begin();
        world
    }

    async fn with(server: Server, node: Node) -> Self {
        let _already = capt::telemetry::init(capt::telemetry::LogFormat::Text, &log_filter());
        let client = server.client("setup");
        let writer = Kube::new(client.clone()).with_deadline(DEADLINE);
        // Those that the controllers look at, and no others: each costs a moment.
        let control_plane = cluster_crds().into_iter().filter(|it| it.spec.names.kind == "CAPTControlPlane");
        let kinds: Vec<_> = sandbox::api::crds().into_iter().chain(control_plane).collect();
        writer.install_crds(&kinds).await.unwrap();
        let names: Vec<&str> = kinds.iter().filter_map(|it| it.metadata.name.as_deref()).collect();
        let missing = writer.established(&names, Duration::from_mins(10)).await.unwrap();
        assert!(missing.is_empty(), "{missing:?}");
        for object in account::objects() {
            apply(&client, object).await;
        }
        let operator = server.client_of(account::user(), "setup").await;
        for client in [client, operator] {
            until_served(&Api::<Sandbox>::all(client.clone())).await;
            until_served(&Api::<RouteGroup>::all(client.clone())).await;
            until_served(&Api::<LocalWorkload>::all(client.clone())).await;
            until_served(&Api::<CaptControlPlane>::all(client)).await;
        }
        Self {
            operator: server.client_of(account::user(), account::AGENT).await,
            server,
            node,
            trouble: InjectedFaults::default(),
            preview_domain: None,
            clock: terraform_driver::clock::now,
            running: None,
            home: tempfile::tempdir().unwrap(),
        }
    }

    /// Starts the controllers.
    pub(crate) fn begin(&mut self) {
        self.begin_until(None);
    }

    /// Starts the controllers, which die like this.
    pub(crate) fn begin_until(&mut self, death: Option<Death>) -> Fate {
        let (client, fate) = mortal::client(self.trouble.client(self.operator()), death);
        let kube = Kube::new(client).with_deadline(DEADLINE);
        let events = Events::new(kube.clone(), "capt/sandbox", "test");
        let settings = Settings { preview_domain: self.preview_domain.clone(), ..Settings::default() };
        let stop = CancellationToken::new();
        let crew = Crew { kube: kube.clone(), settings: settings.clone(), meter: Arc::new(()) };
        let ground = Ground::Home(outposts(&crew, &TaskTracker::new(), &stop));
        let context = Context::new(kube, settings, events, "v1beta2").with_clock(self.clock);
        let context = Arc::new(context);
        let board = Arc::new(Board::start(&context));
        let sandboxes = controller::run(&context, Arc::clone(&board), ground, stop.clone().cancelled_owned());
        let groups = routegroup::run(Arc::clone(&context), board, stop.clone().cancelled_owned());
        let locals = localworkload::run(context, stop.clone().cancelled_owned());
        let all = async move {
            tokio::join!(sandboxes, groups, locals);
        };
        let work = tokio::spawn(all);
        self.running = Some(Running { stop, work });
        fate
    }

    /// Ends the controllers as a signal would, and looks whether they kept to what they may do.
    pub(crate) async fn end(&mut self) {
        let Running { stop, work } = self.running.take().unwrap();
        stop.cancel();
        work.await.unwrap();
        account::judge(&self.requests());
    }

    /// Ends the controllers as a kill would.
    pub(crate) async fn kill(&mut self) {
        let Running { work, .. } = self.running.take().unwrap();
        work.abort();
        let _cancelled = work.await;
    }

    /// A kubeconfig, if it listens.
    pub(crate) fn kubeconfig(&self) -> String {
        let path = self.home.path().join("kubeconfig");
        std::fs::write(&path, self.server.kubeconfig()).unwrap();
        path.display().to_string()
    }

    pub(crate) fn client(&self) -> Client {
        self.server.client("hand")
    }

    /// A client as the account of `deploy/`.
    pub(crate) fn operator(&self) -> Client {
        self.operator.clone()
    }

    /// A namespace to work in.
    pub(crate) async fn shop(&self) -> Shop {
        Shop::open(self.client(), "shop").await
    }

    /// What the controllers asked for.
    pub(crate) fn requests(&self) -> Vec<Logged> {
        let mut all = self.server.requests();
        all.retain(|it| it.agent == account::AGENT);
        all
    }

    /// What the controllers wrote.
    pub(crate) fn writes(&self) -> Vec<Logged> {
        let mut all = self.requests();
        all.retain(Logged::is_write);
        all
    }

    /// Whether a watch of Sandboxes, or of what is around them, had to begin anew after so many requests. An API server may end
    /// watches whenever it likes, and then all Sandboxes are looked at: a test of who is looked at has to try again.
    pub(crate) fn is_disturbed(&self, after: usize) -> bool {
        let around = ["sandboxes", "deployments", "services", "pods"];
        let is_anew = |it: &Logged| {
            it.verb == Some(Verb::List) && it.namespace.is_empty() && around.contains(&it.resource.as_str())
        };
        self.requests().split_off(after).iter().any(is_anew)
    }

    /// How many watches of the controllers were restarted: all lists of all namespaces but the first of each kind.
    pub(crate) fn begun_anew(&self) -> usize {
        let mut lists = self.requests();
        lists.retain(|it| it.verb == Some(Verb::List) && it.namespace.is_empty());
        let kinds: BTreeSet<_> = lists.iter().map(|it| (&it.group, &it.resource)).collect();
        lists.len() - kinds.len()
    }

    /// Waits until the controllers have had nothing to write for a while, and wait for no answer.
    pub(crate) async fn settle(&self) {
        let begun = Instant::now();
        // A busy machine may be silent for a moment in the middle of its work.
        let (mut before, mut quiet) = (usize::MAX, 0);
        while quiet < 3 {
            assert!(begun.elapsed() < PATIENCE, "the controllers go on writing");
            let writes = self.writes().len();
            quiet = if writes == before && self.trouble.unanswered() == 0 { quiet + 1 } else { 0 };
            before = writes;
            tokio::time::sleep(Duration::from_millis(400)).await;
        }
    }

    /// Waits until a time of this length passes in which none of these is written, and shows those of the last such time
    /// otherwise. The first times may belong to the end of earlier work; one who writes again and again never leaves one out.
    pub(crate) async fn silence(&self, length: Duration, writes: impl Fn() -> Vec<Logged>) {
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

/// What a failed test leaves for people: whether the controllers slept, tried in vain, or waited for an answer.
impl Drop for World {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        let (requests, now) = (self.requests(), terraform_driver::clock::now());
        eprintln!("what the controllers asked for last, {} requests in all, until {now}:", requests.len());
        for it in requests.iter().rev().take(LAST).rev() {
            let Logged { at, took, verb, resource, subresource, namespace, name, code, .. } = it;
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

/// What the controllers log: nothing but errors, unless somebody wants to see more, such as `capt=debug`. Of refused requests
/// nothing either: a server that comes up is asked until it answers.
#[expect(clippy::disallowed_methods, reason = "a test reads the environment that it was started in")]
fn log_filter() -> String {
    std::env::var("CAPT_LOG").unwrap_or_else(|_| "error,kube_client=off".to_owned())
}
