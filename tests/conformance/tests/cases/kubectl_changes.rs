//! What a person sees who changes something with kubectl, word for word.

use conformance::{ApiResponse, Case, Context, Outcome, PatchType, Req, WIDGETS, Widgets, cases};
use serde_json::{Value, json};

use super::{
    CM, DEPLOYMENTS, PODS, SECRETS, cm, collected, deployment,
    kubectl::{MANIFEST, discovered},
    w,
};

pub(crate) fn cases() -> Vec<Case> {
    cases!["kubectl":
        create_and_delete,
        create_from_literals,
        create_what_is_there,
        create_what_is_invalid,
        apply_and_change,
        apply_removes_a_field,
        apply_server_side,
        apply_server_side_conflict,
        apply_takes_over_client_side,
        apply_with_prune_by_set,
        apply_unknown_fields,
        apply_a_definition_and_its_object,
        diff,
        delete_cascades,
        delete_by_selector,
        scale,
        rollout,
        set_image,
        label_and_annotate,
        patches,
        replace,
    ]
}

async fn create_and_delete(c: &mut Context) -> Outcome {
    c.record_kubectl_with_stdin(&["create", "-f", "-"], Some(MANIFEST)).await?;
    c.record_kubectl(&["delete", "cm", "a"]).await?;
    c.record_kubectl(&["delete", "cm", "a"]).await?;
    c.record_kubectl(&["delete", "cm", "a", "--ignore-not-found"]).await?;
    Ok(())
}

async fn create_from_literals(c: &mut Context) -> Outcome {
    c.record_kubectl(&["create", "configmap", "m", "--from-literal=a=1"]).await?;
    c.record_kubectl(&["create", "secret", "generic", "s", "--from-literal=a=1"]).await?;
    c.record_kubectl(&["create", "namespace", "{ns}-b"]).await?;
    c.record_kubectl(&["create", "serviceaccount", "robot"]).await?;
    c.record_kubectl(&["create", "role", "r", "--verb=get", "--resource=pods"]).await?;
    c.record_kubectl(&["create", "rolebinding", "b", "--role=r", "--user=u"]).await?;
    c.record_kubectl(&["create", "deployment", "d", "--image=i:1", "--replicas=0"]).await?;
    c.record_kubectl(&["create", "configmap", "dry", "--from-literal=a=1", "--dry-run=server", "-o", "yaml"])
        .await?;
    Ok(())
}

async fn create_what_is_there(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    c.record_kubectl_with_stdin(&["create", "-f", "-"], Some(MANIFEST)).await?;
    Ok(())
}

async fn create_what_is_invalid(c: &mut Context) -> Outcome {
    c.record_kubectl_with_stdin(
        &["create", "-f", "-"],
        Some(&MANIFEST.replace("name: a", "name: Not_Valid")),
    )
    .await?;
    c.record_kubectl_with_stdin(&["create", "-f", "-"], Some(&MANIFEST.replace("data:", "datum:"))).await?;
    c.record_kubectl_with_stdin(
        &["create", "-f", "-"],
        Some("apiVersion: example.com/v1\nkind: Nothing\nmetadata: {name: x}\n"),
    )
    .await?;
    Ok(())
}

async fn apply_and_change(c: &mut Context) -> Outcome {
    c.record_kubectl_with_stdin(&["apply", "-f", "-"], Some(MANIFEST)).await?;
    c.record_kubectl_with_stdin(&["apply", "-f", "-"], Some(MANIFEST)).await?;
    c.record_kubectl_with_stdin(&["apply", "-f", "-"], Some(&MANIFEST.replace("'2'", "'3'"))).await?;
    let answer = c.send_ok(Req::get(format!("{CM}/a"))).await?;
    c.record("data", answer.value_at("/data"));
    c.record("annotation", answer.value_at("/metadata/annotations"));
    Ok(())
}

