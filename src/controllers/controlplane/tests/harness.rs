//! A world to test in: an API server, the controller, workspaces that do what they are told, an EKS that says so.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    aws::{AddonView, AskEks, ClusterView, Principal, ProfileView, Token, TokenError, fake::FakeEks},
    controllers::{
        common::Settings,
        controlplane::{self, look::Cloud},
        rig::{PATIENCE, Rig, condition},
    },
};

pub(super) const WTA: &str = "WorkspaceTemplateApply";
pub(super) const KIND: &str = "CAPTControlPlane";
pub(super) const CP: &str = "demo-captcontrolplane";
pub(super) const EKS: &str = "demo-captcontrolplane-eks-controlplane-apply";
const HOLD: &str = "test/workspace";

/// The workspace of a profile.
pub(super) fn apply_of(profile: &str) -> String {
    format!("{CP}-{profile}-fargate-apply")
}

/// The world behind the trait.
pub(super) struct FakeCloud {
    pub(super) eks: Arc<FakeEks>,
    pub(super) api: Mutex<Result<(), String>>,
    pub(super) tokens: AtomicUsize,
}

impl Cloud for FakeCloud {
    fn eks<'a>(&'a self, _: &'a Principal, _: &'a str) -> BoxFuture<'a, Arc<dyn AskEks>> {
        let eks: Arc<dyn AskEks> = self.eks.clone();
        Box::pin(async move { eks })
    }

    fn token<'a>(
        &'a self,
        _: &'a Principal,
        _: &'a str,
        cluster: &'a str,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Token, TokenError>> {
        let number = self.tokens.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            let expires_at = now.saturating_add(SignedDuration::from_mins(14)).unwrap();
            Ok(Token { text: format!("token-{cluster}-{number}").into(), expires_at })
        })
    }

    fn call<'a>(&'a self, kubeconfig: &'a str) -> BoxFuture<'a, Result<(), String>> {
        assert!(kubeconfig.contains("token-"), "{kubeconfig}");
        Box::pin(async move { self.api.lock().unwrap().clone() })
    }
}

/// What the fake workspaces are told.
#[derive(Default)]
pub(super) struct Orders {
    /// These do not get anywhere.
    pub(super) held: BTreeSet<String>,
    /// These fail like this.
    pub(super) broken: BTreeMap<String, Value>,
    /// These end well and EKS knows nothing of it.
    pub(super) forgotten: BTreeSet<String>,
    /// The versions that were made, each once.
    pub(super) versions: Vec<String>,
    /// What was destroyed, in order.
    pub(super) destroyed: Vec<String>,
}

pub(super) struct World {
    pub(super) rig: Rig,
    pub(super) cloud: Arc<FakeCloud>,
    pub(super) orders: Arc<Mutex<Orders>>,
    pub(super) cluster: Value,
    _stop: DropGuard,
}

impl World {
    /// A Cluster with a complete network, and a control plane like this that it owns.
    pub(super) async fn with(spec: Value) -> Self {
        let world = Self::start(Settings::default()).await;
        world.network("eu-central-1").await;
        world.rig.make(KIND, json!({"metadata": {"name": CP}, "spec": spec})).await;
        world.rig.own(KIND, CP, &world.cluster).await;
        world.provisioned().await;
        world
    }

    /// A Cluster and the controller, and nothing else.
    pub(super) async fn start(settings: Settings) -> Self {
        let rig = Rig::start_with(settings).await;
        let cluster = rig.cluster("demo").await;
        let cloud =
            Arc::new(FakeCloud { eks: Arc::default(), api: Mutex::new(Ok(())), tokens: AtomicUsize::new(0) });
        let ctx =
            controlplane::Context::new(rig.ctx.clone(), cloud.clone()).with_poll(Duration::from_millis(300));
        let stop = CancellationToken::new();
        tokio::spawn(controlplane::run(Arc::new(ctx), stop.clone().cancelled_owned()));
        let orders = Arc::<Mutex<Orders>>::default();
        Self { rig, cloud, orders, cluster, _stop: stop.drop_guard() }
    }

