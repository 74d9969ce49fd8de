//! With Cluster API's own core: its manifests, its manager as its own service account, its webhooks.

use std::{
    fs,
    path::Path,
    process::Stdio,
    sync::Arc,
    time::{Duration, Instant},
};

use capt_kinds::api::{CaptCluster, CaptControlPlane};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    ResourceExt as _,
    api::{DeleteParams, DynamicObject},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    process::{Child, Command},
};

use crate::{
    case_namespace::{CaseNamespace, TIMEOUT},
    cluster,
    harness::ContractHarness,
    host::free_ports,
};

/// Installs the core and starts its manager outside of the cluster, as it would be inside of it.
pub(crate) async fn start(world: &ContractHarness, bin: &Path) -> Child {
    let [webhook, health, diagnostics] = free_ports();
    let certificates = world.dir.path().join("capi-webhook");
    fs::create_dir(&certificates).unwrap();
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    fs::write(certificates.join("tls.crt"), made.cert.pem()).unwrap();
    fs::write(certificates.join("tls.key"), made.signing_key.serialize_pem()).unwrap();
    let manifests = fs::read_to_string(bin.join("capi-core.yaml")).unwrap();
    let objects: Vec<Value> = serde_saphyr::from_multiple(&manifests).unwrap();
    let objects: Vec<Value> =
        objects.into_iter().filter_map(|it| adapt_for_host_process(it, webhook, &made.cert.pem())).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
    world.kubectl(&["apply", "--server-side", "-f", "-"], &list).await.expect_success();
    world.wait_until_kinds_served().await;
    let kubeconfig = world.write_kubeconfig_for("capi-system", "capi-manager").await;
    let child = start_manager(
        world,
        bin,
        &[
            format!("--kubeconfig={}", kubeconfig.display()),
            "--leader-elect=false".to_owned(),
            format!("--webhook-port={webhook}"),
            format!("--webhook-cert-dir={}", certificates.display()),
            format!("--health-addr=127.0.0.1:{health}"),
            format!("--diagnostics-address=127.0.0.1:{diagnostics}"),
            "--insecure-diagnostics=true".to_owned(),
            "--feature-gates=ClusterTopology=true,ReconcilerRateLimiting=false".to_owned(),
        ],
    );
    let begun = Instant::now();
    while begun.elapsed() < TIMEOUT {
        if is_ready(health).await {
            return child;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let log = fs::read_to_string(world.dir.path().join("capi-core.log")).unwrap_or_default();
    panic!("Cluster API's core is not ready after {TIMEOUT:?}: {log}");
}

#[expect(clippy::disallowed_methods, reason = "a test starts the manager as a pod would")]
fn start_manager(world: &ContractHarness, bin: &Path, arguments: &[String]) -> Child {
    let log = fs::File::create(world.dir.path().join("capi-core.log")).unwrap();
    let mut command = Command::new(bin.join("capi-core"));
    command.args(arguments).env_clear().stdin(Stdio::null()).kill_on_drop(true);
    command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap()
}

async fn is_ready(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)).await else { return false };
    let asked = stream.write_all(b"GET /readyz HTTP/1.0\r\n\r\n").await;
    let mut answer = String::new();
    asked.is_ok() && stream.read_to_string(&mut answer).await.is_ok() && answer.contains(" 200 ")
}

/// An object as it is where the manager is no pod: webhooks are called by address, and nobody makes certificates.
fn adapt_for_host_process(mut object: Value, port: u16, authority: &str) -> Option<Value> {
    let kind = object["kind"].as_str()?.to_owned();
    if ["Deployment", "Service", "Certificate", "Issuer"].contains(&kind.as_str()) {
        return None;
    }
    let authority = encode_base64(authority);
    let by_address = |config: &mut Value| {
        let path = config["service"]["path"].as_str().unwrap().to_owned();
        *config = json!({"url": format!("https://127.0.0.1:{port}{path}"), "caBundle": authority});
    };
    if kind == "CustomResourceDefinition" {
        by_address(object.pointer_mut("/spec/conversion/webhook/clientConfig").unwrap());
    }
    for webhook in object.get_mut("webhooks").and_then(Value::as_array_mut).into_iter().flatten() {
        by_address(&mut webhook["clientConfig"]);
    }
    Some(object)
}

fn encode_base64(text: &str) -> Value {
    serde_json::to_value(k8s_openapi::ByteString(text.as_bytes().to_vec())).unwrap()
}