async fn apply_removes_a_field(c: &mut Context) -> Outcome {
    c.record_kubectl_with_stdin(&["apply", "-f", "-"], Some(MANIFEST)).await?;
    c.send_ok(Req::patch(PatchType::Merge, format!("{CM}/a"), json!({ "data": { "other": "kept" } })))
        .await?;
    c.record_kubectl_with_stdin(&["apply", "-f", "-"], Some(&MANIFEST.replace("  two: '2'\n", ""))).await?;
    c.record("data", c.send_ok(Req::get(format!("{CM}/a"))).await?.value_at("/data"));
    Ok(())
}

async fn apply_server_side(c: &mut Context) -> Outcome {
    c.keep_managed_fields();
    c.record_kubectl_with_stdin(&["apply", "--server-side", "-f", "-"], Some(MANIFEST)).await?;
    c.record_kubectl_with_stdin(
        &["apply", "--server-side", "-f", "-"],
        Some(&MANIFEST.replace("  two: '2'\n", "")),
    )
    .await?;
    c.get("object", &format!("{CM}/a")).await?;
    Ok(())
}

async fn apply_server_side_conflict(c: &mut Context) -> Outcome {
    c.record_kubectl_with_stdin(
        &["apply", "--server-side", "--field-manager=one", "-f", "-"],
        Some(MANIFEST),
    )
    .await?;
    let changed = MANIFEST.replace("'2'", "'3'");
    c.record_kubectl_with_stdin(
        &["apply", "--server-side", "--field-manager=two", "-f", "-"],
        Some(&changed),
    )
    .await?;
    c.record_kubectl_with_stdin(
        &["apply", "--server-side", "--field-manager=two", "--force-conflicts", "-f", "-"],
        Some(&changed),
    )
    .await?;
    Ok(())
}

async fn apply_takes_over_client_side(c: &mut Context) -> Outcome {
    c.keep_managed_fields();
    c.record_kubectl_with_stdin(&["apply", "-f", "-"], Some(MANIFEST)).await?;
    c.record_kubectl_with_stdin(
        &["apply", "--server-side", "-f", "-"],
        Some(&MANIFEST.replace("'2'", "'3'")),
    )
    .await?;
    c.get("object", &format!("{CM}/a")).await?;
    Ok(())
}

async fn apply_with_prune_by_set(c: &mut Context) -> Outcome {
    let second = MANIFEST.replace("name: a", "name: b");
    let both = format!("{MANIFEST}---\n{second}");
    let arguments = ["apply", "--prune", "-l", "tier=web", "--prune-allowlist=core/v1/ConfigMap", "-f", "-"];
    c.record_kubectl_with_stdin(&arguments, Some(&both)).await?;
    c.record_kubectl_with_stdin(&arguments, Some(MANIFEST)).await?;
    Ok(())
}

async fn apply_unknown_fields(c: &mut Context) -> Outcome {
    let unknown = MANIFEST.replace("data:", "datum:");
    c.record_kubectl_with_stdin(&["apply", "-f", "-"], Some(&unknown)).await?;
    c.record_kubectl_with_stdin(&["apply", "--validate=warn", "-f", "-"], Some(&unknown)).await?;
    c.record_kubectl_with_stdin(&["apply", "--validate=false", "-f", "-"], Some(&unknown)).await?;
    Ok(())
}

async fn apply_a_definition_and_its_object(c: &mut Context) -> Outcome {
    let definition = Widgets::spec(json!({ "size": { "type": "integer" } })).body().to_string();
    c.record_kubectl_with_stdin(&["apply", "-f", "-"], Some(&definition)).await?;
    c.record_kubectl(&[
        "wait",
        "--for=condition=Established",
        "crd/widgets.{id}.example.com",
        "--timeout=30s",
    ])
    .await?;
    c.wait_until(WIDGETS, |answer| answer.code == 200).await?;
    discovered(c).await?;
    let widget =
        |size: Value| w(json!({ "metadata": { "name": "w" }, "spec": { "size": size } })).to_string();
    c.record_kubectl_with_stdin(&["apply", "-f", "-"], Some(&widget(json!(1)))).await?;
    c.record_kubectl_with_stdin(&["apply", "-f", "-"], Some(&widget(json!(2)))).await?;
    c.record_kubectl_with_stdin(&["apply", "-f", "-"], Some(&widget(json!("big")))).await?;
    c.record_kubectl_with_stdin(&["apply", "--server-side", "-f", "-"], Some(&widget(json!(2)))).await?;
    Ok(())
}

