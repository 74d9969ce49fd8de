//! From a Deployment to the endpoints of its pods.

use serde_json::{Value, json};

use super::harness::{TestCluster, condition};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
const PODS: &str = "/api/v1/namespaces/default/pods";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";

fn deployment(replicas: i64) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "one", "ports": [{"name": "http", "containerPort": 8080}]}]},
            },
        },
    })
}

async fn pods_are(cluster: &TestCluster, count: usize) -> Vec<Value> {
    let what = format!("{count} pods");
    cluster
        .until(&what, async || {
            let pods = cluster.items(PODS).await;
            (pods.len() == count).then_some(pods)
        })
        .await
}

/// Fakes the kubelet for one pod.
async fn run(cluster: &TestCluster, pod: &Value, ip: &str) {
    let name = pod["metadata"]["name"].as_str().unwrap();
    if pod["spec"].get("nodeName").is_none() {
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
        });
        cluster.create(&format!("{PODS}/{name}/binding"), binding).await;
    }
    let status = json!({"status": {
        "phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
    }});
    cluster.merge(&format!("{PODS}/{name}/status"), status).await;
}

async fn with_node() -> TestCluster {
    let cluster = TestCluster::start().await;
    cluster
        .create("/api/v1/nodes", json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}))
        .await;
    cluster
}

async fn status_is(cluster: &TestCluster, fits: impl Fn(&Value) -> bool) -> Value {
    let path = format!("{DEPLOYMENTS}/web");
    cluster
        .until("the status", async || {
            let deployment = cluster.get(&path).await.unwrap();
            fits(&deployment["status"]).then_some(deployment)
        })
        .await
}

#[tokio::test]
async fn a_deployment_makes_a_set_that_makes_pods_that_wait() {
    let cluster = TestCluster::start().await;
    cluster.create(DEPLOYMENTS, deployment(3)).await;
    let pods = pods_are(&cluster, 3).await;
    let deployment =
        status_is(&cluster, |status| status["unavailableReplicas"] == 3 && status["replicas"] == 3).await;
    let sets = cluster.items(SETS).await;
    let hash = sets[0]["metadata"]["labels"]["pod-template-hash"].as_str().unwrap();
    assert_eq!(sets.len(), 1);
    assert_eq!(sets[0]["metadata"]["name"], format!("web-{hash}"));
    assert_eq!(sets[0]["metadata"]["ownerReferences"][0]["uid"], deployment["metadata"]["uid"]);
    for pod in &pods {
        assert!(pod["metadata"]["name"].as_str().unwrap().starts_with(&format!("web-{hash}-")));
        assert_eq!(pod["metadata"]["ownerReferences"][0]["uid"], sets[0]["metadata"]["uid"]);
        assert_eq!(pod["metadata"]["labels"]["pod-template-hash"], hash);
        assert_eq!(pod["status"]["phase"], "Pending");
    }
    assert_eq!(deployment["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "1");
    assert_eq!(condition(&deployment, "Available").unwrap()["reason"], "MinimumReplicasUnavailable");
    assert_eq!(condition(&deployment, "Progressing").unwrap()["reason"], "ReplicaSetUpdated");
}

#[tokio::test]
async fn pods_that_serve_make_a_deployment_available_and_it_scales_both_ways() {
    let cluster = with_node().await;
    cluster.create(DEPLOYMENTS, deployment(2)).await;
    for (number, pod) in pods_are(&cluster, 2).await.iter().enumerate() {
        run(&cluster, pod, &format!("10.0.0.{number}")).await;
    }
    let deployment =
        status_is(&cluster, |status| status["availableReplicas"] == 2 && status["updatedReplicas"] == 2)
            .await;
    assert_eq!(
        condition(&deployment, "Available").unwrap()["message"],
        "Deployment has minimum availability."
    );
    let progressing = condition(&deployment, "Progressing").unwrap();
    assert_eq!(progressing["reason"], "NewReplicaSetAvailable");
    let name = cluster.items(SETS).await[0]["metadata"]["name"].as_str().unwrap().to_owned();
    assert_eq!(progressing["message"], format!("ReplicaSet \"{name}\" has successfully progressed."));

    cluster.merge(&format!("{DEPLOYMENTS}/web/scale"), json!({"spec": {"replicas": 4}})).await;
    pods_are(&cluster, 4).await;
    cluster.merge(&format!("{DEPLOYMENTS}/web"), json!({"spec": {"replicas": 2}})).await;
    let left = pods_are(&cluster, 2).await;
    assert!(left.iter().all(|pod| pod["status"]["phase"] == "Running"), "pods that serve stay");
    assert_eq!(cluster.items(SETS).await.len(), 1);
}

#[tokio::test]
async fn a_new_template_rolls_out_as_its_pods_serve_and_the_old_one_can_come_back() {
    let cluster = with_node().await;
    cluster.create(DEPLOYMENTS, deployment(2)).await;
    let image = async |image: &str| {
        let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}});
        cluster.merge(&format!("{DEPLOYMENTS}/web"), patch).await;
    };
    let settle = async || {
        let mut number = 0;
        cluster
            .until("the rollout", async || {
                for pod in cluster.items(PODS).await {
                    if pod["metadata"].get("deletionTimestamp").is_some() {
                        cluster
                            .delete_now(&format!("{PODS}/{}", pod["metadata"]["name"].as_str().unwrap()))
                            .await;
                    } else if pod["status"]["phase"] == "Pending" {
                        number += 1;
                        run(&cluster, &pod, &format!("10.0.1.{number}")).await;
                    }
                }
                let deployment = cluster.get(&format!("{DEPLOYMENTS}/web")).await.unwrap();
                let status = &deployment["status"];
                let is_done = status["observedGeneration"] == deployment["metadata"]["generation"]
                    && status["updatedReplicas"] == 2
                    && status["replicas"] == 2
                    && status["availableReplicas"] == 2;
                is_done.then_some(())
            })
            .await;
    };
    settle().await;
    image("two").await;
    settle().await;
    assert_eq!(cluster.items(SETS).await.len(), 2);
    image("one").await;
    // A merge patch replaces the whole list of containers: this is a third template.
    settle().await;
    image("two").await;
    settle().await;
    let sets = cluster.items(SETS).await;
    let serving: Vec<&Value> = sets.iter().filter(|set| set["spec"]["replicas"] == 2).collect();
    assert_eq!((sets.len(), serving.len()), (3, 1));
    let notes = &serving[0]["metadata"]["annotations"];
    assert_eq!(notes["deployment.kubernetes.io/revision"], "4");
    assert_eq!(notes["deployment.kubernetes.io/revision-history"], "2");
}

