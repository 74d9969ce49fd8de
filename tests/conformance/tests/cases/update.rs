//! update: optimistic concurrency, the status subresource, generation, and what cannot be changed.

use conformance::{Case, Context, Outcome, PatchType, Req, WIDGETS, Widgets, cases};
use serde_json::{Value, json};

use super::{CM, DEPLOYMENTS, PODS, SECRETS, cm, deployment, pod, w};

pub(crate) fn cases() -> Vec<Case> {
    cases!["update":
        an_update_replaces_the_object,
        an_update_with_the_right_version,
        an_update_with_an_old_version,
        an_update_with_a_version_that_is_no_number,
        an_update_without_a_version_wins,
        an_update_that_changes_nothing_keeps_the_version,
        an_update_of_what_is_not_there,
        an_update_under_another_name,
        an_update_of_another_namespace,
        an_update_with_another_uid,
        an_update_keeps_the_creation_time_and_uid,
        an_update_to_a_custom_resource_needs_a_version,
        generation_grows_with_the_spec_only,
        generation_of_a_custom_resource,
        generation_of_a_custom_resource_without_status,
        status_is_ignored_by_a_plain_update,
        spec_is_ignored_by_a_status_update,
        status_of_a_custom_resource_is_dropped_on_create,
        status_of_what_has_no_status,
        metadata_by_a_status_update,
        status_of_a_pod,
        an_update_of_an_immutable_secret,
        an_update_of_a_selector,
        an_update_of_a_pods_containers,
        an_update_of_a_pods_image,
        an_update_removes_a_finalizer_of_a_live_object,
        a_put_creates_a_lease_never,
        scale_of_a_deployment,
        owner_references_may_change,
    ]
}

async fn an_update_replaces_the_object(c: &mut Context) -> Outcome {
    let mut first = cm("a");
    first["metadata"]["labels"] = json!({ "old": "yes" });
    first["metadata"]["annotations"] = json!({ "old": "yes" });
    c.create(CM, first).await?;
    let second =
        json!({ "metadata": { "name": "a", "labels": { "new": "yes" } }, "binaryData": { "b": "AQI=" } });
    c.put("update", &format!("{CM}/a"), second).await?;
    Ok(())
}

async fn an_update_with_the_right_version(c: &mut Context) -> Outcome {
    let mut object = c.create(CM, cm("a")).await?.body;
    let before = object["metadata"]["resourceVersion"].clone();
    object["data"]["k"] = json!("new");
    let after = c.put("update", &format!("{CM}/a"), object).await?;
    c.record("new version", after.value_at("/metadata/resourceVersion") != before);
    Ok(())
}

async fn an_update_with_an_old_version(c: &mut Context) -> Outcome {
    let mut object = c.create(CM, cm("a")).await?.body;
    c.send_ok(Req::patch(PatchType::Merge, format!("{CM}/a"), json!({ "data": { "k": "other" } }))).await?;
    object["data"]["k"] = json!("mine");
    c.put("core", &format!("{CM}/a"), object).await?;
    let mut object = c.create(DEPLOYMENTS, deployment("d", 0)).await?.body;
    c.wait_until(&format!("{DEPLOYMENTS}/d"), |answer| answer.value_at("/status/observedGeneration") == 1)
        .await?;
    object["spec"]["replicas"] = json!(0);
    object["metadata"]["labels"] = json!({ "mine": "yes" });
    c.put("named group", &format!("{DEPLOYMENTS}/d"), object).await?;
    Widgets::open().install(c).await?;
    let mut object =
        c.create(WIDGETS, w(json!({ "metadata": { "name": "w" }, "spec": { "a": 1 } }))).await?.body;
    c.send_ok(Req::patch(PatchType::Merge, format!("{WIDGETS}/w"), json!({ "spec": { "a": 2 } }))).await?;
    object["spec"]["a"] = json!(3);
    c.put("custom", &format!("{WIDGETS}/w"), object).await?;
    Ok(())
}

