//! Test harness: an API server, the controller, a fake workspace controller and a fake EKS.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use capt_engine::aws::{EksAddon, EksApi, EksCluster, EksFargateProfile, EksToken, EksTokenError, Principal};
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::fake_eks::FakeEks;
use crate::{
    common::Settings,
    controlplane::{self, eks_poll::EksBackend},
    testing::{TIMEOUT, TestEnv, condition},
};

pub(super) const WTA: &str = "WorkspaceTemplateApply";
pub(super) const KIND: &str = "CAPTControlPlane";
pub(super) const CONTROL_PLANE_NAME: &str = "demo-captcontrolplane";
pub(super) const EKS_APPLY_NAME: &str = "demo-captcontrolplane-eks-controlplane-apply";
const FAKE_FINALIZER: &str = "test/workspace";

/// Name of the workspace of a profile.
pub(super) fn profile_apply_name(profile: &str) -> String {
    format!("{CONTROL_PLANE_NAME}-{profile}-fargate-apply")
}

/// Fake of the EKS backend.
pub(super) struct FakeEksBackend {
    pub(super) eks: Arc<FakeEks>,
    pub(super) api: Mutex<Result<(), String>>,
    pub(super) tokens: AtomicUsize,
}

impl EksBackend for FakeEksBackend {
    fn eks_client<'a>(&'a self, _: &'a Principal, _: &'a str) -> BoxFuture<'a, Arc<dyn EksApi>> {
        let eks: Arc<dyn EksApi> = self.eks.clone();
        Box::pin(async move { eks })
    }

    fn issue_token<'a>(
        &'a self,
        _: &'a Principal,
        _: &'a str,
        cluster: &'a str,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<EksToken, EksTokenError>> {
        let number = self.tokens.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            let expires_at = now.saturating_add(SignedDuration::from_mins(14)).unwrap();
            Ok(EksToken { bearer: format!("token-{cluster}-{number}").into(), expires_at })
        })
    }

    fn probe_api_server<'a>(&'a self, kubeconfig: &'a str) -> BoxFuture<'a, Result<(), String>> {
        assert!(kubeconfig.contains("token-"), "{kubeconfig}");
        Box::pin(async move { self.api.lock().unwrap().clone() })
    }
}

/// Behavior of the fake workspace controller, and what it did.
#[derive(Default)]
pub(super) struct FakeRunBehavior {
    /// These make no progress.
    pub(super) stalled: BTreeSet<String>,
    /// These fail with this error.
    pub(super) failing: BTreeMap<String, Value>,
    /// The runs of these succeed, but their resources do not appear in EKS.
    pub(super) lost_in_eks: BTreeSet<String>,
    /// The versions that were applied, without repetition.
    pub(super) applied_versions: Vec<String>,
    /// Destroyed workspaces, in order.
    pub(super) destroyed: Vec<String>,
}

pub(super) struct Harness {
    pub(super) env: TestEnv,
    pub(super) backend: Arc<FakeEksBackend>,
    pub(super) behavior: Arc<Mutex<FakeRunBehavior>>,
    pub(super) cluster: Value,
    _stop: DropGuard,
}

impl Harness {
    /// A Cluster with a ready network, and a control plane with this spec that it owns.
    pub(super) async fn with_control_plane(spec: Value) -> Self {
        let world = Self::start(Settings::default()).await;
        world.create_network("eu-central-1").await;
        world.env.create(KIND, json!({"metadata": {"name": CONTROL_PLANE_NAME}, "spec": spec})).await;
        world.env.set_owner(KIND, CONTROL_PLANE_NAME, &world.cluster).await;
        world.mark_infrastructure_provisioned().await;
        world
    }

    /// Only a Cluster and the controller.
    pub(super) async fn start(settings: Settings) -> Self {
        let rig = TestEnv::start_with(settings).await;
        let cluster = rig.create_cluster("demo").await;
        let cloud = Arc::new(FakeEksBackend {
            eks: Arc::default(),
            api: Mutex::new(Ok(())),
            tokens: AtomicUsize::new(0),
        });
        let ctx = controlplane::Context::new(rig.ctx.clone(), cloud.clone())
            .with_poll_interval(Duration::from_millis(300));
        let stop = CancellationToken::new();
        tokio::spawn(controlplane::run(Arc::new(ctx), stop.clone().cancelled_owned()));
        let orders = Arc::<Mutex<FakeRunBehavior>>::default();
        Self { env: rig, backend: cloud, behavior: orders, cluster, _stop: stop.drop_guard() }
    }

