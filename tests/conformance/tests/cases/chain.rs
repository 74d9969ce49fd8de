//! Deployment, `ReplicaSet`, Pod, `EndpointSlice`: who makes whom, and when somebody is ready.

use conformance::{Answer, Case, Context, Outcome, Patch, Req, cases};
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
    let has = |answer: &Answer| answer.body["items"].as_array().is_some_and(|items| items.len() == count);
    let list = c.until(PODS, has).await?;
    Ok(list.at("/items").as_array().cloned().unwrap_or_default())
}

/// Binds a pod to a node and says that it runs, as a kubelet would.
async fn run(c: &Context, pod: &str, ip: &str) -> Outcome {
    let node = Req::post("/api/v1/nodes", json!({ "metadata": { "name": "node-{id}" } }));
    c.send(node).await?;
    let binding = json!({ "apiVersion": "v1", "kind": "Binding", "metadata": { "name": pod }, "target": { "kind": "Node", "name": "node-{id}" } });
    c.must(Req::post(format!("{PODS}/{pod}/binding"), binding)).await?;
    let status = json!({ "status": { "phase": "Running", "podIP": ip, "podIPs": [{ "ip": ip }], "startTime": "2026-01-01T00:00:00Z",
        "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" }] } });
    c.must(Req::patch(Patch::Strategic, format!("{PODS}/{pod}/status"), status)).await.map(drop)
}

fn name_of(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

async fn a_deployment_makes_a_replica_set_and_pods(c: &mut Context) -> Outcome {
    c.make(DEPLOYMENTS, deployment("d", 2)).await?;
    let made = pods(c, 2).await?;
    let sets = c.must(Req::get(REPLICASETS)).await?;
    let set = sets.at("/items/0");
    c.saw("labels of the set", set["metadata"]["labels"].clone());
    c.saw("name of the set", set["metadata"]["name"].clone());
    c.saw("owner of the set", set["metadata"]["ownerReferences"].clone());
    c.saw("annotations of the set", set["metadata"]["annotations"].clone());
    c.saw("spec of the set", set["spec"].clone());
    let pod = &made[0];
    c.saw("generate name of a pod", pod["metadata"]["generateName"].clone());
    c.saw("labels of a pod", pod["metadata"]["labels"].clone());
    c.saw("owner of a pod", pod["metadata"]["ownerReferences"].clone());
    let deployment =
        c.until(&format!("{DEPLOYMENTS}/d"), |answer| answer.at("/status/updatedReplicas") == 2).await?;
    c.saw("annotations of the deployment", deployment.at("/metadata/annotations"));
    Ok(())
}

async fn a_deployment_is_scaled_up_and_down(c: &mut Context) -> Outcome {
    c.make(DEPLOYMENTS, deployment("d", 1)).await?;
    pods(c, 1).await?;
    c.must(Req::patch(Patch::Merge, format!("{DEPLOYMENTS}/d/scale"), json!({ "spec": { "replicas": 3 } })))
        .await?;
    pods(c, 3).await?;
    c.must(Req::patch(Patch::Merge, format!("{DEPLOYMENTS}/d"), json!({ "spec": { "replicas": 0 } })))
        .await?;
    pods(c, 0).await?;
    let done = |answer: &Answer| {
        answer.at("/status/observedGeneration") == 3 && answer.at("/status/replicas").is_null()
    };
    let status = c.until(&format!("{DEPLOYMENTS}/d"), done).await?;
    c.saw("generation", status.at("/metadata/generation"));
    c.saw("sets", c.must(Req::get(REPLICASETS)).await?.at("/items").as_array().map_or(0, Vec::len));
    Ok(())
}

fn condition(answer: &Answer, kind: &str) -> Value {
    let conditions = answer.at("/status/conditions").as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|condition| condition["type"] == kind).unwrap_or_default()
}

async fn a_deployment_becomes_available(c: &mut Context) -> Outcome {
    c.make(DEPLOYMENTS, deployment("d", 1)).await?;
    let made = pods(c, 1).await?;
    let waiting = |answer: &Answer| {
        answer.at("/status/unavailableReplicas") == 1 && answer.at("/status/updatedReplicas") == 1
    };
    let before = c.until(&format!("{DEPLOYMENTS}/d"), waiting).await?;
    c.saw(
        "available before",
        json!([condition(&before, "Available")["status"], condition(&before, "Available")["reason"]]),
    );
    run(c, &name_of(&made[0]), "10.0.0.5").await?;
    let ready = |answer: &Answer| {
        answer.at("/status/availableReplicas") == 1
            && condition(answer, "Progressing")["reason"] == "NewReplicaSetAvailable"
    };
    let after = c.until(&format!("{DEPLOYMENTS}/d"), ready).await?;
    let mut status = after.at("/status");
    status.as_object_mut().map(|fields| fields.remove("conditions"));
    c.saw("status", status);
    for kind in ["Available", "Progressing"] {
        let condition = condition(&after, kind);
        c.saw(kind, json!([condition["status"], condition["reason"]]));
    }
    Ok(())
}

