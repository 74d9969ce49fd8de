//! What a person sees: kubectl, word for word.

use conformance::{Answer, Case, Context, Outcome, Patch, Req, WIDGETS, Widgets, cases};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use super::{CM, DEPLOYMENTS, PODS, SECRETS, cm, deployment, w};

pub(crate) fn cases() -> Vec<Case> {
    cases!["kubectl":
        get_a_table,
        get_wide_and_with_labels,
        get_yaml_and_json,
        get_by_jsonpath_and_columns,
        get_nothing,
        get_what_is_not_there,
        get_watches,
        get_by_selectors,
        get_all,
        get_custom_columns_of_a_definition,
        get_by_short_name_and_category,
        describe_a_config_map,
        describe_a_custom_resource,
        describe_a_deployment,
        describe_a_namespace_and_a_secret,
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
        explain_built_in,
        explain_custom,
        wait_for_a_condition,
        wait_for_deletion,
        wait_for_a_value,
        delete_cascades,
        delete_by_selector,
        scale,
        rollout,
        set_image,
        auth,
        create_a_token,
        api_resources,
        label_and_annotate,
        patches,
        replace,
        edit_status,
        events,
        expose,
        cluster_version,
        namespaces,
    ]
}

const MANIFEST: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  labels:\n    tier: web\ndata:\n  one: '1'\n  two: '2'\n";

async fn get_a_table(c: &mut Context) -> Outcome {
    c.make(CM, cm("a")).await?;
    c.make(CM, json!({ "metadata": { "name": "b" }, "data": { "x": "1", "y": "2" } })).await?;
    c.shell(&["get", "configmaps"]).await?;
    c.shell(&["get", "cm", "a", "b"]).await?;
    c.shell(&["get", "configmap/a", "--no-headers"]).await?;
    c.shell(&["get", "cm", "-o", "name"]).await?;
    Ok(())
}

async fn get_wide_and_with_labels(c: &mut Context) -> Outcome {
    c.make(PODS, json!({ "metadata": { "name": "p", "labels": { "app": "x" } }, "spec": { "containers": [{ "name": "c", "image": "i" }] } })).await?;
    c.shell(&["get", "pods", "-o", "wide"]).await?;
    c.shell(&["get", "pods", "--show-labels"]).await?;
    c.shell(&["get", "pods", "-L", "app"]).await?;
    Ok(())
}

async fn get_yaml_and_json(c: &mut Context) -> Outcome {
    c.make(CM, cm("a")).await?;
    c.shell(&["get", "cm", "a", "-o", "yaml"]).await?;
    c.shell(&["get", "cm", "-o", "yaml"]).await?;
    c.shell(&["get", "cm", "a", "-o", "yaml", "--show-managed-fields"]).await?;
    Ok(())
}

async fn get_by_jsonpath_and_columns(c: &mut Context) -> Outcome {
    c.make(CM, cm("a")).await?;
    c.shell(&["get", "cm", "a", "-o", "jsonpath={.data.k}"]).await?;
    c.shell(&["get", "cm", "-o", "custom-columns=NAME:.metadata.name,K:.data.k"]).await?;
    c.shell(&["get", "cm", "-o", "go-template={{range .items}}{{.metadata.name}} {{end}}"]).await?;
    Ok(())
}

async fn get_nothing(c: &mut Context) -> Outcome {
    c.shell(&["get", "configmaps"]).await?;
    c.shell(&["get", "pods,secrets"]).await?;
    Ok(())
}

async fn get_what_is_not_there(c: &mut Context) -> Outcome {
    c.shell(&["get", "cm", "none"]).await?;
    c.shell(&["get", "nonsense"]).await?;
    c.shell(&["get", "cm", "none", "--ignore-not-found"]).await?;
    c.shell(&["get", "nonsense.example.com", "x"]).await?;
    Ok(())
}