async fn an_update_with_a_version_that_is_no_number(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    let mut object = cm("a");
    object["metadata"]["resourceVersion"] = json!("abc");
    c.put("update", &format!("{CM}/a"), object).await?;
    Ok(())
}

async fn an_update_without_a_version_wins(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    let mut object = cm("a");
    object["data"]["k"] = json!("blind");
    c.put("update", &format!("{CM}/a"), object).await?;
    Ok(())
}

async fn an_update_that_changes_nothing_keeps_the_version(c: &mut Context) -> Outcome {
    let made = c.create(CM, cm("a")).await?;
    let same = c.send_ok(Req::put(format!("{CM}/a"), made.body.clone())).await?;
    c.record("same version", made.resource_version() == same.resource_version());
    let patched =
        c.send_ok(Req::patch(PatchType::Merge, format!("{CM}/a"), json!({ "data": { "k": "v" } }))).await?;
    c.record("same version after a patch", made.resource_version() == patched.resource_version());
    Ok(())
}

async fn an_update_of_what_is_not_there(c: &mut Context) -> Outcome {
    c.put("without a version", &format!("{CM}/a"), cm("a")).await?;
    let mut object = cm("a");
    object["metadata"]["resourceVersion"] = json!("5");
    c.put("with a version", &format!("{CM}/a"), object).await?;
    let mut object = cm("a");
    object["metadata"]["uid"] = json!("11111111-1111-4111-8111-111111111111");
    c.put("with a uid", &format!("{CM}/a"), object).await?;
    Ok(())
}

async fn an_update_under_another_name(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    c.put("update", &format!("{CM}/a"), cm("b")).await?;
    c.put("without a name", &format!("{CM}/a"), json!({ "data": {} })).await?;
    Ok(())
}

async fn an_update_of_another_namespace(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    let mut object = cm("a");
    object["metadata"]["namespace"] = json!("elsewhere");
    c.put("update", &format!("{CM}/a"), object).await?;
    Ok(())
}

async fn an_update_with_another_uid(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    let mut object = cm("a");
    object["metadata"]["uid"] = json!("other");
    let answer = c.send(Req::put(format!("{CM}/a"), object)).await?;
    c.record("code", answer.code);
    c.record("reason", answer.value_at("/reason"));
    let message = answer.str_at("/message");
    c.record("message begins", message.split("UID in precondition").next().unwrap_or_default());
    Ok(())
}

async fn an_update_keeps_the_creation_time_and_uid(c: &mut Context) -> Outcome {
    let made = c.create(CM, cm("a")).await?;
    let mut object = cm("a");
    object["metadata"]["creationTimestamp"] = json!("2001-01-01T00:00:00Z");
    object["data"]["k"] = json!("new");
    let after = c.send_ok(Req::put(format!("{CM}/a"), object)).await?;
    c.record("same uid", made.uid() == after.uid());
    c.record(
        "same time",
        made.value_at("/metadata/creationTimestamp") == after.value_at("/metadata/creationTimestamp"),
    );
    Ok(())
}

async fn an_update_to_a_custom_resource_needs_a_version(c: &mut Context) -> Outcome {
    Widgets::open().install(c).await?;
    let widget =
        json!({ "apiVersion": "{id}.example.com/v1", "kind": "Widget", "metadata": { "name": "w" } });
    c.create(WIDGETS, widget.clone()).await?;
    c.put("custom", &format!("{WIDGETS}/w"), widget).await?;
    c.create(DEPLOYMENTS, deployment("d", 0)).await?;
    let lease = json!({ "metadata": { "name": "l" }, "spec": { "leaseDurationSeconds": 1 } });
    c.create("/apis/coordination.k8s.io/v1/namespaces/{ns}/leases", lease.clone()).await?;
    c.put("lease", "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases/l", lease).await?;
    Ok(())
}