async fn a_deployment_rolls_over(c: &mut Context) -> Outcome {
    c.make(DEPLOYMENTS, deployment("d", 1)).await?;
    let first = pods(c, 1).await?;
    run(c, &name_of(&first[0]), "10.0.0.5").await?;
    c.until(&format!("{DEPLOYMENTS}/d"), |answer| answer.at("/status/availableReplicas") == 1).await?;
    let patch =
        json!({ "spec": { "template": { "spec": { "containers": [{ "name": "c", "image": "i:2" }] } } } });
    c.must(Req::patch(Patch::Strategic, format!("{DEPLOYMENTS}/d"), patch)).await?;
    let both = pods(c, 2).await?;
    let old = name_of(&first[0]);
    let new = both.iter().map(name_of).find(|name| *name != old).unwrap_or_default();
    let image =
        both.iter().find(|pod| name_of(pod) == new).map(|pod| pod["spec"]["containers"][0]["image"].clone());
    c.saw("the new pod", image);
    run(c, &new, "10.0.0.6").await?;
    // Nobody kills the bound pod: it is only told to go.
    c.until(&format!("{PODS}/{old}"), |answer| !answer.text("/metadata/deletionTimestamp").is_empty())
        .await?;
    c.must(Req::delete(format!("{PODS}/{old}?gracePeriodSeconds=0"))).await?;
    let done = |answer: &Answer| {
        answer.at("/status/updatedReplicas") == 1
            && answer.at("/status/replicas") == 1
            && answer.at("/status/availableReplicas") == 1
    };
    let after = c.until(&format!("{DEPLOYMENTS}/d"), done).await?;
    c.saw("revision", after.at("/metadata/annotations/deployment.kubernetes.io~1revision"));
    let scaled = |answer: &Answer| {
        answer.body["items"]
            .as_array()
            .is_some_and(|sets| sets.iter().any(|set| set["spec"]["replicas"] == 0))
    };
    let sets = c.until(REPLICASETS, scaled).await?.at("/items").as_array().cloned().unwrap_or_default();
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
    c.saw("sets", seen);
    Ok(())
}

async fn a_deleted_pod_is_made_again(c: &mut Context) -> Outcome {
    c.make(DEPLOYMENTS, deployment("d", 1)).await?;
    let first = name_of(&pods(c, 1).await?[0]);
    c.must(Req::delete(format!("{PODS}/{first}"))).await?;
    let other = |answer: &Answer| {
        answer.names().as_array().is_some_and(|names| names.len() == 1 && names[0] != first.as_str())
    };
    c.until(PODS, other).await?;
    c.saw("another pod", true);
    Ok(())
}

async fn a_replica_set_adopts_an_orphan(c: &mut Context) -> Outcome {
    let orphan = json!({ "metadata": { "name": "orphan", "labels": { "app": "r" } }, "spec": { "containers": [{ "name": "c", "image": "i" }] } });
    c.make(PODS, orphan).await?;
    let mut set = deployment("r", 1);
    set["kind"] = json!("ReplicaSet");
    c.make(REPLICASETS, set).await?;
    let adopted = c
        .until(&format!("{PODS}/orphan"), |answer| answer.at("/metadata/ownerReferences/0").is_object())
        .await?;
    c.saw("owner", adopted.at("/metadata/ownerReferences"));
    let status = c.until(&format!("{REPLICASETS}/r"), |answer| answer.at("/status/replicas") == 1).await?;
    c.saw("status", status.at("/status"));
    Ok(())
}

async fn deletion_in_the_background_takes_all(c: &mut Context) -> Outcome {
    c.make(DEPLOYMENTS, deployment("d", 2)).await?;
    pods(c, 2).await?;
    c.must(Req::delete_with(format!("{DEPLOYMENTS}/d"), json!({ "propagationPolicy": "Background" })))
        .await?;
    pods(c, 0).await?;
    let sets = c.until(REPLICASETS, |answer| answer.names() == json!([])).await?;
    c.saw("sets", sets.names());
    Ok(())
}

async fn deletion_in_the_foreground_takes_all(c: &mut Context) -> Outcome {
    c.make(DEPLOYMENTS, deployment("d", 1)).await?;
    pods(c, 1).await?;
    let answer = c
        .must(Req::delete_with(format!("{DEPLOYMENTS}/d"), json!({ "propagationPolicy": "Foreground" })))
        .await?;
    c.saw("finalizers", answer.at("/metadata/finalizers"));
    c.until_gone(&format!("{DEPLOYMENTS}/d")).await?;
    c.saw("sets", c.must(Req::get(REPLICASETS)).await?.names());
    c.saw("pods", c.must(Req::get(PODS)).await?.names());
    Ok(())
}