    /// Plays core: the infrastructure is complete.
    pub(super) async fn provisioned(&self) {
        let status = json!({"initialization": {"infrastructureProvisioned": true}});
        self.rig.set_status("Cluster", "demo", status).await;
    }

    /// The network of the Cluster.
    pub(super) async fn network(&self, region: &str) {
        let name = "demo-captcluster";
        self.rig.make("CAPTCluster", json!({"metadata": {"name": name}, "spec": {"region": region}})).await;
        self.rig.own("CAPTCluster", name, &self.cluster).await;
    }

    /// Plays the controller of workspaces from now on.
    pub(super) fn work(&self) {
        let worker =
            Worker { api: self.rig.api(WTA), eks: self.cloud.eks.clone(), orders: self.orders.clone() };
        let parts = self.rig.api(WTA);
        tokio::spawn(async move {
            loop {
                let Ok(all) = parts.list(&kube::api::ListParams::default()).await else { return };
                for one in all.items {
                    worker.work(serde_json::to_value(&one).unwrap()).await;
                }
                tokio::time::sleep(Duration::from_millis(25)).await;
            }
        });
    }

    /// Changes orders.
    pub(super) fn order<T>(&self, change: impl FnOnce(&mut Orders) -> T) -> T {
        change(&mut self.orders.lock().unwrap())
    }

    /// Waits for the control plane to be like this.
    pub(super) async fn until(&self, is_so: impl Fn(&Value) -> bool) -> Value {
        self.rig.until(KIND, CP, is_so).await
    }

    /// Waits for it to be Ready.
    pub(super) async fn until_ready(&self) -> Value {
        self.until(|it| it["status"]["phase"] == "Ready").await
    }

    /// Waits for three more questions to EKS, so that whatever they lead to has happened.
    pub(super) async fn looks(&self) {
        let asked = || {
            self.cloud.eks.with(|world| world.asked.iter().filter(|it| it.starts_with("cluster ")).count())
        };
        let before = asked();
        let asking = async {
            while asked() < before + 3 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, asking).await.expect("EKS is not asked any more");
    }
}

struct Worker {
    api: kube::Api<kube::api::DynamicObject>,
    eks: Arc<FakeEks>,
    orders: Arc<Mutex<Orders>>,
}

impl Worker {
    async fn work(&self, apply: Value) {
        let meta = &apply["metadata"];
        let name = meta["name"].as_str().unwrap().to_owned();
        if self.orders.lock().unwrap().held.contains(&name) {
            return;
        }
        let is_held = meta["finalizers"].as_array().is_some_and(|all| all.iter().any(|it| it == HOLD));
        if meta.get("deletionTimestamp").is_some() {
            if is_held && !self.orders.lock().unwrap().broken.contains_key(&name) {
                self.destroy(&name, &apply);
                self.patch(&name, json!({"metadata": {"finalizers": null}})).await;
            } else if is_held {
                self.tell(&name, &apply).await;
            }
            return;
        }
        if !is_held {
            self.patch(&name, json!({"metadata": {"finalizers": [HOLD]}})).await;
        }
        let requested = meta["annotations"]["capt.x-k8s.io/requested-at"].as_str().unwrap_or_default();
        let wanted = format!("{}-{requested}", meta["generation"]);
        let broken = self.orders.lock().unwrap().broken.contains_key(&name);
        let is_told = apply["status"]["observedGeneration"] == meta["generation"];
        let failed = apply["status"].get("lastError").is_some();
        if apply["status"]["run"]["id"] == wanted.as_str() && is_told && broken == failed {
            return;
        }
        self.tell(&name, &apply).await;
    }