async fn generation_grows_with_the_spec_only(c: &mut Context) -> Outcome {
    let path = format!("{DEPLOYMENTS}/d");
    c.create(DEPLOYMENTS, deployment("d", 0)).await?;
    let mut seen: Vec<Value> = Vec::new();
    for patch in [
        json!({ "metadata": { "labels": { "a": "b" } } }),
        json!({ "spec": { "replicas": 0 } }),
        json!({ "spec": { "minReadySeconds": 5 } }),
        json!({ "metadata": { "annotations": { "a": "b" } } }),
        json!({ "spec": { "paused": true } }),
    ] {
        seen.push(
            c.send_ok(Req::patch(PatchType::Merge, path.clone(), patch))
                .await?
                .value_at("/metadata/generation"),
        );
    }
    c.record("generations", seen);
    c.record("a config map has none", c.create(CM, cm("a")).await?.value_at("/metadata/generation"));
    Ok(())
}

async fn generations(c: &mut Context) -> Outcome {
    let path = format!("{WIDGETS}/w");
    let made = c
        .create(WIDGETS, w(json!({ "metadata": { "name": "w", "generation": 9 }, "spec": { "a": 1 } })))
        .await?;
    let mut seen = vec![made.value_at("/metadata/generation")];
    for patch in [
        json!({ "metadata": { "labels": { "a": "b" } } }),
        json!({ "spec": { "a": 2 } }),
        json!({ "status": { "s": 1 } }),
        json!({ "metadata": { "generation": 30 } }),
        json!({ "spec": { "a": null } }),
    ] {
        seen.push(
            c.send_ok(Req::patch(PatchType::Merge, path.clone(), patch))
                .await?
                .value_at("/metadata/generation"),
        );
    }
    c.record("generations", seen);
    Ok(())
}

async fn generation_of_a_custom_resource(c: &mut Context) -> Outcome {
    Widgets::open().install(c).await?;
    generations(c).await?;
    let path = format!("{WIDGETS}/w/status");
    let after = c
        .send_ok(Req::patch(PatchType::Merge, path, json!({ "status": { "s": 2 }, "spec": { "a": 9 } })))
        .await?;
    c.record("after a status", after.value_at("/metadata/generation"));
    c.record("spec", after.value_at("/spec"));
    c.record("status", after.value_at("/status"));
    Ok(())
}

async fn generation_of_a_custom_resource_without_status(c: &mut Context) -> Outcome {
    let open = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    Widgets::from_schema(open).install(c).await?;
    generations(c).await
}

async fn status_is_ignored_by_a_plain_update(c: &mut Context) -> Outcome {
    let mut first = deployment("d", 0);
    first["spec"]["paused"] = json!(true);
    first["status"] = json!({ "replicas": 9 });
    let made = c.create(DEPLOYMENTS, first).await?;
    c.record("after create", made.value_at("/status"));
    let path = format!("{DEPLOYMENTS}/d");
    c.wait_until(&path, |answer| answer.value_at("/status/observedGeneration") == 1).await?;
    let answer =
        c.send_ok(Req::patch(PatchType::Merge, path, json!({ "status": { "replicas": 7 } }))).await?;
    c.record("after a patch", answer.value_at("/status/replicas"));
    Ok(())
}

async fn spec_is_ignored_by_a_status_update(c: &mut Context) -> Outcome {
    Widgets::open().install(c).await?;
    let mut object =
        c.create(WIDGETS, w(json!({ "metadata": { "name": "w" }, "spec": { "a": 1 } }))).await?.body;
    object["spec"]["a"] = json!(2);
    object["status"] = json!({ "ready": true });
    c.put("put", &format!("{WIDGETS}/w/status"), object.clone()).await?;
    c.put("conflict", &format!("{WIDGETS}/w/status"), object).await?;
    c.get("get", &format!("{WIDGETS}/w/status")).await?;
    Ok(())
}

async fn status_of_a_custom_resource_is_dropped_on_create(c: &mut Context) -> Outcome {
    Widgets::open().install(c).await?;
    c.post(
        "create",
        WIDGETS,
        w(json!({ "metadata": { "name": "w" }, "spec": {}, "status": { "ready": true } })),
    )
    .await?;
    Ok(())
}

