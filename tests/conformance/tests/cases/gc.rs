//! What happens to what is owned, and to what is in a namespace, when the owner or the namespace goes.

use std::time::Duration;

use conformance::{Case, Context, Outcome, PatchType, Req, WIDGETS, Widgets, cases};
use serde_json::{Value, json};

use super::{CM, SECRETS, cm, collected, w};

pub(crate) fn cases() -> Vec<Case> {
    cases!["gc":
        background_takes_the_dependents,
        background_takes_a_chain,
        foreground_waits_for_blocking_dependents,
        foreground_does_not_wait_for_the_others,
        foreground_waits_for_a_held_dependent,
        orphan_takes_the_references_off,
        an_owner_that_never_was,
        one_of_two_owners_goes,
        the_second_of_two_owners_goes,
        an_owner_with_another_uid,
        an_owner_in_another_namespace,
        a_cluster_wide_owner,
        a_custom_owner_of_a_built_in,
        a_namespace_takes_everything,
        a_namespace_waits_for_finalizers,
        a_namespace_with_a_finalizer_of_its_own,
        a_namespace_is_finalized_by_hand,
        the_default_namespaces_are_there,
    ]
}

fn reference(owner: &conformance::ApiResponse, blocks: bool) -> Value {
    json!({ "apiVersion": owner.str_at("/apiVersion"), "kind": owner.str_at("/kind"), "name": owner.str_at("/metadata/name"),
        "uid": owner.uid(), "blockOwnerDeletion": blocks })
}

fn owned(name: &str, references: Vec<Value>) -> Value {
    json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name, "ownerReferences": references } })
}

async fn release(c: &Context, path: &str) -> Outcome {
    let patch = json!([{ "op": "remove", "path": "/metadata/finalizers" }]);
    c.send_ok(Req::patch(PatchType::Json, path, patch)).await.map(drop)
}

async fn background_takes_the_dependents(c: &mut Context) -> Outcome {
    let owner = c.create(CM, cm("owner")).await?;
    c.create(SECRETS, owned("s", vec![reference(&owner, false)])).await?;
    c.send_and_record(
        "delete",
        Req::delete_with(format!("{CM}/owner"), json!({ "propagationPolicy": "Background" })),
    )
    .await?;
    c.get("the owner is gone at once", &format!("{CM}/owner")).await?;
    c.wait_until_deleted(&format!("{SECRETS}/s")).await?;
    c.record("the dependent", "gone");
    Ok(())
}

async fn background_takes_a_chain(c: &mut Context) -> Outcome {
    let owner = c.create(CM, cm("owner")).await?;
    let middle = c.create(SECRETS, owned("middle", vec![reference(&owner, false)])).await?;
    c.create(SECRETS, owned("end", vec![reference(&middle, false)])).await?;
    c.send_ok(Req::delete(format!("{CM}/owner"))).await?;
    c.wait_until_deleted(&format!("{SECRETS}/end")).await?;
    c.wait_until_deleted(&format!("{SECRETS}/middle")).await?;
    c.record("all", "gone");
    Ok(())
}

async fn foreground_waits_for_blocking_dependents(c: &mut Context) -> Outcome {
    let owner = c.create(CM, cm("owner")).await?;
    c.create(SECRETS, owned("s", vec![reference(&owner, true)])).await?;
    c.send_and_record(
        "delete",
        Req::delete_with(format!("{CM}/owner"), json!({ "propagationPolicy": "Foreground" })),
    )
    .await?;
    c.wait_until_deleted(&format!("{CM}/owner")).await?;
    let dependent = c.send(Req::get(format!("{SECRETS}/s"))).await?;
    c.record("the dependent went first", dependent.code);
    Ok(())
}

async fn foreground_does_not_wait_for_the_others(c: &mut Context) -> Outcome {
    let owner = c.create(CM, cm("owner")).await?;
    let mut dependent = owned("s", vec![reference(&owner, false)]);
    dependent["metadata"]["finalizers"] = json!(["example.com/hold"]);
    c.create(SECRETS, dependent).await?;
    c.send_ok(Req::delete_with(format!("{CM}/owner"), json!({ "propagationPolicy": "Foreground" }))).await?;
    c.wait_until_deleted(&format!("{CM}/owner")).await?;
    c.wait_until(&format!("{SECRETS}/s"), |answer| !answer.str_at("/metadata/deletionTimestamp").is_empty())
        .await?;
    c.get("the dependent is dying", &format!("{SECRETS}/s")).await?;
    release(c, &format!("{SECRETS}/s")).await
}

