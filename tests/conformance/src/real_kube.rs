//! A real control plane: etcd, kube-apiserver and kube-controller-manager on free ports, gone when dropped.

use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    process::Child,
    time::Instant,
};

use crate::{pki::Pki, process};

/// Controllers that the cases need.
const CONTROLLERS: &str = "garbage-collector-controller,namespace-controller,serviceaccount-controller,\
    serviceaccount-token-controller,root-ca-certificate-publisher-controller,clusterrole-aggregation-controller,endpoints-controller,endpointslice-controller,\
    endpointslice-mirroring-controller,deployment-controller,replicaset-controller";

/// The running control plane.
pub struct RealKube {
    /// The administrator's kubeconfig.
    pub kubeconfig: PathBuf,
    /// When its first process was started.
    pub since: Instant,
    // Dropped in this order: the controllers before the server before its store before the data.
    processes: Vec<Child>,
    directory: TempDir,
}

impl RealKube {
    /// Starts it and waits until its controllers work.
    pub async fn start(bin: &Path) -> Result<Self> {
        Self::start_with(bin, &[]).await
    }

    /// The same, with more flags for the API server.
    pub async fn start_with(bin: &Path, api_flags: &[String]) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("real-kube-").tempdir()?;
        let ports = Ports::allocate()?;
        let mut real = Self::spawn(bin, directory, &ports, (&["--unsafe-no-fsync"], api_flags))?;
        let home = real.directory().to_owned();
        let client = client(&real.kubeconfig).await?;
        wait_until_ready(&client, "/readyz", &home.join("api.log")).await?;
        let controllers = process::spawn_server(
            &bin.join("kube-controller-manager"),
            &kcm_arguments(&home, &ports),
            &home.join("kcm.log"),
        )?;
        wait_until_ready(
            &client,
            "/api/v1/namespaces/default/serviceaccounts/default",
            &home.join("kcm.log"),
        )
        .await?;
        compact(ports.etcd).await?;
        real.processes.insert(0, controllers);
        Ok(real)
    }

    /// The server and its store alone, in a directory below `parent`: writes are synced, and nothing is waited for.
    pub fn start_bare(bin: &Path, parent: &Path) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("real-kube-").tempdir_in(parent)?;
        Self::spawn(bin, directory, &Ports::allocate()?, (&[], &[]))
    }

    fn spawn(
        bin: &Path,
        directory: TempDir,
        ports: &Ports,
        (etcd_flags, api_flags): (&[&str], &[String]),
    ) -> Result<Self> {
        let home = directory.path();
        let pki = Pki::create(home)?;
        let server = format!("https://127.0.0.1:{}", ports.api);
        let kubeconfig = home.join("admin.kubeconfig");
        fs::write(&kubeconfig, pki.kubeconfig("admin", &server)?)?;
        fs::write(home.join("kcm.kubeconfig"), pki.kubeconfig("kcm", &server)?)?;

        let mut etcd_arguments = etcd_arguments(home, ports);
        etcd_arguments.extend(etcd_flags.iter().map(ToString::to_string));
        let since = Instant::now();
        let etcd = process::spawn_server(&bin.join("etcd"), &etcd_arguments, &home.join("etcd.log"))?;
        let mut api_arguments = api_arguments(home, ports);
        api_arguments.extend_from_slice(api_flags);
        let api = process::spawn_server(&bin.join("kube-apiserver"), &api_arguments, &home.join("api.log"))?;
        Ok(Self { kubeconfig, since, processes: vec![api, etcd], directory })
    }

    /// The processes that run.
    pub fn pids(&self) -> Vec<u32> {
        self.processes.iter().filter_map(Child::id).collect()
    }

    /// The directory of the data, the logs and the keys.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }
}

/// A client from a kubeconfig.
pub(crate) async fn client(kubeconfig: &Path) -> Result<Client> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    // The cases look at refusals, they do not want to outlast them.
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}

struct Ports {
    etcd: u16,
    peer: u16,
    api: u16,
    kcm: u16,
}

