//! Strategic merge patch on the built-in kinds: merge keys and directives.

use conformance::{Case, Context, Outcome, PatchType, Req, cases};
use serde_json::{Value, json};

use super::{CM, DEPLOYMENTS, PODS, cm, deployment};

pub(crate) fn cases() -> Vec<Case> {
    cases!["strategic":
        containers_merge_by_name,
        a_new_container_goes_first,
        a_container_is_deleted,
        the_list_of_containers_is_replaced,
        env_merges_by_name_within_a_container,
        ports_merge_by_port,
        volumes_keep_their_keys,
        tolerations_are_atomic,
        finalizers_merge_as_a_set,
        values_are_deleted_from_a_list_of_texts,
        the_order_of_elements_is_set,
        the_order_of_texts_is_set,
        a_map_is_replaced,
        a_map_is_deleted,
        null_removes_a_field,
        owner_references_merge_by_uid,
        service_ports_merge_by_port,
        an_element_without_its_key,
        a_directive_that_is_none,
        strategy_is_retained_by_keys,
        conditions_merge_by_type,
        secrets_string_data,
        image_pull_secrets_merge_by_name,
        subjects_of_a_binding_are_replaced,
    ]
}

/// A Deployment with two containers, patched; what came of the pod's spec is noted.
async fn pod_spec(c: &mut Context, patches: &[(&str, Value)]) -> Outcome {
    let mut object = deployment("d", 0);
    object["spec"]["template"]["spec"] = json!({
        "containers": [
            { "name": "one", "image": "one:1", "env": [{ "name": "A", "value": "1" }, { "name": "B", "value": "2" }],
              "ports": [{ "containerPort": 80, "name": "http" }, { "containerPort": 443, "name": "https" }], "args": ["x", "y"] },
            { "name": "two", "image": "two:1" },
        ],
        "volumes": [{ "name": "v", "emptyDir": { "medium": "Memory" } }],
        "tolerations": [{ "key": "t", "operator": "Exists" }],
        "imagePullSecrets": [{ "name": "p" }],
        "nodeSelector": { "a": "1", "b": "2" },
    });
    c.create(DEPLOYMENTS, object).await?;
    for (name, patch) in patches {
        let body = json!({ "spec": { "template": { "spec": patch } } });
        let answer = c.send(Req::patch(PatchType::Strategic, format!("{DEPLOYMENTS}/d"), body)).await?;
        let seen =
            if answer.is_ok() { answer.value_at("/spec/template/spec") } else { answer.to_transcript() };
        c.record(name, seen);
    }
    Ok(())
}

async fn containers_merge_by_name(c: &mut Context) -> Outcome {
    pod_spec(c, &[("image", json!({ "containers": [{ "name": "two", "image": "two:2" }] }))]).await
}

async fn a_new_container_goes_first(c: &mut Context) -> Outcome {
    pod_spec(c, &[("add", json!({ "containers": [{ "name": "three", "image": "three:1" }] }))]).await
}

async fn a_container_is_deleted(c: &mut Context) -> Outcome {
    pod_spec(
        c,
        &[
            ("delete", json!({ "containers": [{ "name": "one", "$patch": "delete" }] })),
            ("delete nobody", json!({ "containers": [{ "name": "nobody", "$patch": "delete" }] })),
        ],
    )
    .await
}

async fn the_list_of_containers_is_replaced(c: &mut Context) -> Outcome {
    pod_spec(
        c,
        &[(
            "replace",
            json!({ "containers": [{ "$patch": "replace" }, { "name": "new", "image": "new:1" }] }),
        )],
    )
    .await
}

async fn env_merges_by_name_within_a_container(c: &mut Context) -> Outcome {
    let env = json!([{ "name": "B", "value": "3" }, { "name": "C", "value": "4" }, { "name": "A", "$patch": "delete" }]);
    pod_spec(c, &[("env", json!({ "containers": [{ "name": "one", "env": env, "args": ["z"] }] }))]).await
}

async fn ports_merge_by_port(c: &mut Context) -> Outcome {
    let ports = json!([{ "containerPort": 80, "name": "web" }, { "containerPort": 81, "protocol": "UDP" }]);
    pod_spec(c, &[("ports", json!({ "containers": [{ "name": "one", "ports": ports }] }))]).await
}

