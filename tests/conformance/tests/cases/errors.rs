//! Bad requests, and the forms in which an answer can be asked for.

use conformance::{Case, Context, Outcome, Req, WIDGETS, Widgets, cases};
use serde_json::{Value, json};

use super::{CM, DEPLOYMENTS, PODS, SECRETS, cm, deployment, pod, w};

pub(crate) fn cases() -> Vec<Case> {
    cases!["errors":
        a_resource_that_is_not_there,
        a_method_that_is_not_allowed,
        a_content_type_that_is_none,
        an_accept_that_is_none,
        json_that_is_broken,
        json_with_a_tail,
        a_body_that_is_empty,
        a_body_that_is_not_an_object,
        yaml_is_taken,
        yaml_that_is_broken,
        an_answer_in_yaml,
        invalid_utf8,
        deep_json,
        deep_json_in_a_custom_resource,
        a_body_that_is_too_large,
        an_object_that_is_too_large_for_its_kind,
        a_selector_that_is_malformed,
        a_continue_token_that_is_malformed,
        a_path_with_too_many_parts,
        a_path_with_a_slash_at_its_end,
        a_path_with_escapes,
        a_subresource_that_is_not_there,
        table_of_config_maps,
        table_of_pods,
        table_of_deployments,
        table_of_other_kinds,
        table_of_a_custom_resource_without_columns,
        table_of_one_object,
        table_with_objects,
        table_of_an_error,
        metadata_of_a_list,
        metadata_of_one,
        metadata_of_a_custom_resource,
        metadata_by_patch,
        a_form_that_is_not_known,
        several_accepts_in_order,
        options_of_a_query_that_are_unknown,
        protobuf_that_is_broken,
    ]
}

async fn a_resource_that_is_not_there(c: &mut Context) -> Outcome {
    c.get("core", "/api/v1/namespaces/{ns}/nonsense").await?;
    c.get("one", "/api/v1/namespaces/{ns}/nonsense/a").await?;
    c.post("post", "/api/v1/namespaces/{ns}/nonsense", cm("a")).await?;
    c.get("group", "/apis/apps/v1/namespaces/{ns}/nonsense").await?;
    c.get("no such path", "/nonsense").await?;
    Widgets::open().install(c).await?;
    c.get("custom group", "/apis/{id}.example.com/v1/namespaces/{ns}/nonsense").await?;
    Ok(())
}

