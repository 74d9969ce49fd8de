//! A Kubernetes API with our kinds, and people of whom some may connect.

use std::{
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use capt::k8s::Kube;
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
use sandbox::api::{LocalWorkload, Sandbox, crds};
use serde_json::{Value, json};

use super::{
    agent::Agent,
    server::{PATIENCE, Server, until_allowed, until_served},
};

pub(crate) const HOME: &str = "shop";
pub(crate) const NAME: &str = "cart-local";
/// Who may connect, and who may not.
const PEOPLE: [(&str, bool); 3] = [("ann", true), ("zoe", true), ("bob", false)];
/// Who routers are, by `deploy/router`.
const ROUTER: &str = "system:serviceaccount:shop:capt-router";

pub(crate) struct Cluster {
    pub(crate) server: Server,
    pub(crate) client: kube::Client,
    dir: tempfile::TempDir,
}

impl Cluster {
    pub(crate) async fn start() -> Self {
        let mut users: Vec<(&str, &str)> = PEOPLE.iter().map(|(name, _)| (*name, *name)).collect();
        users.push(("router", ROUTER));
        let server = Server::listening(&users).await;
        let client = server.client("hand");
        let cluster = Self { server, client, dir: tempfile::tempdir().unwrap() };
        cluster.install().await;
        cluster
    }

    async fn install(&self) {
        let create = PostParams::default();
        let all: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        for crd in crds() {
            all.create(&create, &crd).await.unwrap();
        }
        let namespace = serde_json::from_value(json!({"metadata": {"name": HOME}})).unwrap();
        Api::<Namespace>::all(self.client.clone()).create(&create, &namespace).await.unwrap();
        for (user, may_connect) in PEOPLE {
            let rules = rules(may_connect);
            let role = serde_json::from_value(json!({"metadata": {"name": user}, "rules": rules})).unwrap();
            Api::<Role>::namespaced(self.client.clone(), HOME).create(&create, &role).await.unwrap();
            let binding = serde_json::from_value(json!({
                "metadata": {"name": user},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": user},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
            }))
            .unwrap();
            Api::<RoleBinding>::namespaced(self.client.clone(), HOME)
                .create(&create, &binding)
                .await
                .unwrap();
        }
        let names = crds().into_iter().filter_map(|it| it.metadata.name).collect::<Vec<_>>();
        let names = names.iter().map(String::as_str).collect::<Vec<_>>();
        let writer = Kube::new(self.client.clone());
        assert_eq!(writer.established(&names, PATIENCE).await.unwrap(), Vec::<String>::new());
        until_served(&self.api()).await;
        until_served(&Api::<Sandbox>::all(self.client.clone())).await;
        for (user, _) in PEOPLE {
            let look = ResourceAttributes {
                namespace: Some(HOME.to_owned()),
                verb: Some("get".to_owned()),
                group: Some("sandbox.capt.x-k8s.io".to_owned()),
                resource: Some("localworkloads".to_owned()),
                name: Some(NAME.to_owned()),
                ..ResourceAttributes::default()
            };
            until_allowed(&self.client, user, &look).await;
        }
    }

    pub(crate) fn api(&self) -> Api<LocalWorkload> {
        Api::namespaced(self.client.clone(), HOME)
    }

    /// Makes the local workload.
    pub(crate) async fn make(&self, mappings: &Value) {
        let object = json!({
            "apiVersion": "sandbox.capt.x-k8s.io/v1alpha1", "kind": "LocalWorkload",
            "metadata": {"name": NAME, "namespace": HOME},
            "spec": {"sandboxRef": {"name": "pr-1"}, "from": {"kind": "Deployment", "name": "cart"},
                     "mappings": mappings, "disconnectGracePeriod": "1s"},
        });
        let object = serde_json::from_value(object).unwrap();
        self.api().create(&PostParams::default(), &object).await.unwrap();
    }

    pub(crate) async fn change(&self, mappings: &Value) {
        let patch = json!({"spec": {"mappings": mappings}});
        self.api().patch(NAME, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    /// How long somebody is waited for who is gone.
    pub(crate) async fn wait_for(&self, grace: &str) {
        let patch = json!({"spec": {"disconnectGracePeriod": grace}});
        self.api().patch(NAME, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    pub(crate) async fn delete(&self) {
        self.api().delete(NAME, &DeleteParams::default()).await.unwrap();
    }

    /// Plays another router, with a newer session.
    pub(crate) async fn session_elsewhere(&self, user: &str, epoch: i64) {
        let session = json!({"id": "other", "user": user, "gateway": "router-1", "epoch": epoch});
        let connected = json!({"type": "Connected", "status": "True", "reason": "Connected", "message": "",
                               "lastTransitionTime": "2026-11-17T05:00:00Z"});
        let patch = json!({"status": {"phase": "Connected", "session": session, "conditions": [connected]}});
        self.api().patch_status(NAME, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    /// Waits until the status is like this.
    pub(crate) async fn until(&self, is_so: impl Fn(&Value) -> bool) -> Value {
        let begun = Instant::now();
        loop {
            let found = self.api().get(NAME).await.unwrap();
            let last = serde_json::to_value(found.status).unwrap();
            if is_so(&last) {
                return last;
            }
            assert!(begun.elapsed() < PATIENCE, "the status did not become so: {last:#}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// A developer runs `capt connect` with these arguments.
    pub(crate) fn run_connect(&self, user: &str, args: &[&str]) -> Agent {
        let kubeconfig = self.kubeconfig(user);
        let mut all = vec!["connect", NAME, "-n", HOME, "--kubeconfig", &kubeconfig];
        all.extend(args);
        Agent::start(&all, self.dir.path())
    }

    pub(crate) fn home(&self) -> &std::path::Path {
        self.dir.path()
    }

    /// A file with the way of somebody to the API server.
    pub(crate) fn kubeconfig(&self, user: &str) -> String {
        self.file(&format!("kubeconfig-{user}"), &self.server.kubeconfig_of(user))
    }

    /// Writes a file and names it.
    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path: PathBuf = self.dir.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

/// The status of a condition.
pub(crate) fn said(status: &Value, type_: &str) -> String {
    let all = status["conditions"].as_array().cloned().unwrap_or_default();
    let one = all.iter().find(|it| it["type"] == type_).cloned().unwrap_or_default();
    one["status"].as_str().unwrap_or_default().to_owned()
}

/// What docs/sandbox.md says that a developer needs, but for the port-forward.
fn rules(may_connect: bool) -> Value {
    let group = "sandbox.capt.x-k8s.io";
    let mut rules = vec![
        json!({"apiGroups": [group], "resources": ["localworkloads"], "verbs": ["get"]}),
        json!({"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["capt-tunnel-authority"],
               "verbs": ["get"]}),
    ];
    if may_connect {
        rules.push(
            json!({"apiGroups": [group], "resources": ["localworkloads/tunnel"], "resourceNames": [NAME],
                          "verbs": ["connect"]}),
        );
    }
    json!(rules)
}