async fn status_of_what_has_no_status(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    c.get("config map", &format!("{CM}/a/status")).await?;
    Widgets::spec(json!({})).install(c).await?;
    c.create(WIDGETS, w(json!({ "metadata": { "name": "w" } }))).await?;
    c.get("custom", &format!("{WIDGETS}/w/status")).await?;
    c.get("scale of a custom resource", &format!("{WIDGETS}/w/scale")).await?;
    Ok(())
}

async fn metadata_by_a_status_update(c: &mut Context) -> Outcome {
    Widgets::open().install(c).await?;
    c.create(WIDGETS, w(json!({ "metadata": { "name": "w", "labels": { "a": "1" } } }))).await?;
    let patch = json!({ "metadata": { "labels": { "a": "2" }, "annotations": { "b": "1" }, "finalizers": ["example.com/f"] },
        "status": { "s": 1 } });
    c.patch("custom", PatchType::Merge, &format!("{WIDGETS}/w/status"), patch).await?;
    c.create(PODS, pod("p")).await?;
    let patch = json!({ "metadata": { "labels": { "a": "2" }, "annotations": { "b": "1" } }, "status": { "phase": "Running" } });
    let answer = c.send_ok(Req::patch(PatchType::Merge, format!("{PODS}/p/status"), patch)).await?;
    c.record("pod metadata", answer.value_at("/metadata/labels"));
    c.record("pod annotations", answer.value_at("/metadata/annotations"));
    c.record("pod phase", answer.value_at("/status/phase"));
    Ok(())
}

async fn status_of_a_pod(c: &mut Context) -> Outcome {
    c.create(PODS, pod("p")).await?;
    let ready = json!({ "status": { "phase": "Running", "podIP": "10.0.0.9", "podIPs": [{ "ip": "10.0.0.9" }],
        "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" }] } });
    let answer = c.send_ok(Req::patch(PatchType::Strategic, format!("{PODS}/p/status"), ready)).await?;
    c.record("status", answer.value_at("/status"));
    let more = json!({ "status": { "conditions": [{ "type": "Initialized", "status": "True" }] } });
    let answer = c.send_ok(Req::patch(PatchType::Strategic, format!("{PODS}/p/status"), more)).await?;
    c.record("conditions", answer.value_at("/status/conditions"));
    Ok(())
}

async fn an_update_of_an_immutable_secret(c: &mut Context) -> Outcome {
    c.create(SECRETS, json!({ "metadata": { "name": "s" }, "immutable": true, "data": { "k": "djE=" } }))
        .await?;
    let path = format!("{SECRETS}/s");
    c.patch("data", PatchType::Merge, &path, json!({ "data": { "k": "djI=" } })).await?;
    c.patch("immutable", PatchType::Merge, &path, json!({ "immutable": false })).await?;
    c.patch("labels", PatchType::Merge, &path, json!({ "metadata": { "labels": { "a": "b" } } })).await?;
    c.create(CM, json!({ "metadata": { "name": "m" }, "immutable": true, "data": { "k": "v" } })).await?;
    c.patch("config map data", PatchType::Merge, &format!("{CM}/m"), json!({ "data": { "k": "w" } })).await?;
    c.create(SECRETS, json!({ "metadata": { "name": "t" } })).await?;
    c.patch("type", PatchType::Merge, &format!("{SECRETS}/t"), json!({ "type": "example.com/other" }))
        .await?;
    Ok(())
}

async fn an_update_of_a_selector(c: &mut Context) -> Outcome {
    c.create(DEPLOYMENTS, deployment("d", 0)).await?;
    let patch = json!({ "spec": { "selector": { "matchLabels": { "app": "other" } },
        "template": { "metadata": { "labels": { "app": "other" } } } } });
    c.patch("patch", PatchType::Merge, &format!("{DEPLOYMENTS}/d"), patch).await?;
    Ok(())
}

