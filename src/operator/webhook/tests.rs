//! Replicas of the webhook beside each other, on an API server in this process.

use std::collections::{BTreeMap, BTreeSet};

use capt_kube::{
    certificate::{CertificateFiles, CertificateStoreError},
    k8s::DeletionPropagation,
};
use embedded_kube::{auth, cluster::EmbeddedKube, request::User};
use k8s_openapi::{
    api::core::v1::{Namespace, Secret},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};
use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::*;
use crate::server::webhook::NoLookup;

const SHIPPED: &str = include_str!("../../../deploy/webhook/configuration.yaml");
const ACCOUNT: &str = "system:serviceaccount:capt-system:capt";

/// An API server, and the way of one replica to it.
struct World {
    server: EmbeddedKube,
    stop: CancellationToken,
}

impl World {
    async fn start() -> Self {
        let server = EmbeddedKube::builder().in_memory().start().await.unwrap();
        let world = Self { server, stop: CancellationToken::new() };
        let namespace: Namespace =
            serde_json::from_value(json!({"metadata": {"name": "capt-system"}})).unwrap();
        world.kube("test").create(&namespace).await.unwrap();
        let stand_in = registrations();
        let kube = world.kube("test");
        kube.install_crds(std::slice::from_ref(&stand_in)).await.unwrap();
        // A kind is served a moment after it was accepted; on a busy machine somebody asks before.
        let names = [stand_in.metadata.name.as_deref().unwrap()];
        let missing = kube.wait_for_crds(&names, Duration::from_mins(1)).await.unwrap();
        assert!(missing.is_empty(), "not served: {missing:?}");
        world
    }

    /// With every right, under the name of the account.
    fn kube(&self, agent: &str) -> KubeClient {
        self.kube_as(ACCOUNT, agent)
    }

    fn kube_as(&self, name: &str, agent: &str) -> KubeClient {
        let user = User { name: name.to_owned(), ..auth::admin() };
        KubeClient::new(self.server.client_with_agent(user, agent)).with_deadline(Duration::from_mins(1))
    }

