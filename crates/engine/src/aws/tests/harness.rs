//! A local AWS with a VPC, roles, and clusters with an embedded API server. The tests share it sequentially, because starting
//! moto takes longer than all tests together.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock, mpsc},
    time::Duration,
};

use aws_config::SdkConfig;
use embedded_kube::{
    auth::{AccessEntries, AccessEntry, StsConfig},
    cluster::{EmbeddedKube, ListenConfig},
};
use http_body_util::{BodyExt as _, Full};
use hyper::{Request, body::Bytes};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use kube::config::{KubeConfigOptions, Kubeconfig};
use local_aws::{
    ClusterHost, ClusterPrincipal, ClusterSpec, Config, HostError, HostFuture, HostedEndpoint, Limits,
    LocalAws, Timing,
};
use serde_json::{Value, json};
use tokio::sync::MutexGuard;

use crate::aws::{Cloud, EksApi, EksClient, EksCluster, EksToken, Principal};

pub(super) const REGION: &str = "eu-west-1";

pub(super) struct AwsHarness {
    aws: LocalAws,
    subnets: Vec<String>,
    role: String,
    pods: String,
    /// Sequence number of the last call before the current test.
    since: u64,
}

/// Python of the virtual environment that `make deps` creates.
#[expect(clippy::disallowed_methods, reason = "tests find their cache in the environment")]
fn python() -> PathBuf {
    let repo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let cache = std::env::var_os("CAPT_CACHE").map_or_else(|| repo.join(".cache"), PathBuf::from);
    let python = cache.join("moto-venv/bin/python");
    assert!(python.exists(), "{} is missing; make it with `make deps`", python.display());
    python
}

/// Locks the shared local AWS. Faults and the call log are reset; clusters of other tests may exist.
pub(super) async fn lock_harness() -> MutexGuard<'static, AwsHarness> {
    static HARNESS: OnceLock<tokio::sync::Mutex<AwsHarness>> = OnceLock::new();
    let get = || HARNESS.get_or_init(|| tokio::sync::Mutex::new(start_on_own_runtime()));
    let mut ground = tokio::task::spawn_blocking(get).await.unwrap().lock().await;
    ground.forget_faults().await;
    let calls = ground.call_log().await;
    ground.since = calls.last().and_then(|call| call["seq"].as_u64()).unwrap_or(ground.since);
    ground
}

/// Starts it on its own runtime, because the runtime of the first test ends with that test. Lives as long as the process.
fn start_on_own_runtime() -> AwsHarness {
    let (sender, ground) = mpsc::channel();
    std::thread::spawn(move || {
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            sender.send(AwsHarness::new().await).unwrap();
            std::future::pending::<()>().await;
        });
    });
    ground.recv().expect("the local AWS starts")
}

impl AwsHarness {
    async fn new() -> Self {
        let host = Some(Arc::new(ClusterHosts::default()) as Arc<dyn ClusterHost>);
        let limits = Limits { profiles: 200, ..Limits::default() };
        let config = Config { timing: Timing::instant(), limits, host, ..Config::new(python()) };
        let aws = LocalAws::start(config).await.expect("the local AWS starts");
        let mut ground =
            Self { aws, subnets: Vec::new(), role: String::new(), pods: String::new(), since: 0 };
        let vpc =
            ground.query("ec2", "Version=2016-11-15&Action=CreateVpc&CidrBlock=10.0.0.0/16", "vpcId").await;
        for (n, zone) in ["a", "b"].iter().enumerate() {
            let form = format!(
                "Version=2016-11-15&Action=CreateSubnet&VpcId={vpc}&CidrBlock=10.0.{n}.0/24&AvailabilityZone={REGION}{zone}"
            );
            ground.subnets.push(ground.query("ec2", &form, "subnetId").await);
        }
        ground.role = ground.make_role("control-plane", "eks.amazonaws.com").await;
        ground.pods = ground.make_role("pods", "eks-fargate-pods.amazonaws.com").await;
        ground
    }

    pub(super) fn cloud(&self) -> Cloud {
        Cloud::Local { endpoint: self.aws.endpoint() }
    }

    pub(super) fn role(&self) -> &str {
        &self.role
    }

    async fn make_role(&self, name: &str, service: &str) -> String {
        let policy = format!(
            r#"{{"Statement":[{{"Effect":"Allow","Action":"sts:AssumeRole","Principal":{{"Service":"{service}"}}}}]}}"#
        );
        let form =
            format!("Version=2010-05-08&Action=CreateRole&RoleName={name}&AssumeRolePolicyDocument={policy}");
        self.query("iam", &form, "Arn").await
    }

    /// Calls a service without an SDK dependency and returns the text of the first element of that name.
    async fn query(&self, service: &str, form: &str, element: &str) -> String {
        let scope = format!("Credential=test/20260101/{REGION}/{service}/aws4_request");
        let scope = format!("AWS4-HMAC-SHA256 {scope}, SignedHeaders=host, Signature=0");
        let request = Request::post(self.aws.endpoint())
            .header("authorization", scope)
            .header("content-type", "application/x-www-form-urlencoded");
        let xml = send(request.body(form.to_owned().into()).unwrap()).await;
        let (_, rest) =
            xml.split_once(&format!("<{element}>")).unwrap_or_else(|| panic!("no {element}: {xml}"));
        rest.split('<').next().unwrap().to_owned()
    }

