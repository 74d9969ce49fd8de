//! What a person sees: kubectl, word for word.

use conformance::{Case, Context, Outcome, PatchType, Req, WIDGETS, Widgets, cases};
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
        describe_a_namespace,
        describe_a_secret,
        explain_built_in,
        explain_custom,
        wait_for_a_condition,
        wait_for_deletion,
        wait_for_a_value,
        auth,
        create_a_token,
        api_resources,
        edit_status,
        events,
        expose,
        cluster_version,
        namespaces,
    ]
}

pub(super) const MANIFEST: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  labels:\n    tier: web\ndata:\n  one: '1'\n  two: '2'\n";

async fn get_a_table(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    c.create(CM, json!({ "metadata": { "name": "b" }, "data": { "x": "1", "y": "2" } })).await?;
    c.record_kubectl(&["get", "configmaps"]).await?;
    c.record_kubectl(&["get", "cm", "a", "b"]).await?;
    c.record_kubectl(&["get", "configmap/a", "--no-headers"]).await?;
    c.record_kubectl(&["get", "cm", "-o", "name"]).await?;
    Ok(())
}

async fn get_wide_and_with_labels(c: &mut Context) -> Outcome {
    c.create(PODS, json!({ "metadata": { "name": "p", "labels": { "app": "x" } }, "spec": { "containers": [{ "name": "c", "image": "i" }] } })).await?;
    c.record_kubectl(&["get", "pods", "-o", "wide"]).await?;
    c.record_kubectl(&["get", "pods", "--show-labels"]).await?;
    c.record_kubectl(&["get", "pods", "-L", "app"]).await?;
    Ok(())
}

async fn get_yaml_and_json(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    c.record_kubectl(&["get", "cm", "a", "-o", "yaml"]).await?;
    c.create(SECRETS, json!({ "metadata": { "name": "s" } })).await?;
    c.record_kubectl(&["get", "secrets", "-o", "yaml"]).await?;
    c.record_kubectl(&["get", "cm", "a", "-o", "yaml", "--show-managed-fields"]).await?;
    Ok(())
}

async fn get_by_jsonpath_and_columns(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    c.record_kubectl(&["get", "cm", "a", "-o", "jsonpath={.data.k}"]).await?;
    c.record_kubectl(&["get", "cm", "-o", "custom-columns=NAME:.metadata.name,K:.data.k"]).await?;
    c.record_kubectl(&["get", "cm", "-o", "go-template={{range .items}}{{.metadata.name}} {{end}}"]).await?;
    Ok(())
}

async fn get_nothing(c: &mut Context) -> Outcome {
    c.record_kubectl(&["get", "leases"]).await?;
    c.record_kubectl(&["get", "pods,secrets"]).await?;
    Ok(())
}

async fn get_what_is_not_there(c: &mut Context) -> Outcome {
    c.record_kubectl(&["get", "cm", "none"]).await?;
    c.record_kubectl(&["get", "nonsense"]).await?;
    c.record_kubectl(&["get", "cm", "none", "--ignore-not-found"]).await?;
    c.record_kubectl(&["get", "nonsense.example.com", "x"]).await?;
    Ok(())
}

async fn get_watches(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    let mut child = c.start_kubectl(&["get", "cm", "-w", "-o", "name", "--output-watch-events"])?;
    let stdout = child.stdout.take().ok_or_else(|| anyhow::anyhow!("no output"))?;
    let mut lines = BufReader::new(stdout).lines();
    let mut seen: Vec<Value> = Vec::new();
    for step in 0..5 {
        let line = tokio::time::timeout(std::time::Duration::from_mins(2), lines.next_line()).await??;
        seen.push(json!(line));
        match step {
            // After the two that are there.
            1 => c.create(CM, cm("b")).await.map(drop)?,
            2 => c
                .send_ok(Req::patch(PatchType::Merge, format!("{CM}/a"), json!({ "data": { "k": "w" } })))
                .await
                .map(drop)?,
            3 => c.send_ok(Req::delete(format!("{CM}/b"))).await.map(drop)?,
            _ => {}
        }
    }
    child.kill().await?;
    c.record("kubectl get cm -w", seen);
    Ok(())
}

