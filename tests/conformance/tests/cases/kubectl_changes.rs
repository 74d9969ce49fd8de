//! What a person sees who changes something with kubectl, word for word.

use conformance::{Answer, Case, Context, Outcome, Patch, Req, WIDGETS, Widgets, cases};
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
    c.shell_with(&["create", "-f", "-"], Some(MANIFEST)).await?;
    c.shell(&["delete", "cm", "a"]).await?;
    c.shell(&["delete", "cm", "a"]).await?;
    c.shell(&["delete", "cm", "a", "--ignore-not-found"]).await?;
    Ok(())
}

async fn create_from_literals(c: &mut Context) -> Outcome {
    c.shell(&["create", "configmap", "m", "--from-literal=a=1"]).await?;
    c.shell(&["create", "secret", "generic", "s", "--from-literal=a=1"]).await?;
    c.shell(&["create", "namespace", "{ns}-b"]).await?;
    c.shell(&["create", "serviceaccount", "robot"]).await?;
    c.shell(&["create", "role", "r", "--verb=get", "--resource=pods"]).await?;
    c.shell(&["create", "rolebinding", "b", "--role=r", "--user=u"]).await?;
    c.shell(&["create", "deployment", "d", "--image=i:1", "--replicas=0"]).await?;
    c.shell(&["create", "configmap", "dry", "--from-literal=a=1", "--dry-run=server", "-o", "yaml"]).await?;
    Ok(())
}

async fn create_what_is_there(c: &mut Context) -> Outcome {
    c.make(CM, cm("a")).await?;
    c.shell_with(&["create", "-f", "-"], Some(MANIFEST)).await?;
    Ok(())
}

async fn create_what_is_invalid(c: &mut Context) -> Outcome {
    c.shell_with(&["create", "-f", "-"], Some(&MANIFEST.replace("name: a", "name: Not_Valid"))).await?;
    c.shell_with(&["create", "-f", "-"], Some(&MANIFEST.replace("data:", "datum:"))).await?;
    c.shell_with(
        &["create", "-f", "-"],
        Some("apiVersion: example.com/v1\nkind: Nothing\nmetadata: {name: x}\n"),
    )
    .await?;
    Ok(())
}

async fn apply_and_change(c: &mut Context) -> Outcome {
    c.shell_with(&["apply", "-f", "-"], Some(MANIFEST)).await?;
    c.shell_with(&["apply", "-f", "-"], Some(MANIFEST)).await?;
    c.shell_with(&["apply", "-f", "-"], Some(&MANIFEST.replace("'2'", "'3'"))).await?;
    let answer = c.must(Req::get(format!("{CM}/a"))).await?;
    c.saw("data", answer.at("/data"));
    c.saw("annotation", answer.at("/metadata/annotations"));
    Ok(())
}

async fn apply_removes_a_field(c: &mut Context) -> Outcome {
    c.shell_with(&["apply", "-f", "-"], Some(MANIFEST)).await?;
    c.must(Req::patch(Patch::Merge, format!("{CM}/a"), json!({ "data": { "other": "kept" } }))).await?;
    c.shell_with(&["apply", "-f", "-"], Some(&MANIFEST.replace("  two: '2'\n", ""))).await?;
    c.saw("data", c.must(Req::get(format!("{CM}/a"))).await?.at("/data"));
    Ok(())
}

async fn apply_server_side(c: &mut Context) -> Outcome {
    c.keep_managed_fields();
    c.shell_with(&["apply", "--server-side", "-f", "-"], Some(MANIFEST)).await?;
    c.shell_with(&["apply", "--server-side", "-f", "-"], Some(&MANIFEST.replace("  two: '2'\n", ""))).await?;
    c.get("object", &format!("{CM}/a")).await?;
    Ok(())
}

async fn apply_server_side_conflict(c: &mut Context) -> Outcome {
    c.shell_with(&["apply", "--server-side", "--field-manager=one", "-f", "-"], Some(MANIFEST)).await?;
    let changed = MANIFEST.replace("'2'", "'3'");
    c.shell_with(&["apply", "--server-side", "--field-manager=two", "-f", "-"], Some(&changed)).await?;
    c.shell_with(
        &["apply", "--server-side", "--field-manager=two", "--force-conflicts", "-f", "-"],
        Some(&changed),
    )
    .await?;
    Ok(())
}

async fn apply_takes_over_client_side(c: &mut Context) -> Outcome {
    c.keep_managed_fields();
    c.shell_with(&["apply", "-f", "-"], Some(MANIFEST)).await?;
    c.shell_with(&["apply", "--server-side", "-f", "-"], Some(&MANIFEST.replace("'2'", "'3'"))).await?;
    c.get("object", &format!("{CM}/a")).await?;
    Ok(())
}