    /// Acts as Cluster API: reports the infrastructure as provisioned.
    pub(super) async fn mark_infrastructure_provisioned(&self) {
        let status = json!({"initialization": {"infrastructureProvisioned": true}});
        self.env.set_status("Cluster", "demo", status).await;
    }

    /// Creates the `CAPTCluster` of the Cluster.
    pub(super) async fn create_network(&self, region: &str) {
        let name = "demo-captcluster";
        self.env.create("CAPTCluster", json!({"metadata": {"name": name}, "spec": {"region": region}})).await;
        self.env.set_owner("CAPTCluster", name, &self.cluster).await;
    }

    /// Starts the fake workspace controller.
    pub(super) fn run_fake_workspaces(&self) {
        let worker = FakeWorkspaces {
            api: self.env.api(WTA),
            eks: self.backend.eks.clone(),
            behavior: self.behavior.clone(),
        };
        let parts = self.env.api(WTA);
        tokio::spawn(async move {
            loop {
                let Ok(all) = parts.list(&kube::api::ListParams::default()).await else { return };
                for one in all.items {
                    worker.reconcile(serde_json::to_value(&one).unwrap()).await;
                }
                tokio::time::sleep(Duration::from_millis(25)).await;
            }
        });
    }

    /// Changes the behavior of the fake workspace controller.
    pub(super) fn with_behavior<T>(&self, change: impl FnOnce(&mut FakeRunBehavior) -> T) -> T {
        change(&mut self.behavior.lock().unwrap())
    }

    /// Waits until the control plane satisfies the predicate.
    pub(super) async fn wait_until(&self, is_so: impl Fn(&Value) -> bool) -> Value {
        self.env.wait_until(KIND, CONTROL_PLANE_NAME, is_so).await
    }

    /// Waits for it to be Ready.
    pub(super) async fn wait_until_ready(&self) -> Value {
        self.wait_until(|it| it["status"]["phase"] == "Ready").await
    }

    /// Waits for three more EKS queries, after which the effects of the first one are complete.
    pub(super) async fn wait_for_eks_polls(&self) {
        let asked = || {
            self.backend
                .eks
                .with_state(|world| world.queries.iter().filter(|it| it.starts_with("cluster ")).count())
        };
        let before = asked();
        let asking = async {
            while asked() < before + 3 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(TIMEOUT, asking).await.expect("EKS is not queried any more");
    }
}

/// ARN of a cluster of the fake EKS.
pub(super) fn cluster_arn(name: &str) -> String {
    format!("arn:aws:eks:eu-central-1:123456789012:cluster/{name}")
}

/// The clusters in the state of a workspace.
fn eks_cluster_arns(apply: &Value) -> Vec<String> {
    let name = apply["spec"]["inputs"]["cluster_name"].as_str().unwrap_or_default();
    if apply["spec"]["module"] == "eks" { vec![cluster_arn(name)] } else { Vec::new() }
}

struct FakeWorkspaces {
    api: kube::Api<kube::api::DynamicObject>,
    eks: Arc<FakeEks>,
    behavior: Arc<Mutex<FakeRunBehavior>>,
}

impl FakeWorkspaces {
    async fn reconcile(&self, apply: Value) {
        let meta = &apply["metadata"];
        let name = meta["name"].as_str().unwrap().to_owned();
        if self.behavior.lock().unwrap().stalled.contains(&name) {
            return;
        }
        let is_held =
            meta["finalizers"].as_array().is_some_and(|all| all.iter().any(|it| it == FAKE_FINALIZER));
        if meta.get("deletionTimestamp").is_some() {
            if is_held && !self.behavior.lock().unwrap().failing.contains_key(&name) {
                self.destroy(&name, &apply);
                self.patch(&name, json!({"metadata": {"finalizers": null}})).await;
            } else if is_held {
                self.finish_run(&name, &apply).await;
            }
            return;
        }
        if !is_held {
            self.patch(&name, json!({"metadata": {"finalizers": [FAKE_FINALIZER]}})).await;
        }
        let requested = meta["annotations"]["capt.x-k8s.io/requested-at"].as_str().unwrap_or_default();
        let wanted = format!("{}-{requested}", meta["generation"]);
        let broken = self.behavior.lock().unwrap().failing.contains_key(&name);
        let is_told = apply["status"]["observedGeneration"] == meta["generation"];
        let failed = apply["status"].get("lastError").is_some();
        if apply["status"]["run"]["id"] == wanted.as_str() && is_told && broken == failed {
            return;
        }
        self.finish_run(&name, &apply).await;
    }

