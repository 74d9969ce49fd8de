//! A local AWS with a real moto, and a client that signs nothing but the scope.

#![allow(dead_code, reason = "every test file uses its own part of this")]
#![allow(clippy::needless_pass_by_value, reason = "`json!` reads best where it is passed")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "what goes wrong here fails a test"
)]

use std::{
    path::PathBuf,
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use http_body_util::{BodyExt as _, Full};
use hyper::{HeaderMap, Request, body::Bytes};
use hyper_util::{
    client::legacy::{Client as HyperClient, connect::HttpConnector},
    rt::TokioExecutor,
};
use local_aws::{Config, LocalAws, Timing};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// Bounds a hang; no test measures time.
pub(crate) const PATIENCE: Duration = Duration::from_mins(3);

/// The python of the virtual environment that `make deps` makes.
#[expect(clippy::disallowed_methods, reason = "tests find their cache in the environment")]
pub(crate) fn python() -> PathBuf {
    let repo = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let cache = std::env::var_os("CAPT_CACHE").map_or_else(|| repo.join(".cache"), PathBuf::from);
    let python = cache.join("moto-venv/bin/python");
    assert!(
        python.exists(),
        "{} is missing. Make it with `make deps`, or by hand:\n  python3 -m venv {}\n  {} -m pip install -r {}",
        python.display(),
        cache.join("moto-venv").display(),
        python.display(),
        repo.join("crates/local-aws/requirements.txt").display(),
    );
    python
}

/// A configuration with instant transitions.
pub(crate) fn config() -> Config {
    Config { timing: Timing::instant(), ..Config::new(python()) }
}

pub(crate) async fn start() -> (LocalAws, Client) {
    start_with(config()).await
}

/// A local AWS for tests that leave each other alone: all of a test file share it, and it dies with the process.
pub(crate) async fn shared() -> Client {
    static ENDPOINT: OnceLock<String> = OnceLock::new();
    let get = || ENDPOINT.get_or_init(serve_for_ever).clone();
    Client::new(tokio::task::spawn_blocking(get).await.unwrap())
}

/// On a runtime of its own, because that of the first test ends with it.
fn serve_for_ever() -> String {
    let (sender, endpoint) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let (aws, _) = start().await;
            sender.send(aws.endpoint()).unwrap();
            std::future::pending::<()>().await;
        });
    });
    endpoint.recv().expect("the shared local AWS starts")
}

pub(crate) async fn start_with(config: Config) -> (LocalAws, Client) {
    let aws = LocalAws::start(config).await.expect("the local AWS starts");
    let client = Client::new(aws.endpoint());
    (aws, client)
}

static MADE: AtomicUsize = AtomicUsize::new(0);

#[derive(Clone)]
pub(crate) struct Client {
    endpoint: String,
    http: HyperClient<HttpConnector, Full<Bytes>>,
}

#[derive(Debug)]
pub(crate) struct ApiResponse {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl ApiResponse {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|_| panic!("not JSON: {}", self.text))
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The text of the first XML element of that name.
    pub(crate) fn xml(&self, name: &str) -> String {
        let (_, rest) = self
            .text
            .split_once(&format!("<{name}>"))
            .unwrap_or_else(|| panic!("no <{name}> in {}", self.text));
        rest.split('<').next().unwrap().to_owned()
    }
}

fn scope(service: &str) -> String {
    format!(
        "AWS4-HMAC-SHA256 Credential=AKIDTEST/20261116/eu-west-1/{service}/aws4_request, SignedHeaders=host, Signature=0"
    )
}

impl Client {
    pub(crate) fn new(endpoint: String) -> Self {
        let http = HyperClient::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build_http();
        Self { endpoint, http }
    }

    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> Result<ApiResponse, String> {
        let work = async {
            let response = self.http.request(request).await.map_err(|error| format!("{error:?}"))?;
            let (parts, body) = response.into_parts();
            let bytes = body.collect().await.map_err(|error| format!("{error:?}"))?.to_bytes();
            let text = String::from_utf8_lossy(&bytes).into_owned();
            Ok(ApiResponse { status: parts.status.as_u16(), headers: parts.headers, text })
        };
        tokio::time::timeout(PATIENCE, work).await.map_err(|_| format!("no answer in {PATIENCE:?}"))?
    }

    pub(crate) fn request(&self, method: &str, path: &str, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
        let uri = format!("{}{path}", self.endpoint);
        Request::builder().method(method).uri(uri).body(Full::new(body.into())).unwrap()
    }