async fn foreground_waits_for_a_held_dependent(c: &mut Context) -> Outcome {
    let owner = c.create(CM, cm("owner")).await?;
    let mut dependent = owned("s", vec![reference(&owner, true)]);
    dependent["metadata"]["finalizers"] = json!(["example.com/hold"]);
    c.create(SECRETS, dependent).await?;
    c.send_ok(Req::delete_with(format!("{CM}/owner"), json!({ "propagationPolicy": "Foreground" }))).await?;
    c.wait_until(&format!("{SECRETS}/s"), |answer| !answer.str_at("/metadata/deletionTimestamp").is_empty())
        .await?;
    c.get("the owner waits", &format!("{CM}/owner")).await?;
    release(c, &format!("{SECRETS}/s")).await?;
    c.wait_until_deleted(&format!("{CM}/owner")).await?;
    c.record("the owner", "gone");
    Ok(())
}

async fn orphan_takes_the_references_off(c: &mut Context) -> Outcome {
    let owner = c.create(CM, cm("owner")).await?;
    let other = c.create(CM, cm("other")).await?;
    c.create(SECRETS, owned("one", vec![reference(&owner, true)])).await?;
    c.create(SECRETS, owned("two", vec![reference(&other, false), reference(&owner, true)])).await?;
    // The collector must have seen the dependents, or it finds none to set free.
    collected(c, SECRETS, json!({})).await?;
    c.send_ok(Req::delete_with(format!("{CM}/owner"), json!({ "propagationPolicy": "Orphan" }))).await?;
    c.wait_until_deleted(&format!("{CM}/owner")).await?;
    c.get("one", &format!("{SECRETS}/one")).await?;
    c.get("two", &format!("{SECRETS}/two")).await?;
    Ok(())
}

async fn an_owner_that_never_was(c: &mut Context) -> Outcome {
    let nobody = json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "nobody", "uid": "11111111-1111-4111-8111-111111111111" });
    c.post("create", SECRETS, owned("s", vec![nobody])).await?;
    c.wait_until_deleted(&format!("{SECRETS}/s")).await?;
    c.record("the dependent", "gone");
    Ok(())
}

async fn one_of_two_owners_goes(c: &mut Context) -> Outcome {
    let one = c.create(CM, cm("one")).await?;
    let two = c.create(CM, cm("two")).await?;
    c.create(SECRETS, owned("s", vec![reference(&one, false), reference(&two, false)])).await?;
    c.send_ok(Req::delete(format!("{CM}/one"))).await?;
    let is_freed =
        |answer: &conformance::ApiResponse| answer.value_at("/metadata/ownerReferences/1").is_null();
    c.wait_until(&format!("{SECRETS}/s"), is_freed).await?;
    c.get("the dependent lost one", &format!("{SECRETS}/s")).await?;
    Ok(())
}

async fn the_second_of_two_owners_goes(c: &mut Context) -> Outcome {
    let one = c.create(CM, cm("one")).await?;
    let two = c.create(CM, cm("two")).await?;
    c.create(SECRETS, owned("s", vec![reference(&one, false), reference(&two, false)])).await?;
    c.send_ok(Req::delete(format!("{CM}/one"))).await?;
    c.send_ok(Req::delete(format!("{CM}/two"))).await?;
    c.wait_until_deleted(&format!("{SECRETS}/s")).await?;
    c.record("the dependent", "gone");
    Ok(())
}

async fn an_owner_with_another_uid(c: &mut Context) -> Outcome {
    let mut owner = reference(&c.create(CM, cm("owner")).await?, false);
    owner["uid"] = json!("11111111-1111-4111-8111-111111111111");
    c.create(SECRETS, owned("s", vec![owner])).await?;
    c.wait_until_deleted(&format!("{SECRETS}/s")).await?;
    let owner = c.send(Req::get(format!("{CM}/owner"))).await?;
    c.record("the owner stays", owner.code);
    Ok(())
}

async fn an_owner_in_another_namespace(c: &mut Context) -> Outcome {
    c.create("/api/v1/namespaces", json!({ "metadata": { "name": "{ns}-b" } })).await?;
    let owner = c.create("/api/v1/namespaces/{ns}-b/configmaps", cm("owner")).await?;
    c.create(SECRETS, owned("s", vec![reference(&owner, false)])).await?;
    c.wait_until_deleted(&format!("{SECRETS}/s")).await?;
    c.record("the dependent", "gone");
    Ok(())
}