#[tokio::test]
async fn a_deleted_deployment_takes_its_sets_and_pods_with_it() {
    let cluster = TestCluster::start().await;
    cluster.create(DEPLOYMENTS, deployment(2)).await;
    pods_are(&cluster, 2).await;
    cluster.delete(&format!("{DEPLOYMENTS}/web"), "Foreground").await;
    cluster.until_gone(&format!("{DEPLOYMENTS}/web")).await;
    assert_eq!(cluster.items(SETS).await, Vec::<Value>::new());
    assert_eq!(cluster.items(PODS).await, Vec::<Value>::new());
}

#[tokio::test]
async fn a_set_replaces_lost_pods_and_takes_in_those_that_fit() {
    let cluster = TestCluster::start().await;
    let orphan = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "orphan", "labels": {"app": "solo"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    cluster.create(PODS, orphan).await;
    let set = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "solo"},
        "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": "solo"}},
            "template": {"metadata": {"labels": {"app": "solo"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        },
    });
    let set = cluster.create(SETS, set).await;
    pods_are(&cluster, 2).await;
    let adopted = cluster
        .until("the adoption", async || {
            let pod = cluster.get(&format!("{PODS}/orphan")).await.unwrap();
            pod["metadata"].get("ownerReferences").cloned()
        })
        .await;
    assert_eq!(adopted[0]["uid"], set["metadata"]["uid"]);
    cluster.delete(&format!("{PODS}/orphan"), "Background").await;
    cluster.until_gone(&format!("{PODS}/orphan")).await;
    let pods = pods_are(&cluster, 2).await;
    // The controller has reconciled the set once more.
    let set = cluster.merge(&format!("{SETS}/solo"), json!({"spec": {"minReadySeconds": 1}})).await;
    cluster
        .until("the generation to be observed", async || {
            let now = cluster.get(&format!("{SETS}/solo")).await.unwrap();
            (now["status"]["observedGeneration"] == set["metadata"]["generation"]).then_some(())
        })
        .await;
    assert_eq!(cluster.items(PODS).await.len(), pods.len());
}

#[tokio::test]
async fn a_pod_that_is_relabelled_is_let_go_and_one_that_is_labelled_back_is_taken_in() {
    let cluster = TestCluster::start().await;
    cluster.create(DEPLOYMENTS, deployment(1)).await;
    let pods = pods_are(&cluster, 1).await;
    let path = format!("{PODS}/{}", pods[0]["metadata"]["name"].as_str().unwrap());
    let label =
        async |value: &str| cluster.merge(&path, json!({"metadata": {"labels": {"app": value}}})).await;
    label("other").await;
    cluster
        .until("the release", async || {
            let pod = cluster.get(&path).await?;
            pod["metadata"].get("ownerReferences").is_none().then_some(())
        })
        .await;
    pods_are(&cluster, 2).await;
    label("web").await;
    // After the adoption there is one pod too many.
    let left = pods_are(&cluster, 1).await;
    assert!(left[0]["metadata"].get("ownerReferences").is_some());
}