    /// Says how its run ended, and lets EKS know.
    async fn tell(&self, name: &str, apply: &Value) {
        let meta = &apply["metadata"];
        let requested = meta["annotations"]["capt.x-k8s.io/requested-at"].as_str().unwrap_or_default();
        let id = format!("{}-{requested}", meta["generation"]);
        let broken = self.orders.lock().unwrap().broken.get(name).cloned();
        let status = match broken {
            Some(error) => json!({
                "observedGeneration": meta["generation"], "lastError": error, "outputs": apply["status"]["outputs"].as_object().cloned().unwrap_or_default(),
                "conditions": [condition("Synced", "False", "ReconcileError"), condition("Ready", "False", "Unavailable")],
                "run": {"id": id, "operation": "Apply", "phase": "Failed"},
            }),
            None => json!({
                "observedGeneration": meta["generation"], "applied": true, "lastAppliedTime": "2026-11-01T10:00:00Z",
                "outputs": self.make(name, apply), "workspaceName": name.trim_end_matches("-apply"),
                "conditions": [condition("Synced", "True", "ReconcileSuccess"), condition("Ready", "True", "Available")],
                "run": {"id": id, "operation": "Apply", "phase": "Succeeded"},
            }),
        };
        if status["lastError"] == apply["status"]["lastError"] && status["run"] == apply["status"]["run"] {
            return;
        }
        let patch = kube::api::Patch::Merge(json!({"status": status}));
        let _ = self.api.patch_status(name, &kube::api::PatchParams::default(), &patch).await;
        if status.get("lastError").is_none() && apply["status"].get("lastError").is_some() {
            let patch = kube::api::Patch::Merge(json!({"status": {"lastError": null}}));
            let _ = self.api.patch_status(name, &kube::api::PatchParams::default(), &patch).await;
        }
    }

    /// What terraform would make, and its outputs.
    fn make(&self, name: &str, apply: &Value) -> Value {
        let inputs = &apply["spec"]["inputs"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let cluster = text(&inputs["cluster_name"]);
        let is_forgotten = self.orders.lock().unwrap().forgotten.contains(name);
        match apply["spec"]["module"].as_str() {
            Some("eks") => {
                let version = text(&inputs["kubernetes_version"]);
                let mut orders = self.orders.lock().unwrap();
                if orders.versions.last() != Some(&version) {
                    orders.versions.push(version.clone());
                }
                let view = ClusterView {
                    name: cluster.clone(),
                    status: "ACTIVE".to_owned(),
                    version: Some(version),
                    endpoint: Some("https://127.0.0.1:40123".to_owned()),
                    certificate_authority: Some(BASE64_STANDARD.encode("PEM\n")),
                    ..ClusterView::default()
                };
                let outputs = json!({"cluster_name": cluster, "cluster_endpoint": view.endpoint,
                    "cluster_version": view.version, "fargate_profiles": {"system": {}}});
                self.eks.with(|world| {
                    world.clusters.insert(cluster.clone(), view);
                    let addon = AddonView {
                        name: "coredns".to_owned(),
                        status: "ACTIVE".to_owned(),
                        ..AddonView::default()
                    };
                    world.addons.insert(cluster, vec![addon]);
                });
                outputs
            }
            _ => {
                let profile = text(&inputs["profile_name"]);
                let view = ProfileView {
                    name: profile.clone(),
                    arn: format!("arn:{profile}"),
                    status: "ACTIVE".to_owned(),
                    ..ProfileView::default()
                };
                if !is_forgotten {
                    self.eks.with(|world| world.profiles.insert((cluster, profile.clone()), view));
                }
                json!({"fargate_profile_name": profile})
            }
        }
    }

    fn destroy(&self, name: &str, apply: &Value) {
        let inputs = &apply["spec"]["inputs"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (cluster, profile) = (text(&inputs["cluster_name"]), text(&inputs["profile_name"]));
        self.eks.with(|world| match apply["spec"]["module"].as_str() {
            Some("eks") => drop(world.clusters.remove(&cluster)),
            _ => drop(world.profiles.remove(&(cluster, profile))),
        });
        self.orders.lock().unwrap().destroyed.push(name.to_owned());
    }

    async fn patch(&self, name: &str, patch: Value) {
        let _ =
            self.api.patch(name, &kube::api::PatchParams::default(), &kube::api::Patch::Merge(patch)).await;
    }
}
