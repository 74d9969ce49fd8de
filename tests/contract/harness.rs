//! A real control plane with `deploy/webhook` on it, the operator, and the local AWS.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use capt::{k8s, operator::Settings};
use conformance::RealKube;
use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::ServiceAccount,
};
use kube::{
    Api, Client,
    api::PostParams,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::AsyncWriteExt as _,
    process::{Child, Command},
    sync::Mutex,
};

use crate::{
    audit::Audit,
    capi,
    cloud::LocalAws,
    host::{self, free_ports},
    journal,
    place::PATIENCE,
    running::{Running, settings},
};

/// The operator's own, of `deploy/`.
pub(crate) const NAMESPACE: &str = "capt-system";
pub(crate) const ACCOUNT: &str = "capt";
/// Who the operator is.
pub(crate) const USER: &str = "system:serviceaccount:capt-system:capt";

/// Everything that the cases of a group share.
pub(crate) struct World {
    pub(crate) admin: Client,
    pub(crate) aws: LocalAws,
    pub(crate) audit: Audit,
    /// What `kubectl kustomize deploy/webhook` says.
    pub(crate) deployed: Vec<Value>,
    operator: Mutex<Option<Running>>,
    /// Cluster API's core, where a group has it.
    core: Option<Child>,
    settings: Settings,
    bin: PathBuf,
    pub(crate) dir: TempDir,
    real: RealKube,
}

impl World {
    /// Whether the binaries are there.
    pub(crate) fn is_possible(group: &str, bin: &Path) -> bool {
        group != "capi"
            || ["capi-core", "capi-core.yaml", "clusterctl"].iter().all(|tool| bin.join(tool).is_file())
    }

    pub(crate) async fn start(group: &str, bin: &Path) -> Self {
        journal::keep();
        let dir = tempfile::tempdir().unwrap();
        let aws = tokio::task::spawn_blocking(LocalAws::start);
        let audit = Audit::begin(dir.path());
        let mut flags = audit.flags();
        // The slices of a Service are asked for its address: nobody routes cluster addresses here.
        flags.push("--enable-aggregator-routing=true".to_owned());
        // As clusters have it that are strict about owners.
        flags.push("--enable-admission-plugins=OwnerReferencesPermissionEnforcement".to_owned());
        let real = RealKube::start_with(bin, &flags).await.unwrap();
        let admin = client(&real.kubeconfig).await;
        let mut world = Self {
            admin,
            aws: aws.await.unwrap(),
            audit,
            deployed: Vec::new(),
            operator: Mutex::default(),
            core: None,
            settings: settings(),
            bin: bin.to_owned(),
            dir,
            real,
        };
        if group == "capi" {
            world.core = Some(capi::start(&world, bin).await);
        } else {
            world.install_cluster_kind().await;
        }
        world.install().await;
        let [port] = free_ports();
        world.settings.leader_election = Some(NAMESPACE.to_owned());
        world.settings.webhook_listen = Some(([0, 0, 0, 0], port).into());
        world.start_operator().await;
        world
    }

    /// What a user applies.
    async fn install(&mut self) {
        let overlay = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/webhook");
        let text = self.kubectl(&["kustomize", &overlay.display().to_string()], "").await.good();
        self.deployed = serde_saphyr::from_multiple(&text).unwrap();
        self.kubectl(&["apply", "--server-side", "-f", "-"], &text).await.good();
        self.until_served().await;
    }

