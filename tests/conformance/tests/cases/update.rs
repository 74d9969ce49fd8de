//! update: optimistic concurrency, the status subresource, generation, and what cannot be changed.

use conformance::{Case, Context, Outcome, Patch, Req, WIDGETS, Widgets, cases};
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
    c.make(CM, first).await?;
    let second =
        json!({ "metadata": { "name": "a", "labels": { "new": "yes" } }, "binaryData": { "b": "AQI=" } });
    c.put("update", &format!("{CM}/a"), second).await?;
    Ok(())
}

async fn an_update_with_the_right_version(c: &mut Context) -> Outcome {
    let mut object = c.make(CM, cm("a")).await?.body;
    let before = object["metadata"]["resourceVersion"].clone();
    object["data"]["k"] = json!("new");
    let after = c.put("update", &format!("{CM}/a"), object).await?;
    c.saw("new version", after.at("/metadata/resourceVersion") != before);
    Ok(())
}

async fn an_update_with_an_old_version(c: &mut Context) -> Outcome {
    let mut object = c.make(CM, cm("a")).await?.body;
    c.must(Req::patch(Patch::Merge, format!("{CM}/a"), json!({ "data": { "k": "other" } }))).await?;
    object["data"]["k"] = json!("mine");
    c.put("core", &format!("{CM}/a"), object).await?;
    let mut object = c.make(DEPLOYMENTS, deployment("d", 0)).await?.body;
    c.until(&format!("{DEPLOYMENTS}/d"), |answer| answer.at("/status/observedGeneration") == 1).await?;
    object["spec"]["replicas"] = json!(0);
    object["metadata"]["labels"] = json!({ "mine": "yes" });
    c.put("named group", &format!("{DEPLOYMENTS}/d"), object).await?;
    Widgets::open().serve(c).await?;
    let mut object =
        c.make(WIDGETS, w(json!({ "metadata": { "name": "w" }, "spec": { "a": 1 } }))).await?.body;
    c.must(Req::patch(Patch::Merge, format!("{WIDGETS}/w"), json!({ "spec": { "a": 2 } }))).await?;
    object["spec"]["a"] = json!(3);
    c.put("custom", &format!("{WIDGETS}/w"), object).await?;
    Ok(())
}

async fn an_update_with_a_version_that_is_no_number(c: &mut Context) -> Outcome {
    c.make(CM, cm("a")).await?;
    let mut object = cm("a");
    object["metadata"]["resourceVersion"] = json!("abc");
    c.put("update", &format!("{CM}/a"), object).await?;
    Ok(())
}

async fn an_update_without_a_version_wins(c: &mut Context) -> Outcome {
    c.make(CM, cm("a")).await?;
    let mut object = cm("a");
    object["data"]["k"] = json!("blind");
    c.put("update", &format!("{CM}/a"), object).await?;
    Ok(())
}

async fn an_update_that_changes_nothing_keeps_the_version(c: &mut Context) -> Outcome {
    let made = c.make(CM, cm("a")).await?;
    let same = c.must(Req::put(format!("{CM}/a"), made.body.clone())).await?;
    c.saw("same version", made.version() == same.version());
    let patched =
        c.must(Req::patch(Patch::Merge, format!("{CM}/a"), json!({ "data": { "k": "v" } }))).await?;
    c.saw("same version after a patch", made.version() == patched.version());
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
    c.make(CM, cm("a")).await?;
    c.put("update", &format!("{CM}/a"), cm("b")).await?;
    c.put("without a name", &format!("{CM}/a"), json!({ "data": {} })).await?;
    Ok(())
}

async fn an_update_of_another_namespace(c: &mut Context) -> Outcome {
    c.make(CM, cm("a")).await?;
    let mut object = cm("a");
    object["metadata"]["namespace"] = json!("elsewhere");
    c.put("update", &format!("{CM}/a"), object).await?;
    Ok(())
}

async fn an_update_with_another_uid(c: &mut Context) -> Outcome {
    c.make(CM, cm("a")).await?;
    let mut object = cm("a");
    object["metadata"]["uid"] = json!("other");
    let answer = c.send(Req::put(format!("{CM}/a"), object)).await?;
    c.saw("code", answer.code);
    c.saw("reason", answer.at("/reason"));
    let message = answer.text("/message");
    c.saw("message begins", message.split("UID in precondition").next().unwrap_or_default());
    Ok(())
}

