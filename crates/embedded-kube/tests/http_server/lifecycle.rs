//! Start, stop and restart.

use std::os::unix::fs::PermissionsExt;

use embedded_kube::cluster::{EmbeddedKube, ListenConfig, StartError};
use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api,
    api::{ListParams, PostParams, WatchParams},
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{MAPS, PATIENCE, config_map, get, listening, memory, over_tls, post};

#[tokio::test]
async fn a_fresh_cluster_has_its_first_objects() {
    let kube = memory().await;
    let namespaces: Api<Namespace> = Api::all(kube.client());
    let names: Vec<String> = namespaces
        .list(&ListParams::default())
        .await
        .unwrap()
        .into_iter()
        .filter_map(|one| one.metadata.name)
        .collect();
    assert_eq!(names, ["default", "kube-node-lease", "kube-public", "kube-system"]);
    let roles = get(&kube.client(), "/apis/rbac.authorization.k8s.io/v1/clusterroles").await.text;
    for role in ["cluster-admin", "system:discovery", "system:basic-user", "system:public-info-viewer"] {
        assert!(roles.contains(&format!("\"name\":\"{role}\"")), "{role}");
    }
    assert_eq!(get(&kube.client(), "/api/v1/namespaces/default/services/kubernetes").await.code, 200);
}

#[tokio::test]
async fn a_second_start_on_the_same_data_shows_the_same_objects_to_the_same_kubeconfig() {
    let data = tempfile::tempdir().unwrap();
    let start = || async {
        let builder = EmbeddedKube::builder().data(data.path()).controllers(false).name("shop");
        builder.listen(ListenConfig::loopback().with_name("kube.example")).start().await.unwrap()
    };
    let first = start().await;
    assert_eq!(post(&over_tls(&first, None).await, MAPS, &config_map("kept")).await.code, 201);
    let path = first.kubeconfig_path().unwrap().to_owned();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), first.kubeconfig().unwrap());
    for file in [path.clone(), data.path().join("token"), data.path().join("pki/ca.pem")] {
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", file.display());
    }
    let line = |text: &str, key: &str| text.lines().find(|line| line.contains(key)).unwrap().to_owned();
    let before = first.kubeconfig().unwrap().to_owned();
    first.stop().await;
    let second = start().await;
    let after = second.kubeconfig().unwrap();
    for key in ["certificate-authority-data", "token", "current-context: \"shop\""] {
        assert_eq!(line(&before, key), line(after, key));
    }
    let kept = get(&over_tls(&second, None).await, &format!("{MAPS}/kept")).await;
    assert_eq!(kept.json()["data"]["a"], "b");
    second.stop().await;
}

#[tokio::test]
async fn many_clusters_live_in_one_process_and_know_nothing_of_each_other() {
    let (one, two) = (listening().await, listening().await);
    assert_ne!(one.address(), two.address());
    post(&one.client(), MAPS, &config_map("mine")).await;
    assert_eq!(get(&two.client(), &format!("{MAPS}/mine")).await.code, 404);
    let maps: Api<ConfigMap> = Api::default_namespaced(over_tls(&one, None).await);
    assert!(maps.get_opt("mine").await.unwrap().is_some());
}

#[tokio::test]
async fn stopping_ends_watches_and_frees_the_address() {
    for in_process in [true, false] {
        // On this address no other test takes the port once it is free.
        let elsewhere = ListenConfig::at("127.0.0.2:0".parse().unwrap());
        let builder = EmbeddedKube::builder().in_memory().controllers(false);
        let kube = builder.listen(elsewhere.with_name("127.0.0.2")).start().await.unwrap();
        let address = kube.address().unwrap();
        let client = if in_process { kube.client() } else { over_tls(&kube, None).await };
        let maps: Api<ConfigMap> = Api::default_namespaced(client);
        let mut watch = maps.watch(&WatchParams::default(), "0").await.unwrap().boxed();
        maps.create(&PostParams::default(), &serde_json::from_value(config_map("x")).unwrap()).await.unwrap();
        assert!(watch.next().await.unwrap().is_ok());
        tokio::time::timeout(PATIENCE, kube.stop()).await.expect("stops in time");
        let end = tokio::time::timeout(PATIENCE, watch.next()).await.expect("the watch ends");
        assert!(matches!(end, None | Some(Err(_))), "{end:?}");
        assert!(tokio::net::TcpListener::bind(address).await.is_ok());
    }
}

#[tokio::test]
async fn an_address_that_is_taken_is_told() {
    let kube = listening().await;
    let taken = EmbeddedKube::builder().listen(ListenConfig::at(kube.address().unwrap())).start().await;
    assert!(matches!(taken, Err(StartError::Listen { .. })));
}

#[tokio::test]
async fn nonsense_on_the_socket_harms_nobody() {
    let kube = listening().await;
    let address = kube.address().unwrap();
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0; 64], &[0x16, 3, 1, 0xff, 0xff], b""] {
        let mut socket = tokio::net::TcpStream::connect(address).await.unwrap();
        socket.write_all(bytes).await.unwrap();
        socket.shutdown().await.unwrap();
        let mut rest = Vec::new();
        let _ = tokio::time::timeout(PATIENCE, socket.read_to_end(&mut rest)).await.unwrap();
    }
    assert_eq!(get(&over_tls(&kube, None).await, "/healthz").await.text, "ok");
}