    pub(super) async fn admin(&self, path: &str, order: &Value) {
        let request = Request::post(format!("{}/_capt/{path}", self.aws.endpoint()));
        send(request.body(order.to_string().into()).unwrap()).await;
    }

    pub(super) async fn forget_faults(&self) {
        let request = Request::delete(format!("{}/_capt/faults", self.aws.endpoint()));
        send(request.body(Full::default()).unwrap()).await;
    }

    /// The access key of each call of an operation in this test.
    pub(super) async fn calls(&self, operation: &str) -> Vec<String> {
        let log = self.call_log().await;
        let key = |call: &Value| call["access_key"].as_str().unwrap_or_default().to_owned();
        log.iter().filter(|call| call["operation"] == operation).map(key).collect()
    }

    async fn call_log(&self) -> Vec<Value> {
        let request = Request::get(format!("{}/_capt/calls?since={}", self.aws.endpoint(), self.since));
        let answer: Value =
            serde_json::from_str(&send(request.body(Full::default()).unwrap()).await).unwrap();
        answer["calls"].as_array().unwrap().clone()
    }

    /// Creates a cluster as a principal, and waits until it is active.
    pub(super) async fn cluster(&self, name: &str, creator: &Principal) {
        let sdk = self.cloud().sdk_config_as(creator, Some(REGION)).await;
        let vpc = aws_sdk_eks::types::VpcConfigRequest::builder().set_subnet_ids(Some(self.subnets.clone()));
        let access =
            aws_sdk_eks::types::CreateAccessConfigRequest::builder().authentication_mode("API".into());
        let ask = aws_sdk_eks::Client::new(&sdk).create_cluster().name(name).role_arn(&self.role);
        ask.resources_vpc_config(vpc.build()).access_config(access.build()).send().await.unwrap();
        let eks = EksClient::new(&sdk);
        for _ in 0..2400 {
            if eks.describe_cluster(name).await.unwrap().is_some_and(|cluster| cluster.status == "ACTIVE") {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{name} is not active: {:?}", eks.describe_cluster(name).await);
    }

    pub(super) async fn profile(&self, sdk: &SdkConfig, cluster: &str, name: &str) {
        let selector = aws_sdk_eks::types::FargateProfileSelector::builder().namespace("default").build();
        let ask = aws_sdk_eks::Client::new(sdk).create_fargate_profile().cluster_name(cluster);
        let ask = ask.fargate_profile_name(name).pod_execution_role_arn(&self.pods).selectors(selector);
        ask.set_subnets(Some(self.subnets.clone())).send().await.unwrap();
        // Transitions are instant but happen on a read, and a cluster changes one profile at a time.
        EksClient::new(sdk).describe_fargate_profile(cluster, name).await.unwrap();
    }
}

async fn send(request: Request<Full<Bytes>>) -> String {
    let client = Client::builder(TokioExecutor::new()).build_http();
    let answer = client.request(request).await.unwrap();
    let status = answer.status();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    let text = String::from_utf8_lossy(&body).into_owned();
    assert!(status.is_success(), "{status}: {text}");
    text
}

/// Client of a cluster's API, created from a kubeconfig.
pub(super) async fn client(cluster: &EksCluster, token: &EksToken) -> kube::Client {
    let text = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "it",
        "clusters": [{ "name": "it", "cluster": {
            "server": cluster.endpoint,
            "certificate-authority-data": cluster.certificate_authority,
        } }],
        "users": [{ "name": "it", "user": { "token": token.bearer.reveal() } }],
        "contexts": [{ "name": "it", "context": { "cluster": "it", "user": "it" } }],
    });
    let kubeconfig: Kubeconfig = serde_json::from_value(text).unwrap();
    let config =
        kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    kube::Client::try_from(config).unwrap()
}

/// One API server per cluster; every admitted principal is an admin.
#[derive(Debug, Default)]
struct ClusterHosts(Arc<Mutex<BTreeMap<String, EmbeddedKube>>>);

impl ClusterHost for ClusterHosts {
    fn start(&self, seed: ClusterSpec) -> HostFuture<Result<HostedEndpoint, HostError>> {
        let running = Arc::clone(&self.0);
        Box::pin(async move {
            let admitted: Vec<_> =
                seed.principals.iter().map(|one| AccessEntry::admin(&one.principal)).collect();
            let sts = StsConfig {
                endpoint: seed.sts_endpoint,
                cluster: seed.name.clone(),
                access_entries: AccessEntries::from(admitted),
                ..StsConfig::default()
            };
            let builder = EmbeddedKube::builder().in_memory().name(&seed.name).sts(sts);
            let kube = builder.listen(ListenConfig::loopback()).request_log(false).start().await?;
            let hosting = HostedEndpoint {
                endpoint: format!("https://{}", kube.address().unwrap()),
                certificate_authority_pem: kube.certificate_authority().to_owned(),
            };
            running.lock().unwrap().insert(seed.id, kube);
            Ok(hosting)
        })
    }

    fn set_principals(&self, _id: &str, _admitted: Vec<ClusterPrincipal>) {}

    fn stop(&self, id: &str) -> HostFuture<()> {
        let ended = self.0.lock().unwrap().remove(id);
        Box::pin(async move {
            if let Some(kube) = ended {
                kube.stop().await;
            }
        })
    }
}