async fn diff(c: &mut Context) -> Outcome {
    c.record_kubectl_with_stdin(&["apply", "-f", "-"], Some(MANIFEST)).await?;
    let same = c.run_kubectl(&["diff", "-f", "-"], Some(MANIFEST)).await?;
    c.record("same", json!([same.code, same.stdout]));
    let changed = c.run_kubectl(&["diff", "-f", "-"], Some(&MANIFEST.replace("'2'", "'3'"))).await?;
    let lines: Vec<&str> = changed
        .stdout
        .lines()
        .filter(|line| !line.starts_with("---") && !line.starts_with("+++") && !line.starts_with("diff "))
        .collect();
    c.record("changed", json!([changed.code, lines]));
    let new = c
        .run_kubectl(&["diff", "--server-side", "-f", "-"], Some(&MANIFEST.replace("name: a", "name: new")))
        .await?;
    c.record("new", new.code);
    Ok(())
}

fn sets(count: usize) -> impl Fn(&ApiResponse) -> bool {
    move |answer: &ApiResponse| answer.body["items"].as_array().is_some_and(|items| items.len() == count)
}

async fn delete_cascades(c: &mut Context) -> Outcome {
    let replica_sets = "/apis/apps/v1/namespaces/{ns}/replicasets";
    for (cascade, left) in [("foreground", 0), ("orphan", 1)] {
        c.create(DEPLOYMENTS, deployment(cascade, 0)).await?;
        c.wait_until(replica_sets, sets(1)).await?;
        collected(c, replica_sets, super::no_replicas()).await?;
        c.record_kubectl(&["delete", "deployment", cascade, &format!("--cascade={cascade}")]).await?;
        c.wait_until(replica_sets, sets(left)).await?;
        c.record(&format!("sets left by {cascade}"), left);
    }
    Ok(())
}

async fn delete_by_selector(c: &mut Context) -> Outcome {
    for (name, tier) in [("a", "web"), ("b", "web"), ("c", "db")] {
        c.create(CM, super::labelled(name, json!({ "tier": tier }))).await?;
    }
    c.record_kubectl(&["delete", "cm", "-l", "tier=web"]).await?;
    c.create(SECRETS, json!({ "metadata": { "name": "s" } })).await?;
    c.record_kubectl(&["delete", "secrets", "--all", "--dry-run=server"]).await?;
    c.record_kubectl(&["delete", "secrets", "--all"]).await?;
    c.record_kubectl(&["delete", "secrets", "--all"]).await?;
    c.create(PODS, super::pod("p")).await?;
    c.record_kubectl(&["delete", "pod", "p", "--force", "--grace-period=0"]).await?;
    Ok(())
}

async fn scale(c: &mut Context) -> Outcome {
    let mut object = deployment("d", 0);
    object["spec"]["paused"] = json!(true);
    c.create(DEPLOYMENTS, object).await?;
    c.wait_until(&format!("{DEPLOYMENTS}/d"), |answer| answer.value_at("/status/observedGeneration") == 1)
        .await?;
    c.record_kubectl(&["scale", "deployment", "d", "--replicas=2"]).await?;
    c.record_kubectl(&["scale", "deployment", "d", "--replicas=1", "--current-replicas=7"]).await?;
    c.record_kubectl(&["scale", "deployment", "none", "--replicas=1"]).await?;
    c.record("replicas", c.send_ok(Req::get(format!("{DEPLOYMENTS}/d"))).await?.value_at("/spec/replicas"));
    Ok(())
}