async fn a_method_that_is_not_allowed(c: &mut Context) -> Outcome {
    c.put("put a collection", CM, cm("a")).await?;
    c.send_and_record("patch a collection", Req::patch(conformance::PatchType::Merge, CM, json!({}))).await?;
    c.create(CM, cm("a")).await?;
    c.send_and_record("post an object", Req::post(format!("{CM}/a"), cm("a"))).await?;
    c.delete("delete a status", "/api/v1/namespaces/{ns}/status").await?;
    c.send_and_record("a made up method", Req::new("BREW", CM)).await?;
    c.get("a review", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews").await?;
    Widgets::open().install(c).await?;
    c.put("put a custom collection", WIDGETS, w(json!({ "metadata": { "name": "w" } }))).await?;
    Ok(())
}

async fn a_content_type_that_is_none(c: &mut Context) -> Outcome {
    let body = cm("a").to_string();
    c.send_and_record("text", Req::new("POST", CM).body("text/plain", body.clone())).await?;
    c.send_and_record("form", Req::new("POST", CM).body("application/x-www-form-urlencoded", body.clone()))
        .await?;
    c.send_and_record("nonsense", Req::new("POST", CM).body("nonsense", body.clone())).await?;
    c.send_and_record(
        "with a charset",
        Req::new("POST", CM).body("application/json; charset=utf-8", body.clone()),
    )
    .await?;
    Widgets::open().install(c).await?;
    let widget = w(json!({ "metadata": { "name": "w" } })).to_string();
    c.send_and_record("custom", Req::new("POST", WIDGETS).body("text/plain", widget)).await?;
    Ok(())
}

async fn an_accept_that_is_none(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    c.send_and_record("text", Req::get(format!("{CM}/a")).header("accept", "text/html")).await?;
    c.send_and_record("anything", Req::get(format!("{CM}/a")).header("accept", "*/*")).await?;
    c.send_and_record("any application", Req::get(format!("{CM}/a")).header("accept", "application/*"))
        .await?;
    Ok(())
}

async fn raw(c: &mut Context, name: &str, body: &[u8]) -> Outcome {
    c.send_and_record(name, Req::new("POST", CM).body("application/json", body)).await.map(drop)
}

async fn json_that_is_broken(c: &mut Context) -> Outcome {
    raw(c, "half", br#"{"metadata":{"name":"a""#).await?;
    raw(c, "quotes", br"{'metadata':{}}").await?;
    raw(c, "comma", br#"{"metadata":{"name":"a"},}"#).await?;
    raw(c, "words", b"hello").await
}

async fn json_with_a_tail(c: &mut Context) -> Outcome {
    raw(c, "tail", br#"{"metadata":{"name":"a"}} and more"#).await
}

async fn a_body_that_is_empty(c: &mut Context) -> Outcome {
    raw(c, "create", b"").await?;
    c.create(CM, cm("a")).await?;
    c.send_and_record("update", Req::new("PUT", format!("{CM}/a")).body("application/json", "")).await?;
    Widgets::open().install(c).await?;
    c.send_and_record("custom", Req::new("POST", WIDGETS).body("application/json", "")).await?;
    Ok(())
}

async fn a_body_that_is_not_an_object(c: &mut Context) -> Outcome {
    // The words are those of a Go decoder.
    for body in ["[]", "1", "\"text\"", "null", "true"] {
        let answer = c.send(Req::new("POST", CM).body("application/json", body)).await?;
        c.record(body, json!([answer.code, answer.value_at("/reason")]));
    }
    Ok(())
}

async fn yaml_is_taken(c: &mut Context) -> Outcome {
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  k: 'yes'\n  n: \"1\"\n";
    c.send_and_record("create", Req::new("POST", CM).body("application/yaml", yaml)).await?;
    Ok(())
}

async fn yaml_that_is_broken(c: &mut Context) -> Outcome {
    for (name, yaml) in [
        ("brackets", "a: [b"),
        ("tabs", "a:\n\t- b"),
        ("a number for a text", "metadata: {name: a}\ndata: {k: 1}"),
    ] {
        let answer = c.send(Req::new("POST", CM).body("application/yaml", yaml)).await?;
        c.record(name, json!([answer.code, answer.value_at("/reason")]));
    }
    Ok(())
}

async fn an_answer_in_yaml(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    let answer = c.send(Req::get(format!("{CM}/a")).header("accept", "application/yaml")).await?;
    c.record("type", answer.content_type.clone());
    let text = answer.body.as_str().unwrap_or_default();
    c.record("begins", text.lines().take(6).collect::<Vec<_>>());
    let error = c.send(Req::get(format!("{CM}/none")).header("accept", "application/yaml")).await?;
    c.record("error", error.to_transcript());
    Ok(())
}

async fn invalid_utf8(c: &mut Context) -> Outcome {
    let mut body = br#"{"metadata":{"name":"a"},"data":{"k":"x"#.to_vec();
    body.extend([0xff, 0xfe]);
    body.extend(br#""}}"#);
    raw(c, "in a value", &body).await?;
    let mut body = br#"{"metadata":{"name":"b"#.to_vec();
    body.push(0xff);
    body.extend(br#""}}"#);
    let answer = c.send(Req::new("POST", CM).body("application/json", body)).await?;
    c.record("in the name", json!([answer.code, answer.value_at("/reason")]));
    Ok(())
}

fn deep(depth: usize) -> String {
    format!("{}{}", "[".repeat(depth), "]".repeat(depth))
}

async fn deep_json(c: &mut Context) -> Outcome {
    let body = format!(r#"{{"metadata":{{"name":"a"}},"data":{}}}"#, deep(20_000));
    let answer = c.send(Req::new("POST", CM).body("application/json", body)).await?;
    c.record("code", answer.code);
    c.record("reason", answer.value_at("/reason"));
    c.record("still alive", c.send(Req::get(CM)).await?.code);
    Ok(())
}

async fn deep_json_in_a_custom_resource(c: &mut Context) -> Outcome {
    Widgets::open().install(c).await?;
    for depth in [50, 20_000] {
        let body = format!(
            r#"{{"apiVersion":"{{id}}.example.com/v1","kind":"Widget","metadata":{{"name":"w{depth}"}},"spec":{{"a":{}}}}}"#,
            deep(depth)
        );
        let answer = c.send(Req::new("POST", WIDGETS).body("application/json", body)).await?;
        c.record(&format!("depth {depth}"), json!([answer.code, answer.value_at("/reason")]));
    }
    Ok(())
}

async fn a_body_that_is_too_large(c: &mut Context) -> Outcome {
    let big = json!({ "metadata": { "name": "a" }, "data": { "k": "x".repeat(4 * 1024 * 1024) } });
    let answer = c.send(Req::post(CM, big)).await?;
    c.record("4 MiB", answer.to_transcript());
    let big = json!({ "metadata": { "name": "a" }, "data": { "k": "x".repeat(10 * 1024 * 1024) } });
    c.post("10 MiB", CM, big).await?;
    Ok(())
}

async fn an_object_that_is_too_large_for_its_kind(c: &mut Context) -> Outcome {
    let text = "x".repeat(1024 * 1024 + 1);
    c.post("config map", CM, json!({ "metadata": { "name": "a" }, "data": { "k": text } })).await?;
    c.post("secret", SECRETS, json!({ "metadata": { "name": "a" }, "stringData": { "k": text } })).await?;
    Ok(())
}

async fn a_selector_that_is_malformed(c: &mut Context) -> Outcome {
    for selector in
        ["a%3D%3D%3Db", "!", "a%20in", "a%20in%20(b", "(a)", "a%3Db,,c", "a%20b", "%3Db", "bad!key%3Dv"]
    {
        c.get(selector, &format!("{CM}?labelSelector={selector}")).await?;
    }
    Ok(())
}

async fn a_continue_token_that_is_malformed(c: &mut Context) -> Outcome {
    // The words are those of a Go decoder.
    for (name, token) in [("words", "nonsense"), ("base64 of nonsense", "bm9uc2Vuc2U")] {
        let answer = c.send(Req::get(format!("{CM}?limit=1&continue={token}"))).await?;
        c.record(name, json!([answer.code, answer.value_at("/reason")]));
    }
    c.get("an unknown version", &format!("{CM}?limit=1&continue=eyJ2IjoidjkifQ")).await?;
    Ok(())
}

async fn a_path_with_too_many_parts(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    c.get("below an object", &format!("{CM}/a/b/c")).await?;
    c.get("below a version", "/api/v1/namespaces/{ns}/configmaps/a/status/x").await?;
    c.get("a version that is none", "/api/v2/namespaces").await?;
    Ok(())
}

async fn a_path_with_a_slash_at_its_end(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    let list = c.send(Req::get(format!("{CM}/"))).await?;
    c.record("list", json!([list.code, list.item_names()]));
    let one = c.send(Req::get(format!("{CM}/a/"))).await?;
    c.record("one", json!([one.code, one.value_at("/metadata/name")]));
    let doubled = c.send(Req::get("/api/v1//namespaces/{ns}/configmaps")).await?;
    c.record("doubled", doubled.code);
    Ok(())
}

async fn a_path_with_escapes(c: &mut Context) -> Outcome {
    let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/roles";
    c.create(roles, json!({ "metadata": { "name": "system:odd" } })).await?;
    let answer = c.send(Req::get(format!("{roles}/system%3Aodd"))).await?;
    c.record("escaped colon", json!([answer.code, answer.value_at("/metadata/name")]));
    c.get("escaped slash", &format!("{CM}/a%2Fb")).await?;
    Ok(())
}

async fn a_subresource_that_is_not_there(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    c.get("nonsense", &format!("{CM}/a/nonsense")).await?;
    c.get("scale", &format!("{SECRETS}/a/scale")).await?;
    Ok(())
}

const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1,application/json";

async fn table(c: &mut Context, name: &str, path: &str) -> Outcome {
    c.send_and_record(name, Req::get(path).header("accept", TABLE)).await.map(drop)
}

async fn table_of_config_maps(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    c.create(
        CM,
        json!({ "metadata": { "name": "b" }, "binaryData": { "x": "AQ==" }, "data": { "y": "1", "z": "2" } }),
    )
    .await?;
    table(c, "list", CM).await
}

async fn table_of_pods(c: &mut Context) -> Outcome {
    c.create(PODS, pod("a")).await?;
    let mut bound = pod("b");
    bound["spec"]["nodeName"] = json!("node-{id}");
    c.create(PODS, bound).await?;
    let status = json!({ "status": { "phase": "Running", "podIP": "10.0.0.9", "podIPs": [{ "ip": "10.0.0.9" }],
        "containerStatuses": [{ "name": "c", "ready": true, "restartCount": 2, "image": "i", "imageID": "", "state": { "running": {} } }],
        "conditions": [{ "type": "Ready", "status": "True" }] } });
    c.send_ok(Req::patch(conformance::PatchType::Strategic, format!("{PODS}/b/status"), status)).await?;
    table(c, "list", PODS).await
}

async fn table_of_deployments(c: &mut Context) -> Outcome {
    c.create(DEPLOYMENTS, deployment("d", 0)).await?;
    c.wait_until(&format!("{DEPLOYMENTS}/d"), |answer| answer.value_at("/status/observedGeneration") == 1)
        .await?;
    table(c, "list", DEPLOYMENTS).await
}

async fn table_of_other_kinds(c: &mut Context) -> Outcome {
    c.create(SECRETS, json!({ "metadata": { "name": "s" }, "stringData": { "a": "1" } })).await?;
    c.create("/api/v1/namespaces/{ns}/services", json!({ "metadata": { "name": "s" }, "spec": { "clusterIP": "None", "ports": [{ "port": 80, "name": "y" }, { "port": 81, "name": "x", "protocol": "UDP" }], "selector": { "a": "b" } } })).await?;
    c.create(
        "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases",
        json!({ "metadata": { "name": "l" }, "spec": { "holderIdentity": "me" } }),
    )
    .await?;
    c.create(
        "/api/v1/nodes",
        json!({ "metadata": { "name": "node-{id}", "labels": { "node-role.kubernetes.io/worker": "" } } }),
    )
    .await?;
    c.create(
        "/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/roles",
        json!({ "metadata": { "name": "r" } }),
    )
    .await?;
    c.create("/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/rolebindings", json!({ "metadata": { "name": "b" }, "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r" } })).await?;
    c.create("/apis/discovery.k8s.io/v1/namespaces/{ns}/endpointslices", json!({ "metadata": { "name": "e" }, "addressType": "IPv4", "endpoints": [{ "addresses": ["10.0.0.1"] }], "ports": [{ "port": 80, "name": "" }] })).await?;
    for (name, path) in [
        ("secrets", SECRETS),
        ("services", "/api/v1/namespaces/{ns}/services"),
        ("leases", "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases"),
        ("node", "/api/v1/nodes/node-{id}"),
        ("namespace", "/api/v1/namespaces/{ns}"),
        ("roles", "/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/roles"),
        ("role bindings", "/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/rolebindings"),
        ("endpoint slice", "/apis/discovery.k8s.io/v1/namespaces/{ns}/endpointslices/e"),
        ("service account", "/api/v1/namespaces/{ns}/serviceaccounts/default"),
    ] {
        c.wait_until(path, |answer| answer.code == 200).await?;
        table(c, name, path).await?;
    }
    Ok(())
}

async fn table_of_a_custom_resource_without_columns(c: &mut Context) -> Outcome {
    Widgets::open().install(c).await?;
    c.create(WIDGETS, w(json!({ "metadata": { "name": "w" } }))).await?;
    table(c, "list", WIDGETS).await
}

async fn table_of_one_object(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    table(c, "one", &format!("{CM}/a")).await
}

async fn table_with_objects(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    for include in ["None", "Metadata", "Object", "Everything"] {
        table(c, include, &format!("{CM}?includeObject={include}")).await?;
    }
    Ok(())
}

async fn table_of_an_error(c: &mut Context) -> Outcome {
    table(c, "not found", &format!("{CM}/none")).await
}

const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

async fn metadata_of_a_list(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    let list = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    c.send_and_record("list", Req::get(CM).header("accept", list)).await?;
    c.send_and_record("list as one", Req::get(CM).header("accept", METADATA)).await?;
    Ok(())
}

async fn metadata_of_one(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    c.send_and_record("one", Req::get(format!("{CM}/a")).header("accept", METADATA)).await?;
    Ok(())
}

async fn metadata_of_a_custom_resource(c: &mut Context) -> Outcome {
    Widgets::open().install(c).await?;
    c.create(WIDGETS, w(json!({ "metadata": { "name": "w", "labels": { "a": "b" } }, "spec": { "x": 1 } })))
        .await?;
    c.send_and_record("one", Req::get(format!("{WIDGETS}/w")).header("accept", METADATA)).await?;
    Ok(())
}

async fn metadata_by_patch(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    let patch = Req::patch(
        conformance::PatchType::Merge,
        format!("{CM}/a"),
        json!({ "metadata": { "labels": { "a": "b" } } }),
    );
    c.send_and_record("patch", patch.header("accept", METADATA)).await?;
    c.send_and_record("delete", Req::delete(format!("{CM}/a")).header("accept", METADATA)).await?;
    Ok(())
}

async fn a_form_that_is_not_known(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    for accept in [
        "application/json;as=Poem;g=meta.k8s.io;v=v1",
        "application/json;as=Table;g=meta.k8s.io;v=v9",
        "application/json;as=Table;g=other.io;v=v1",
    ] {
        c.send_and_record(accept, Req::get(format!("{CM}/a")).header("accept", accept)).await?;
    }
    Ok(())
}

async fn several_accepts_in_order(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    for accept in [
        "text/html, application/json",
        "application/json;as=Poem;g=x;v=v1, application/json",
        "application/json;q=0.5, application/yaml",
    ] {
        let answer = c.send(Req::get(format!("{CM}/a")).header("accept", accept)).await?;
        c.record(accept, json!([answer.code, answer.content_type]));
    }
    Ok(())
}

async fn options_of_a_query_that_are_unknown(c: &mut Context) -> Outcome {
    c.create(CM, cm("a")).await?;
    let list = c.send(Req::get(format!("{CM}?colour=red"))).await?;
    c.record("list", list.code);
    // Whatever is not false or 0 is true.
    let mut watch = c.watch(&format!("{CM}?watch=maybe&timeoutSeconds=1")).await?;
    c.record("a truth that is none", conformance::summarise_events(&watch.remaining_events().await?));
    Ok(())
}

async fn protobuf_that_is_broken(c: &mut Context) -> Outcome {
    let answer = c
        .send(
            Req::new("POST", CM)
                .body("application/vnd.kubernetes.protobuf", vec![0x6b, 0x38, 0x73, 0x00, 0xff, 0xff]),
        )
        .await?;
    c.record("create", json!([answer.code, answer.value_at("/reason")]));
    let value: Value = answer.value_at("/status");
    c.record("status", value);
    Ok(())
}
