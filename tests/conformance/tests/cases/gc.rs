//! What happens to what is owned, and to what is in a namespace, when the owner or the namespace goes.

use std::time::Duration;

use conformance::{Case, Context, Outcome, Patch, Req, WIDGETS, Widgets, cases};
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

fn reference(owner: &conformance::Answer, blocks: bool) -> Value {
    json!({ "apiVersion": owner.text("/apiVersion"), "kind": owner.text("/kind"), "name": owner.text("/metadata/name"),
        "uid": owner.uid(), "blockOwnerDeletion": blocks })
}

fn owned(name: &str, references: Vec<Value>) -> Value {
    json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name, "ownerReferences": references } })
}

async fn release(c: &Context, path: &str) -> Outcome {
    let patch = json!([{ "op": "remove", "path": "/metadata/finalizers" }]);
    c.must(Req::patch(Patch::Json, path, patch)).await.map(drop)
}

async fn background_takes_the_dependents(c: &mut Context) -> Outcome {
    let owner = c.make(CM, cm("owner")).await?;
    c.make(SECRETS, owned("s", vec![reference(&owner, false)])).await?;
    c.see("delete", Req::delete_with(format!("{CM}/owner"), json!({ "propagationPolicy": "Background" })))
        .await?;
    c.get("the owner is gone at once", &format!("{CM}/owner")).await?;
    c.until_gone(&format!("{SECRETS}/s")).await?;
    c.saw("the dependent", "gone");
    Ok(())
}

async fn background_takes_a_chain(c: &mut Context) -> Outcome {
    let owner = c.make(CM, cm("owner")).await?;
    let middle = c.make(SECRETS, owned("middle", vec![reference(&owner, false)])).await?;
    c.make(SECRETS, owned("end", vec![reference(&middle, false)])).await?;
    c.must(Req::delete(format!("{CM}/owner"))).await?;
    c.until_gone(&format!("{SECRETS}/end")).await?;
    c.until_gone(&format!("{SECRETS}/middle")).await?;
    c.saw("all", "gone");
    Ok(())
}

async fn foreground_waits_for_blocking_dependents(c: &mut Context) -> Outcome {
    let owner = c.make(CM, cm("owner")).await?;
    c.make(SECRETS, owned("s", vec![reference(&owner, true)])).await?;
    c.see("delete", Req::delete_with(format!("{CM}/owner"), json!({ "propagationPolicy": "Foreground" })))
        .await?;
    c.until_gone(&format!("{CM}/owner")).await?;
    let dependent = c.send(Req::get(format!("{SECRETS}/s"))).await?;
    c.saw("the dependent went first", dependent.code);
    Ok(())
}

async fn foreground_does_not_wait_for_the_others(c: &mut Context) -> Outcome {
    let owner = c.make(CM, cm("owner")).await?;
    let mut dependent = owned("s", vec![reference(&owner, false)]);
    dependent["metadata"]["finalizers"] = json!(["example.com/hold"]);
    c.make(SECRETS, dependent).await?;
    c.must(Req::delete_with(format!("{CM}/owner"), json!({ "propagationPolicy": "Foreground" }))).await?;
    c.until_gone(&format!("{CM}/owner")).await?;
    c.until(&format!("{SECRETS}/s"), |answer| !answer.text("/metadata/deletionTimestamp").is_empty()).await?;
    c.get("the dependent is dying", &format!("{SECRETS}/s")).await?;
    release(c, &format!("{SECRETS}/s")).await
}

async fn foreground_waits_for_a_held_dependent(c: &mut Context) -> Outcome {
    let owner = c.make(CM, cm("owner")).await?;
    let mut dependent = owned("s", vec![reference(&owner, true)]);
    dependent["metadata"]["finalizers"] = json!(["example.com/hold"]);
    c.make(SECRETS, dependent).await?;
    c.must(Req::delete_with(format!("{CM}/owner"), json!({ "propagationPolicy": "Foreground" }))).await?;
    c.until(&format!("{SECRETS}/s"), |answer| !answer.text("/metadata/deletionTimestamp").is_empty()).await?;
    c.get("the owner waits", &format!("{CM}/owner")).await?;
    release(c, &format!("{SECRETS}/s")).await?;
    c.until_gone(&format!("{CM}/owner")).await?;
    c.saw("the owner", "gone");
    Ok(())
}

