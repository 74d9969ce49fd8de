//! Deployment, `ReplicaSet`, Pod, `EndpointSlice`: who makes whom, and when somebody is ready.

use conformance::{ApiResponse, Case, Context, Outcome, PatchType, Req, cases};
use serde_json::{Value, json};

use super::{DEPLOYMENTS, PODS, collected, deployment, no_replicas};

const REPLICASETS: &str = "/apis/apps/v1/namespaces/{ns}/replicasets";
const SERVICES: &str = "/api/v1/namespaces/{ns}/services";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/{ns}/endpointslices";

pub(crate) fn cases() -> Vec<Case> {
    cases!["chain":
        a_deployment_makes_a_replica_set_and_pods,
        a_deployment_is_scaled_up_and_down,
        a_deployment_becomes_available,
        a_deployment_rolls_over,
        a_deleted_pod_is_made_again,
        a_replica_set_adopts_an_orphan,
        deletion_in_the_background_takes_all,
        deletion_in_the_foreground_takes_all,
        deletion_can_leave_the_pods,
        a_service_gets_its_endpoints,
        a_pod_that_is_not_ready_is_not_an_endpoint,
        a_paused_deployment_makes_nothing,
    ]
}

async fn pods(c: &Context, count: usize) -> Result<Vec<Value>, anyhow::Error> {
    let has =
        |answer: &ApiResponse| answer.body["items"].as_array().is_some_and(|items| items.len() == count);
    let list = c.wait_until(PODS, has).await?;
    Ok(list.value_at("/items").as_array().cloned().unwrap_or_default())
}

/// Binds a pod to a node and says that it runs, as a kubelet would.
async fn run(c: &Context, pod: &str, ip: &str) -> Outcome {
    let node = Req::post("/api/v1/nodes", json!({ "metadata": { "name": "node-{id}" } }));
    c.send(node).await?;
    let binding = json!({ "apiVersion": "v1", "kind": "Binding", "metadata": { "name": pod }, "target": { "kind": "Node", "name": "node-{id}" } });
    c.send_ok(Req::post(format!("{PODS}/{pod}/binding"), binding)).await?;
    let status = json!({ "status": { "phase": "Running", "podIP": ip, "podIPs": [{ "ip": ip }], "startTime": "2026-01-01T00:00:00Z",
        "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" }] } });
    c.send_ok(Req::patch(PatchType::Strategic, format!("{PODS}/{pod}/status"), status)).await.map(drop)
}

fn name_of(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

async fn a_deployment_makes_a_replica_set_and_pods(c: &mut Context) -> Outcome {
    c.create(DEPLOYMENTS, deployment("d", 2)).await?;
    let made = pods(c, 2).await?;
    let sets = c.send_ok(Req::get(REPLICASETS)).await?;
    let set = sets.value_at("/items/0");
    c.record("labels of the set", set["metadata"]["labels"].clone());
    c.record("name of the set", set["metadata"]["name"].clone());
    c.record("owner of the set", set["metadata"]["ownerReferences"].clone());
    c.record("annotations of the set", set["metadata"]["annotations"].clone());
    c.record("spec of the set", set["spec"].clone());
    let pod = &made[0];
    c.record("generate name of a pod", pod["metadata"]["generateName"].clone());
    c.record("labels of a pod", pod["metadata"]["labels"].clone());
    c.record("owner of a pod", pod["metadata"]["ownerReferences"].clone());
    let deployment = c
        .wait_until(&format!("{DEPLOYMENTS}/d"), |answer| answer.value_at("/status/updatedReplicas") == 2)
        .await?;
    c.record("annotations of the deployment", deployment.value_at("/metadata/annotations"));
    Ok(())
}

async fn a_deployment_is_scaled_up_and_down(c: &mut Context) -> Outcome {
    c.create(DEPLOYMENTS, deployment("d", 1)).await?;
    pods(c, 1).await?;
    c.send_ok(Req::patch(
        PatchType::Merge,
        format!("{DEPLOYMENTS}/d/scale"),
        json!({ "spec": { "replicas": 3 } }),
    ))
    .await?;
    pods(c, 3).await?;
    c.send_ok(Req::patch(PatchType::Merge, format!("{DEPLOYMENTS}/d"), json!({ "spec": { "replicas": 0 } })))
        .await?;
    pods(c, 0).await?;
    let done = |answer: &ApiResponse| {
        answer.value_at("/status/observedGeneration") == 3 && answer.value_at("/status/replicas").is_null()
    };
    let status = c.wait_until(&format!("{DEPLOYMENTS}/d"), done).await?;
    c.record("generation", status.value_at("/metadata/generation"));
    c.record(
        "sets",
        c.send_ok(Req::get(REPLICASETS)).await?.value_at("/items").as_array().map_or(0, Vec::len),
    );
    Ok(())
}

fn condition(answer: &ApiResponse, kind: &str) -> Value {
    let conditions = answer.value_at("/status/conditions").as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|condition| condition["type"] == kind).unwrap_or_default()
}