async fn apply_with_prune_by_set(c: &mut Context) -> Outcome {
    let second = MANIFEST.replace("name: a", "name: b");
    let both = format!("{MANIFEST}---\n{second}");
    let arguments = ["apply", "--prune", "-l", "tier=web", "--prune-allowlist=core/v1/ConfigMap", "-f", "-"];
    c.shell_with(&arguments, Some(&both)).await?;
    c.shell_with(&arguments, Some(MANIFEST)).await?;
    Ok(())
}

async fn apply_unknown_fields(c: &mut Context) -> Outcome {
    let unknown = MANIFEST.replace("data:", "datum:");
    c.shell_with(&["apply", "-f", "-"], Some(&unknown)).await?;
    c.shell_with(&["apply", "--validate=warn", "-f", "-"], Some(&unknown)).await?;
    c.shell_with(&["apply", "--validate=false", "-f", "-"], Some(&unknown)).await?;
    Ok(())
}

async fn apply_a_definition_and_its_object(c: &mut Context) -> Outcome {
    let definition = Widgets::spec(json!({ "size": { "type": "integer" } })).body().to_string();
    c.shell_with(&["apply", "-f", "-"], Some(&definition)).await?;
    c.shell(&["wait", "--for=condition=Established", "crd/widgets.{id}.example.com", "--timeout=30s"])
        .await?;
    c.until(WIDGETS, |answer| answer.code == 200).await?;
    discovered(c).await?;
    let widget =
        |size: Value| w(json!({ "metadata": { "name": "w" }, "spec": { "size": size } })).to_string();
    c.shell_with(&["apply", "-f", "-"], Some(&widget(json!(1)))).await?;
    c.shell_with(&["apply", "-f", "-"], Some(&widget(json!(2)))).await?;
    c.shell_with(&["apply", "-f", "-"], Some(&widget(json!("big")))).await?;
    c.shell_with(&["apply", "--server-side", "-f", "-"], Some(&widget(json!(2)))).await?;
    Ok(())
}

async fn diff(c: &mut Context) -> Outcome {
    c.shell_with(&["apply", "-f", "-"], Some(MANIFEST)).await?;
    let same = c.kubectl(&["diff", "-f", "-"], Some(MANIFEST)).await?;
    c.saw("same", json!([same.code, same.stdout]));
    let changed = c.kubectl(&["diff", "-f", "-"], Some(&MANIFEST.replace("'2'", "'3'"))).await?;
    let lines: Vec<&str> = changed
        .stdout
        .lines()
        .filter(|line| !line.starts_with("---") && !line.starts_with("+++") && !line.starts_with("diff "))
        .collect();
    c.saw("changed", json!([changed.code, lines]));
    let new = c
        .kubectl(&["diff", "--server-side", "-f", "-"], Some(&MANIFEST.replace("name: a", "name: new")))
        .await?;
    c.saw("new", new.code);
    Ok(())
}

fn sets(count: usize) -> impl Fn(&Answer) -> bool {
    move |answer: &Answer| answer.body["items"].as_array().is_some_and(|items| items.len() == count)
}

async fn delete_cascades(c: &mut Context) -> Outcome {
    let replica_sets = "/apis/apps/v1/namespaces/{ns}/replicasets";
    for (cascade, left) in [("foreground", 0), ("orphan", 1)] {
        c.make(DEPLOYMENTS, deployment(cascade, 0)).await?;
        c.until(replica_sets, sets(1)).await?;
        collected(c, replica_sets, super::no_replicas()).await?;
        c.shell(&["delete", "deployment", cascade, &format!("--cascade={cascade}")]).await?;
        c.until(replica_sets, sets(left)).await?;
        c.saw(&format!("sets left by {cascade}"), left);
    }
    Ok(())
}

async fn delete_by_selector(c: &mut Context) -> Outcome {
    for (name, tier) in [("a", "web"), ("b", "web"), ("c", "db")] {
        c.make(CM, super::labelled(name, json!({ "tier": tier }))).await?;
    }
    c.shell(&["delete", "cm", "-l", "tier=web"]).await?;
    c.make(SECRETS, json!({ "metadata": { "name": "s" } })).await?;
    c.shell(&["delete", "secrets", "--all", "--dry-run=server"]).await?;
    c.shell(&["delete", "secrets", "--all"]).await?;
    c.shell(&["delete", "secrets", "--all"]).await?;
    c.make(PODS, super::pod("p")).await?;
    c.shell(&["delete", "pod", "p", "--force", "--grace-period=0"]).await?;
    Ok(())
}