async fn orphan_takes_the_references_off(c: &mut Context) -> Outcome {
    let owner = c.make(CM, cm("owner")).await?;
    let other = c.make(CM, cm("other")).await?;
    c.make(SECRETS, owned("one", vec![reference(&owner, true)])).await?;
    c.make(SECRETS, owned("two", vec![reference(&other, false), reference(&owner, true)])).await?;
    // The collector must have seen the dependents, or it finds none to set free.
    collected(c, SECRETS, json!({})).await?;
    c.must(Req::delete_with(format!("{CM}/owner"), json!({ "propagationPolicy": "Orphan" }))).await?;
    c.until_gone(&format!("{CM}/owner")).await?;
    c.get("one", &format!("{SECRETS}/one")).await?;
    c.get("two", &format!("{SECRETS}/two")).await?;
    Ok(())
}

async fn an_owner_that_never_was(c: &mut Context) -> Outcome {
    let nobody = json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "nobody", "uid": "11111111-1111-4111-8111-111111111111" });
    c.post("create", SECRETS, owned("s", vec![nobody])).await?;
    c.until_gone(&format!("{SECRETS}/s")).await?;
    c.saw("the dependent", "gone");
    Ok(())
}

async fn one_of_two_owners_goes(c: &mut Context) -> Outcome {
    let one = c.make(CM, cm("one")).await?;
    let two = c.make(CM, cm("two")).await?;
    c.make(SECRETS, owned("s", vec![reference(&one, false), reference(&two, false)])).await?;
    c.must(Req::delete(format!("{CM}/one"))).await?;
    let is_freed = |answer: &conformance::Answer| answer.at("/metadata/ownerReferences/1").is_null();
    c.until(&format!("{SECRETS}/s"), is_freed).await?;
    c.get("the dependent lost one", &format!("{SECRETS}/s")).await?;
    Ok(())
}

async fn the_second_of_two_owners_goes(c: &mut Context) -> Outcome {
    let one = c.make(CM, cm("one")).await?;
    let two = c.make(CM, cm("two")).await?;
    c.make(SECRETS, owned("s", vec![reference(&one, false), reference(&two, false)])).await?;
    c.must(Req::delete(format!("{CM}/one"))).await?;
    c.must(Req::delete(format!("{CM}/two"))).await?;
    c.until_gone(&format!("{SECRETS}/s")).await?;
    c.saw("the dependent", "gone");
    Ok(())
}

async fn an_owner_with_another_uid(c: &mut Context) -> Outcome {
    let mut owner = reference(&c.make(CM, cm("owner")).await?, false);
    owner["uid"] = json!("11111111-1111-4111-8111-111111111111");
    c.make(SECRETS, owned("s", vec![owner])).await?;
    c.until_gone(&format!("{SECRETS}/s")).await?;
    let owner = c.send(Req::get(format!("{CM}/owner"))).await?;
    c.saw("the owner stays", owner.code);
    Ok(())
}

async fn an_owner_in_another_namespace(c: &mut Context) -> Outcome {
    c.make("/api/v1/namespaces", json!({ "metadata": { "name": "{ns}-b" } })).await?;
    let owner = c.make("/api/v1/namespaces/{ns}-b/configmaps", cm("owner")).await?;
    c.make(SECRETS, owned("s", vec![reference(&owner, false)])).await?;
    c.until_gone(&format!("{SECRETS}/s")).await?;
    c.saw("the dependent", "gone");
    Ok(())
}

async fn a_cluster_wide_owner(c: &mut Context) -> Outcome {
    let nodes = "/api/v1/nodes";
    let owner = c.make(nodes, json!({ "metadata": { "name": "owner-{id}" } })).await?;
    c.make(SECRETS, owned("s", vec![reference(&owner, false)])).await?;
    c.must(Req::delete(format!("{nodes}/owner-{{id}}"))).await?;
    c.until_gone(&format!("{SECRETS}/s")).await?;
    c.saw("the dependent", "gone");
    Ok(())
}