async fn a_deployment_becomes_available(c: &mut Context) -> Outcome {
    c.create(DEPLOYMENTS, deployment("d", 1)).await?;
    let made = pods(c, 1).await?;
    let waiting = |answer: &ApiResponse| {
        answer.value_at("/status/unavailableReplicas") == 1 && answer.value_at("/status/updatedReplicas") == 1
    };
    let before = c.wait_until(&format!("{DEPLOYMENTS}/d"), waiting).await?;
    c.record(
        "available before",
        json!([condition(&before, "Available")["status"], condition(&before, "Available")["reason"]]),
    );
    run(c, &name_of(&made[0]), "10.0.0.5").await?;
    let ready = |answer: &ApiResponse| {
        answer.value_at("/status/availableReplicas") == 1
            && condition(answer, "Progressing")["reason"] == "NewReplicaSetAvailable"
    };
    let after = c.wait_until(&format!("{DEPLOYMENTS}/d"), ready).await?;
    let mut status = after.value_at("/status");
    status.as_object_mut().map(|fields| fields.remove("conditions"));
    c.record("status", status);
    for kind in ["Available", "Progressing"] {
        let condition = condition(&after, kind);
        c.record(kind, json!([condition["status"], condition["reason"]]));
    }
    Ok(())
}

async fn a_deployment_rolls_over(c: &mut Context) -> Outcome {
    c.create(DEPLOYMENTS, deployment("d", 1)).await?;
    let first = pods(c, 1).await?;
    run(c, &name_of(&first[0]), "10.0.0.5").await?;
    c.wait_until(&format!("{DEPLOYMENTS}/d"), |answer| answer.value_at("/status/availableReplicas") == 1)
        .await?;
    let patch =
        json!({ "spec": { "template": { "spec": { "containers": [{ "name": "c", "image": "i:2" }] } } } });
    c.send_ok(Req::patch(PatchType::Strategic, format!("{DEPLOYMENTS}/d"), patch)).await?;
    let both = pods(c, 2).await?;
    let old = name_of(&first[0]);
    let new = both.iter().map(name_of).find(|name| *name != old).unwrap_or_default();
    let image =
        both.iter().find(|pod| name_of(pod) == new).map(|pod| pod["spec"]["containers"][0]["image"].clone());
    c.record("the new pod", image);
    run(c, &new, "10.0.0.6").await?;
    // Nobody kills the bound pod: it is only told to go.
    c.wait_until(&format!("{PODS}/{old}"), |answer| !answer.str_at("/metadata/deletionTimestamp").is_empty())
        .await?;
    c.send_ok(Req::delete(format!("{PODS}/{old}?gracePeriodSeconds=0"))).await?;
    let done = |answer: &ApiResponse| {
        answer.value_at("/status/updatedReplicas") == 1
            && answer.value_at("/status/replicas") == 1
            && answer.value_at("/status/availableReplicas") == 1
    };
    let after = c.wait_until(&format!("{DEPLOYMENTS}/d"), done).await?;
    c.record("revision", after.value_at("/metadata/annotations/deployment.kubernetes.io~1revision"));
    let scaled = |answer: &ApiResponse| {
        answer.body["items"]
            .as_array()
            .is_some_and(|sets| sets.iter().any(|set| set["spec"]["replicas"] == 0))
    };
    let sets =
        c.wait_until(REPLICASETS, scaled).await?.value_at("/items").as_array().cloned().unwrap_or_default();
    let mut seen: Vec<Value> = sets
        .iter()
        .map(|set| {
            json!([
                set["metadata"]["annotations"]["deployment.kubernetes.io/revision"],
                set["spec"]["replicas"],
                set["spec"]["template"]["spec"]["containers"][0]["image"]
            ])
        })
        .collect();
    seen.sort_by_key(ToString::to_string);
    c.record("sets", seen);
    Ok(())
}