    /// A replica in a cluster; gives where it listens.
    async fn replica(&self, agent: &str) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let target = webhook_target(Some("capt-system"), address);
        let kube = self.kube(agent);
        let store = Arc::new(certificate_secret(kube.clone(), "capt-system"));
        let webhook = Webhook::new(Arc::new(NoLookup), capt_model::model::Limits::default());
        let publish = publisher(kube, target.clone());
        tokio::spawn(run_webhook(webhook, listener, (store, publish), target, self.stop.clone()));
        address
    }

    async fn registered(&self) -> Option<ValidatingWebhookConfiguration> {
        self.kube("test").get(None, WEBHOOK_NAME).await.unwrap()
    }

    /// The authorities that the API server was told, once it was.
    async fn bundle(&self) -> Vec<u8> {
        for _ in 0..1200 {
            let found = self.registered().await.and_then(|it| it.webhooks);
            if let Some(bundle) = found.and_then(|it| it.into_iter().next()?.client_config.ca_bundle) {
                return bundle.0;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("the API server was never told")
    }
}

/// The embedded API server has no webhooks, so it is given a place to write them down. tests/contract uses a real one.
fn registrations() -> CustomResourceDefinition {
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    serde_json::from_value(json!({
        "metadata": {
            "name": "validatingwebhookconfigurations.admissionregistration.k8s.io",
            "annotations": {"api-approved.kubernetes.io": "unapproved, a stand-in"},
        },
        "spec": {
            "group": "admissionregistration.k8s.io", "scope": "Cluster",
            "names": {"kind": "ValidatingWebhookConfiguration", "plural": "validatingwebhookconfigurations"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": anything}}],
        },
    }))
    .unwrap()
}

/// The certificate that a server shows to a client that trusts these authorities and knows it by this name.
async fn shown(address: SocketAddr, bundle: &[u8]) -> Result<Vec<u8>, std::io::Error> {
    let mut roots = RootCertStore::empty();
    for one in CertificateDer::pem_slice_iter(bundle) {
        roots.add(one.unwrap()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from("capt-webhook.capt-system.svc").unwrap();
    let stream = connector.connect(name, stream).await?;
    Ok(stream.get_ref().1.peer_certificates().unwrap()[0].to_vec())
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_that_start_at_once_share_one_authority_that_the_api_server_trusts() {
    let world = World::start().await;
    let addresses = futures::future::join_all(["a", "b", "c", "d"].map(|agent| world.replica(agent))).await;
    let bundle = world.bundle().await;
    let mut certificates = BTreeSet::new();
    for address in addresses {
        certificates.insert(shown(address, &bundle).await.unwrap());
    }
    assert_eq!(certificates.len(), 1, "all show the same certificate");
    let secret: Secret =
        world.kube("test").get(Some("capt-system"), CERTIFICATE_SECRET).await.unwrap().unwrap();
    assert_eq!(secret.data.unwrap()["ca.crt"].0, bundle);
    // One that starts later takes what is there.
    let late = world.replica("late").await;
    assert!(certificates.contains(&shown(late, &bundle).await.unwrap()));
    assert_eq!(world.bundle().await, bundle);
    world.stop.cancel();
}

#[tokio::test]
async fn what_is_registered_is_what_is_shipped_with_the_authority_in_it() {
    let world = World::start().await;
    let target = webhook_target(Some("capt-system"), "127.0.0.1:1".parse().unwrap());
    register(&world.kube("a"), &target, "PEM").await.unwrap();
    let mut told = serde_json::to_value(world.registered().await.unwrap()).unwrap();
    let told = &mut told["webhooks"][0];
    assert_eq!(told["clientConfig"]["caBundle"], "UEVN");
    let told = told.as_object_mut().unwrap();
    told["clientConfig"].as_object_mut().unwrap().shift_remove("caBundle");
    // What a server fills in.
    told.retain(|name, _| !name.ends_with("Selector"));
    let mut shipped: Value = serde_saphyr::from_str(SHIPPED).unwrap();
    assert_eq!(shipped["metadata"]["name"], WEBHOOK_NAME);
    assert_eq!(Value::Object(told.clone()), shipped["webhooks"][0].take());
}

#[tokio::test]
async fn a_person_who_runs_it_is_reviewed_too() {
    let world = World::start().await;
    let target = webhook_target(None, "127.0.0.1:9443".parse().unwrap());
    register(&world.kube_as("jane", "desk"), &target, "PEM").await.unwrap();
    let told = world.registered().await.unwrap().webhooks.unwrap();
    let conditions: Vec<String> =
        told[0].match_conditions.iter().flatten().map(|it| it.name.clone()).collect();
    assert_eq!(conditions, ["not-being-deleted"]);
    assert_eq!(told[0].client_config.url.as_deref(), Some("https://127.0.0.1:9443/validate"));
}

#[tokio::test]
async fn a_registration_is_written_when_it_differs_and_only_then() {
    let world = World::start().await;
    let target = webhook_target(Some("capt-system"), "127.0.0.1:1".parse().unwrap());
    let kube = world.kube("replica");
    let writes = || {
        let all = world.server.request_log().writes_to("validatingwebhookconfigurations");
        all.iter().filter(|it| it.agent == "replica").count()
    };
    register(&kube, &target, "PEM").await.unwrap();
    register(&kube, &target, "PEM").await.unwrap();
    assert_eq!(writes(), 1);
    register(&kube, &target, "OTHER").await.unwrap();
    assert_eq!(writes(), 2);
    // Somebody applies the shipped file by replacing: the authority is lost until the next look.
    let mut found = world.registered().await.unwrap();
    found.webhooks.as_mut().unwrap()[0].client_config.ca_bundle = None;
    world.kube("test").replace(&found).await.unwrap();
    register(&kube, &target, "OTHER").await.unwrap();
    assert_eq!((writes(), world.bundle().await), (3, b"OTHER".to_vec()));
}

#[tokio::test]
async fn nobody_overwrites_a_secret_that_he_has_not_seen() {
    let world = World::start().await;
    let [one, other] = ["a", "b"].map(|agent| certificate_secret(world.kube(agent), "capt-system"));
    let kept = |text: &str| CertificateFiles::from(BTreeMap::from([("ca.crt".to_owned(), text.to_owned())]));
    assert!(one.load().await.unwrap().is_none() && other.load().await.unwrap().is_none());
    one.save(&kept("1")).await.unwrap();
    assert!(
        matches!(other.save(&kept("2")).await, Err(CertificateStoreError::Conflict)),
        "it was made meanwhile"
    );
    assert_eq!(other.load().await.unwrap(), Some(kept("1")));
    other.save(&kept("3")).await.unwrap();
    assert!(
        matches!(one.save(&kept("4")).await, Err(CertificateStoreError::Conflict)),
        "it was changed meanwhile"
    );
    assert_eq!(one.load().await.unwrap(), Some(kept("3")));
    let secret: Secret =
        world.kube("test").get(Some("capt-system"), CERTIFICATE_SECRET).await.unwrap().unwrap();
    world.kube("test").delete(&secret, DeletionPropagation::Background).await.unwrap();
    assert!(
        matches!(one.save(&kept("5")).await, Err(CertificateStoreError::Conflict)),
        "it was deleted meanwhile"
    );
    assert!(one.load().await.unwrap().is_none());
    one.save(&kept("6")).await.unwrap();
    assert_eq!(other.load().await.unwrap(), Some(kept("6")));
}
