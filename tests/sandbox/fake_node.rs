//! A node without a kubelet: it binds pods, says that they run, and lets them go when they are deleted.
//!
//! Deployment → `ReplicaSet` → Pod is the control plane's part, embedded or real. Pods get addresses that no other pod has;
//! whoever runs processes behind them says which with [`Node::start_with`].

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

const NAME: &str = "harness";

/// Where a pod can be reached, for pods that have processes.
type Addresses = Box<dyn Fn(&Pod) -> String + Send + Sync>;

/// The node; it ends when it is dropped.
pub(crate) struct Node {
    inner: Arc<Inner>,
    _ends: DropGuard,
}

struct Inner {
    client: Client,
    /// The one namespace whose pods it takes; all of them otherwise.
    namespace: Option<String>,
    addresses: Addresses,
    /// Images that cannot be started, each with the reason and the message of the kubelet.
    refused: Mutex<BTreeMap<String, (String, String)>>,
    /// Images whose pods get no node.
    left: Mutex<BTreeSet<String>>,
    look: Notify,
}

#[allow(dead_code, reason = "several test targets share this file, and none uses all of it")]
impl Node {
    /// With addresses of its own, for all pods.
    pub(crate) async fn start(client: Client) -> Self {
        Self::begin(client, None, own_addresses()).await
    }

    /// The same for the pods of one namespace: others may be better left alone.
    pub(crate) async fn start_in(client: Client, namespace: &str) -> Self {
        Self::begin(client, Some(namespace.to_owned()), own_addresses()).await
    }

    /// With the addresses that somebody else gives.
    pub(crate) async fn start_with(
        client: Client,
        addresses: impl Fn(&Pod) -> String + Send + Sync + 'static,
    ) -> Self {
        Self::begin(client, None, Box::new(addresses)).await
    }

    async fn begin(client: Client, namespace: Option<String>, addresses: Addresses) -> Self {
        let node: NodeObject = serde_json::from_value(json!({"metadata": {"name": NAME}})).unwrap();
        let nodes: Api<NodeObject> = Api::all(client.clone());
        // Several of them may begin at once.
        let _made_or_there = nodes.create(&PostParams::default(), &node).await;
        let inner = Arc::new(Inner {
            client,
            namespace,
            addresses,
            refused: Mutex::default(),
            left: Mutex::default(),
            look: Notify::new(),
        });
        let stop = CancellationToken::new();
        tokio::spawn(stop.clone().run_until_cancelled_owned(Inner::work(Arc::clone(&inner))));
        Self { inner, _ends: stop.drop_guard() }
    }

    /// Pods with this image do not start from now on: they wait for this reason.
    pub(crate) fn refuse(&self, image: &str, reason: &str, message: &str) {
        let why = (reason.to_owned(), message.to_owned());
        self.inner.refused.lock().unwrap().insert(image.to_owned(), why);
        self.inner.look.notify_one();
    }

    /// Pods with this image get no node from now on.
    pub(crate) fn leave(&self, image: &str) {
        self.inner.left.lock().unwrap().insert(image.to_owned());
    }

    /// All images can be started again.
    pub(crate) fn heal(&self) {
        self.inner.refused.lock().unwrap().clear();
        self.inner.left.lock().unwrap().clear();
        self.inner.look.notify_one();
    }
}

impl Inner {
    async fn work(self: Arc<Self>) {
        let pods: Api<Pod> = match &self.namespace {
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
            None => Api::all(self.client.clone()),
        };
        let changes = watcher(pods.clone(), watcher::Config::default()).default_backoff().applied_objects();
        let mut changes = std::pin::pin!(changes.into_stream());
        loop {
            tokio::select! {
                change = changes.next() => match change {
                    Some(Ok(pod)) => self.attend(&pod).await,
                    // A watch that broke is begun anew by the watcher.
                    Some(Err(_)) => {}
                    None => return,
                },
                () = self.look.notified() => {
                    let Ok(all) = pods.list(&ListParams::default()).await else { continue };
                    for pod in all {
                        self.attend(&pod).await;
                    }
                }
            }
        }
    }

    /// Brings a pod one step further. Somebody may be faster, and then the next change tells.
    async fn attend(&self, pod: &Pod) {
        let namespace = pod.namespace().unwrap_or_default();
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &namespace);
        let (name, spec, status) = (pod.name_any(), pod.spec.clone().unwrap_or_default(), pod.status.clone());
        let phase = status.and_then(|it| it.phase).unwrap_or_default();
        if pod.metadata.deletion_timestamp.is_some() {
            let at_once = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
            let _gone_or_next_time = pods.delete(&name, &at_once).await;
        } else if spec.node_name.is_none() {
            let is_left =
                |it: &Container| it.image.as_ref().is_some_and(|it| self.left.lock().unwrap().contains(it));
            if spec.containers.iter().any(is_left) {
                return;
            }
            let _bound_or_next_time = self.bind(&namespace, &name).await;
        } else if phase.is_empty() || phase == "Pending" {
            let status = self.status(pod, &spec.containers);
            let patch = Patch::Merge(json!({ "status": status }));
            let _told_or_next_time = pods.patch_status(&name, &PatchParams::default(), &patch).await;
        }
    }

    async fn bind(&self, namespace: &str, name: &str) -> Result<Value, kube::Error> {
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
            "target": {"apiVersion": "v1", "kind": "Node", "name": NAME},
        });
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}/binding");
        let request = http::Request::post(path)
            .header("content-type", "application/json")
            .body(binding.to_string().into_bytes())
            .unwrap();
        self.client.request(request).await
    }

    /// What a kubelet says of a pod that was started, or could not be.
    fn status(&self, pod: &Pod, containers: &[Container]) -> Value {
        let refused = self.refused.lock().unwrap();
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

fn own_addresses() -> Addresses {
    Box::new(|_| next_address())
}

/// An address that no other pod of this process has.
pub(crate) fn next_address() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let [_, a, b, c] = NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes();
    format!("10.{a}.{b}.{c}")
}

/// When everything happened: nobody here asks.
const NOW: &str = "2026-11-01T10:00:00Z";