async fn get_watches(c: &mut Context) -> Outcome {
    c.make(CM, cm("a")).await?;
    let mut child = c.start_kubectl(&["get", "cm", "-w", "-o", "name", "--output-watch-events"])?;
    let stdout = child.stdout.take().ok_or_else(|| anyhow::anyhow!("no output"))?;
    let mut lines = BufReader::new(stdout).lines();
    let mut seen: Vec<Value> = Vec::new();
    for step in 0..4 {
        let line = tokio::time::timeout(std::time::Duration::from_secs(20), lines.next_line()).await??;
        seen.push(json!(line));
        match step {
            0 => c.make(CM, cm("b")).await.map(drop)?,
            1 => c
                .must(Req::patch(Patch::Merge, format!("{CM}/a"), json!({ "data": { "k": "w" } })))
                .await
                .map(drop)?,
            2 => c.must(Req::delete(format!("{CM}/b"))).await.map(drop)?,
            _ => {}
        }
    }
    child.kill().await?;
    c.saw("kubectl get cm -w", seen);
    Ok(())
}

async fn get_by_selectors(c: &mut Context) -> Outcome {
    c.make(CM, super::labelled("a", json!({ "tier": "web" }))).await?;
    c.make(CM, super::labelled("b", json!({ "tier": "db" }))).await?;
    c.shell(&["get", "cm", "-l", "tier=web", "-o", "name"]).await?;
    c.shell(&["get", "cm", "-l", "tier in (web, db)", "-o", "name"]).await?;
    c.shell(&["get", "cm", "--field-selector", "metadata.name=b", "-o", "name"]).await?;
    c.shell(&["get", "cm", "-l", "tier==="]).await?;
    c.shell(&["get", "cm", "--chunk-size=1", "-o", "name"]).await?;
    c.shell(&["get", "cm", "--sort-by=.metadata.labels.tier", "-o", "name"]).await?;
    Ok(())
}

async fn get_all(c: &mut Context) -> Outcome {
    let service =
        json!({ "metadata": { "name": "s" }, "spec": { "clusterIP": "None", "ports": [{ "port": 80 }] } });
    c.make("/api/v1/namespaces/{ns}/services", service).await?;
    c.make(PODS, super::pod("p")).await?;
    c.shell(&["get", "pods,services"]).await?;
    Ok(())
}

fn with_columns() -> Widgets {
    let names = json!({ "plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList", "shortNames": ["wd{id}"], "categories": ["things{id}"] });
    Widgets::open().set("/spec/names", names).version(
        "additionalPrinterColumns",
        json!([{ "name": "Colour", "type": "string", "jsonPath": ".spec.colour" },
            { "name": "Deep", "type": "string", "jsonPath": ".spec.deep", "priority": 1 },
            { "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp" }]),
    )
}

async fn get_custom_columns_of_a_definition(c: &mut Context) -> Outcome {
    with_columns().serve(c).await?;
    c.make(WIDGETS, w(json!({ "metadata": { "name": "a" }, "spec": { "colour": "red", "deep": "blue" } })))
        .await?;
    c.make(WIDGETS, w(json!({ "metadata": { "name": "b" } }))).await?;
    c.until("/apis/{id}.example.com/v1", |answer| answer.code == 200).await?;
    c.shell(&["get", "widgets.{id}.example.com"]).await?;
    c.shell(&["get", "widgets.{id}.example.com", "-o", "wide"]).await?;
    Ok(())
}

async fn get_by_short_name_and_category(c: &mut Context) -> Outcome {
    with_columns().serve(c).await?;
    c.make(WIDGETS, w(json!({ "metadata": { "name": "a" } }))).await?;
    discovered(c).await?;
    c.shell(&["get", "wd{id}", "-o", "name"]).await?;
    c.shell(&["get", "things{id}", "-o", "name"]).await?;
    Ok(())
}

/// kubectl asks the aggregated lists, which follow a definition a moment later.
async fn discovered(c: &Context) -> Outcome {
    let group = c.fill("{id}.example.com");
    conformance::eventually("the group is discovered", || async {
        let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
        let answer = c.send(Req::get("/apis").header("accept", accept)).await?;
        let items = answer.at("/items").as_array().cloned().unwrap_or_default();
        Ok(items.iter().any(|item| item["metadata"]["name"] == group.as_str()))
    })
    .await
}

async fn describe_a_config_map(c: &mut Context) -> Outcome {
    c.make(CM, json!({ "metadata": { "name": "a", "labels": { "x": "y" }, "annotations": { "n": "1" } }, "data": { "k": "v", "text": "two\nlines" } })).await?;
    c.shell(&["describe", "cm", "a"]).await?;
    Ok(())
}