async fn get_by_selectors(c: &mut Context) -> Outcome {
    c.create(CM, super::labelled("a", json!({ "tier": "web" }))).await?;
    c.create(CM, super::labelled("b", json!({ "tier": "db" }))).await?;
    c.record_kubectl(&["get", "cm", "-l", "tier=web", "-o", "name"]).await?;
    c.record_kubectl(&["get", "cm", "-l", "tier in (web, db)", "-o", "name"]).await?;
    c.record_kubectl(&["get", "cm", "--field-selector", "metadata.name=b", "-o", "name"]).await?;
    c.record_kubectl(&["get", "cm", "-l", "tier==="]).await?;
    c.record_kubectl(&["get", "cm", "--chunk-size=1", "-o", "name"]).await?;
    c.record_kubectl(&["get", "cm", "--sort-by=.metadata.labels.tier", "-o", "name"]).await?;
    Ok(())
}

async fn get_all(c: &mut Context) -> Outcome {
    let service =
        json!({ "metadata": { "name": "s" }, "spec": { "clusterIP": "None", "ports": [{ "port": 80 }] } });
    c.create("/api/v1/namespaces/{ns}/services", service).await?;
    c.create(PODS, super::pod("p")).await?;
    c.record_kubectl(&["get", "pods,services"]).await?;
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
    with_columns().install(c).await?;
    c.create(WIDGETS, w(json!({ "metadata": { "name": "a" }, "spec": { "colour": "red", "deep": "blue" } })))
        .await?;
    c.create(WIDGETS, w(json!({ "metadata": { "name": "b" } }))).await?;
    c.wait_until("/apis/{id}.example.com/v1", |answer| answer.code == 200).await?;
    c.record_kubectl(&["get", "widgets.{id}.example.com"]).await?;
    c.record_kubectl(&["get", "widgets.{id}.example.com", "-o", "wide"]).await?;
    Ok(())
}

async fn get_by_short_name_and_category(c: &mut Context) -> Outcome {
    with_columns().install(c).await?;
    c.create(WIDGETS, w(json!({ "metadata": { "name": "a" } }))).await?;
    discovered(c).await?;
    c.record_kubectl(&["get", "wd{id}", "-o", "name"]).await?;
    c.record_kubectl(&["get", "things{id}", "-o", "name"]).await?;
    Ok(())
}

/// kubectl asks the aggregated lists, which follow a definition a moment later.
pub(super) async fn discovered(c: &Context) -> Outcome {
    let group = c.expand("{id}.example.com");
    conformance::wait_for("the group is discovered", || async {
        let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
        let answer = c.send(Req::get("/apis").header("accept", accept)).await?;
        let items = answer.value_at("/items").as_array().cloned().unwrap_or_default();
        Ok(items.iter().any(|item| item["metadata"]["name"] == group.as_str()))
    })
    .await
}

async fn describe_a_config_map(c: &mut Context) -> Outcome {
    c.create(CM, json!({ "metadata": { "name": "a", "labels": { "x": "y" }, "annotations": { "n": "1" } }, "data": { "k": "v", "text": "two\nlines" } })).await?;
    c.record_kubectl(&["describe", "cm", "a"]).await?;
    Ok(())
}

async fn describe_a_custom_resource(c: &mut Context) -> Outcome {
    Widgets::open().install(c).await?;
    c.create(WIDGETS, w(json!({ "metadata": { "name": "a", "finalizers": ["example.com/f"] }, "spec": { "colour": "red", "list": [1, 2], "deep": { "x": true } } }))).await?;
    discovered(c).await?;
    c.record_kubectl(&["describe", "widgets.{id}.example.com", "a"]).await?;
    Ok(())
}

async fn describe_a_deployment(c: &mut Context) -> Outcome {
    let mut object = deployment("d", 1);
    object["spec"]["paused"] = json!(true);
    c.create(DEPLOYMENTS, object).await?;
    c.wait_until(&format!("{DEPLOYMENTS}/d"), |answer| answer.value_at("/status/observedGeneration") == 1)
        .await?;
    c.record_kubectl(&["describe", "deployment", "d"]).await?;
    Ok(())
}