async fn an_update_keeps_the_creation_time_and_uid(c: &mut Context) -> Outcome {
    let made = c.make(CM, cm("a")).await?;
    let mut object = cm("a");
    object["metadata"]["creationTimestamp"] = json!("2001-01-01T00:00:00Z");
    object["data"]["k"] = json!("new");
    let after = c.must(Req::put(format!("{CM}/a"), object)).await?;
    c.saw("same uid", made.uid() == after.uid());
    c.saw("same time", made.at("/metadata/creationTimestamp") == after.at("/metadata/creationTimestamp"));
    Ok(())
}

async fn an_update_to_a_custom_resource_needs_a_version(c: &mut Context) -> Outcome {
    Widgets::open().serve(c).await?;
    let widget =
        json!({ "apiVersion": "{id}.example.com/v1", "kind": "Widget", "metadata": { "name": "w" } });
    c.make(WIDGETS, widget.clone()).await?;
    c.put("custom", &format!("{WIDGETS}/w"), widget).await?;
    c.make(DEPLOYMENTS, deployment("d", 0)).await?;
    let lease = json!({ "metadata": { "name": "l" }, "spec": { "leaseDurationSeconds": 1 } });
    c.make("/apis/coordination.k8s.io/v1/namespaces/{ns}/leases", lease.clone()).await?;
    c.put("lease", "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases/l", lease).await?;
    Ok(())
}

async fn generation_grows_with_the_spec_only(c: &mut Context) -> Outcome {
    let path = format!("{DEPLOYMENTS}/d");
    c.make(DEPLOYMENTS, deployment("d", 0)).await?;
    let mut seen: Vec<Value> = Vec::new();
    for patch in [
        json!({ "metadata": { "labels": { "a": "b" } } }),
        json!({ "spec": { "replicas": 0 } }),
        json!({ "spec": { "minReadySeconds": 5 } }),
        json!({ "metadata": { "annotations": { "a": "b" } } }),
        json!({ "spec": { "paused": true } }),
    ] {
        seen.push(c.must(Req::patch(Patch::Merge, path.clone(), patch)).await?.at("/metadata/generation"));
    }
    c.saw("generations", seen);
    c.saw("a config map has none", c.make(CM, cm("a")).await?.at("/metadata/generation"));
    Ok(())
}

async fn generations(c: &mut Context) -> Outcome {
    let path = format!("{WIDGETS}/w");
    let made = c
        .make(WIDGETS, w(json!({ "metadata": { "name": "w", "generation": 9 }, "spec": { "a": 1 } })))
        .await?;
    let mut seen = vec![made.at("/metadata/generation")];
    for patch in [
        json!({ "metadata": { "labels": { "a": "b" } } }),
        json!({ "spec": { "a": 2 } }),
        json!({ "status": { "s": 1 } }),
        json!({ "metadata": { "generation": 30 } }),
        json!({ "spec": { "a": null } }),
    ] {
        seen.push(c.must(Req::patch(Patch::Merge, path.clone(), patch)).await?.at("/metadata/generation"));
    }
    c.saw("generations", seen);
    Ok(())
}

async fn generation_of_a_custom_resource(c: &mut Context) -> Outcome {
    Widgets::open().serve(c).await?;
    generations(c).await?;
    let path = format!("{WIDGETS}/w/status");
    let after =
        c.must(Req::patch(Patch::Merge, path, json!({ "status": { "s": 2 }, "spec": { "a": 9 } }))).await?;
    c.saw("after a status", after.at("/metadata/generation"));
    c.saw("spec", after.at("/spec"));
    c.saw("status", after.at("/status"));
    Ok(())
}

async fn generation_of_a_custom_resource_without_status(c: &mut Context) -> Outcome {
    let open = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    Widgets::with(open).serve(c).await?;
    generations(c).await
}

