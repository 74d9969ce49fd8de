//! delete: preconditions, finalizers, what propagation writes, and whole collections.

use conformance::{Case, Context, Outcome, PatchType, Req, WIDGETS, Widgets, cases};
use serde_json::{Value, json};

use super::{CM, PODS, SECRETS, cm, labelled, pod, w};

pub(crate) fn cases() -> Vec<Case> {
    cases!["delete":
        an_object_is_gone_at_once,
        what_is_not_there,
        a_custom_resource_answers_with_a_status,
        a_uid_that_fits_and_one_that_does_not,
        a_version_that_fits_and_one_that_does_not,
        a_finalizer_holds_the_object,
        a_second_delete_of_a_held_object,
        the_last_finalizer_lets_it_go,
        a_finalizer_cannot_be_added_to_a_dying_object,
        a_dying_object_can_still_be_changed,
        foreground_sets_its_finalizer,
        orphan_sets_its_finalizer,
        propagation_from_the_query,
        a_propagation_that_is_none,
        propagation_and_orphan_dependents_together,
        grace_period_of_a_pod_that_is_not_bound,
        grace_period_of_a_bound_pod,
        grace_period_zero_of_a_bound_pod,
        a_negative_grace_period,
        options_that_are_not_options,
        options_in_yaml,
        a_collection,
        a_collection_by_label,
        a_collection_with_finalizers,
        a_collection_as_a_dry_run,
        an_empty_collection,
        a_collection_of_all_namespaces,
        a_dead_object_can_be_made_again,
    ]
}

fn held(name: &str) -> Value {
    let mut object = cm(name);
    object["metadata"]["finalizers"] = json!(["example.com/hold"]);
    object
}

/// The collection of config maps is never empty: one comes back by itself.
fn named(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name } })
}

fn held_secret(name: &str) -> Value {
    json!({ "metadata": { "name": name, "finalizers": ["example.com/hold"] } })
}

async fn release(c: &Context, path: &str) -> Outcome {
    let patch = json!([{ "op": "remove", "path": "/metadata/finalizers" }]);
    c.send_ok(Req::patch(PatchType::Json, path, patch)).await.map(drop)
}

async fn an_object_is_gone_at_once(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    c.delete("delete", &format!("{CM}/a")).await?;
    c.get("get", &format!("{CM}/a")).await?;
    Ok(())
}

async fn what_is_not_there(c: &mut Context) -> Outcome {
    c.delete("delete", &format!("{CM}/a")).await?;
    c.delete("group", "/apis/apps/v1/namespaces/{ns}/deployments/a").await?;
    Ok(())
}

async fn a_custom_resource_answers_with_a_status(c: &mut Context) -> Outcome {
    Widgets::open().install(c).await?;
    c.create(WIDGETS, w(json!({ "metadata": { "name": "w" } }))).await?;
    c.delete("delete", &format!("{WIDGETS}/w")).await?;
    c.delete("again", &format!("{WIDGETS}/w")).await?;
    Ok(())
}

async fn a_uid_that_fits_and_one_that_does_not(c: &mut Context) -> Outcome {
    let uid = c.create(CM, cm("a")).await?.uid();
    let wrong = json!({ "preconditions": { "uid": "11111111-1111-4111-8111-111111111111" } });
    let answer = c.send_and_record("wrong", Req::delete_with(format!("{CM}/a"), wrong)).await?;
    c.record("code", answer.code);
    c.send_and_record(
        "right",
        Req::delete_with(format!("{CM}/a"), json!({ "preconditions": { "uid": uid } })),
    )
    .await?;
    Ok(())
}

async fn a_version_that_fits_and_one_that_does_not(c: &mut Context) -> Outcome {
    let version = c.create(CM, cm("a")).await?.resource_version();
    let wrong = json!({ "preconditions": { "resourceVersion": "1" } });
    let answer = c.send(Req::delete_with(format!("{CM}/a"), wrong)).await?;
    c.record("wrong", answer.code);
    c.record("wrong, reason", answer.value_at("/reason"));
    let message = answer.str_at("/message").replace(&version, "VERSION");
    c.record("wrong, message", message);
    c.send_and_record(
        "right",
        Req::delete_with(format!("{CM}/a"), json!({ "preconditions": { "resourceVersion": version } })),
    )
    .await?;
    Ok(())
}

async fn a_finalizer_holds_the_object(c: &mut Context) -> Outcome {
    c.create(CM, held("a")).await?;
    c.delete("delete", &format!("{CM}/a")).await?;
    c.get("get", &format!("{CM}/a")).await?;
    Widgets::open().install(c).await?;
    c.create(WIDGETS, w(json!({ "metadata": { "name": "w", "finalizers": ["example.com/hold"] } }))).await?;
    c.delete("custom", &format!("{WIDGETS}/w")).await?;
    Ok(())
}