async fn a_cluster_wide_owner(c: &mut Context) -> Outcome {
    let nodes = "/api/v1/nodes";
    let owner = c.create(nodes, json!({ "metadata": { "name": "owner-{id}" } })).await?;
    c.create(SECRETS, owned("s", vec![reference(&owner, false)])).await?;
    c.send_ok(Req::delete(format!("{nodes}/owner-{{id}}"))).await?;
    c.wait_until_deleted(&format!("{SECRETS}/s")).await?;
    c.record("the dependent", "gone");
    Ok(())
}

async fn a_custom_owner_of_a_built_in(c: &mut Context) -> Outcome {
    Widgets::open().install(c).await?;
    let owner = c.create(WIDGETS, w(json!({ "metadata": { "name": "w" } }))).await?;
    c.create(SECRETS, owned("s", vec![reference(&owner, true)])).await?;
    c.send_ok(Req::delete_with(format!("{WIDGETS}/w"), json!({ "propagationPolicy": "Background" }))).await?;
    // The real collector learns of new kinds every half minute.
    c.wait_until_within(Duration::from_mins(4), &format!("{SECRETS}/s"), |answer| answer.code == 404).await?;
    c.record("the dependent", "gone");
    Ok(())
}

async fn a_namespace_takes_everything(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    c.create(SECRETS, json!({ "metadata": { "name": "s" } })).await?;
    c.delete("delete", "/api/v1/namespaces/{ns}").await?;
    c.wait_until_deleted("/api/v1/namespaces/{ns}").await?;
    c.get("config map", &format!("{CM}/a")).await?;
    let list = c.send_ok(Req::get(SECRETS)).await?;
    c.record("secrets", list.item_names());
    Ok(())
}

async fn a_namespace_waits_for_finalizers(c: &mut Context) -> Outcome {
    let mut held = cm("held");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    c.create(CM, held).await?;
    c.send_ok(Req::delete("/api/v1/namespaces/{ns}")).await?;
    let remaining = |answer: &conformance::ApiResponse| {
        let conditions = answer.value_at("/status/conditions").as_array().cloned().unwrap_or_default();
        conditions.iter().any(|condition| {
            condition["type"] == "NamespaceFinalizersRemaining" && condition["status"] == "True"
        })
    };
    c.wait_until("/api/v1/namespaces/{ns}", remaining).await?;
    c.get("namespace", "/api/v1/namespaces/{ns}").await?;
    release(c, &format!("{CM}/held")).await?;
    c.wait_until_deleted("/api/v1/namespaces/{ns}").await?;
    c.record("namespace in the end", "gone");
    Ok(())
}

async fn a_namespace_with_a_finalizer_of_its_own(c: &mut Context) -> Outcome {
    c.create(
        "/api/v1/namespaces",
        json!({ "metadata": { "name": "{ns}-b", "finalizers": ["example.com/hold"] } }),
    )
    .await?;
    c.send_ok(Req::delete("/api/v1/namespaces/{ns}-b")).await?;
    c.wait_until("/api/v1/namespaces/{ns}-b", |answer| answer.value_at("/spec/finalizers").is_null()).await?;
    let left = c.send_ok(Req::get("/api/v1/namespaces/{ns}-b")).await?;
    c.record("metadata", left.value_at("/metadata"));
    c.record("phase", left.value_at("/status/phase"));
    release(c, "/api/v1/namespaces/{ns}-b").await?;
    c.wait_until_deleted("/api/v1/namespaces/{ns}-b").await
}

async fn a_namespace_is_finalized_by_hand(c: &mut Context) -> Outcome {
    let mut namespace = c.send_ok(Req::get("/api/v1/namespaces/{ns}")).await?.body;
    c.record("finalizers", namespace["spec"]["finalizers"].clone());
    namespace["spec"]["finalizers"] = json!(["kubernetes", "example.com/mine"]);
    c.put("finalize", "/api/v1/namespaces/{ns}/finalize", namespace.clone()).await?;
    let mut plain = c.send_ok(Req::get("/api/v1/namespaces/{ns}")).await?.body;
    plain["spec"]["finalizers"] = json!([]);
    let answer = c.send_ok(Req::put("/api/v1/namespaces/{ns}", plain)).await?;
    c.record("a plain update cannot", answer.value_at("/spec/finalizers"));
    Ok(())
}

async fn the_default_namespaces_are_there(c: &mut Context) -> Outcome {
    for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        c.wait_until(&format!("/api/v1/namespaces/{name}"), |answer| answer.code == 200).await?;
        c.get(name, &format!("/api/v1/namespaces/{name}")).await?;
    }
    c.delete("default cannot go", "/api/v1/namespaces/default").await?;
    Ok(())
}
