//! Pods, replica sets and deployments: what is defaulted and what is refused.

use conformance::{Case, Context, Outcome, PatchType, Req, cases};
use serde_json::{Value, json};

use super::{DEPLOYMENTS, PODS, deployment, kinds::NODES, pod};

pub(crate) fn cases() -> Vec<Case> {
    cases!["kinds":
        pod_defaults,
        pod_with_probes_and_volumes,
        pod_that_is_invalid,
        pod_resources,
        pod_binding,
        deployment_defaults,
        deployment_that_is_invalid,
        deployment_strategy_that_is_invalid,
        replica_set_defaults,
        replica_set_that_is_invalid,
        replicas_that_are_negative,
    ]
}

const REPLICASETS: &str = "/apis/apps/v1/namespaces/{ns}/replicasets";
async fn pod_defaults(c: &mut Context) -> Outcome {
    c.post("create", PODS, pod("p")).await?;
    let latest = json!({ "metadata": { "name": "q" }, "spec": { "containers": [{ "name": "c", "image": "i:1.2" }], "initContainers": [{ "name": "init", "image": "j:latest" }] } });
    let answer = c.send_ok(Req::post(PODS, latest)).await?;
    c.record(
        "pull policies",
        json!([
            answer.value_at("/spec/containers/0/imagePullPolicy"),
            answer.value_at("/spec/initContainers/0/imagePullPolicy")
        ]),
    );
    Ok(())
}

async fn pod_with_probes_and_volumes(c: &mut Context) -> Outcome {
    let spec = json!({
        "containers": [{ "name": "c", "image": "i", "ports": [{ "containerPort": 80 }],
            "livenessProbe": { "httpGet": { "port": 80 } }, "readinessProbe": { "tcpSocket": { "port": "http" } },
            "env": [{ "name": "IP", "valueFrom": { "fieldRef": { "fieldPath": "status.podIP" } } }],
            "volumeMounts": [{ "name": "s", "mountPath": "/s" }], "lifecycle": { "preStop": { "exec": { "command": ["true"] } } } }],
        "volumes": [{ "name": "s", "secret": { "secretName": "x" } }, { "name": "m", "configMap": { "name": "y" } }, { "name": "e", "emptyDir": {} },
            { "name": "p", "projected": { "sources": [{ "configMap": { "name": "z" } }] } }, { "name": "h", "hostPath": { "path": "/h" } },
            { "name": "d", "downwardAPI": { "items": [{ "path": "l", "fieldRef": { "fieldPath": "metadata.labels" } }] } }],
    });
    let answer = c.send_ok(Req::post(PODS, json!({ "metadata": { "name": "p" }, "spec": spec }))).await?;
    c.record("spec", answer.value_at("/spec"));
    Ok(())
}

async fn pod_that_is_invalid(c: &mut Context) -> Outcome {
    let with = |spec: Value| json!({ "metadata": { "name": "p" }, "spec": spec });
    let container = |more: Value| {
        let mut container = json!({ "name": "c", "image": "i" });
        if let (Value::Object(container), Value::Object(more)) = (&mut container, more) {
            container.extend(more);
        }
        with(json!({ "containers": [container] }))
    };
    c.post("no containers", PODS, with(json!({}))).await?;
    c.post("no name", PODS, with(json!({ "containers": [{ "image": "i" }] }))).await?;
    c.post("no image", PODS, with(json!({ "containers": [{ "name": "c" }] }))).await?;
    c.post(
        "names twice",
        PODS,
        with(json!({ "containers": [{ "name": "c", "image": "i" }, { "name": "c", "image": "i" }] })),
    )
    .await?;
    c.post("a name that is no label", PODS, with(json!({ "containers": [{ "name": "C_1", "image": "i" }] })))
        .await?;
    c.post("port", PODS, container(json!({ "ports": [{ "containerPort": 0 }] }))).await?;
    c.post("pull policy", PODS, container(json!({ "imagePullPolicy": "Sometimes" }))).await?;
    c.post("env", PODS, container(json!({ "env": [{ "name": "" }] }))).await?;
    c.post(
        "a mount of nothing",
        PODS,
        container(json!({ "volumeMounts": [{ "name": "none", "mountPath": "/x" }] })),
    )
    .await?;
    c.post(
        "restart policy",
        PODS,
        with(json!({ "restartPolicy": "Sometimes", "containers": [{ "name": "c", "image": "i" }] })),
    )
    .await?;
    Ok(())
}

async fn pod_resources(c: &mut Context) -> Outcome {
    let with = |name: &str, resources: Value| json!({ "metadata": { "name": name }, "spec": { "containers": [{ "name": "c", "image": "i", "resources": resources }] } });
    for (name, resources) in [
        ("burstable", json!({ "requests": { "cpu": "0.5", "memory": "128Mi" } })),
        ("guaranteed", json!({ "limits": { "cpu": 1, "memory": "1Gi" } })),
        ("odd", json!({ "requests": { "cpu": "1500m", "memory": "1000000000" } })),
    ] {
        let answer = c.send(Req::post(PODS, with(name, resources))).await?;
        c.record(
            name,
            json!([
                answer.code,
                answer.value_at("/spec/containers/0/resources"),
                answer.value_at("/status/qosClass")
            ]),
        );
    }
    c.post(
        "request above limit",
        PODS,
        with("above", json!({ "requests": { "cpu": "2" }, "limits": { "cpu": "1" } })),
    )
    .await?;
    let answer = c.send(Req::post(PODS, with("none", json!({ "requests": { "cpu": "lots" } })))).await?;
    c.record("no quantity", json!([answer.code, answer.value_at("/message")]));
    Ok(())
}