    /// Until objects of all kinds are taken. `kubectl wait` gives up on a kind that has no conditions yet, and a kind is
    /// served a moment after it is established.
    pub(crate) async fn until_served(&self) {
        let begun = Instant::now();
        let names =
            self.kubectl(&["get", "crd", "-o", "jsonpath={.items[*].metadata.name}"], "").await.good();
        let kinds = names.replace(' ', ",");
        loop {
            let said = self.kubectl(&["get", &kinds, "-A", "-o", "name"], "").await;
            if said.ok {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "not all kinds are served: {said:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// The Cluster kind of somebody else, whose part the cases play.
    async fn install_cluster_kind(&self) {
        let text = include_str!("../../crds/standalone/cluster.x-k8s.io_clusters.yaml");
        let mut cluster: Value = serde_saphyr::from_str(text).unwrap();
        cluster["metadata"].as_object_mut().unwrap().shift_remove("labels");
        self.kubectl(&["apply", "--server-side", "-f", "-"], &cluster.to_string()).await.good();
    }

    /// The operator as its service account, as the Deployment starts it.
    pub(crate) async fn start_operator(&self) {
        *self.operator.lock().await = Some(self.operate(&self.data(), &self.settings).await);
        self.point_webhook_at(self.settings.webhook_listen.unwrap().port()).await;
    }

    /// A second replica, and where its webhook listens.
    pub(crate) async fn another_operator(&self) -> (Running, u16) {
        let [port] = free_ports();
        let settings =
            Settings { webhook_listen: Some(([0, 0, 0, 0], port).into()), ..self.settings.clone() };
        let home = self.dir.path().join("second");
        fs::create_dir_all(&home).unwrap();
        (self.operate(&home.join("data"), &settings).await, port)
    }

    async fn operate(&self, data: &Path, settings: &Settings) -> Running {
        let kubeconfig = self.kubeconfig_of(NAMESPACE, ACCOUNT).await;
        let way = k8s::Where { kubeconfig: Some(kubeconfig), context: None };
        let client = k8s::connect(&way).await.unwrap();
        Running::start(client, data, &self.aws.cloud(), settings).await
    }

    /// Says where the Service of the webhook leads. Without a kubelet no pod has an address.
    pub(crate) async fn point_webhook_at(&self, port: u16) {
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {
                "name": "capt-webhook-by-hand", "namespace": NAMESPACE,
                "labels": {"kubernetes.io/service-name": "capt-webhook"},
            },
            "endpoints": [{"addresses": [host::address()], "conditions": {"ready": true}}],
            "ports": [{"name": "webhook", "port": port}],
        });
        self.kubectl(&["apply", "-f", "-"], &slice.to_string()).await.good();
    }

    pub(crate) async fn stop_operator(&self) {
        if let Some(running) = self.operator.lock().await.take() {
            running.stop().await;
        }
    }

    pub(crate) async fn still_works(&self) {
        if let Some(running) = self.operator.lock().await.as_ref() {
            running.still_works();
        }
    }

    pub(crate) async fn end(&self) {
        self.stop_operator().await;
        // Kept for the groups to come.
        self.audit.all_requests();
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// A kubeconfig with a token of an account.
    pub(crate) async fn kubeconfig_of(&self, namespace: &str, account: &str) -> PathBuf {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.admin.clone(), namespace);
        let wanted = TokenRequest {
            spec: TokenRequestSpec { expiration_seconds: Some(7200), ..TokenRequestSpec::default() },
            ..TokenRequest::default()
        };
        let token = accounts.create_token_request(account, &PostParams::default(), &wanted).await.unwrap();
        let mut config: Value = serde_json::from_slice(&fs::read(&self.real.kubeconfig).unwrap()).unwrap();
        config["users"][0]["user"] = json!({ "token": token.status.unwrap().token });
        let path = self.dir.path().join(format!("{account}.kubeconfig"));
        fs::write(&path, config.to_string()).unwrap();
        path
    }

    /// One of the binaries of the real control plane, as a person calls it.
    pub(crate) async fn tool(&self, name: &str, arguments: &[&str]) -> Said {
        self.command(&self.bin.join(name), arguments, "").await
    }

    /// kubectl as the administrator.
    pub(crate) async fn kubectl(&self, arguments: &[&str], stdin: &str) -> Said {
        let own = self.bin.join("kubectl");
        let program = if own.is_file() { own } else { "kubectl".into() };
        self.command(&program, arguments, stdin).await
    }

    #[expect(clippy::disallowed_methods, reason = "a person types this")]
    pub(crate) async fn command(&self, program: &Path, arguments: &[&str], stdin: &str) -> Said {
        let mut child = Command::new(program)
            .env_clear()
            .env("HOME", self.dir.path())
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("KUBECONFIG", &self.real.kubeconfig)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        let mut pipe = child.stdin.take().unwrap();
        // A command that ends without reading its input closes the pipe; its answer says why.
        let _closed = pipe.write_all(stdin.as_bytes()).await;
        drop(pipe);
        let output = child.wait_with_output().await.unwrap();
        Said {
            what: arguments.join(" "),
            ok: output.status.success(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// What a command said.
#[derive(Debug)]
pub(crate) struct Said {
    what: String,
    pub(crate) ok: bool,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Said {
    /// Its output, if it went well.
    #[track_caller]
    pub(crate) fn good(self) -> String {
        assert!(self.ok, "{}: {}{}", self.what, self.stdout, self.stderr);
        self.stdout
    }
}

async fn client(kubeconfig: &Path) -> Client {
    let read = Kubeconfig::read_from(kubeconfig).unwrap();
    let config = kube::Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}