    pub(crate) async fn try_eks(&self, method: &str, path: &str, body: Value) -> Result<ApiResponse, String> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut request = self.request(method, path, body);
        request.headers_mut().insert("authorization", scope("eks").parse().unwrap());
        self.send(request).await
    }

    /// A call of EKS that must be answered, well or not.
    pub(crate) async fn eks(&self, method: &str, path: &str, body: Value) -> ApiResponse {
        self.try_eks(method, path, body).await.unwrap()
    }

    /// A call of EKS that must succeed.
    pub(crate) async fn eks_ok(&self, method: &str, path: &str, body: Value) -> Value {
        let answer = self.eks(method, path, body).await;
        assert_eq!(answer.status, 200, "{method} {path}: {}", answer.text);
        answer.json()
    }

    pub(crate) async fn try_query(&self, service: &str, form: &str) -> Result<ApiResponse, String> {
        let mut request = self.request("POST", "/", form.to_owned());
        let headers = request.headers_mut();
        headers.insert("authorization", scope(service).parse().unwrap());
        headers.insert("content-type", "application/x-www-form-urlencoded; charset=utf-8".parse().unwrap());
        self.send(request).await
    }

    pub(crate) async fn query(&self, service: &str, form: &str) -> ApiResponse {
        self.try_query(service, form).await.unwrap()
    }

    /// A call of a JSON service.
    pub(crate) async fn target(&self, service: &str, target: &str, body: Value) -> ApiResponse {
        let mut request = self.request("POST", "/", body.to_string());
        let headers = request.headers_mut();
        headers.insert("authorization", scope(service).parse().unwrap());
        headers.insert("content-type", "application/x-amz-json-1.1".parse().unwrap());
        headers.insert("x-amz-target", target.parse().unwrap());
        self.send(request).await.unwrap()
    }

    pub(crate) async fn ec2(&self, form: &str) -> ApiResponse {
        let answer = self.query("ec2", &format!("Version=2016-11-15&{form}")).await;
        assert_eq!(answer.status, 200, "{form}: {}", answer.text);
        answer
    }

    pub(crate) async fn iam(&self, form: &str) -> ApiResponse {
        let answer = self.query("iam", &format!("Version=2010-05-08&{form}")).await;
        assert_eq!(answer.status, 200, "{form}: {}", answer.text);
        answer
    }

    pub(crate) async fn admin(&self, method: &str, path: &str, body: Value) -> ApiResponse {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.send(self.request(method, &format!("/_capt/{path}"), body)).await.unwrap()
    }

    pub(crate) async fn fault(&self, order: Value) {
        let answer = self.admin("POST", "faults", order).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
    }

    pub(crate) async fn health(&self) -> Value {
        self.admin("GET", "health", Value::Null).await.json()
    }

    /// What exists, as `service/type/name-or-id` without the ids that change.
    pub(crate) async fn inventory(&self) -> Vec<(String, String, String)> {
        let answer = self.admin("GET", "inventory", Value::Null).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        let text = |item: &Value, key: &str| item[key].as_str().unwrap().to_owned();
        let items = answer.json()["items"].as_array().unwrap().clone();
        items.iter().map(|item| (text(item, "service"), text(item, "type"), text(item, "name"))).collect()
    }

    pub(crate) async fn role(&self, name: &str, path: &str, service: &str) -> String {
        let policy = json!({ "Version": "2012-10-17", "Statement": [{
            "Effect": "Allow", "Action": "sts:AssumeRole", "Principal": { "Service": service },
        }] });
        let policy =
            policy.to_string().replace('"', "%22").replace(' ', "").replace('{', "%7B").replace('}', "%7D");
        let form = format!("Action=CreateRole&RoleName={name}&Path={path}&AssumeRolePolicyDocument={policy}");
        self.iam(&form).await.xml("Arn")
    }

    /// A VPC with two private subnets, the role of a control plane and one for pods: what a cluster needs.
    pub(crate) async fn ground(&self) -> Network {
        let vpc = self.ec2("Action=CreateVpc&CidrBlock=10.0.0.0/16").await.xml("vpcId");
        let mut subnets = Vec::new();
        for (n, zone) in ["eu-west-1a", "eu-west-1b"].iter().enumerate() {
            let form =
                format!("Action=CreateSubnet&VpcId={vpc}&CidrBlock=10.0.{n}.0/24&AvailabilityZone={zone}");
            subnets.push(self.ec2(&form).await.xml("subnetId"));
        }
        // Roles are global, and some tests share an account.
        let n = MADE.fetch_add(1, Ordering::Relaxed);
        let role_name = format!("control-plane-{n}");
        let pods_name = format!("pods-{n}");
        let role = self.role(&role_name, "/", "eks.amazonaws.com").await;
        let pods = self.role(&pods_name, "/", "eks-fargate-pods.amazonaws.com").await;
        Network { vpc, subnets, role, role_name, pods, pods_name }
    }
}

pub(crate) struct Network {
    pub(crate) vpc: String,
    pub(crate) subnets: Vec<String>,
    pub(crate) role: String,
    pub(crate) role_name: String,
    pub(crate) pods: String,
    pub(crate) pods_name: String,
}

impl Network {
    pub(crate) fn cluster(&self, name: &str) -> Value {
        json!({
            "name": name,
            "roleArn": self.role,
            "resourcesVpcConfig": { "subnetIds": self.subnets },
            "accessConfig": { "authenticationMode": "API" },
        })
    }

    pub(crate) fn profile(&self, name: &str, role: &str) -> Value {
        json!({
            "fargateProfileName": name,
            "podExecutionRoleArn": role,
            "subnets": self.subnets,
            "selectors": [{ "namespace": "default" }],
        })
    }
}

/// Whether a process still runs. One that only waits to be reaped does not.
pub(crate) fn is_running(pid: u64) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    let state = stat.rsplit(')').next().and_then(|rest| rest.trim().chars().next());
    !matches!(state, Some('Z' | 'X'))
}

/// Waits for a condition. `look` returns the awaited value, or the current one as error.
pub(crate) async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Result<T, String>) -> T {
    let begun = std::time::Instant::now();
    loop {
        match look().await {
            Ok(found) => return found,
            Err(instead) if begun.elapsed() > PATIENCE => panic!("waited for {what}; there is {instead}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

/// Waits for the end of a process.
pub(crate) async fn gone(pid: u64) {
    let status = || std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    until(
        &format!("the end of process {pid}"),
        async || if is_running(pid) { Err(status()) } else { Ok(()) },
    )
    .await;
}

/// As `kill -9` does.
pub(crate) fn kill(pid: u64) {
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), Signal::KILL).unwrap();
}