async fn a_custom_owner_of_a_built_in(c: &mut Context) -> Outcome {
    Widgets::open().serve(c).await?;
    let owner = c.make(WIDGETS, w(json!({ "metadata": { "name": "w" } }))).await?;
    c.make(SECRETS, owned("s", vec![reference(&owner, true)])).await?;
    c.must(Req::delete_with(format!("{WIDGETS}/w"), json!({ "propagationPolicy": "Background" }))).await?;
    // The real collector learns of new kinds every half minute.
    c.until_within(Duration::from_mins(4), &format!("{SECRETS}/s"), |answer| answer.code == 404).await?;
    c.saw("the dependent", "gone");
    Ok(())
}

async fn a_namespace_takes_everything(c: &mut Context) -> Outcome {
    c.make(CM, cm("a")).await?;
    c.make(SECRETS, json!({ "metadata": { "name": "s" } })).await?;
    c.delete("delete", "/api/v1/namespaces/{ns}").await?;
    c.until_gone("/api/v1/namespaces/{ns}").await?;
    c.get("config map", &format!("{CM}/a")).await?;
    let list = c.must(Req::get(SECRETS)).await?;
    c.saw("secrets", list.names());
    Ok(())
}

async fn a_namespace_waits_for_finalizers(c: &mut Context) -> Outcome {
    let mut held = cm("held");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    c.make(CM, held).await?;
    c.must(Req::delete("/api/v1/namespaces/{ns}")).await?;
    let remaining = |answer: &conformance::Answer| {
        let conditions = answer.at("/status/conditions").as_array().cloned().unwrap_or_default();
        conditions.iter().any(|condition| {
            condition["type"] == "NamespaceFinalizersRemaining" && condition["status"] == "True"
        })
    };
    c.until("/api/v1/namespaces/{ns}", remaining).await?;
    c.get("namespace", "/api/v1/namespaces/{ns}").await?;
    release(c, &format!("{CM}/held")).await?;
    c.until_gone("/api/v1/namespaces/{ns}").await?;
    c.saw("namespace in the end", "gone");
    Ok(())
}

async fn a_namespace_with_a_finalizer_of_its_own(c: &mut Context) -> Outcome {
    c.make(
        "/api/v1/namespaces",
        json!({ "metadata": { "name": "{ns}-b", "finalizers": ["example.com/hold"] } }),
    )
    .await?;
    c.must(Req::delete("/api/v1/namespaces/{ns}-b")).await?;
    c.until("/api/v1/namespaces/{ns}-b", |answer| answer.at("/spec/finalizers").is_null()).await?;
    let left = c.must(Req::get("/api/v1/namespaces/{ns}-b")).await?;
    c.saw("metadata", left.at("/metadata"));
    c.saw("phase", left.at("/status/phase"));
    release(c, "/api/v1/namespaces/{ns}-b").await?;
    c.until_gone("/api/v1/namespaces/{ns}-b").await
}

async fn a_namespace_is_finalized_by_hand(c: &mut Context) -> Outcome {
    let mut namespace = c.must(Req::get("/api/v1/namespaces/{ns}")).await?.body;
    c.saw("finalizers", namespace["spec"]["finalizers"].clone());
    namespace["spec"]["finalizers"] = json!(["kubernetes", "example.com/mine"]);
    c.put("finalize", "/api/v1/namespaces/{ns}/finalize", namespace.clone()).await?;
    let mut plain = c.must(Req::get("/api/v1/namespaces/{ns}")).await?.body;
    plain["spec"]["finalizers"] = json!([]);
    let answer = c.must(Req::put("/api/v1/namespaces/{ns}", plain)).await?;
    c.saw("a plain update cannot", answer.at("/spec/finalizers"));
    Ok(())
}

async fn the_default_namespaces_are_there(c: &mut Context) -> Outcome {
    for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        c.until(&format!("/api/v1/namespaces/{name}"), |answer| answer.code == 200).await?;
        c.get(name, &format!("/api/v1/namespaces/{name}")).await?;
    }
    c.delete("default cannot go", "/api/v1/namespaces/default").await?;
    Ok(())
}