async fn scale(c: &mut Context) -> Outcome {
    let mut object = deployment("d", 0);
    object["spec"]["paused"] = json!(true);
    c.make(DEPLOYMENTS, object).await?;
    c.until(&format!("{DEPLOYMENTS}/d"), |answer| answer.at("/status/observedGeneration") == 1).await?;
    c.shell(&["scale", "deployment", "d", "--replicas=2"]).await?;
    c.shell(&["scale", "deployment", "d", "--replicas=1", "--current-replicas=7"]).await?;
    c.shell(&["scale", "deployment", "none", "--replicas=1"]).await?;
    c.saw("replicas", c.must(Req::get(format!("{DEPLOYMENTS}/d"))).await?.at("/spec/replicas"));
    Ok(())
}

async fn rollout(c: &mut Context) -> Outcome {
    c.make(DEPLOYMENTS, deployment("d", 0)).await?;
    let done = |answer: &Answer| {
        answer.at("/status/observedGeneration") == 1 && answer.at("/status/conditions/1").is_object()
    };
    c.until(&format!("{DEPLOYMENTS}/d"), done).await?;
    c.shell(&["rollout", "status", "deployment/d", "--timeout=10s"]).await?;
    c.shell(&["rollout", "history", "deployment/d"]).await?;
    c.shell(&["rollout", "pause", "deployment/d"]).await?;
    c.shell(&["rollout", "pause", "deployment/d"]).await?;
    c.shell(&["rollout", "resume", "deployment/d"]).await?;
    c.shell(&["rollout", "restart", "deployment/d"]).await?;
    Ok(())
}

async fn set_image(c: &mut Context) -> Outcome {
    c.make(DEPLOYMENTS, deployment("d", 0)).await?;
    c.shell(&["set", "image", "deployment/d", "c=j:2"]).await?;
    c.shell(&["set", "env", "deployment/d", "A=1"]).await?;
    let answer = c.must(Req::get(format!("{DEPLOYMENTS}/d"))).await?;
    c.saw("container", answer.at("/spec/template/spec/containers/0"));
    Ok(())
}

async fn label_and_annotate(c: &mut Context) -> Outcome {
    c.make(CM, cm("a")).await?;
    c.shell(&["label", "cm", "a", "tier=web"]).await?;
    c.shell(&["label", "cm", "a", "tier=db"]).await?;
    c.shell(&["label", "cm", "a", "tier=db", "--overwrite"]).await?;
    c.shell(&["label", "cm", "a", "tier-"]).await?;
    c.shell(&["annotate", "cm", "a", "note=hello"]).await?;
    c.shell(&["annotate", "cm", "none", "note=hello"]).await?;
    let answer = c.must(Req::get(format!("{CM}/a"))).await?;
    c.saw("metadata", json!([answer.at("/metadata/labels"), answer.at("/metadata/annotations")]));
    Ok(())
}

async fn patches(c: &mut Context) -> Outcome {
    c.make(CM, cm("a")).await?;
    c.shell(&["patch", "cm", "a", "-p", r#"{"data":{"s":"1"}}"#]).await?;
    c.shell(&["patch", "cm", "a", "--type=merge", "-p", r#"{"data":{"k":null}}"#]).await?;
    c.shell(&["patch", "cm", "a", "--type=json", "-p", r#"[{"op":"remove","path":"/data/none"}]"#]).await?;
    c.shell(&["patch", "cm", "a", "--type=merge", "-p", r"{}"]).await?;
    Widgets::open().serve(c).await?;
    discovered(c).await?;
    c.make(WIDGETS, w(json!({ "metadata": { "name": "w" } }))).await?;
    c.shell(&[
        "patch",
        "widgets.{id}.example.com",
        "w",
        "--subresource=status",
        "--type=merge",
        "-p",
        r#"{"status":{"ready":true}}"#,
    ])
    .await?;
    c.shell(&["patch", "widgets.{id}.example.com", "w", "-p", r"{}"]).await?;
    Ok(())
}

async fn replace(c: &mut Context) -> Outcome {
    c.shell_with(&["replace", "-f", "-"], Some(MANIFEST)).await?;
    c.make(CM, cm("a")).await?;
    c.shell_with(&["replace", "-f", "-"], Some(MANIFEST)).await?;
    let old = MANIFEST.replace("name: a\n", "name: a\n  resourceVersion: '1'\n");
    c.shell_with(&["replace", "-f", "-"], Some(&old)).await?;
    c.shell_with(&["replace", "--force", "-f", "-"], Some(MANIFEST)).await?;
    Ok(())
}