async fn deletion_can_leave_the_pods(c: &mut Context) -> Outcome {
    c.make(DEPLOYMENTS, deployment("d", 1)).await?;
    pods(c, 1).await?;
    collected(c, REPLICASETS, no_replicas()).await?;
    c.must(Req::delete_with(format!("{DEPLOYMENTS}/d"), json!({ "propagationPolicy": "Orphan" }))).await?;
    c.until_gone(&format!("{DEPLOYMENTS}/d")).await?;
    let sets = c.must(Req::get(REPLICASETS)).await?;
    c.saw("sets", sets.names().as_array().map_or(0, Vec::len));
    c.saw("owners of the set", sets.at("/items/0/metadata/ownerReferences"));
    c.saw("pods", c.must(Req::get(PODS)).await?.names().as_array().map_or(0, Vec::len));
    Ok(())
}

async fn service(c: &Context) -> Outcome {
    let service = json!({ "metadata": { "name": "s" }, "spec": { "clusterIP": "None", "selector": { "app": "x" }, "ports": [{ "name": "http", "port": 80, "targetPort": 8080 }] } });
    c.make(SERVICES, service).await?;
    let pod = json!({ "metadata": { "name": "p", "labels": { "app": "x" } }, "spec": { "containers": [{ "name": "c", "image": "i" }] } });
    c.make(PODS, pod).await.map(drop)
}

fn endpoints_of(answer: &Answer) -> Vec<Value> {
    answer.at("/items/0/endpoints").as_array().cloned().unwrap_or_default()
}

async fn a_service_gets_its_endpoints(c: &mut Context) -> Outcome {
    service(c).await?;
    run(c, "p", "10.0.0.7").await?;
    let filled =
        |answer: &Answer| endpoints_of(answer).iter().any(|endpoint| endpoint["conditions"]["ready"] == true);
    let slices = c.until(SLICES, filled).await?;
    let slice = slices.at("/items/0");
    c.saw("labels", slice["metadata"]["labels"].clone());
    c.saw("owner", slice["metadata"]["ownerReferences"].clone());
    c.saw("type", slice["addressType"].clone());
    c.saw("endpoints", slice["endpoints"].clone());
    c.saw("ports", slice["ports"].clone());
    let old = c
        .until("/api/v1/namespaces/{ns}/endpoints/s", |answer| {
            answer.at("/subsets/0/addresses/0").is_object()
        })
        .await?;
    c.saw("subsets", old.at("/subsets"));
    Ok(())
}

async fn a_pod_that_is_not_ready_is_not_an_endpoint(c: &mut Context) -> Outcome {
    service(c).await?;
    run(c, "p", "10.0.0.8").await?;
    let ready = |wanted: bool| {
        move |answer: &Answer| {
            endpoints_of(answer).iter().any(|endpoint| endpoint["conditions"]["ready"] == wanted)
        }
    };
    c.until(SLICES, ready(true)).await?;
    let status = json!({ "status": { "conditions": [{ "type": "Ready", "status": "False" }] } });
    c.must(Req::patch(Patch::Strategic, format!("{PODS}/p/status"), status)).await?;
    let slices = c.until(SLICES, ready(false)).await?;
    c.saw(
        "conditions",
        endpoints_of(&slices).into_iter().map(|endpoint| endpoint["conditions"].clone()).collect::<Vec<_>>(),
    );
    c.must(Req::delete(format!("{PODS}/p?gracePeriodSeconds=0"))).await?;
    c.until(SLICES, |answer| endpoints_of(answer).is_empty()).await?;
    c.saw("gone", true);
    c.must(Req::delete(format!("{SERVICES}/s"))).await?;
    c.until(SLICES, |answer| answer.names() == json!([])).await?;
    c.saw("slices go with their service", true);
    Ok(())
}

async fn a_paused_deployment_makes_nothing(c: &mut Context) -> Outcome {
    let mut object = deployment("d", 1);
    object["spec"]["paused"] = json!(true);
    c.make(DEPLOYMENTS, object).await?;
    let seen =
        c.until(&format!("{DEPLOYMENTS}/d"), |answer| answer.at("/status/observedGeneration") == 1).await?;
    c.saw("reason", condition(&seen, "Progressing")["reason"].clone());
    c.saw("sets", c.must(Req::get(REPLICASETS)).await?.names());
    c.must(Req::patch(Patch::Merge, format!("{DEPLOYMENTS}/d"), json!({ "spec": { "paused": false } })))
        .await?;
    pods(c, 1).await?;
    c.saw("resumed", true);
    Ok(())
}