async fn a_deleted_pod_is_made_again(c: &mut Context) -> Outcome {
    c.create(DEPLOYMENTS, deployment("d", 1)).await?;
    let first = name_of(&pods(c, 1).await?[0]);
    c.send_ok(Req::delete(format!("{PODS}/{first}"))).await?;
    let other = |answer: &ApiResponse| {
        answer.item_names().as_array().is_some_and(|names| names.len() == 1 && names[0] != first.as_str())
    };
    c.wait_until(PODS, other).await?;
    c.record("another pod", true);
    Ok(())
}

async fn a_replica_set_adopts_an_orphan(c: &mut Context) -> Outcome {
    let orphan = json!({ "metadata": { "name": "orphan", "labels": { "app": "r" } }, "spec": { "containers": [{ "name": "c", "image": "i" }] } });
    c.create(PODS, orphan).await?;
    let mut set = deployment("r", 1);
    set["kind"] = json!("ReplicaSet");
    c.create(REPLICASETS, set).await?;
    let adopted = c
        .wait_until(&format!("{PODS}/orphan"), |answer| {
            answer.value_at("/metadata/ownerReferences/0").is_object()
        })
        .await?;
    c.record("owner", adopted.value_at("/metadata/ownerReferences"));
    let status =
        c.wait_until(&format!("{REPLICASETS}/r"), |answer| answer.value_at("/status/replicas") == 1).await?;
    c.record("status", status.value_at("/status"));
    Ok(())
}

async fn deletion_in_the_background_takes_all(c: &mut Context) -> Outcome {
    c.create(DEPLOYMENTS, deployment("d", 2)).await?;
    pods(c, 2).await?;
    c.send_ok(Req::delete_with(format!("{DEPLOYMENTS}/d"), json!({ "propagationPolicy": "Background" })))
        .await?;
    pods(c, 0).await?;
    let sets = c.wait_until(REPLICASETS, |answer| answer.item_names() == json!([])).await?;
    c.record("sets", sets.item_names());
    Ok(())
}

async fn deletion_in_the_foreground_takes_all(c: &mut Context) -> Outcome {
    c.create(DEPLOYMENTS, deployment("d", 1)).await?;
    pods(c, 1).await?;
    let answer = c
        .send_ok(Req::delete_with(format!("{DEPLOYMENTS}/d"), json!({ "propagationPolicy": "Foreground" })))
        .await?;
    c.record("finalizers", answer.value_at("/metadata/finalizers"));
    c.wait_until_deleted(&format!("{DEPLOYMENTS}/d")).await?;
    c.record("sets", c.send_ok(Req::get(REPLICASETS)).await?.item_names());
    c.record("pods", c.send_ok(Req::get(PODS)).await?.item_names());
    Ok(())
}

async fn deletion_can_leave_the_pods(c: &mut Context) -> Outcome {
    c.create(DEPLOYMENTS, deployment("d", 1)).await?;
    pods(c, 1).await?;
    collected(c, REPLICASETS, no_replicas()).await?;
    c.send_ok(Req::delete_with(format!("{DEPLOYMENTS}/d"), json!({ "propagationPolicy": "Orphan" }))).await?;
    c.wait_until_deleted(&format!("{DEPLOYMENTS}/d")).await?;
    let sets = c.send_ok(Req::get(REPLICASETS)).await?;
    c.record("sets", sets.item_names().as_array().map_or(0, Vec::len));
    c.record("owners of the set", sets.value_at("/items/0/metadata/ownerReferences"));
    c.record("pods", c.send_ok(Req::get(PODS)).await?.item_names().as_array().map_or(0, Vec::len));
    Ok(())
}

