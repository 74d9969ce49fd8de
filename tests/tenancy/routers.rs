//! M9: a router with the permissions of `deploy/router-own` works, and reads nothing of other namespaces.

use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

use capt_dataplane::router;
use capt_engine::aws::Cloud;
use capt_kinds::sandbox::Sandbox;
use capt_kube::k8s::KubeClient;
use embedded_kube::request::User;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{Api, api::ListParams};
use sandbox_router::proxy::ProxySettings;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::assert_forbidden;
use crate::{
    deploy::overlays::rendered_overlay,
    operator::{harness::OperatorHarness, ports::free_port},
    sandbox::traffic::is_router_ready,
};

const AGENT: &str = "router-of-shop";

fn user() -> User {
    let groups = ["system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated"];
    User {
        name: "system:serviceaccount:shop:capt-router".to_owned(),
        groups: groups.map(str::to_owned).into(),
        ..User::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn m9_a_router_of_one_namespace_is_ready_without_rights_elsewhere() {
    let stage = OperatorHarness::idle(Cloud::Local { endpoint: "http://127.0.0.1:9".to_owned() }).await;
    for namespace in ["shop", "other"] {
        let meta = json!({"name": namespace});
        stage.apply_value(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})).await;
    }
    let kinds = ["ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"];
    let manifests = rendered_overlay("router-own");
    for object in manifests.iter().filter(|it| kinds.iter().any(|kind| it["kind"] == *kind)) {
        stage.apply_value(object.clone()).await;
    }
    let local = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let admin = local(free_port());
    let settings = router::RouterSettings {
        namespace: "shop".to_owned(),
        own_namespace_only: true,
        name: "router-0".to_owned(),
        uid: None,
        address: None,
        domain: None,
        tunnel: None,
        linger: Duration::ZERO,
        proxy: ProxySettings {
            address: Ipv4Addr::LOCALHOST.into(),
            admin: Some(admin),
            ..ProxySettings::default()
        },
    };
    let stop = CancellationToken::new();
    let client = stage.kube.client_with_agent(user(), AGENT);
    let running = tokio::spawn(router::run(KubeClient::new(client), settings, stop.clone()));
    // Ready only when every watch has its first list.
    stage.wait_for("the router is ready", async || is_router_ready(admin).await).await;
    stop.cancel();
    running.await.unwrap().unwrap();
    let log = stage.kube.request_log().all();
    let denied: Vec<_> = log.iter().filter(|it| it.agent == AGENT && it.code == 403).collect();
    assert!(denied.is_empty(), "{denied:#?}");

    let client = stage.kube.client_as(user());
    let all = ListParams::default();
    assert_forbidden(Api::<Sandbox>::all(client.clone()).list(&all).await);
    assert_forbidden(Api::<Sandbox>::namespaced(client.clone(), "other").list(&all).await);
    assert_forbidden(Api::<Secret>::namespaced(client.clone(), "shop").list(&all).await);
    let namespaces = Api::<Namespace>::all(client);
    assert_forbidden(namespaces.list(&all).await);
    assert_forbidden(namespaces.get("other").await);
}
