//! A fake node: binds pods, reports them as running, and removes deleted ones. It runs no containers.
//!
//! The control plane, embedded or real, creates the pods of Deployments. Pods get unique addresses; tests that serve traffic assign
//! them with [`Node::start_with`].

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
};

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{Container, Node as NodeObject, Pod};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
    runtime::{WatchStreamExt as _, watcher},
};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio_util::sync::{CancellationToken, DropGuard};

const NODE_NAME: &str = "harness";

/// Assigns the address of a pod.
type AddressFn = Box<dyn Fn(&Pod) -> String + Send + Sync>;

/// The node; stops when dropped.
pub(crate) struct FakeNode {
    inner: Arc<FakeNodeInner>,
    _stop: DropGuard,
}

struct FakeNodeInner {
    client: Client,
    /// Only pods of this namespace; all if `None`.
    namespace: Option<String>,
    addresses: AddressFn,
    /// Images that fail to start, with reason and message of the kubelet.
    failing_images: Mutex<BTreeMap<String, (String, String)>>,
    /// Images whose pods are not scheduled.
    unscheduled_images: Mutex<BTreeSet<String>>,
    resync: Notify,
}

#[allow(dead_code, reason = "several test targets share this file, and none uses all of it")]
impl FakeNode {
    /// For all pods, with generated addresses.
    pub(crate) async fn start(client: Client) -> Self {
        Self::start_inner(client, None, default_addresses()).await
    }

    /// For the pods of one namespace, with generated addresses.
    pub(crate) async fn start_in(client: Client, namespace: &str) -> Self {
        Self::start_inner(client, Some(namespace.to_owned()), default_addresses()).await
    }

    /// With addresses from a function.
    pub(crate) async fn start_with(
        client: Client,
        addresses: impl Fn(&Pod) -> String + Send + Sync + 'static,
    ) -> Self {
        Self::start_inner(client, None, Box::new(addresses)).await
    }

    async fn start_inner(client: Client, namespace: Option<String>, addresses: AddressFn) -> Self {
        let node: NodeObject = serde_json::from_value(json!({"metadata": {"name": NODE_NAME}})).unwrap();
        let nodes: Api<NodeObject> = Api::all(client.clone());
        // Several fake nodes may start at the same time.
        let _made_or_there = nodes.create(&PostParams::default(), &node).await;
        let inner = Arc::new(FakeNodeInner {
            client,
            namespace,
            addresses,
            failing_images: Mutex::default(),
            unscheduled_images: Mutex::default(),
            resync: Notify::new(),
        });
        let stop = CancellationToken::new();
        tokio::spawn(stop.clone().run_until_cancelled_owned(FakeNodeInner::run(Arc::clone(&inner))));
        Self { inner, _stop: stop.drop_guard() }
    }

    /// Pods with this image fail to start from now on, with this reason.
    pub(crate) fn fail_image(&self, image: &str, reason: &str, message: &str) {
        let why = (reason.to_owned(), message.to_owned());
        self.inner.failing_images.lock().unwrap().insert(image.to_owned(), why);
        self.inner.resync.notify_one();
    }

    /// Pods with this image are not scheduled from now on.
    pub(crate) fn leave_unscheduled(&self, image: &str) {
        self.inner.unscheduled_images.lock().unwrap().insert(image.to_owned());
    }

    /// All images can be started again.
    pub(crate) fn clear_failures(&self) {
        self.inner.failing_images.lock().unwrap().clear();
        self.inner.unscheduled_images.lock().unwrap().clear();
        self.inner.resync.notify_one();
    }
}

impl FakeNodeInner {
    async fn run(self: Arc<Self>) {
        let pods: Api<Pod> = match &self.namespace {
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
            None => Api::all(self.client.clone()),
        };
        let changes = watcher(pods.clone(), watcher::Config::default()).default_backoff().applied_objects();
        let mut changes = std::pin::pin!(changes.into_stream());
        loop {
            tokio::select! {
                change = changes.next() => match change {
                    Some(Ok(pod)) => self.sync_pod(&pod).await,
                    // The watcher restarts a failed watch.
                    Some(Err(_)) => {}
                    None => return,
                },
                () = self.resync.notified() => {
                    let Ok(all) = pods.list(&ListParams::default()).await else { continue };
                    for pod in all {
                        self.sync_pod(&pod).await;
                    }
                }
            }
        }
    }

    /// Advances a pod by one step. Conflicts are ignored: the next event retries.
    async fn sync_pod(&self, pod: &Pod) {
        let namespace = pod.namespace().unwrap_or_default();
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &namespace);
        let (name, spec, status) = (pod.name_any(), pod.spec.clone().unwrap_or_default(), pod.status.clone());
        let phase = status.and_then(|it| it.phase).unwrap_or_default();
        if pod.metadata.deletion_timestamp.is_some() {
            let at_once = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
            let _gone_or_next_time = pods.delete(&name, &at_once).await;
        } else if spec.node_name.is_none() {
            let is_left = |it: &Container| {
                it.image.as_ref().is_some_and(|it| self.unscheduled_images.lock().unwrap().contains(it))
            };
            if spec.containers.iter().any(is_left) {
                return;
            }
            let _bound_or_next_time = self.bind(&namespace, &name).await;
        } else if phase.is_empty() || phase == "Pending" {
            let status = self.pod_status(pod, &spec.containers);
            let patch = Patch::Merge(json!({ "status": status }));
            let _told_or_next_time = pods.patch_status(&name, &PatchParams::default(), &patch).await;
        }
    }

    async fn bind(&self, namespace: &str, name: &str) -> Result<Value, kube::Error> {
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
            "target": {"apiVersion": "v1", "kind": "Node", "name": NODE_NAME},
        });
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/binding");
        let request = http::Request::post(path)
            .header("content-type", "application/json")
            .body(binding.to_string().into_bytes())
            .unwrap();
        self.client.request(request).await
    }

    /// The status that a kubelet would report.
    fn pod_status(&self, pod: &Pod, containers: &[Container]) -> Value {
        let refused = self.failing_images.lock().unwrap();
        let why = |image: &Option<String>| image.as_ref().and_then(|it| refused.get(it));
        let runs = containers.iter().all(|it| why(&it.image).is_none());
        let one = |Container { name, image, .. }: &Container| {
            let state = match why(image) {
                Some((reason, message)) => json!({"waiting": {"reason": reason, "message": message}}),
                None => json!({"running": {"startedAt": NOW}}),
            };
            json!({"name": name, "image": image, "imageID": "", "ready": runs, "restartCount": 0, "state": state})
        };
        let is = |kind: &str, holds: bool| json!({"type": kind, "status": if holds { "True" } else { "False" }, "lastTransitionTime": NOW});
        let address = pod.status.as_ref().and_then(|it| it.pod_ip.clone());
        let address = address.unwrap_or_else(|| (self.addresses)(pod));
        json!({
            "phase": if runs { "Running" } else { "Pending" },
            "podIP": address, "podIPs": [{"ip": address}],
            "conditions": [
                is("PodScheduled", true), is("Initialized", true), is("ContainersReady", runs), is("Ready", runs),
            ],
            "containerStatuses": containers.iter().map(one).collect::<Vec<_>>(),
        })
    }
}

fn default_addresses() -> AddressFn {
    Box::new(|_| next_address())
}

/// An address that no other pod of this process has.
pub(crate) fn next_address() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let [_, a, b, c] = NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes();
    format!("10.{a}.{b}.{c}")
}

/// Timestamp of all transitions; not evaluated.
const NOW: &str = "2026-11-01T10:00:00Z";
