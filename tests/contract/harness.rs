//! Test harness: a real control plane with `deploy/webhook`, the operator, and the local AWS.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use capt::operator::OperatorSettings;
use capt_kube::k8s;
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
    audit::AuditLog,
    capi,
    case_namespace::TIMEOUT,
    host::{self, free_ports},
    in_process_operator::{InProcessOperator, settings},
    local_aws::LocalAws,
    log_capture,
};

/// The operator's own, of `deploy/`.
pub(crate) const NAMESPACE: &str = "capt-system";
pub(crate) const ACCOUNT: &str = "capt";
/// Who the operator is.
pub(crate) const USER: &str = "system:serviceaccount:capt-system:capt";

/// Everything that the cases of a group share.
pub(crate) struct ContractHarness {
    pub(crate) admin: Client,
    pub(crate) aws: LocalAws,
    pub(crate) audit: AuditLog,
    /// What `kubectl kustomize deploy/webhook` says.
    pub(crate) manifests: Vec<Value>,
    operator: Mutex<Option<InProcessOperator>>,
    /// Cluster API's core, where a group has it.
    capi_core: Option<Child>,
    settings: OperatorSettings,
    bin: PathBuf,
    pub(crate) dir: TempDir,
    control_plane: RealKube,
}

impl ContractHarness {
    /// Whether the binaries are there.
    pub(crate) fn has_binaries(group: &str, bin: &Path) -> bool {
        group != "capi"
            || ["capi-core", "capi-core.yaml", "clusterctl"].iter().all(|tool| bin.join(tool).is_file())
    }

    pub(crate) async fn start(group: &str, bin: &Path) -> Self {
        log_capture::start();
        let dir = tempfile::tempdir().unwrap();
        let aws = tokio::task::spawn_blocking(LocalAws::start);
        let audit = AuditLog::new(dir.path());
        let mut flags = audit.flags();
        // Resolve Services by their EndpointSlices: cluster IPs are not routed here.
        flags.push("--enable-aggregator-routing=true".to_owned());
        // As clusters have it that are strict about owners.
        flags.push("--enable-admission-plugins=OwnerReferencesPermissionEnforcement".to_owned());
        let real = RealKube::start_with(bin, &flags).await.unwrap();
        let admin = client(&real.kubeconfig).await;
        let mut world = Self {
            admin,
            aws: aws.await.unwrap(),
            audit,
            manifests: Vec::new(),
            operator: Mutex::default(),
            capi_core: None,
            settings: settings(),
            bin: bin.to_owned(),
            dir,
            control_plane: real,
        };
        if group == "capi" {
            world.capi_core = Some(capi::start(&world, bin).await);
        } else {
            world.install_cluster_crd().await;
        }
        world.apply_deploy_webhook().await;
        let [port] = free_ports();
        world.settings.leader_election = Some(NAMESPACE.to_owned());
        world.settings.webhook_listen = Some(([0, 0, 0, 0], port).into());
        world.start_operator().await;
        world
    }

    /// What a user applies.
    async fn apply_deploy_webhook(&mut self) {
        let overlay = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/webhook");
        let text = self.kubectl(&["kustomize", &overlay.display().to_string()], "").await.expect_success();
        self.manifests = serde_saphyr::from_multiple(&text).unwrap();
        self.kubectl(&["apply", "--server-side", "-f", "-"], &text).await.expect_success();
        self.wait_until_kinds_served().await;
    }