async fn volumes_keep_their_keys(c: &mut Context) -> Outcome {
    let volume = json!({ "name": "v", "$retainKeys": ["name", "configMap"], "configMap": { "name": "m" } });
    pod_spec(c, &[("retain", json!({ "volumes": [volume] }))]).await
}

async fn tolerations_are_atomic(c: &mut Context) -> Outcome {
    pod_spec(c, &[("tolerations", json!({ "tolerations": [{ "key": "u", "operator": "Exists" }] }))]).await
}

async fn image_pull_secrets_merge_by_name(c: &mut Context) -> Outcome {
    pod_spec(c, &[("secrets", json!({ "imagePullSecrets": [{ "name": "q" }] }))]).await
}

async fn the_order_of_elements_is_set(c: &mut Context) -> Outcome {
    pod_spec(c, &[
        ("reverse", json!({ "$setElementOrder/containers": [{ "name": "two" }, { "name": "one" }] })),
        ("add at the end", json!({ "$setElementOrder/containers": [{ "name": "two" }, { "name": "one" }, { "name": "z" }],
            "containers": [{ "name": "z", "image": "z:1" }] })),
        ("order that lacks a patched one", json!({ "$setElementOrder/containers": [{ "name": "two" }],
            "containers": [{ "name": "y", "image": "y:1" }] })),
    ])
    .await
}

async fn a_map_is_replaced(c: &mut Context) -> Outcome {
    pod_spec(c, &[("replace", json!({ "nodeSelector": { "$patch": "replace", "c": "3" } }))]).await
}

async fn a_map_is_deleted(c: &mut Context) -> Outcome {
    pod_spec(c, &[("delete", json!({ "nodeSelector": { "$patch": "delete" } }))]).await
}

async fn null_removes_a_field(c: &mut Context) -> Outcome {
    pod_spec(c, &[("null", json!({ "nodeSelector": { "a": null }, "tolerations": null, "containers": [{ "name": "one", "env": null }] }))]).await
}

async fn an_element_without_its_key(c: &mut Context) -> Outcome {
    pod_spec(c, &[("patch", json!({ "containers": [{ "image": "x" }] }))]).await
}

async fn a_directive_that_is_none(c: &mut Context) -> Outcome {
    pod_spec(
        c,
        &[
            ("in a map", json!({ "nodeSelector": { "$patch": "improve" } })),
            ("in a list", json!({ "containers": [{ "name": "one", "$patch": "improve" }] })),
        ],
    )
    .await
}

async fn finalizers_merge_as_a_set(c: &mut Context) -> Outcome {
    c.create(CM, json!({ "metadata": { "name": "a", "finalizers": ["example.com/a", "example.com/b"] } }))
        .await?;
    let patch = json!({ "metadata": { "finalizers": ["example.com/c", "example.com/a"] } });
    c.patch("patch", PatchType::Strategic, &format!("{CM}/a"), patch).await?;
    Ok(())
}

async fn values_are_deleted_from_a_list_of_texts(c: &mut Context) -> Outcome {
    c.create(CM, json!({ "metadata": { "name": "a", "finalizers": ["example.com/a", "example.com/b", "example.com/c"] } })).await?;
    let patch = json!({ "metadata": { "$deleteFromPrimitiveList/finalizers": ["example.com/b", "example.com/none"],
        "finalizers": ["example.com/d"] } });
    c.patch("patch", PatchType::Strategic, &format!("{CM}/a"), patch).await?;
    Ok(())
}

async fn the_order_of_texts_is_set(c: &mut Context) -> Outcome {
    c.create(CM, json!({ "metadata": { "name": "a", "finalizers": ["example.com/a", "example.com/b"] } }))
        .await?;
    let patch = json!({ "metadata": { "$setElementOrder/finalizers": ["example.com/c", "example.com/b", "example.com/a"],
        "finalizers": ["example.com/c"] } });
    c.patch("patch", PatchType::Strategic, &format!("{CM}/a"), patch).await?;
    Ok(())
}