async fn status_is_ignored_by_a_plain_update(c: &mut Context) -> Outcome {
    let mut first = deployment("d", 0);
    first["spec"]["paused"] = json!(true);
    first["status"] = json!({ "replicas": 9 });
    let made = c.make(DEPLOYMENTS, first).await?;
    c.saw("after create", made.at("/status"));
    let path = format!("{DEPLOYMENTS}/d");
    c.until(&path, |answer| answer.at("/status/observedGeneration") == 1).await?;
    let answer = c.must(Req::patch(Patch::Merge, path, json!({ "status": { "replicas": 7 } }))).await?;
    c.saw("after a patch", answer.at("/status/replicas"));
    Ok(())
}

async fn spec_is_ignored_by_a_status_update(c: &mut Context) -> Outcome {
    Widgets::open().serve(c).await?;
    let mut object =
        c.make(WIDGETS, w(json!({ "metadata": { "name": "w" }, "spec": { "a": 1 } }))).await?.body;
    object["spec"]["a"] = json!(2);
    object["status"] = json!({ "ready": true });
    c.put("put", &format!("{WIDGETS}/w/status"), object.clone()).await?;
    c.put("conflict", &format!("{WIDGETS}/w/status"), object).await?;
    c.get("get", &format!("{WIDGETS}/w/status")).await?;
    Ok(())
}

async fn status_of_a_custom_resource_is_dropped_on_create(c: &mut Context) -> Outcome {
    Widgets::open().serve(c).await?;
    c.post(
        "create",
        WIDGETS,
        w(json!({ "metadata": { "name": "w" }, "spec": {}, "status": { "ready": true } })),
    )
    .await?;
    Ok(())
}

async fn status_of_what_has_no_status(c: &mut Context) -> Outcome {
    c.make(CM, cm("a")).await?;
    c.get("config map", &format!("{CM}/a/status")).await?;
    Widgets::spec(json!({})).serve(c).await?;
    c.make(WIDGETS, w(json!({ "metadata": { "name": "w" } }))).await?;
    c.get("custom", &format!("{WIDGETS}/w/status")).await?;
    c.get("scale of a custom resource", &format!("{WIDGETS}/w/scale")).await?;
    Ok(())
}

async fn metadata_by_a_status_update(c: &mut Context) -> Outcome {
    Widgets::open().serve(c).await?;
    c.make(WIDGETS, w(json!({ "metadata": { "name": "w", "labels": { "a": "1" } } }))).await?;
    let patch = json!({ "metadata": { "labels": { "a": "2" }, "annotations": { "b": "1" }, "finalizers": ["example.com/f"] },
        "status": { "s": 1 } });
    c.patch("custom", Patch::Merge, &format!("{WIDGETS}/w/status"), patch).await?;
    c.make(PODS, pod("p")).await?;
    let patch = json!({ "metadata": { "labels": { "a": "2" }, "annotations": { "b": "1" } }, "status": { "phase": "Running" } });
    let answer = c.must(Req::patch(Patch::Merge, format!("{PODS}/p/status"), patch)).await?;
    c.saw("pod metadata", answer.at("/metadata/labels"));
    c.saw("pod annotations", answer.at("/metadata/annotations"));
    c.saw("pod phase", answer.at("/status/phase"));
    Ok(())
}

async fn status_of_a_pod(c: &mut Context) -> Outcome {
    c.make(PODS, pod("p")).await?;
    let ready = json!({ "status": { "phase": "Running", "podIP": "10.0.0.9", "podIPs": [{ "ip": "10.0.0.9" }],
        "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z" }] } });
    let answer = c.must(Req::patch(Patch::Strategic, format!("{PODS}/p/status"), ready)).await?;
    c.saw("status", answer.at("/status"));
    let more = json!({ "status": { "conditions": [{ "type": "Initialized", "status": "True" }] } });
    let answer = c.must(Req::patch(Patch::Strategic, format!("{PODS}/p/status"), more)).await?;
    c.saw("conditions", answer.at("/status/conditions"));
    Ok(())
}