    /// Until objects of all kinds are taken. `kubectl wait` gives up on a kind that has no conditions yet, and a kind is
    /// served a moment after it is established.
    pub(crate) async fn wait_until_kinds_served(&self) {
        let begun = Instant::now();
        let names = self
            .kubectl(&["get", "crd", "-o", "jsonpath={.items[*].metadata.name}"], "")
            .await
            .expect_success();
        let kinds = names.replace(' ', ",");
        loop {
            let said = self.kubectl(&["get", &kinds, "-A", "-o", "name"], "").await;
            if said.ok {
                return;
            }
            assert!(begun.elapsed() < TIMEOUT, "not all kinds are served: {said:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Installs the Cluster CRD of Cluster API, whose controller the cases replace.
    async fn install_cluster_crd(&self) {
        let text = include_str!("../../crds/standalone/cluster.x-k8s.io_clusters.yaml");
        let mut cluster: Value = serde_saphyr::from_str(text).unwrap();
        cluster["metadata"].as_object_mut().unwrap().shift_remove("labels");
        self.kubectl(&["apply", "--server-side", "-f", "-"], &cluster.to_string()).await.expect_success();
    }

    /// The operator as its service account, as the Deployment starts it.
    pub(crate) async fn start_operator(&self) {
        *self.operator.lock().await = Some(self.launch_operator(&self.data_dir(), &self.settings).await);
        self.set_webhook_port(self.settings.webhook_listen.unwrap().port()).await;
    }

    /// A second replica, and where its webhook listens.
    pub(crate) async fn start_second_operator(&self) -> (InProcessOperator, u16) {
        let [port] = free_ports();
        let settings =
            OperatorSettings { webhook_listen: Some(([0, 0, 0, 0], port).into()), ..self.settings.clone() };
        let home = self.dir.path().join("second");
        fs::create_dir_all(&home).unwrap();
        (self.launch_operator(&home.join("data"), &settings).await, port)
    }

    async fn launch_operator(&self, data: &Path, settings: &OperatorSettings) -> InProcessOperator {
        let kubeconfig = self.write_kubeconfig_for(NAMESPACE, ACCOUNT).await;
        let way = k8s::KubeconfigSource { kubeconfig: Some(kubeconfig), context: None };
        let client = k8s::connect(&way).await.unwrap();
        InProcessOperator::start(client, data, &self.aws.cloud(), settings).await
    }

    /// Says where the Service of the webhook leads. Without a kubelet no pod has an address.
    pub(crate) async fn set_webhook_port(&self, port: u16) {
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {
                "name": "capt-webhook-by-hand", "namespace": NAMESPACE,
                "labels": {"kubernetes.io/service-name": "capt-webhook"},
            },
            "endpoints": [{"addresses": [host::host_address()], "conditions": {"ready": true}}],
            "ports": [{"name": "webhook", "port": port}],
        });
        self.kubectl(&["apply", "-f", "-"], &slice.to_string()).await.expect_success();
    }

    pub(crate) async fn stop_operator(&self) {
        if let Some(running) = self.operator.lock().await.take() {
            running.stop().await;
        }
    }

    pub(crate) async fn assert_operator_running(&self) {
        if let Some(running) = self.operator.lock().await.as_ref() {
            running.assert_running();
        }
    }

    pub(crate) async fn shut_down(&self) {
        self.stop_operator().await;
        // Kept for the groups to come.
        self.audit.all_requests();
    }

    pub(crate) fn data_dir(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// A kubeconfig with a token of an account.
    pub(crate) async fn write_kubeconfig_for(&self, namespace: &str, account: &str) -> PathBuf {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.admin.clone(), namespace);
        let wanted = TokenRequest {
            spec: TokenRequestSpec { expiration_seconds: Some(7200), ..TokenRequestSpec::default() },
            ..TokenRequest::default()
        };
        let token = accounts.create_token_request(account, &PostParams::default(), &wanted).await.unwrap();
        let mut config: Value =
            serde_json::from_slice(&fs::read(&self.control_plane.kubeconfig).unwrap()).unwrap();
        config["users"][0]["user"] = json!({ "token": token.status.unwrap().token });
        let path = self.dir.path().join(format!("{account}.kubeconfig"));
        fs::write(&path, config.to_string()).unwrap();
        path
    }

    /// One of the binaries of the real control plane, as a person calls it.
    pub(crate) async fn run_tool(&self, name: &str, arguments: &[&str]) -> CommandOutput {
        self.run_command(&self.bin.join(name), arguments, "").await
    }

    /// kubectl as the administrator.
    pub(crate) async fn kubectl(&self, arguments: &[&str], stdin: &str) -> CommandOutput {
        let own = self.bin.join("kubectl");
        let program = if own.is_file() { own } else { "kubectl".into() };
        self.run_command(&program, arguments, stdin).await
    }

    #[expect(clippy::disallowed_methods, reason = "a person types this")]
    pub(crate) async fn run_command(&self, program: &Path, arguments: &[&str], stdin: &str) -> CommandOutput {
        let mut child = Command::new(program)
            .env_clear()
            .env("HOME", self.dir.path())
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("KUBECONFIG", &self.control_plane.kubeconfig)
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
        CommandOutput {
            command_line: arguments.join(" "),
            ok: output.status.success(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// What a command said.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    command_line: String,
    pub(crate) ok: bool,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl CommandOutput {
    /// Its output, if it went well.
    #[track_caller]
    pub(crate) fn expect_success(self) -> String {
        assert!(self.ok, "{}: {}{}", self.command_line, self.stdout, self.stderr);
        self.stdout
    }
}

async fn client(kubeconfig: &Path) -> Client {
    let read = Kubeconfig::read_from(kubeconfig).unwrap();
    let config = kube::Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}