async fn pod_binding(c: &mut Context) -> Outcome {
    c.create(NODES, json!({ "metadata": { "name": "node-{id}" } })).await?;
    c.create(PODS, pod("p")).await?;
    let binding = json!({ "apiVersion": "v1", "kind": "Binding", "metadata": { "name": "p" }, "target": { "apiVersion": "v1", "kind": "Node", "name": "node-{id}" } });
    c.post("bind", &format!("{PODS}/p/binding"), binding.clone()).await?;
    let bound = c.send_ok(Req::get(format!("{PODS}/p"))).await?;
    c.record("node", bound.value_at("/spec/nodeName"));
    c.record("conditions", bound.value_at("/status/conditions"));
    c.post("again", &format!("{PODS}/p/binding"), binding.clone()).await?;
    c.post("nobody", &format!("{PODS}/q/binding"), binding).await?;
    Ok(())
}

async fn deployment_defaults(c: &mut Context) -> Outcome {
    let mut object = deployment("d", 0);
    object["spec"]["paused"] = json!(true);
    let answer = c.send_ok(Req::post(DEPLOYMENTS, object)).await?;
    c.record("spec", answer.value_at("/spec"));
    c.record("status", answer.value_at("/status"));
    c.record("metadata", answer.value_at("/metadata"));
    let mut object = deployment("e", 0);
    object["spec"]["paused"] = json!(true);
    object["spec"].as_object_mut().map(|spec| spec.remove("replicas"));
    let answer = c.send_ok(Req::post(DEPLOYMENTS, object)).await?;
    c.record("replicas", answer.value_at("/spec/replicas"));
    Ok(())
}

async fn deployment_that_is_invalid(c: &mut Context) -> Outcome {
    c.post("no spec", DEPLOYMENTS, json!({ "metadata": { "name": "d" } })).await?;
    let mut object = deployment("d", 0);
    object["spec"]["selector"]["matchLabels"] = json!({ "app": "other" });
    c.post("selector that does not fit", DEPLOYMENTS, object).await?;
    let mut object = deployment("d", 0);
    object["spec"]["selector"] = json!({});
    c.post("empty selector", DEPLOYMENTS, object).await?;
    let mut object = deployment("d", 0);
    object["spec"]["template"]["spec"]["restartPolicy"] = json!("Never");
    c.post("restart policy", DEPLOYMENTS, object).await?;
    let mut object = deployment("d", 0);
    object["spec"]["selector"] =
        json!({ "matchExpressions": [{ "key": "app", "operator": "Like", "values": ["d"] }] });
    c.post("selector operator", DEPLOYMENTS, object).await?;
    Ok(())
}

async fn deployment_strategy_that_is_invalid(c: &mut Context) -> Outcome {
    let with = |strategy: Value| {
        let mut object = deployment("d", 0);
        object["spec"]["strategy"] = strategy;
        object
    };
    c.post("type", DEPLOYMENTS, with(json!({ "type": "Magic" }))).await?;
    c.post(
        "recreate with rolling",
        DEPLOYMENTS,
        with(json!({ "type": "Recreate", "rollingUpdate": { "maxSurge": 1 } })),
    )
    .await?;
    c.post(
        "both zero",
        DEPLOYMENTS,
        with(json!({ "rollingUpdate": { "maxSurge": 0, "maxUnavailable": 0 } })),
    )
    .await?;
    c.post("percent", DEPLOYMENTS, with(json!({ "rollingUpdate": { "maxUnavailable": "150%" } }))).await?;
    c.post("text", DEPLOYMENTS, with(json!({ "rollingUpdate": { "maxSurge": "many" } }))).await?;
    Ok(())
}

fn replica_set(name: &str) -> Value {
    let mut object = deployment(name, 0);
    object["kind"] = json!("ReplicaSet");
    object
}

async fn replica_set_defaults(c: &mut Context) -> Outcome {
    let answer = c.send_ok(Req::post(REPLICASETS, replica_set("r"))).await?;
    c.record("spec", answer.value_at("/spec"));
    c.record("status", answer.value_at("/status"));
    Ok(())
}

async fn replica_set_that_is_invalid(c: &mut Context) -> Outcome {
    let mut object = replica_set("r");
    object["spec"]["selector"]["matchLabels"] = json!({ "app": "other" });
    c.post("selector", REPLICASETS, object).await?;
    c.create(REPLICASETS, replica_set("s")).await?;
    c.patch("selector is immutable", PatchType::Merge, &format!("{REPLICASETS}/s"), json!({ "spec": { "selector": { "matchLabels": { "x": "y" } }, "template": { "metadata": { "labels": { "x": "y" } } } } })).await?;
    Ok(())
}

async fn replicas_that_are_negative(c: &mut Context) -> Outcome {
    let mut object = deployment("d", 0);
    object["spec"]["replicas"] = json!(-1);
    c.post("deployment", DEPLOYMENTS, object).await?;
    let mut object = replica_set("r");
    object["spec"]["replicas"] = json!(-1);
    c.post("replica set", REPLICASETS, object).await?;
    Ok(())
}