async fn a_second_delete_of_a_held_object(c: &mut Context) -> Outcome {
    c.create(CM, held("a")).await?;
    c.send_ok(Req::delete(format!("{CM}/a"))).await?;
    let first = c.send_ok(Req::get(format!("{CM}/a"))).await?;
    c.delete("again", &format!("{CM}/a")).await?;
    let second = c.send_ok(Req::get(format!("{CM}/a"))).await?;
    c.record("same version", first.resource_version() == second.resource_version());
    Ok(())
}

async fn the_last_finalizer_lets_it_go(c: &mut Context) -> Outcome {
    let mut object = held("a");
    object["metadata"]["finalizers"] = json!(["example.com/one", "example.com/two"]);
    c.create(CM, object).await?;
    c.send_ok(Req::delete(format!("{CM}/a"))).await?;
    c.patch(
        "first",
        PatchType::Merge,
        &format!("{CM}/a"),
        json!({ "metadata": { "finalizers": ["example.com/two"] } }),
    )
    .await?;
    c.patch("last", PatchType::Merge, &format!("{CM}/a"), json!({ "metadata": { "finalizers": [] } }))
        .await?;
    c.get("get", &format!("{CM}/a")).await?;
    Ok(())
}

async fn a_finalizer_cannot_be_added_to_a_dying_object(c: &mut Context) -> Outcome {
    c.create(CM, held("a")).await?;
    c.send_ok(Req::delete(format!("{CM}/a"))).await?;
    let more = json!({ "metadata": { "finalizers": ["example.com/hold", "example.com/more"] } });
    c.patch("add", PatchType::Merge, &format!("{CM}/a"), more).await?;
    Ok(())
}

async fn a_dying_object_can_still_be_changed(c: &mut Context) -> Outcome {
    c.create(CM, held("a")).await?;
    c.send_ok(Req::delete(format!("{CM}/a"))).await?;
    c.patch("change", PatchType::Merge, &format!("{CM}/a"), json!({ "data": { "k": "late" } })).await?;
    c.patch(
        "undo",
        PatchType::Merge,
        &format!("{CM}/a"),
        json!({ "metadata": { "deletionTimestamp": null } }),
    )
    .await?;
    release(c, &format!("{CM}/a")).await
}

async fn foreground_sets_its_finalizer(c: &mut Context) -> Outcome {
    c.create(CM, held("a")).await?;
    let foreground =
        json!({ "kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Foreground" });
    c.send_and_record("delete", Req::delete_with(format!("{CM}/a"), foreground)).await?;
    c.wait_until(&format!("{CM}/a"), |a| a.value_at("/metadata/finalizers") == json!(["example.com/hold"]))
        .await?;
    release(c, &format!("{CM}/a")).await?;
    c.wait_until_deleted(&format!("{CM}/a")).await
}

async fn orphan_sets_its_finalizer(c: &mut Context) -> Outcome {
    c.create(CM, held("a")).await?;
    c.send_and_record(
        "delete",
        Req::delete_with(format!("{CM}/a"), json!({ "propagationPolicy": "Orphan" })),
    )
    .await?;
    c.wait_until(&format!("{CM}/a"), |a| a.value_at("/metadata/finalizers") == json!(["example.com/hold"]))
        .await?;
    release(c, &format!("{CM}/a")).await
}

async fn propagation_from_the_query(c: &mut Context) -> Outcome {
    c.create(CM, held("a")).await?;
    c.delete("delete", &format!("{CM}/a?propagationPolicy=Background&gracePeriodSeconds=3")).await?;
    release(c, &format!("{CM}/a")).await
}

async fn a_propagation_that_is_none(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    c.send_and_record(
        "body",
        Req::delete_with(format!("{CM}/a"), json!({ "propagationPolicy": "Sideways" })),
    )
    .await?;
    c.delete("query", &format!("{CM}/a?propagationPolicy=Sideways")).await?;
    Ok(())
}

async fn propagation_and_orphan_dependents_together(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    let both = json!({ "propagationPolicy": "Foreground", "orphanDependents": true });
    c.send_and_record("both", Req::delete_with(format!("{CM}/a"), both)).await?;
    Ok(())
}

async fn grace_period_of_a_pod_that_is_not_bound(c: &mut Context) -> Outcome {
    c.create(PODS, pod("p")).await?;
    let answer = c.send(Req::delete(format!("{PODS}/p"))).await?;
    c.record("code", answer.code);
    c.record("grace", answer.value_at("/metadata/deletionGracePeriodSeconds"));
    c.get("get", &format!("{PODS}/p")).await?;
    Ok(())
}

async fn bound(c: &Context, name: &str) -> Outcome {
    let mut object = pod(name);
    object["spec"]["nodeName"] = json!("node-{id}");
    c.create(PODS, object).await.map(drop)
}