async fn describe_a_namespace(c: &mut Context) -> Outcome {
    c.record_kubectl(&["describe", "namespace", "{ns}"]).await?;
    Ok(())
}

async fn describe_a_secret(c: &mut Context) -> Outcome {
    c.create(SECRETS, json!({ "metadata": { "name": "s" }, "stringData": { "k": "four" } })).await?;
    c.record_kubectl(&["describe", "secret", "s"]).await?;
    Ok(())
}

async fn explain_built_in(c: &mut Context) -> Outcome {
    // Descriptions are prose of the real server; the shape of the answer is what a client relies on.
    for path in ["configmap", "deployment.spec.replicas", "pod.spec.containers.image", "namespace.spec"] {
        let shell = c.run_kubectl(&["explain", path], None).await?;
        let head: Vec<&str> =
            shell.stdout.lines().take_while(|line| !line.starts_with("DESCRIPTION")).collect();
        c.record(path, json!([shell.code, head]));
    }
    c.record_kubectl(&["explain", "configmap.none"]).await?;
    Ok(())
}

async fn explain_custom(c: &mut Context) -> Outcome {
    let schema = json!({ "type": "object", "description": "A widget.", "properties": { "spec": { "type": "object", "description": "What is wanted.", "required": ["size"],
        "properties": { "size": { "type": "integer", "description": "How big." }, "colour": { "type": "string", "enum": ["red", "blue"] },
            "tags": { "type": "array", "items": { "type": "string" } }, "map": { "type": "object", "additionalProperties": { "type": "string" } } } } } });
    Widgets::from_schema(schema).install(c).await?;
    c.wait_until("/openapi/v3/apis/{id}.example.com/v1", |answer| answer.code == 200).await?;
    discovered(c).await?;
    c.record_kubectl(&["explain", "widgets.spec", "--api-version={id}.example.com/v1"]).await?;
    c.record_kubectl(&["explain", "widgets.spec.size", "--api-version={id}.example.com/v1"]).await?;
    c.record_kubectl(&["explain", "widgets.spec", "--recursive", "--api-version={id}.example.com/v1"])
        .await?;
    Ok(())
}

async fn wait_for_a_condition(c: &mut Context) -> Outcome {
    Widgets::open().install(c).await?;
    discovered(c).await?;
    c.create(WIDGETS, w(json!({ "metadata": { "name": "w" } }))).await?;
    let status = json!({ "status": { "conditions": [{ "type": "Ready", "status": "True" }] } });
    c.send_ok(Req::patch(PatchType::Merge, format!("{WIDGETS}/w/status"), status)).await?;
    c.record_kubectl(&["wait", "--for=condition=Ready", "widgets.{id}.example.com/w", "--timeout=60s"])
        .await?;
    c.record_kubectl(&["wait", "--for=condition=Ready=false", "widgets.{id}.example.com/w", "--timeout=5s"])
        .await?;
    c.record_kubectl(&["wait", "--for=condition=Ready", "cm/none", "--timeout=60s"]).await?;
    Ok(())
}

async fn wait_for_deletion(c: &mut Context) -> Outcome {
    let mut held = cm("a");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    c.create(CM, held).await?;
    c.send_ok(Req::delete(format!("{CM}/a"))).await?;
    let mut child = c.start_kubectl(&["wait", "--for=delete", "cm/a", "--timeout=120s", "-v=6"])?;
    // It says something only if it has seen the object before it went. When it watches, it has.
    let stderr = child.stderr.take().ok_or_else(|| anyhow::anyhow!("no stderr"))?;
    let mut log = BufReader::new(stderr).lines();
    while let Some(line) = log.next_line().await? {
        if line.contains("watch=true") {
            break;
        }
    }
    let log = tokio::spawn(async move { while let Ok(Some(_)) = log.next_line().await {} });
    c.send_ok(Req::patch(PatchType::Merge, format!("{CM}/a"), json!({ "metadata": { "finalizers": null } })))
        .await?;
    let output = child.wait_with_output().await?;
    log.await?;
    c.record(
        "kubectl wait --for=delete",
        json!([output.status.code(), String::from_utf8_lossy(&output.stdout)]),
    );
    Ok(())
}