async fn describe_a_custom_resource(c: &mut Context) -> Outcome {
    Widgets::open().serve(c).await?;
    c.make(WIDGETS, w(json!({ "metadata": { "name": "a", "finalizers": ["example.com/f"] }, "spec": { "colour": "red", "list": [1, 2], "deep": { "x": true } } }))).await?;
    discovered(c).await?;
    c.shell(&["describe", "widgets.{id}.example.com", "a"]).await?;
    Ok(())
}

async fn describe_a_deployment(c: &mut Context) -> Outcome {
    let mut object = deployment("d", 1);
    object["spec"]["paused"] = json!(true);
    c.make(DEPLOYMENTS, object).await?;
    c.until(&format!("{DEPLOYMENTS}/d"), |answer| answer.at("/status/observedGeneration") == 1).await?;
    c.shell(&["describe", "deployment", "d"]).await?;
    Ok(())
}

async fn describe_a_namespace_and_a_secret(c: &mut Context) -> Outcome {
    c.shell(&["describe", "namespace", "{ns}"]).await?;
    c.make(SECRETS, json!({ "metadata": { "name": "s" }, "stringData": { "k": "four" } })).await?;
    c.shell(&["describe", "secret", "s"]).await?;
    Ok(())
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

async fn explain_built_in(c: &mut Context) -> Outcome {
    // Descriptions are prose of the real server; the shape of the answer is what a client relies on.
    for path in ["configmap", "deployment.spec.replicas", "pod.spec.containers.image", "namespace.spec"] {
        let shell = c.kubectl(&["explain", path], None).await?;
        let head: Vec<&str> =
            shell.stdout.lines().take_while(|line| !line.starts_with("DESCRIPTION")).collect();
        c.saw(path, json!([shell.code, head]));
    }
    c.shell(&["explain", "configmap.none"]).await?;
    Ok(())
}

async fn explain_custom(c: &mut Context) -> Outcome {
    let schema = json!({ "type": "object", "description": "A widget.", "properties": { "spec": { "type": "object", "description": "What is wanted.", "required": ["size"],
        "properties": { "size": { "type": "integer", "description": "How big." }, "colour": { "type": "string", "enum": ["red", "blue"] },
            "tags": { "type": "array", "items": { "type": "string" } }, "map": { "type": "object", "additionalProperties": { "type": "string" } } } } } });
    Widgets::with(schema).serve(c).await?;
    c.until("/openapi/v3/apis/{id}.example.com/v1", |answer| answer.code == 200).await?;
    discovered(c).await?;
    c.shell(&["explain", "widgets.spec", "--api-version={id}.example.com/v1"]).await?;
    c.shell(&["explain", "widgets.spec.size", "--api-version={id}.example.com/v1"]).await?;
    c.shell(&["explain", "widgets.spec", "--recursive", "--api-version={id}.example.com/v1"]).await?;
    Ok(())
}

async fn wait_for_a_condition(c: &mut Context) -> Outcome {
    Widgets::open().serve(c).await?;
    discovered(c).await?;
    c.make(WIDGETS, w(json!({ "metadata": { "name": "w" } }))).await?;
    let status = json!({ "status": { "conditions": [{ "type": "Ready", "status": "True" }] } });
    c.must(Req::patch(Patch::Merge, format!("{WIDGETS}/w/status"), status)).await?;
    c.shell(&["wait", "--for=condition=Ready", "widgets.{id}.example.com/w", "--timeout=5s"]).await?;
    c.shell(&["wait", "--for=condition=Ready=false", "widgets.{id}.example.com/w", "--timeout=1s"]).await?;
    c.shell(&["wait", "--for=condition=Ready", "cm/none", "--timeout=1s"]).await?;
    Ok(())
}

async fn wait_for_deletion(c: &mut Context) -> Outcome {
    let mut held = cm("a");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    c.make(CM, held).await?;
    c.must(Req::delete(format!("{CM}/a"))).await?;
    let child = c.start_kubectl(&["wait", "--for=delete", "cm/a", "--timeout=20s"])?;
    // It says something only if it has seen the object before it went.
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    c.must(Req::patch(Patch::Merge, format!("{CM}/a"), json!({ "metadata": { "finalizers": null } })))
        .await?;
    let output = child.wait_with_output().await?;
    c.saw(
        "kubectl wait --for=delete",
        json!([output.status.code(), String::from_utf8_lossy(&output.stdout)]),
    );
    Ok(())
}

async fn wait_for_a_value(c: &mut Context) -> Outcome {
    c.make(CM, cm("a")).await?;
    c.shell(&["wait", "--for=jsonpath={.data.k}=v", "cm/a", "--timeout=5s"]).await?;
    c.shell(&["wait", "--for=create", "cm/a", "--timeout=5s"]).await?;
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
        tokio::time::sleep(std::time::Duration::from_millis(1500)).await;
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
    c.shell(&["delete", "cm", "--all", "--dry-run=server"]).await?;
    c.shell(&["delete", "cm", "--all"]).await?;
    c.shell(&["delete", "cm", "--all"]).await?;
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

async fn auth(c: &mut Context) -> Outcome {
    c.shell(&["auth", "can-i", "create", "pods"]).await?;
    c.shell(&["auth", "can-i", "get", "secrets", "--as=nobody-{id}"]).await?;
    c.shell(&["auth", "can-i", "get", "/healthz"]).await?;
    Ok(())
}

async fn create_a_token(c: &mut Context) -> Outcome {
    c.make("/api/v1/namespaces/{ns}/serviceaccounts", json!({ "metadata": { "name": "robot" } })).await?;
    c.shell(&["create", "token", "robot"]).await?;
    c.shell(&["create", "token", "nobody"]).await?;
    Ok(())
}

async fn api_resources(c: &mut Context) -> Outcome {
    with_columns().serve(c).await?;
    discovered(c).await?;
    c.shell(&["api-resources", "--api-group={id}.example.com", "-o", "wide"]).await?;
    c.shell(&["api-resources", "--api-group=coordination.k8s.io"]).await?;
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

async fn edit_status(c: &mut Context) -> Outcome {
    c.make(CM, cm("a")).await?;
    c.shell(&["get", "cm", "a", "--subresource=status"]).await?;
    let mut object = deployment("d", 0);
    object["spec"]["paused"] = json!(true);
    c.make(DEPLOYMENTS, object).await?;
    c.until(&format!("{DEPLOYMENTS}/d"), |answer| answer.at("/status/observedGeneration") == 1).await?;
    c.shell(&["get", "deployment", "d", "--subresource=scale"]).await?;
    c.shell(&["get", "deployment", "d"]).await?;
    Ok(())
}

async fn events(c: &mut Context) -> Outcome {
    let event = json!({ "metadata": { "name": "e" }, "involvedObject": { "kind": "ConfigMap", "apiVersion": "v1", "name": "a", "namespace": "{ns}" },
        "reason": "Tested", "message": "it was tested", "type": "Warning", "source": { "component": "tester" }, "count": 3 });
    c.make("/api/v1/namespaces/{ns}/events", event).await?;
    c.make(CM, cm("a")).await?;
    c.shell(&["events"]).await?;
    c.shell(&["get", "events", "-o", "custom-columns=R:.reason,M:.message"]).await?;
    c.shell(&["get", "events"]).await?;
    c.shell(&["events", "--for", "configmap/a", "-o", "name"]).await?;
    Ok(())
}

async fn expose(c: &mut Context) -> Outcome {
    let mut object = deployment("d", 0);
    object["spec"]["template"]["spec"]["containers"][0]["ports"] = json!([{ "containerPort": 80 }]);
    c.make(DEPLOYMENTS, object).await?;
    c.shell(&["expose", "deployment", "d", "--port=80", "--cluster-ip=None"]).await?;
    c.shell(&["get", "service", "d"]).await?;
    Ok(())
}

async fn cluster_version(c: &mut Context) -> Outcome {
    let shell = c.kubectl(&["version"], None).await?;
    c.saw("code", shell.code);
    c.saw("lines", shell.stdout.lines().filter_map(|line| line.split(':').next()).collect::<Vec<_>>());
    c.shell(&["get", "--raw", "/healthz"]).await?;
    Ok(())
}

async fn namespaces(c: &mut Context) -> Outcome {
    c.shell(&["get", "namespace", "{ns}"]).await?;
    c.shell(&["create", "namespace", "Not_Valid"]).await?;
    c.shell(&["get", "cm", "-n", "nowhere-{id}"]).await?;
    c.shell_with(&["apply", "-n", "nowhere-{id}", "-f", "-"], Some(MANIFEST)).await?;
    Ok(())
}