async fn grace_period_of_a_bound_pod(c: &mut Context) -> Outcome {
    bound(c, "p").await?;
    let answer = c.send(Req::delete(format!("{PODS}/p"))).await?;
    c.record("grace", answer.value_at("/metadata/deletionGracePeriodSeconds"));
    let read = c.send(Req::get(format!("{PODS}/p"))).await?;
    c.record("still there", read.code);
    c.record("is dying", !read.str_at("/metadata/deletionTimestamp").is_empty());
    let shorter = c.send(Req::delete(format!("{PODS}/p?gracePeriodSeconds=5"))).await?;
    c.record("shorter", shorter.value_at("/metadata/deletionGracePeriodSeconds"));
    let longer = c.send(Req::delete(format!("{PODS}/p?gracePeriodSeconds=50"))).await?;
    c.record("longer", longer.value_at("/metadata/deletionGracePeriodSeconds"));
    let now = c.send(Req::delete(format!("{PODS}/p?gracePeriodSeconds=0"))).await?;
    c.record("now", now.code);
    c.get("gone", &format!("{PODS}/p")).await?;
    Ok(())
}

async fn grace_period_zero_of_a_bound_pod(c: &mut Context) -> Outcome {
    bound(c, "p").await?;
    let answer = c.send(Req::delete_with(format!("{PODS}/p"), json!({ "gracePeriodSeconds": 0 }))).await?;
    c.record("code", answer.code);
    c.record("kind", answer.value_at("/kind"));
    c.get("get", &format!("{PODS}/p")).await?;
    Ok(())
}

async fn a_negative_grace_period(c: &mut Context) -> Outcome {
    bound(c, "p").await?;
    let answer = c.send(Req::delete(format!("{PODS}/p?gracePeriodSeconds=-5"))).await?;
    c.record("code", answer.code);
    c.record("grace", answer.value_at("/metadata/deletionGracePeriodSeconds"));
    Ok(())
}

async fn options_that_are_not_options(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    // The words are those of a Go decoder.
    for (name, request) in [
        ("other kind", Req::delete_with(format!("{CM}/a"), cm("a"))),
        ("broken", Req::new("DELETE", format!("{CM}/a")).body("application/json", "{")),
        ("a list", Req::new("DELETE", format!("{CM}/a")).body("application/json", "[]")),
    ] {
        let answer = c.send(request).await?;
        c.record(name, json!([answer.code, answer.value_at("/reason")]));
    }
    c.send_and_record("a wrong type", Req::new("DELETE", format!("{CM}/a")).body("text/plain", "{}")).await?;
    Ok(())
}

async fn options_in_yaml(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    let yaml = "kind: DeleteOptions\napiVersion: v1\npropagationPolicy: Background\n";
    c.send_and_record("yaml", Req::new("DELETE", format!("{CM}/a")).body("application/yaml", yaml)).await?;
    Ok(())
}

async fn a_collection(c: &mut Context) -> Outcome {
    for name in ["a", "b"] {
        c.create(SECRETS, named(name)).await?;
    }
    c.delete("delete", SECRETS).await?;
    let list = c.send_ok(Req::get(SECRETS)).await?;
    c.record("left", list.item_names());
    Ok(())
}

async fn a_collection_by_label(c: &mut Context) -> Outcome {
    for (name, value) in [("a", "yes"), ("b", "no"), ("c", "yes")] {
        c.create(CM, labelled(name, json!({ "doomed": value }))).await?;
    }
    c.delete("by label", &format!("{CM}?labelSelector=doomed%3Dyes")).await?;
    c.delete("by field", &format!("{CM}?fieldSelector=metadata.name%3Dz")).await?;
    let list = c.send_ok(Req::get(CM)).await?;
    c.record("left", list.item_names());
    Ok(())
}

async fn a_collection_with_finalizers(c: &mut Context) -> Outcome {
    c.create(SECRETS, named("a")).await?;
    c.create(SECRETS, held_secret("b")).await?;
    c.delete("delete", SECRETS).await?;
    c.get("left", SECRETS).await?;
    release(c, &format!("{SECRETS}/b")).await
}

async fn a_collection_as_a_dry_run(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    c.delete("dry", &format!("{CM}?dryRun=All")).await?;
    let list = c.send_ok(Req::get(CM)).await?;
    c.record("left", list.item_names());
    Ok(())
}

async fn an_empty_collection(c: &mut Context) -> Outcome {
    c.delete("delete", SECRETS).await?;
    Widgets::open().install(c).await?;
    c.create(WIDGETS, w(json!({ "metadata": { "name": "w" } }))).await?;
    c.delete("custom", WIDGETS).await?;
    c.delete("custom again", WIDGETS).await?;
    Ok(())
}

async fn a_collection_of_all_namespaces(c: &mut Context) -> Outcome {
    c.delete("config maps", "/api/v1/configmaps?labelSelector=case%3D{id}").await?;
    c.delete("namespaces", "/api/v1/namespaces?labelSelector=case%3D{id}").await?;
    Ok(())
}

async fn a_dead_object_can_be_made_again(c: &mut Context) -> Outcome {
    let first = c.create(CM, cm("a")).await?;
    c.send_ok(Req::delete(format!("{CM}/a"))).await?;
    let second = c.create(CM, cm("a")).await?;
    c.record("other uid", first.uid() != second.uid());
    Ok(())
}