fn cluster_has_condition(cluster: &DynamicObject, kind: &str, status: &str) -> bool {
    let conditions = cluster.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.iter().any(|it| it["type"] == kind && it["status"] == status)
}

/// A cluster with a profile, driven by core from nothing to Available and back to nothing.
pub(crate) async fn p18_capi_core_leads_a_cluster_through_its_life_by_an_exact_kubeconfig(
    world: Arc<ContractHarness>,
) {
    let place = CaseNamespace::create(world, "capi").await;
    let aws = &place.harness.aws;
    let empty = aws.list_resources().await;
    place.apply(&cluster::cluster_objects("real")).await;
    let clusters = place.clusters();
    place
        .wait_for("core finds the Cluster provisioned, initialized and available", async || {
            let cluster = clusters.get("real").await.unwrap();
            let latches = &cluster.data["status"]["initialization"];
            cluster.data["status"]["phase"] == "Provisioned"
                && latches["infrastructureProvisioned"] == true
                && latches["controlPlaneInitialized"] == true
                && cluster_has_condition(&cluster, "InfrastructureReady", "True")
                && cluster_has_condition(&cluster, "ControlPlaneAvailable", "True")
                && cluster_has_condition(&cluster, "Available", "True")
        })
        .await;
    let cluster = clusters.get("real").await.unwrap();
    let made = place.api::<CaptControlPlane>().get("real").await.unwrap();
    let endpoint = made.spec.control_plane_endpoint.clone().unwrap();
    assert!(!endpoint.host.contains("://") && endpoint.port > 0, "{endpoint:?}");
    assert_eq!(cluster.data["spec"]["controlPlaneEndpoint"]["host"], endpoint.host.as_str());
    let domains = cluster.data["status"]["failureDomains"].as_array().unwrap();
    assert_eq!(domains.len(), 2, "{domains:?}");
    cluster::check_kubeconfig_secret(&place, &made).await;
    let is_ready = |it: &CaptControlPlane| {
        let profiles = it.status.clone().unwrap_or_default().fargate_profile_statuses;
        profiles.iter().any(|it| it.name == "apps" && it.ready)
    };
    place.wait_until("real", "ready with its profile", is_ready).await;
    check_clusterctl_describe(&place).await;
    check_kubeconfig_is_restored(&place).await;

    place.kubectl(&["delete", "cluster", "real", "--wait=false"], "").await.expect_success();
    place.wait_for("the Cluster is gone", async || clusters.get_opt("real").await.unwrap().is_none()).await;
    assert_eq!(place.count::<CaptControlPlane>().await + place.count::<CaptCluster>().await, 0);
    assert_eq!(aws.list_resources().await, empty, "nothing is left in AWS");
    place.wait_for("nothing is left here", async || place.count::<Secret>().await == 0).await;
}

/// P2 of the control plane: a deleted kubeconfig is recreated, and the initialization latch stays true.
async fn check_kubeconfig_is_restored(place: &CaseNamespace) {
    let secrets = place.api::<Secret>();
    let uid = secrets.get("real-kubeconfig").await.unwrap().uid();
    secrets.delete("real-kubeconfig", &DeleteParams::default()).await.unwrap();
    place
        .wait_for("the kubeconfig is back", async || {
            let control_plane = place.api::<CaptControlPlane>().get("real").await.unwrap();
            let latches = control_plane.status.unwrap().initialization.unwrap();
            assert_eq!(latches.control_plane_initialized, Some(true), "it was taken back");
            secrets.get_opt("real-kubeconfig").await.unwrap().is_some_and(|it| it.uid() != uid)
        })
        .await;
}

/// `clusterctl describe cluster` shows both objects with what they say of themselves.
async fn check_clusterctl_describe(place: &CaseNamespace) {
    let arguments = ["describe", "cluster", "real", "-n", place.namespace, "--show-conditions", "all"];
    let text = place.harness.run_tool("clusterctl", &arguments).await.expect_success();
    let line = |word: &str| text.lines().find(|it| it.contains(word)).map(str::to_owned);
    for word in ["CAPTCluster capi/real", "CAPTControlPlane capi/real"] {
        assert!(line(word).is_some(), "{word} is not in\n{text}");
    }
    for ours in ["VPCReady", "EKSClusterReady", "FargateProfilesReady", "KubeconfigReady", "AddonsReady"] {
        assert!(line(ours).is_some_and(|it| it.contains("True")), "{ours} is not True in\n{text}");
    }
}