impl Ports {
    fn allocate() -> Result<Self> {
        // All held at once, so that they differ; let go together, just before they are taken.
        let held: Vec<TcpListener> =
            (0..4).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<std::io::Result<_>>()?;
        let mut ports = Vec::new();
        for listener in &held {
            ports.push(listener.local_addr()?.port());
        }
        let [etcd, peer, api, kcm] = ports[..] else { bail!("four listeners have four ports") };
        Ok(Self { etcd, peer, api, kcm })
    }
}

fn etcd_arguments(home: &Path, ports: &Ports) -> Vec<String> {
    let client = format!("http://127.0.0.1:{}", ports.etcd);
    let peer = format!("http://127.0.0.1:{}", ports.peer);
    vec![
        "--name=e".into(),
        format!("--data-dir={}", home.join("etcd").display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=e={peer}"),
        "--log-level=warn".into(),
    ]
}

fn api_arguments(home: &Path, ports: &Ports) -> Vec<String> {
    let file = |name: &str| home.join(name).display().to_string();
    vec![
        format!("--etcd-servers=http://127.0.0.1:{}", ports.etcd),
        "--bind-address=127.0.0.1".into(),
        "--advertise-address=127.0.0.1".into(),
        format!("--secure-port={}", ports.api),
        format!("--tls-cert-file={}", file("apiserver.crt")),
        format!("--tls-private-key-file={}", file("apiserver.key")),
        format!("--client-ca-file={}", file("ca.crt")),
        "--service-account-issuer=https://kubernetes.default.svc".into(),
        format!("--service-account-key-file={}", file("sa.pub")),
        format!("--service-account-signing-key-file={}", file("sa.key")),
        "--authorization-mode=RBAC".into(),
        "--service-cluster-ip-range=10.96.0.0/16".into(),
        "--endpoint-reconciler-type=none".into(),
        "--allow-privileged=true".into(),
        // For the cases in which a node is more than an object.
        format!("--kubelet-client-certificate={}", file("admin.crt")),
        format!("--kubelet-client-key={}", file("admin.key")),
        format!("--kubelet-certificate-authority={}", file("ca.crt")),
    ]
}

fn kcm_arguments(home: &Path, ports: &Ports) -> Vec<String> {
    let file = |name: &str| home.join(name).display().to_string();
    vec![
        format!("--kubeconfig={}", file("kcm.kubeconfig")),
        format!("--service-account-private-key-file={}", file("sa.key")),
        format!("--root-ca-file={}", file("ca.crt")),
        "--use-service-account-credentials=true".into(),
        "--leader-elect=false".into(),
        "--bind-address=127.0.0.1".into(),
        format!("--secure-port={}", ports.kcm),
        format!("--cert-dir={}", file("kcm-certs")),
        format!("--controllers={CONTROLLERS}"),
    ]
}

/// Only bounds a hang: on a machine that is compiling, an API server has taken more than a minute.
const READY_TIMEOUT: Duration = Duration::from_mins(5);

async fn wait_until_ready(client: &Client, path: &str, log: &Path) -> Result<()> {
    let deadline = Instant::now() + READY_TIMEOUT;
    loop {
        let request = http::Request::get(path).body(kube::client::Body::empty())?;
        if client.send(request).await.is_ok_and(|answer| answer.status().is_success()) {
            return Ok(());
        }
        if Instant::now() > deadline {
            let log = fs::read_to_string(log).unwrap_or_default();
            let end: Vec<&str> = log.lines().rev().take(15).collect();
            bail!("{path} is not ready after {READY_TIMEOUT:?}; the log ends with\n{}", end.join("\n"));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Forgets the first revisions, so that there is a past that is gone.
async fn compact(etcd: u16) -> Result<()> {
    let body = r#"{"revision":20,"physical":true}"#;
    let request = format!(
        "POST /v3/kv/compaction HTTP/1.1\r\nhost: etcd\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(("127.0.0.1", etcd)).await.context("connect to etcd")?;
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    if !answer.starts_with("HTTP/1.1 200") {
        bail!("etcd did not compact: {answer}");
    }
    Ok(())
}

/// Starts the control plane in `bin`, with a note of what failed.
pub(crate) async fn start(bin: &Path) -> Result<RealKube> {
    RealKube::start(bin).await.with_context(|| format!("start the real control plane of {}", bin.display()))
}