async fn wait_for_a_value(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    c.record_kubectl(&["wait", "--for=jsonpath={.data.k}=v", "cm/a", "--timeout=60s"]).await?;
    c.record_kubectl(&["wait", "--for=create", "cm/a", "--timeout=60s"]).await?;
    Ok(())
}

async fn auth(c: &mut Context) -> Outcome {
    c.record_kubectl(&["auth", "can-i", "create", "pods"]).await?;
    c.record_kubectl(&["auth", "can-i", "get", "secrets", "--as=nobody-{id}"]).await?;
    c.record_kubectl(&["auth", "can-i", "get", "/healthz"]).await?;
    Ok(())
}

async fn create_a_token(c: &mut Context) -> Outcome {
    c.create("/api/v1/namespaces/{ns}/serviceaccounts", json!({ "metadata": { "name": "robot" } })).await?;
    c.record_kubectl(&["create", "token", "robot"]).await?;
    c.record_kubectl(&["create", "token", "nobody"]).await?;
    Ok(())
}

async fn api_resources(c: &mut Context) -> Outcome {
    with_columns().install(c).await?;
    discovered(c).await?;
    c.record_kubectl(&["api-resources", "--api-group={id}.example.com", "-o", "wide"]).await?;
    c.record_kubectl(&["api-resources", "--api-group=coordination.k8s.io"]).await?;
    Ok(())
}

async fn edit_status(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    c.record_kubectl(&["get", "cm", "a", "--subresource=status"]).await?;
    let mut object = deployment("d", 0);
    object["spec"]["paused"] = json!(true);
    c.create(DEPLOYMENTS, object).await?;
    c.wait_until(&format!("{DEPLOYMENTS}/d"), |answer| answer.value_at("/status/observedGeneration") == 1)
        .await?;
    c.record_kubectl(&["get", "deployment", "d", "--subresource=scale"]).await?;
    c.record_kubectl(&["get", "deployment", "d"]).await?;
    Ok(())
}

async fn events(c: &mut Context) -> Outcome {
    let event = json!({ "metadata": { "name": "e" }, "involvedObject": { "kind": "ConfigMap", "apiVersion": "v1", "name": "a", "namespace": "{ns}" },
        "reason": "Tested", "message": "it was tested", "type": "Warning", "source": { "component": "tester" }, "count": 3 });
    c.create("/api/v1/namespaces/{ns}/events", event).await?;
    c.create(CM, cm("a")).await?;
    c.record_kubectl(&["events"]).await?;
    c.record_kubectl(&["get", "events", "-o", "custom-columns=R:.reason,M:.message"]).await?;
    c.record_kubectl(&["get", "events"]).await?;
    c.record_kubectl(&["events", "--for", "configmap/a", "-o", "name"]).await?;
    Ok(())
}

async fn expose(c: &mut Context) -> Outcome {
    let mut object = deployment("d", 0);
    object["spec"]["template"]["spec"]["containers"][0]["ports"] = json!([{ "containerPort": 80 }]);
    c.create(DEPLOYMENTS, object).await?;
    c.record_kubectl(&["expose", "deployment", "d", "--port=80", "--cluster-ip=None"]).await?;
    c.record_kubectl(&["get", "service", "d"]).await?;
    Ok(())
}

async fn cluster_version(c: &mut Context) -> Outcome {
    let shell = c.run_kubectl(&["version"], None).await?;
    c.record("code", shell.code);
    c.record("lines", shell.stdout.lines().filter_map(|line| line.split(':').next()).collect::<Vec<_>>());
    c.record_kubectl(&["get", "--raw", "/healthz"]).await?;
    Ok(())
}

async fn namespaces(c: &mut Context) -> Outcome {
    c.record_kubectl(&["get", "namespace", "{ns}"]).await?;
    c.record_kubectl(&["create", "namespace", "Not_Valid"]).await?;
    c.record_kubectl(&["get", "cm", "-n", "nowhere-{id}"]).await?;
    c.record_kubectl_with_stdin(&["apply", "-n", "nowhere-{id}", "-f", "-"], Some(MANIFEST)).await?;
    Ok(())
}