async fn service(c: &Context) -> Outcome {
    let service = json!({ "metadata": { "name": "s" }, "spec": { "clusterIP": "None", "selector": { "app": "x" }, "ports": [{ "name": "http", "port": 80, "targetPort": 8080 }] } });
    c.create(SERVICES, service).await?;
    let pod = json!({ "metadata": { "name": "p", "labels": { "app": "x" } }, "spec": { "containers": [{ "name": "c", "image": "i" }] } });
    c.create(PODS, pod).await.map(drop)
}

fn endpoints_of(answer: &ApiResponse) -> Vec<Value> {
    answer.value_at("/items/0/endpoints").as_array().cloned().unwrap_or_default()
}

async fn a_service_gets_its_endpoints(c: &mut Context) -> Outcome {
    service(c).await?;
    run(c, "p", "10.0.0.7").await?;
    let filled = |answer: &ApiResponse| {
        endpoints_of(answer).iter().any(|endpoint| endpoint["conditions"]["ready"] == true)
    };
    let slices = c.wait_until(SLICES, filled).await?;
    let slice = slices.value_at("/items/0");
    c.record("labels", slice["metadata"]["labels"].clone());
    c.record("owner", slice["metadata"]["ownerReferences"].clone());
    c.record("type", slice["addressType"].clone());
    c.record("endpoints", slice["endpoints"].clone());
    c.record("ports", slice["ports"].clone());
    let old = c
        .wait_until("/api/v1/namespaces/{ns}/endpoints/s", |answer| {
            answer.value_at("/subsets/0/addresses/0").is_object()
        })
        .await?;
    c.record("subsets", old.value_at("/subsets"));
    Ok(())
}

async fn a_pod_that_is_not_ready_is_not_an_endpoint(c: &mut Context) -> Outcome {
    service(c).await?;
    run(c, "p", "10.0.0.8").await?;
    let ready = |wanted: bool| {
        move |answer: &ApiResponse| {
            endpoints_of(answer).iter().any(|endpoint| endpoint["conditions"]["ready"] == wanted)
        }
    };
    c.wait_until(SLICES, ready(true)).await?;
    let status = json!({ "status": { "conditions": [{ "type": "Ready", "status": "False" }] } });
    c.send_ok(Req::patch(PatchType::Strategic, format!("{PODS}/p/status"), status)).await?;
    let slices = c.wait_until(SLICES, ready(false)).await?;
    c.record(
        "conditions",
        endpoints_of(&slices).into_iter().map(|endpoint| endpoint["conditions"].clone()).collect::<Vec<_>>(),
    );
    c.send_ok(Req::delete(format!("{PODS}/p?gracePeriodSeconds=0"))).await?;
    c.wait_until(SLICES, |answer| endpoints_of(answer).is_empty()).await?;
    c.record("gone", true);
    c.send_ok(Req::delete(format!("{SERVICES}/s"))).await?;
    c.wait_until(SLICES, |answer| answer.item_names() == json!([])).await?;
    c.record("slices go with their service", true);
    Ok(())
}

async fn a_paused_deployment_makes_nothing(c: &mut Context) -> Outcome {
    let mut object = deployment("d", 1);
    object["spec"]["paused"] = json!(true);
    c.create(DEPLOYMENTS, object).await?;
    let seen = c
        .wait_until(&format!("{DEPLOYMENTS}/d"), |answer| answer.value_at("/status/observedGeneration") == 1)
        .await?;
    c.record("reason", condition(&seen, "Progressing")["reason"].clone());
    c.record("sets", c.send_ok(Req::get(REPLICASETS)).await?.item_names());
    c.send_ok(Req::patch(
        PatchType::Merge,
        format!("{DEPLOYMENTS}/d"),
        json!({ "spec": { "paused": false } }),
    ))
    .await?;
    pods(c, 1).await?;
    c.record("resumed", true);
    Ok(())
}