async fn an_update_of_a_pods_containers(c: &mut Context) -> Outcome {
    c.create(PODS, pod("p")).await?;
    let patch = json!([{ "op": "replace", "path": "/spec/restartPolicy", "value": "Never" }]);
    let answer = c.send(Req::patch(PatchType::Json, format!("{PODS}/p"), patch)).await?;
    c.record("code", answer.code);
    c.record("reason", answer.value_at("/reason"));
    let message = answer.str_at("/message");
    c.record("message begins", message.lines().next().unwrap_or_default());
    Ok(())
}

async fn an_update_of_a_pods_image(c: &mut Context) -> Outcome {
    c.create(PODS, pod("p")).await?;
    let patch = json!([{ "op": "replace", "path": "/spec/containers/0/image", "value": "other:1" }]);
    let answer = c.send_ok(Req::patch(PatchType::Json, format!("{PODS}/p"), patch)).await?;
    c.record("image", answer.value_at("/spec/containers/0/image"));
    c.record("generation", answer.value_at("/metadata/generation"));
    Ok(())
}

async fn an_update_removes_a_finalizer_of_a_live_object(c: &mut Context) -> Outcome {
    let mut object = cm("a");
    object["metadata"]["finalizers"] = json!(["example.com/one", "example.com/two"]);
    c.create(CM, object).await?;
    c.patch(
        "remove one",
        PatchType::Merge,
        &format!("{CM}/a"),
        json!({ "metadata": { "finalizers": ["example.com/two"] } }),
    )
    .await?;
    c.patch(
        "remove all",
        PatchType::Merge,
        &format!("{CM}/a"),
        json!({ "metadata": { "finalizers": null } }),
    )
    .await?;
    Ok(())
}

async fn a_put_creates_a_lease_never(c: &mut Context) -> Outcome {
    let leases = "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases";
    c.put("lease", &format!("{leases}/l"), json!({ "metadata": { "name": "l" }, "spec": {} })).await?;
    let endpoints = "/api/v1/namespaces/{ns}/endpoints";
    c.put("endpoints", &format!("{endpoints}/e"), json!({ "metadata": { "name": "e" }, "subsets": [] }))
        .await?;
    Ok(())
}

async fn scale_of_a_deployment(c: &mut Context) -> Outcome {
    let mut object = deployment("d", 2);
    object["spec"]["paused"] = json!(true);
    c.create(DEPLOYMENTS, object).await?;
    c.wait_until(&format!("{DEPLOYMENTS}/d"), |answer| answer.value_at("/status/observedGeneration") == 1)
        .await?;
    let path = format!("{DEPLOYMENTS}/d/scale");
    c.get("get", &path).await?;
    c.patch("patch", PatchType::Merge, &path, json!({ "spec": { "replicas": 3 } })).await?;
    c.patch("negative", PatchType::Merge, &path, json!({ "spec": { "replicas": -1 } })).await?;
    let scale = json!({ "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": { "name": "d" }, "spec": { "replicas": 0 } });
    c.put("put", &path, scale).await?;
    c.get("of nobody", &format!("{DEPLOYMENTS}/nobody/scale")).await?;
    let after = c.send_ok(Req::get(format!("{DEPLOYMENTS}/d"))).await?;
    c.record("replicas", after.value_at("/spec/replicas"));
    Ok(())
}

async fn owner_references_may_change(c: &mut Context) -> Outcome {
    let owner = c.create(CM, cm("owner")).await?;
    c.create(CM, cm("a")).await?;
    let reference = json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.uid(), "controller": true });
    let patch = json!({ "metadata": { "ownerReferences": [reference] } });
    c.patch("adopt", PatchType::Merge, &format!("{CM}/a"), patch).await?;
    let twice = json!({ "metadata": { "ownerReferences": [reference, reference] } });
    c.patch("twice", PatchType::Strategic, &format!("{CM}/a"), twice.clone()).await?;
    c.patch("twice by merge", PatchType::Merge, &format!("{CM}/a"), twice).await?;
    Ok(())
}