async fn an_update_of_an_immutable_secret(c: &mut Context) -> Outcome {
    c.make(SECRETS, json!({ "metadata": { "name": "s" }, "immutable": true, "data": { "k": "djE=" } }))
        .await?;
    let path = format!("{SECRETS}/s");
    c.patch("data", Patch::Merge, &path, json!({ "data": { "k": "djI=" } })).await?;
    c.patch("immutable", Patch::Merge, &path, json!({ "immutable": false })).await?;
    c.patch("labels", Patch::Merge, &path, json!({ "metadata": { "labels": { "a": "b" } } })).await?;
    c.make(CM, json!({ "metadata": { "name": "m" }, "immutable": true, "data": { "k": "v" } })).await?;
    c.patch("config map data", Patch::Merge, &format!("{CM}/m"), json!({ "data": { "k": "w" } })).await?;
    c.make(SECRETS, json!({ "metadata": { "name": "t" } })).await?;
    c.patch("type", Patch::Merge, &format!("{SECRETS}/t"), json!({ "type": "example.com/other" })).await?;
    Ok(())
}

async fn an_update_of_a_selector(c: &mut Context) -> Outcome {
    c.make(DEPLOYMENTS, deployment("d", 0)).await?;
    let patch = json!({ "spec": { "selector": { "matchLabels": { "app": "other" } },
        "template": { "metadata": { "labels": { "app": "other" } } } } });
    c.patch("patch", Patch::Merge, &format!("{DEPLOYMENTS}/d"), patch).await?;
    Ok(())
}

async fn an_update_of_a_pods_containers(c: &mut Context) -> Outcome {
    c.make(PODS, pod("p")).await?;
    let patch = json!([{ "op": "replace", "path": "/spec/restartPolicy", "value": "Never" }]);
    let answer = c.send(Req::patch(Patch::Json, format!("{PODS}/p"), patch)).await?;
    c.saw("code", answer.code);
    c.saw("reason", answer.at("/reason"));
    let message = answer.text("/message");
    c.saw("message begins", message.lines().next().unwrap_or_default());
    Ok(())
}

async fn an_update_of_a_pods_image(c: &mut Context) -> Outcome {
    c.make(PODS, pod("p")).await?;
    let patch = json!([{ "op": "replace", "path": "/spec/containers/0/image", "value": "other:1" }]);
    let answer = c.must(Req::patch(Patch::Json, format!("{PODS}/p"), patch)).await?;
    c.saw("image", answer.at("/spec/containers/0/image"));
    c.saw("generation", answer.at("/metadata/generation"));
    Ok(())
}

async fn an_update_removes_a_finalizer_of_a_live_object(c: &mut Context) -> Outcome {
    let mut object = cm("a");
    object["metadata"]["finalizers"] = json!(["example.com/one", "example.com/two"]);
    c.make(CM, object).await?;
    c.patch(
        "remove one",
        Patch::Merge,
        &format!("{CM}/a"),
        json!({ "metadata": { "finalizers": ["example.com/two"] } }),
    )
    .await?;
    c.patch("remove all", Patch::Merge, &format!("{CM}/a"), json!({ "metadata": { "finalizers": null } }))
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
    c.make(DEPLOYMENTS, object).await?;
    c.until(&format!("{DEPLOYMENTS}/d"), |answer| answer.at("/status/observedGeneration") == 1).await?;
    let path = format!("{DEPLOYMENTS}/d/scale");
    c.get("get", &path).await?;
    c.patch("patch", Patch::Merge, &path, json!({ "spec": { "replicas": 3 } })).await?;
    c.patch("negative", Patch::Merge, &path, json!({ "spec": { "replicas": -1 } })).await?;
    let scale = json!({ "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": { "name": "d" }, "spec": { "replicas": 0 } });
    c.put("put", &path, scale).await?;
    c.get("of nobody", &format!("{DEPLOYMENTS}/nobody/scale")).await?;
    let after = c.must(Req::get(format!("{DEPLOYMENTS}/d"))).await?;
    c.saw("replicas", after.at("/spec/replicas"));
    Ok(())
}

async fn owner_references_may_change(c: &mut Context) -> Outcome {
    let owner = c.make(CM, cm("owner")).await?;
    c.make(CM, cm("a")).await?;
    let reference = json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.uid(), "controller": true });
    let patch = json!({ "metadata": { "ownerReferences": [reference] } });
    c.patch("adopt", Patch::Merge, &format!("{CM}/a"), patch).await?;
    let twice = json!({ "metadata": { "ownerReferences": [reference, reference] } });
    c.patch("twice", Patch::Strategic, &format!("{CM}/a"), twice.clone()).await?;
    c.patch("twice by merge", Patch::Merge, &format!("{CM}/a"), twice).await?;
    Ok(())
}