async fn owner_references_merge_by_uid(c: &mut Context) -> Outcome {
    let one = c.create(CM, cm("one")).await?.uid();
    let two = c.create(CM, cm("two")).await?.uid();
    let reference =
        |name: &str, uid: &str| json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid });
    c.create(CM, json!({ "metadata": { "name": "a", "ownerReferences": [reference("one", &one)] } })).await?;
    let patch = json!({ "metadata": { "ownerReferences": [reference("two", &two)] } });
    c.patch("add", PatchType::Strategic, &format!("{CM}/a"), patch).await?;
    let patch = json!({ "metadata": { "ownerReferences": [{ "$patch": "delete", "uid": one }] } });
    c.patch("delete", PatchType::Strategic, &format!("{CM}/a"), patch).await?;
    Ok(())
}

async fn service_ports_merge_by_port(c: &mut Context) -> Outcome {
    let services = "/api/v1/namespaces/{ns}/services";
    c.create(
        services,
        json!({ "metadata": { "name": "s" }, "spec": { "clusterIP": "None",
        "ports": [{ "name": "a", "port": 80 }, { "name": "b", "port": 81 }] } }),
    )
    .await?;
    let patch =
        json!({ "spec": { "ports": [{ "port": 81, "targetPort": "named" }, { "port": 82, "name": "c" }] } });
    let answer = c.send_ok(Req::patch(PatchType::Strategic, format!("{services}/s"), patch)).await?;
    c.record("ports", answer.value_at("/spec/ports"));
    Ok(())
}

async fn strategy_is_retained_by_keys(c: &mut Context) -> Outcome {
    c.create(DEPLOYMENTS, deployment("d", 0)).await?;
    let patch = json!({ "spec": { "strategy": { "$retainKeys": ["type"], "type": "Recreate" } } });
    let answer = c.send_ok(Req::patch(PatchType::Strategic, format!("{DEPLOYMENTS}/d"), patch)).await?;
    c.record("strategy", answer.value_at("/spec/strategy"));
    let patch = json!({ "spec": { "strategy": { "type": "RollingUpdate" } } });
    let answer = c.send_ok(Req::patch(PatchType::Strategic, format!("{DEPLOYMENTS}/d"), patch)).await?;
    c.record("and back", answer.value_at("/spec/strategy"));
    let patch = json!({ "spec": { "strategy": { "type": "Recreate" } } });
    c.patch("without retaining", PatchType::Strategic, &format!("{DEPLOYMENTS}/d"), patch).await?;
    Ok(())
}

async fn conditions_merge_by_type(c: &mut Context) -> Outcome {
    c.create(PODS, super::pod("p")).await?;
    let condition = |kind: &str, status: &str| json!({ "type": kind, "status": status });
    for (name, conditions) in [
        ("first", json!([condition("Ready", "False"), condition("Initialized", "True")])),
        ("second", json!([condition("Ready", "True")])),
        ("third", json!([{ "type": "Initialized", "$patch": "delete" }])),
    ] {
        let patch = json!({ "status": { "conditions": conditions } });
        let answer = c.send_ok(Req::patch(PatchType::Strategic, format!("{PODS}/p/status"), patch)).await?;
        c.record(name, answer.value_at("/status/conditions"));
    }
    Ok(())
}

async fn secrets_string_data(c: &mut Context) -> Outcome {
    let secrets = super::SECRETS;
    c.create(secrets, json!({ "metadata": { "name": "s" }, "data": { "a": "MQ==" } })).await?;
    c.patch("patch", PatchType::Strategic, &format!("{secrets}/s"), json!({ "stringData": { "b": "2" } }))
        .await?;
    Ok(())
}

async fn subjects_of_a_binding_are_replaced(c: &mut Context) -> Outcome {
    let bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/rolebindings";
    let user = |name: &str| json!({ "kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io" });
    c.create(
        bindings,
        json!({ "metadata": { "name": "b" }, "subjects": [user("one")],
        "roleRef": { "kind": "Role", "name": "r", "apiGroup": "rbac.authorization.k8s.io" } }),
    )
    .await?;
    let patch = json!({ "subjects": [user("two")] });
    c.patch("patch", PatchType::Strategic, &format!("{bindings}/b"), patch).await?;
    let patch = json!({ "roleRef": { "name": "other" } });
    c.patch("role", PatchType::Strategic, &format!("{bindings}/b"), patch).await?;
    Ok(())
}