#[tokio::test]
async fn a_service_that_selects_others_has_their_addresses() {
    let cluster = with_node().await;
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"selector": {"app": "none"}, "ports": [{"port": 80}]},
    });
    cluster.create("/api/v1/namespaces/default/services", service).await;
    cluster.create(DEPLOYMENTS, deployment(1)).await;
    let pods = pods_are(&cluster, 1).await;
    run(&cluster, &pods[0], "10.0.0.1").await;
    let path = "/api/v1/namespaces/default/services/web";
    let has = async |addresses: &[&str]| {
        cluster
            .until("the addresses", async || {
                let slices = cluster.items(SLICES).await;
                let own = slices
                    .iter()
                    .filter(|one| one["metadata"]["labels"]["kubernetes.io/service-name"] == "web");
                let endpoints = own.filter_map(|one| one["endpoints"].as_array()).flatten();
                let found: Vec<&str> = endpoints.filter_map(|one| one["addresses"][0].as_str()).collect();
                (found == addresses).then_some(())
            })
            .await;
    };
    cluster.merge(path, json!({"spec": {"selector": {"app": "web"}}})).await;
    has(&["10.0.0.1"]).await;
    cluster.merge(path, json!({"spec": {"selector": {"app": "none"}}})).await;
    has(&[]).await;
    let pod = format!("{PODS}/{}", pods[0]["metadata"]["name"].as_str().unwrap());
    cluster.merge(&pod, json!({"metadata": {"labels": {"app": "none"}}})).await;
    has(&["10.0.0.1"]).await;
}

#[tokio::test]
async fn a_service_has_the_addresses_of_the_pods_that_serve() {
    let cluster = with_node().await;
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "labels": {"team": "x"}},
        "spec": {"selector": {"app": "web"}, "ports": [{"name": "web", "port": 80, "targetPort": "http"}]},
    });
    cluster.create("/api/v1/namespaces/default/services", service).await;
    cluster.create(DEPLOYMENTS, deployment(2)).await;
    let pods = pods_are(&cluster, 2).await;
    run(&cluster, &pods[0], "10.0.0.1").await;
    let filled = async |count: usize| {
        cluster
            .until("the slice", async || {
                let mut slices = cluster.items(SLICES).await;
                slices.retain(|one| one["metadata"]["labels"]["kubernetes.io/service-name"] == "web");
                let is_it = |slice: &Value| slice["endpoints"].as_array().map_or(0, Vec::len) == count;
                (slices.len() == 1 && is_it(&slices[0])).then(|| slices.remove(0))
            })
            .await
    };
    let slice = filled(1).await;
    assert!(slice["metadata"]["name"].as_str().unwrap().starts_with("web-"));
    assert_eq!(slice["addressType"], "IPv4");
    assert_eq!(slice["ports"], json!([{"name": "web", "port": 8080, "protocol": "TCP"}]));
    let endpoint = &slice["endpoints"][0];
    assert_eq!(endpoint["addresses"], json!(["10.0.0.1"]));
    assert_eq!(endpoint["nodeName"], "n1");
    assert_eq!(endpoint["conditions"], json!({"ready": true, "serving": true, "terminating": false}));
    assert_eq!(endpoint["targetRef"]["uid"], pods[0]["metadata"]["uid"]);
    run(&cluster, &pods[1], "10.0.0.2").await;
    filled(2).await;
    let endpoints = cluster
        .until("the endpoints", async || {
            let endpoints = cluster.get("/api/v1/namespaces/default/endpoints/web").await?;
            (endpoints["subsets"][0]["addresses"].as_array().map_or(0, Vec::len) == 2).then_some(endpoints)
        })
        .await;
    assert_eq!(
        endpoints["metadata"]["labels"],
        json!({"team": "x", "endpoints.kubernetes.io/managed-by": "endpoint-controller"})
    );
    cluster.delete_now(&format!("{PODS}/{}", pods[0]["metadata"]["name"].as_str().unwrap())).await;
    filled(1).await;
    cluster.delete("/api/v1/namespaces/default/services/web", "Background").await;
    cluster.until_gone("/api/v1/namespaces/default/endpoints/web").await;
    cluster
        .until("the end of the slices", async || {
            let slices = cluster.items(SLICES).await;
            slices
                .iter()
                .all(|one| one["metadata"]["labels"]["kubernetes.io/service-name"] != "web")
                .then_some(())
        })
        .await;
}