    /// Reports the end of a run, and updates the fake EKS.
    async fn finish_run(&self, name: &str, apply: &Value) {
        let meta = &apply["metadata"];
        let requested = meta["annotations"]["capt.x-k8s.io/requested-at"].as_str().unwrap_or_default();
        let id = format!("{}-{requested}", meta["generation"]);
        let broken = self.behavior.lock().unwrap().failing.get(name).cloned();
        let status = match broken {
            Some(error) => json!({
                "observedGeneration": meta["generation"], "lastError": error, "outputs": apply["status"]["outputs"].as_object().cloned().unwrap_or_default(),
                "conditions": [condition("Synced", "False", "ReconcileError"), condition("Ready", "False", "Unavailable")],
                "run": {"id": id, "operation": "Apply", "phase": "Failed"},
            }),
            None => json!({
                "observedGeneration": meta["generation"], "applied": true, "lastAppliedTime": "2026-11-01T10:00:00Z",
                "outputs": self.apply(name, apply), "eksClusterArns": eks_cluster_arns(apply), "workspaceName": name.trim_end_matches("-apply"),
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

    /// Creates in the fake EKS what Terraform would create, and returns the outputs.
    fn apply(&self, name: &str, apply: &Value) -> Value {
        let inputs = &apply["spec"]["inputs"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let cluster = text(&inputs["cluster_name"]);
        let is_forgotten = self.behavior.lock().unwrap().lost_in_eks.contains(name);
        match apply["spec"]["module"].as_str() {
            Some("eks") => {
                let version = text(&inputs["kubernetes_version"]);
                let mut orders = self.behavior.lock().unwrap();
                if orders.applied_versions.last() != Some(&version) {
                    orders.applied_versions.push(version.clone());
                }
                let owner = inputs["owner"]
                    .as_str()
                    .map(|owner| ("capt.x-k8s.io/owner".to_owned(), owner.to_owned()));
                let view = EksCluster {
                    name: cluster.clone(),
                    arn: cluster_arn(&cluster),
                    tags: owner.into_iter().collect(),
                    status: "ACTIVE".to_owned(),
                    version: Some(version),
                    endpoint: Some("https://127.0.0.1:40123".to_owned()),
                    certificate_authority: Some(BASE64_STANDARD.encode("PEM\n")),
                    ..EksCluster::default()
                };
                let outputs = json!({"cluster_name": cluster, "cluster_endpoint": view.endpoint,
                    "cluster_version": view.version, "fargate_profiles": {"system": {}}});
                self.eks.with_state(|world| {
                    world.clusters.insert(cluster.clone(), view);
                    let addon = EksAddon {
                        name: "coredns".to_owned(),
                        status: "ACTIVE".to_owned(),
                        ..EksAddon::default()
                    };
                    world.addons.insert(cluster, vec![addon]);
                });
                outputs
            }
            _ => {
                let profile = text(&inputs["profile_name"]);
                let view = EksFargateProfile {
                    name: profile.clone(),
                    arn: format!("arn:{profile}"),
                    status: "ACTIVE".to_owned(),
                    ..EksFargateProfile::default()
                };
                if !is_forgotten {
                    self.eks.with_state(|world| world.profiles.insert((cluster, profile.clone()), view));
                }
                json!({"fargate_profile_name": profile})
            }
        }
    }

    fn destroy(&self, name: &str, apply: &Value) {
        let inputs = &apply["spec"]["inputs"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (cluster, profile) = (text(&inputs["cluster_name"]), text(&inputs["profile_name"]));
        self.eks.with_state(|world| match apply["spec"]["module"].as_str() {
            Some("eks") => drop(world.clusters.remove(&cluster)),
            _ => drop(world.profiles.remove(&(cluster, profile))),
        });
        self.behavior.lock().unwrap().destroyed.push(name.to_owned());
    }

    async fn patch(&self, name: &str, patch: Value) {
        let _ =
            self.api.patch(name, &kube::api::PatchParams::default(), &kube::api::Patch::Merge(patch)).await;
    }
}
