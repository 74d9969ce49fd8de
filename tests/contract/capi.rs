//! With Cluster API's own core: its manifests, its manager as its own service account, its webhooks.

use std::{
    fs,
    path::Path,
    process::Stdio,
    sync::Arc,
    time::{Duration, Instant},
};

use capt::api::{CaptCluster, CaptControlPlane};
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
    host::free_ports,
    life,
    place::{PATIENCE, Place},
    world::World,
};

/// Installs the core and starts its manager outside of the cluster, as it would be inside of it.
pub(crate) async fn start(world: &World, bin: &Path) -> Child {
    let [webhook, health, diagnostics] = free_ports();
    let certificates = world.dir.path().join("capi-webhook");
    fs::create_dir(&certificates).unwrap();
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    fs::write(certificates.join("tls.crt"), made.cert.pem()).unwrap();
    fs::write(certificates.join("tls.key"), made.signing_key.serialize_pem()).unwrap();
    let manifests = fs::read_to_string(bin.join("capi-core.yaml")).unwrap();
    let objects: Vec<Value> = serde_saphyr::from_multiple(&manifests).unwrap();
    let objects: Vec<Value> =
        objects.into_iter().filter_map(|it| outside(it, webhook, &made.cert.pem())).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
    world.kubectl(&["apply", "--server-side", "-f", "-"], &list).await.good();
    world.until_served().await;
    let kubeconfig = world.kubeconfig_of("capi-system", "capi-manager").await;
    let child = manager(
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
    while begun.elapsed() < PATIENCE {
        if is_ready(health).await {
            return child;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let log = fs::read_to_string(world.dir.path().join("capi-core.log")).unwrap_or_default();
    panic!("Cluster API's core is not ready after {PATIENCE:?}: {log}");
}

#[expect(clippy::disallowed_methods, reason = "a test starts the manager as a pod would")]
fn manager(world: &World, bin: &Path, arguments: &[String]) -> Child {
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
fn outside(mut object: Value, port: u16, authority: &str) -> Option<Value> {
    let kind = object["kind"].as_str()?.to_owned();
    if ["Deployment", "Service", "Certificate", "Issuer"].contains(&kind.as_str()) {
        return None;
    }
    let authority = base64_of(authority);
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

fn base64_of(text: &str) -> Value {
    serde_json::to_value(k8s_openapi::ByteString(text.as_bytes().to_vec())).unwrap()
}

fn has(cluster: &DynamicObject, kind: &str, status: &str) -> bool {
    let conditions = cluster.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.iter().any(|it| it["type"] == kind && it["status"] == status)
}

/// A cluster with a profile, driven by core from nothing to Available and back to nothing.
pub(crate) async fn p18_capi_core_leads_a_cluster_through_its_life_by_an_exact_kubeconfig(world: Arc<World>) {
    let place = Place::make(world, "capi").await;
    let aws = &place.world.aws;
    let empty = aws.inventory().await;
    place.apply(&life::objects("real")).await;
    let clusters = place.clusters();
    place
        .eventually("core finds the Cluster provisioned, initialized and available", async || {
            let cluster = clusters.get("real").await.unwrap();
            let latches = &cluster.data["status"]["initialization"];
            cluster.data["status"]["phase"] == "Provisioned"
                && latches["infrastructureProvisioned"] == true
                && latches["controlPlaneInitialized"] == true
                && has(&cluster, "InfrastructureReady", "True")
                && has(&cluster, "ControlPlaneAvailable", "True")
                && has(&cluster, "Available", "True")
        })
        .await;
    let cluster = clusters.get("real").await.unwrap();
    let made = place.api::<CaptControlPlane>().get("real").await.unwrap();
    let endpoint = made.spec.control_plane_endpoint.clone().unwrap();
    assert!(!endpoint.host.contains("://") && endpoint.port > 0, "{endpoint:?}");
    assert_eq!(cluster.data["spec"]["controlPlaneEndpoint"]["host"], endpoint.host.as_str());
    let domains = cluster.data["status"]["failureDomains"].as_array().unwrap();
    assert_eq!(domains.len(), 2, "{domains:?}");
    life::kubeconfig(&place, &made).await;
    let is_ready = |it: &CaptControlPlane| {
        let profiles = it.status.clone().unwrap_or_default().fargate_profile_statuses;
        profiles.iter().any(|it| it.name == "apps" && it.ready)
    };
    place.until("real", "ready with its profile", is_ready).await;
    describe(&place).await;
    lost_kubeconfig(&place).await;

    place.kubectl(&["delete", "cluster", "real", "--wait=false"], "").await.good();
    place.eventually("the Cluster is gone", async || clusters.get_opt("real").await.unwrap().is_none()).await;
    assert_eq!(place.count::<CaptControlPlane>().await + place.count::<CaptCluster>().await, 0);
    assert_eq!(aws.inventory().await, empty, "nothing is left in AWS");
    place.eventually("nothing is left here", async || place.count::<Secret>().await == 0).await;
}

/// P2 of the control plane: a kubeconfig that somebody deletes comes back, and what was initialized stays initialized.
async fn lost_kubeconfig(place: &Place) {
    let secrets = place.api::<Secret>();
    let uid = secrets.get("real-kubeconfig").await.unwrap().uid();
    secrets.delete("real-kubeconfig", &DeleteParams::default()).await.unwrap();
    place
        .eventually("the kubeconfig is back", async || {
            let control_plane = place.api::<CaptControlPlane>().get("real").await.unwrap();
            let latches = control_plane.status.unwrap().initialization.unwrap();
            assert_eq!(latches.control_plane_initialized, Some(true), "it was taken back");
            secrets.get_opt("real-kubeconfig").await.unwrap().is_some_and(|it| it.uid() != uid)
        })
        .await;
}

/// `clusterctl describe cluster` shows both objects with what they say of themselves.
async fn describe(place: &Place) {
    let arguments = ["describe", "cluster", "real", "-n", place.namespace, "--show-conditions", "all"];
    let text = place.world.tool("clusterctl", &arguments).await.good();
    let line = |word: &str| text.lines().find(|it| it.contains(word)).map(str::to_owned);
    for word in ["CAPTCluster capi/real", "CAPTControlPlane capi/real"] {
        assert!(line(word).is_some(), "{word} is not in\n{text}");
    }
    for ours in ["VPCReady", "EKSClusterReady", "FargateProfilesReady", "KubeconfigReady", "AddonsReady"] {
        assert!(line(ours).is_some_and(|it| it.contains("True")), "{ours} is not True in\n{text}");
    }
}
