//! A Kubernetes API with our CRDs, and users with and without permission to connect.

use std::{
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use capt_kinds::sandbox::{LocalWorkload, Sandbox, crds};
use capt_kube::k8s::KubeClient;
use k8s_openapi::{
    api::{
        authorization::v1::ResourceAttributes,
        core::v1::Namespace,
        rbac::v1::{Role, RoleBinding},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::{
    capt_process::CaptProcess,
    test_kube::{TIMEOUT, TestKube, wait_until_allowed, wait_until_served},
};

pub(crate) const NAMESPACE: &str = "shop";
pub(crate) const WORKLOAD: &str = "cart-local";
/// Users, and whether they may connect.
const USERS: [(&str, bool); 3] = [("ann", true), ("zoe", true), ("bob", false)];
/// The service account of `deploy/router`.
const ROUTER_USER: &str = "system:serviceaccount:shop:capt-router";

pub(crate) struct ConnectCluster {
    pub(crate) server: TestKube,
    pub(crate) client: kube::Client,
    dir: tempfile::TempDir,
}

impl ConnectCluster {
    pub(crate) async fn start() -> Self {
        let mut users: Vec<(&str, &str)> = USERS.iter().map(|(name, _)| (*name, *name)).collect();
        users.push(("router", ROUTER_USER));
        let server = TestKube::start_listening(&users).await;
        let client = server.client("hand");
        let cluster = Self { server, client, dir: tempfile::tempdir().unwrap() };
        cluster.install_crds_and_roles().await;
        cluster
    }

    async fn install_crds_and_roles(&self) {
        let create = PostParams::default();
        let all: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        for crd in crds() {
            all.create(&create, &crd).await.unwrap();
        }
        let namespace = serde_json::from_value(json!({"metadata": {"name": NAMESPACE}})).unwrap();
        Api::<Namespace>::all(self.client.clone()).create(&create, &namespace).await.unwrap();
        for (user, may_connect) in USERS {
            let rules = developer_rules(may_connect);
            let role = serde_json::from_value(json!({"metadata": {"name": user}, "rules": rules})).unwrap();
            Api::<Role>::namespaced(self.client.clone(), NAMESPACE).create(&create, &role).await.unwrap();
            let binding = serde_json::from_value(json!({
                "metadata": {"name": user},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": user},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
            }))
            .unwrap();
            Api::<RoleBinding>::namespaced(self.client.clone(), NAMESPACE)
                .create(&create, &binding)
                .await
                .unwrap();
        }
        let names = crds().into_iter().filter_map(|it| it.metadata.name).collect::<Vec<_>>();
        let names = names.iter().map(String::as_str).collect::<Vec<_>>();
        let writer = KubeClient::new(self.client.clone());
        assert_eq!(writer.wait_for_crds(&names, TIMEOUT).await.unwrap(), Vec::<String>::new());
        wait_until_served(&self.api()).await;
        wait_until_served(&Api::<Sandbox>::all(self.client.clone())).await;
        for (user, _) in USERS {
            let look = ResourceAttributes {
                namespace: Some(NAMESPACE.to_owned()),
                verb: Some("get".to_owned()),
                group: Some("sandbox.capt.x-k8s.io".to_owned()),
                resource: Some("localworkloads".to_owned()),
                name: Some(WORKLOAD.to_owned()),
                ..ResourceAttributes::default()
            };
            wait_until_allowed(&self.client, user, &look).await;
        }
    }

    pub(crate) fn api(&self) -> Api<LocalWorkload> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    /// Makes the local workload.
    pub(crate) async fn create_workload(&self, mappings: &Value) {
        let object = json!({
            "apiVersion": "sandbox.capt.x-k8s.io/v1alpha1", "kind": "LocalWorkload",
            "metadata": {"name": WORKLOAD, "namespace": NAMESPACE},
            "spec": {"sandboxRef": {"name": "pr-1"}, "from": {"kind": "Deployment", "name": "cart"},
                     "mappings": mappings, "disconnectGracePeriod": "1s"},
        });
        let object = serde_json::from_value(object).unwrap();
        self.api().create(&PostParams::default(), &object).await.unwrap();
    }

    pub(crate) async fn set_mappings(&self, mappings: &Value) {
        let patch = json!({"spec": {"mappings": mappings}});
        self.api().patch(WORKLOAD, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    /// Sets `disconnectGracePeriod`.
    pub(crate) async fn set_grace_period(&self, grace: &str) {
        let patch = json!({"spec": {"disconnectGracePeriod": grace}});
        self.api().patch(WORKLOAD, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    pub(crate) async fn delete_workload(&self) {
        self.api().delete(WORKLOAD, &DeleteParams::default()).await.unwrap();
    }

    /// Writes a newer session of another router to the status.
    pub(crate) async fn set_peer_session(&self, user: &str, epoch: i64) {
        let session = json!({"id": "other", "user": user, "gateway": "router-1", "epoch": epoch});
        let connected = json!({"type": "Connected", "status": "True", "reason": "Connected", "message": "",
                               "lastTransitionTime": "2026-11-17T05:00:00Z"});
        let patch = json!({"status": {"phase": "Connected", "session": session, "conditions": [connected]}});
        self.api().patch_status(WORKLOAD, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    /// Waits until the status is like this.
    pub(crate) async fn wait_for_status(&self, is_so: impl Fn(&Value) -> bool) -> Value {
        let begun = Instant::now();
        loop {
            let found = self.api().get(WORKLOAD).await.unwrap();
            let last = serde_json::to_value(found.status).unwrap();
            if is_so(&last) {
                return last;
            }
            assert!(begun.elapsed() < TIMEOUT, "the status did not become so: {last:#}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// A developer runs `capt connect` with these arguments.
    pub(crate) fn run_connect(&self, user: &str, args: &[&str]) -> CaptProcess {
        let kubeconfig = self.write_kubeconfig(user);
        let mut all = vec!["connect", WORKLOAD, "-n", NAMESPACE, "--kubeconfig", &kubeconfig];
        all.extend(args);
        CaptProcess::start(&all, self.dir.path())
    }

    pub(crate) fn home_dir(&self) -> &std::path::Path {
        self.dir.path()
    }

    /// Writes the kubeconfig of a user.
    pub(crate) fn write_kubeconfig(&self, user: &str) -> String {
        self.write_file(&format!("kubeconfig-{user}"), &self.server.kubeconfig_for(user))
    }

    /// Writes a file and names it.
    pub(crate) fn write_file(&self, name: &str, text: &str) -> String {
        let path: PathBuf = self.dir.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

/// The status of a condition.
pub(crate) fn condition_status(status: &Value, type_: &str) -> String {
    let all = status["conditions"].as_array().cloned().unwrap_or_default();
    let one = all.iter().find(|it| it["type"] == type_).cloned().unwrap_or_default();
    one["status"].as_str().unwrap_or_default().to_owned()
}

/// What docs/sandbox.md says that a developer needs, but for the port-forward.
fn developer_rules(may_connect: bool) -> Value {
    let group = "sandbox.capt.x-k8s.io";
    let mut rules = vec![
        json!({"apiGroups": [group], "resources": ["localworkloads"], "verbs": ["get"]}),
        json!({"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["capt-tunnel-authority"],
               "verbs": ["get"]}),
    ];
    if may_connect {
        rules.push(
            json!({"apiGroups": [group], "resources": ["localworkloads/tunnel"], "resourceNames": [WORKLOAD],
                          "verbs": ["connect"]}),
        );
    }
    json!(rules)
}