async fn rollout(c: &mut Context) -> Outcome {
    c.create(DEPLOYMENTS, deployment("d", 0)).await?;
    let done = |answer: &ApiResponse| {
        answer.value_at("/status/observedGeneration") == 1
            && answer.value_at("/status/conditions/1").is_object()
    };
    c.wait_until(&format!("{DEPLOYMENTS}/d"), done).await?;
    c.record_kubectl(&["rollout", "status", "deployment/d", "--timeout=10s"]).await?;
    c.record_kubectl(&["rollout", "history", "deployment/d"]).await?;
    c.record_kubectl(&["rollout", "pause", "deployment/d"]).await?;
    c.record_kubectl(&["rollout", "pause", "deployment/d"]).await?;
    c.record_kubectl(&["rollout", "resume", "deployment/d"]).await?;
    c.record_kubectl(&["rollout", "restart", "deployment/d"]).await?;
    Ok(())
}

async fn set_image(c: &mut Context) -> Outcome {
    c.create(DEPLOYMENTS, deployment("d", 0)).await?;
    c.record_kubectl(&["set", "image", "deployment/d", "c=j:2"]).await?;
    c.record_kubectl(&["set", "env", "deployment/d", "A=1"]).await?;
    let answer = c.send_ok(Req::get(format!("{DEPLOYMENTS}/d"))).await?;
    c.record("container", answer.value_at("/spec/template/spec/containers/0"));
    Ok(())
}

async fn label_and_annotate(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    c.record_kubectl(&["label", "cm", "a", "tier=web"]).await?;
    c.record_kubectl(&["label", "cm", "a", "tier=db"]).await?;
    c.record_kubectl(&["label", "cm", "a", "tier=db", "--overwrite"]).await?;
    c.record_kubectl(&["label", "cm", "a", "tier-"]).await?;
    c.record_kubectl(&["annotate", "cm", "a", "note=hello"]).await?;
    c.record_kubectl(&["annotate", "cm", "none", "note=hello"]).await?;
    let answer = c.send_ok(Req::get(format!("{CM}/a"))).await?;
    c.record(
        "metadata",
        json!([answer.value_at("/metadata/labels"), answer.value_at("/metadata/annotations")]),
    );
    Ok(())
}

async fn patches(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    c.record_kubectl(&["patch", "cm", "a", "-p", r#"{"data":{"s":"1"}}"#]).await?;
    c.record_kubectl(&["patch", "cm", "a", "--type=merge", "-p", r#"{"data":{"k":null}}"#]).await?;
    c.record_kubectl(&["patch", "cm", "a", "--type=json", "-p", r#"[{"op":"remove","path":"/data/none"}]"#])
        .await?;
    c.record_kubectl(&["patch", "cm", "a", "--type=merge", "-p", r"{}"]).await?;
    Widgets::open().install(c).await?;
    discovered(c).await?;
    c.create(WIDGETS, w(json!({ "metadata": { "name": "w" } }))).await?;
    c.record_kubectl(&[
        "patch",
        "widgets.{id}.example.com",
        "w",
        "--subresource=status",
        "--type=merge",
        "-p",
        r#"{"status":{"ready":true}}"#,
    ])
    .await?;
    c.record_kubectl(&["patch", "widgets.{id}.example.com", "w", "-p", r"{}"]).await?;
    Ok(())
}

async fn replace(c: &mut Context) -> Outcome {
    c.record_kubectl_with_stdin(&["replace", "-f", "-"], Some(MANIFEST)).await?;
    c.create(CM, cm("a")).await?;
    c.record_kubectl_with_stdin(&["replace", "-f", "-"], Some(MANIFEST)).await?;
    let old = MANIFEST.replace("name: a\n", "name: a\n  resourceVersion: '1'\n");
    c.record_kubectl_with_stdin(&["replace", "-f", "-"], Some(&old)).await?;
    c.record_kubectl_with_stdin(&["replace", "--force", "-f", "-"], Some(MANIFEST)).await?;
    Ok(())
}
