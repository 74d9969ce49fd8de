//! The built-in kinds: what is defaulted, what is refused, what is special.

use conformance::{Case, Context, Outcome, PatchType, Req, cases};
use serde_json::{Value, json};

use super::{CM, SECRETS};

const SERVICES: &str = "/api/v1/namespaces/{ns}/services";
const ACCOUNTS: &str = "/api/v1/namespaces/{ns}/serviceaccounts";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/{ns}/endpointslices";
const ENDPOINTS: &str = "/api/v1/namespaces/{ns}/endpoints";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases";
const EVENTS: &str = "/api/v1/namespaces/{ns}/events";
const NEW_EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/{ns}/events";
pub(super) const NODES: &str = "/api/v1/nodes";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

pub(crate) fn cases() -> Vec<Case> {
    cases!["kinds":
        secret_string_data,
        secret_data_that_is_not_base64,
        secret_keys_that_are_invalid,
        secret_types_that_want_keys,
        config_map_keys,
        config_map_binary_data,
        service_defaults,
        service_that_is_headless,
        service_of_an_external_name,
        service_of_type_node_port,
        service_that_is_invalid,
        service_address_cannot_change,
        endpoint_slice,
        endpoint_slice_that_is_invalid,
        endpoints,
        lease,
        lease_that_is_invalid,
        event_of_the_core_in_the_new_group,
        event_of_the_new_group_in_the_core,
        event_that_is_invalid,
        events_by_field,
        namespace_defaults,
        namespace_labels_are_kept,
        node,
        node_that_is_invalid,
        service_account,
        the_default_service_account,
        the_root_certificate,
        role_and_binding,
        role_that_is_invalid,
        cluster_role_and_binding,
        cluster_role_is_aggregated,
        binding_that_is_invalid,
    ]
}

async fn secret_string_data(c: &mut Context) -> Outcome {
    let secret = json!({ "metadata": { "name": "s" }, "data": { "a": "MQ==", "b": "Mg==" }, "stringData": { "b": "other", "c": "ü" } });
    c.post("create", SECRETS, secret).await?;
    c.get("get", &format!("{SECRETS}/s")).await?;
    Ok(())
}

async fn secret_data_that_is_not_base64(c: &mut Context) -> Outcome {
    c.post("create", SECRETS, json!({ "metadata": { "name": "s" }, "data": { "a": "***" } })).await?;
    c.post("a null", SECRETS, json!({ "metadata": { "name": "s" }, "data": { "a": null } })).await?;
    Ok(())
}

async fn secret_keys_that_are_invalid(c: &mut Context) -> Outcome {
    c.post("space", SECRETS, json!({ "metadata": { "name": "s" }, "data": { "a b": "MQ==" } })).await?;
    c.post("dots", SECRETS, json!({ "metadata": { "name": "s" }, "data": { "..": "MQ==" } })).await?;
    Ok(())
}

async fn secret_types_that_want_keys(c: &mut Context) -> Outcome {
    for kind in [
        "kubernetes.io/tls",
        "kubernetes.io/basic-auth",
        "kubernetes.io/ssh-auth",
        "kubernetes.io/dockerconfigjson",
        "kubernetes.io/service-account-token",
    ] {
        c.post(kind, SECRETS, json!({ "metadata": { "name": "s" }, "type": kind })).await?;
    }
    let docker = json!({ "metadata": { "name": "s" }, "type": "kubernetes.io/dockerconfigjson",
        "stringData": { ".dockerconfigjson": "no json" } });
    let answer = c.send(Req::post(SECRETS, docker)).await?;
    let cause = answer.value_at("/details/causes/0");
    c.record("docker config that is no json", json!([answer.code, cause["field"], cause["reason"]]));
    Ok(())
}

async fn config_map_keys(c: &mut Context) -> Outcome {
    c.post("space", CM, json!({ "metadata": { "name": "a" }, "data": { "a b": "1" } })).await?;
    let both = json!({ "metadata": { "name": "a" }, "data": { "k": "1" }, "binaryData": { "k": "MQ==" } });
    c.post("in both", CM, both).await?;
    Ok(())
}

async fn config_map_binary_data(c: &mut Context) -> Outcome {
    c.post("create", CM, json!({ "metadata": { "name": "a" }, "binaryData": { "k": "/wA=" } })).await?;
    c.post("not base64", CM, json!({ "metadata": { "name": "b" }, "binaryData": { "k": "***" } })).await?;
    Ok(())
}

async fn service_defaults(c: &mut Context) -> Outcome {
    let service = json!({ "metadata": { "name": "s" }, "spec": { "selector": { "a": "b" }, "ports": [{ "port": 80 }] } });
    c.post("create", SERVICES, service).await?;
    Ok(())
}

async fn service_that_is_headless(c: &mut Context) -> Outcome {
    let service = json!({ "metadata": { "name": "s" }, "spec": { "clusterIP": "None", "selector": { "a": "b" }, "ports": [{ "port": 80, "targetPort": "http" }] } });
    c.post("create", SERVICES, service).await?;
    c.post(
        "without ports",
        SERVICES,
        json!({ "metadata": { "name": "t" }, "spec": { "clusterIP": "None" } }),
    )
    .await?;
    Ok(())
}

async fn service_of_an_external_name(c: &mut Context) -> Outcome {
    c.post("create", SERVICES, json!({ "metadata": { "name": "s" }, "spec": { "type": "ExternalName", "externalName": "example.com" } })).await?;
    c.post(
        "without a name",
        SERVICES,
        json!({ "metadata": { "name": "t" }, "spec": { "type": "ExternalName" } }),
    )
    .await?;
    Ok(())
}

async fn service_of_type_node_port(c: &mut Context) -> Outcome {
    let service =
        json!({ "metadata": { "name": "s" }, "spec": { "type": "NodePort", "ports": [{ "port": 80 }] } });
    let answer = c.send_ok(Req::post(SERVICES, service)).await?;
    let port = answer.value_at("/spec/ports/0/nodePort").as_u64().unwrap_or_default();
    c.record("a port of the range", (30_000..=32_767).contains(&port));
    c.record("policy", answer.value_at("/spec/externalTrafficPolicy"));
    c.record("type", answer.value_at("/spec/type"));
    Ok(())
}

async fn service_that_is_invalid(c: &mut Context) -> Outcome {
    let service = |spec: Value| json!({ "metadata": { "name": "s" }, "spec": spec });
    c.post("no ports", SERVICES, service(json!({}))).await?;
    c.post("port", SERVICES, service(json!({ "ports": [{ "port": 70_000 }] }))).await?;
    c.post("protocol", SERVICES, service(json!({ "ports": [{ "port": 80, "protocol": "SMTP" }] }))).await?;
    c.post("two without names", SERVICES, service(json!({ "ports": [{ "port": 80 }, { "port": 81 }] })))
        .await?;
    c.post("type", SERVICES, service(json!({ "type": "Magic", "ports": [{ "port": 80 }] }))).await?;
    c.post("address", SERVICES, service(json!({ "clusterIP": "not an address", "ports": [{ "port": 80 }] })))
        .await?;
    c.post("affinity", SERVICES, service(json!({ "sessionAffinity": "Strong", "ports": [{ "port": 80 }] })))
        .await?;
    Ok(())
}

async fn service_address_cannot_change(c: &mut Context) -> Outcome {
    c.create(
        SERVICES,
        json!({ "metadata": { "name": "s" }, "spec": { "clusterIP": "None", "ports": [{ "port": 80 }] } }),
    )
    .await?;
    c.patch(
        "change",
        PatchType::Merge,
        &format!("{SERVICES}/s"),
        json!({ "spec": { "clusterIP": "10.96.7.7", "clusterIPs": ["10.96.7.7"] } }),
    )
    .await?;
    let answer = c
        .send_ok(Req::patch(
            PatchType::Merge,
            format!("{SERVICES}/s"),
            json!({ "spec": { "ports": [{ "port": 81 }] } }),
        ))
        .await?;
    c.record("another field", answer.value_at("/spec"));
    Ok(())
}

async fn endpoint_slice(c: &mut Context) -> Outcome {
    let slice = json!({ "metadata": { "name": "e", "labels": { "kubernetes.io/service-name": "s" } }, "addressType": "IPv4",
        "endpoints": [{ "addresses": ["10.0.0.1"], "conditions": { "ready": true }, "nodeName": "n" }], "ports": [{ "name": "http", "port": 80 }] });
    c.post("create", SLICES, slice).await?;
    c.patch(
        "the type cannot change",
        PatchType::Merge,
        &format!("{SLICES}/e"),
        json!({ "addressType": "FQDN" }),
    )
    .await?;
    Ok(())
}

async fn endpoint_slice_that_is_invalid(c: &mut Context) -> Outcome {
    c.post("no type", SLICES, json!({ "metadata": { "name": "e" }, "endpoints": [] })).await?;
    c.post("type", SLICES, json!({ "metadata": { "name": "e" }, "addressType": "Mail", "endpoints": [] }))
        .await?;
    c.post("address", SLICES, json!({ "metadata": { "name": "e" }, "addressType": "IPv4", "endpoints": [{ "addresses": ["nowhere"] }] })).await?;
    c.post(
        "no addresses",
        SLICES,
        json!({ "metadata": { "name": "e" }, "addressType": "IPv4", "endpoints": [{ "addresses": [] }] }),
    )
    .await?;
    Ok(())
}

async fn endpoints(c: &mut Context) -> Outcome {
    let subsets = json!([{ "addresses": [{ "ip": "10.0.0.1" }], "ports": [{ "port": 80 }] }]);
    c.post("create", ENDPOINTS, json!({ "metadata": { "name": "e" }, "subsets": subsets })).await?;
    c.post(
        "address",
        ENDPOINTS,
        json!({ "metadata": { "name": "f" }, "subsets": [{ "addresses": [{ "ip": "nowhere" }] }] }),
    )
    .await?;
    Ok(())
}

async fn lease(c: &mut Context) -> Outcome {
    let spec = json!({ "holderIdentity": "me", "leaseDurationSeconds": 15, "acquireTime": "2026-01-01T00:00:00.123456Z",
        "renewTime": "2026-01-01T01:00:00.000000+01:00", "leaseTransitions": 1 });
    let made = c.post("create", LEASES, json!({ "metadata": { "name": "l" }, "spec": spec })).await?;
    c.record(
        "times",
        json!([
            made.value_at("/spec/acquireTime") == "2026-01-01T00:00:00.123456Z",
            made.value_at("/spec/renewTime") == "2026-01-01T00:00:00.000000Z"
        ]),
    );
    let mut object = made.body;
    object["spec"]["holderIdentity"] = json!("you");
    c.put("update", &format!("{LEASES}/l"), object).await?;
    Ok(())
}

async fn lease_that_is_invalid(c: &mut Context) -> Outcome {
    c.post("duration", LEASES, json!({ "metadata": { "name": "l" }, "spec": { "leaseDurationSeconds": 0 } }))
        .await?;
    c.post("transitions", LEASES, json!({ "metadata": { "name": "l" }, "spec": { "leaseTransitions": -1 } }))
        .await?;
    c.post(
        "without fractions",
        LEASES,
        json!({ "metadata": { "name": "l" }, "spec": { "renewTime": "2026-01-01T00:00:00Z" } }),
    )
    .await?;
    c.post("time", LEASES, json!({ "metadata": { "name": "l" }, "spec": { "renewTime": "yesterday" } }))
        .await?;
    Ok(())
}

fn core_event(name: &str) -> Value {
    json!({ "metadata": { "name": name }, "involvedObject": { "kind": "ConfigMap", "apiVersion": "v1", "name": "a", "namespace": "{ns}" },
        "reason": "Tested", "message": "it was tested", "type": "Normal", "source": { "component": "tester" },
        "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z", "count": 1 })
}

async fn event_of_the_core_in_the_new_group(c: &mut Context) -> Outcome {
    c.post("create", EVENTS, core_event("e")).await?;
    c.get("new group", &format!("{NEW_EVENTS}/e")).await?;
    Ok(())
}

fn new_event(name: &str) -> Value {
    json!({ "metadata": { "name": name }, "eventTime": "2026-01-01T00:00:00.000000Z", "reportingController": "example.com/tester", "reportingInstance": "t-1",
        "action": "Test", "reason": "Tested", "type": "Normal", "note": "it was tested", "regarding": { "kind": "ConfigMap", "apiVersion": "v1", "name": "a", "namespace": "{ns}" } })
}

async fn event_of_the_new_group_in_the_core(c: &mut Context) -> Outcome {
    c.post("create", NEW_EVENTS, new_event("e")).await?;
    c.get("core", &format!("{EVENTS}/e")).await?;
    c.patch(
        "series",
        PatchType::Merge,
        &format!("{NEW_EVENTS}/e"),
        json!({ "series": { "count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z" } }),
    )
    .await?;
    Ok(())
}

async fn event_that_is_invalid(c: &mut Context) -> Outcome {
    let mut event = core_event("e");
    event["involvedObject"]["namespace"] = json!("elsewhere");
    c.post("elsewhere", EVENTS, event).await?;
    let mut event = new_event("e");
    event["reportingController"] = json!("");
    c.post("no controller", NEW_EVENTS, event).await?;
    let mut event = new_event("e");
    event["note"] = json!("x".repeat(1100));
    c.post("a long note", NEW_EVENTS, event).await?;
    let mut event = new_event("e");
    event["type"] = json!("Alarming");
    c.post("type", NEW_EVENTS, event).await?;
    let mut event = new_event("e");
    event.as_object_mut().map(|fields| fields.remove("eventTime"));
    c.post("no time", NEW_EVENTS, event).await?;
    Ok(())
}

async fn events_by_field(c: &mut Context) -> Outcome {
    c.create(EVENTS, core_event("one")).await?;
    let mut other = core_event("two");
    other["involvedObject"]["name"] = json!("b");
    other["type"] = json!("Warning");
    c.create(EVENTS, other).await?;
    for selector in [
        "involvedObject.name%3Da",
        "type%3DWarning",
        "reason%3DTested",
        "involvedObject.kind%3DPod",
        "source%3Dtester",
    ] {
        let list = c.send(Req::get(format!("{EVENTS}?fieldSelector={selector}"))).await?;
        c.record(selector, list.item_names());
    }
    Ok(())
}

async fn namespace_defaults(c: &mut Context) -> Outcome {
    c.post(
        "create",
        "/api/v1/namespaces",
        json!({ "metadata": { "name": "{ns}-b", "labels": { "a": "b" } } }),
    )
    .await?;
    c.post("generated", "/api/v1/namespaces", json!({ "metadata": { "generateName": "{ns}-" } })).await?;
    Ok(())
}

async fn namespace_labels_are_kept(c: &mut Context) -> Outcome {
    let path = "/api/v1/namespaces/{ns}";
    let answer =
        c.send_ok(Req::patch(PatchType::Merge, path, json!({ "metadata": { "labels": null } }))).await?;
    c.record("labels", answer.value_at("/metadata/labels"));
    let answer = c
        .send_ok(Req::patch(
            PatchType::Merge,
            path,
            json!({ "metadata": { "labels": { "kubernetes.io/metadata.name": "other" } } }),
        ))
        .await?;
    c.record("another value", answer.value_at("/metadata/labels"));
    c.patch("phase", PatchType::Merge, &format!("{path}/status"), json!({ "status": { "phase": "Odd" } }))
        .await?;
    Ok(())
}

async fn node(c: &mut Context) -> Outcome {
    c.post("create", NODES, json!({ "metadata": { "name": "node-{id}" }, "spec": { "providerID": "aws:///x", "taints": [{ "key": "a", "effect": "NoSchedule" }] } })).await?;
    let status = json!({ "status": { "conditions": [{ "type": "Ready", "status": "True" }], "capacity": { "cpu": "2", "memory": "4Gi" }, "addresses": [{ "type": "InternalIP", "address": "10.0.0.1" }] } });
    let answer =
        c.send_ok(Req::patch(PatchType::Strategic, format!("{NODES}/node-{{id}}/status"), status)).await?;
    c.record("status", answer.value_at("/status"));
    Ok(())
}

async fn node_that_is_invalid(c: &mut Context) -> Outcome {
    c.post("effect", NODES, json!({ "metadata": { "name": "node-{id}" }, "spec": { "taints": [{ "key": "a", "effect": "Sometimes" }] } })).await?;
    c.post("name", NODES, json!({ "metadata": { "name": "Node" } })).await?;
    Ok(())
}

async fn service_account(c: &mut Context) -> Outcome {
    c.post("create", ACCOUNTS, json!({ "metadata": { "name": "robot" }, "secrets": [{ "name": "s" }], "imagePullSecrets": [{ "name": "p" }], "automountServiceAccountToken": false })).await?;
    c.post("name", ACCOUNTS, json!({ "metadata": { "name": "Robot" } })).await?;
    Ok(())
}

async fn the_default_service_account(c: &mut Context) -> Outcome {
    c.wait_until(&format!("{ACCOUNTS}/default"), |answer| answer.code == 200).await?;
    c.get("default", &format!("{ACCOUNTS}/default")).await?;
    c.send_ok(Req::delete(format!("{ACCOUNTS}/default"))).await?;
    let again = c.wait_until(&format!("{ACCOUNTS}/default"), |answer| answer.code == 200).await?;
    c.record("comes back", again.value_at("/metadata/name"));
    Ok(())
}

async fn the_root_certificate(c: &mut Context) -> Outcome {
    c.get("certificate", &format!("{CM}/kube-root-ca.crt")).await?;
    let first = c.send_ok(Req::get(format!("{CM}/kube-root-ca.crt"))).await?;
    c.send_ok(Req::delete(format!("{CM}/kube-root-ca.crt"))).await?;
    c.wait_until(&format!("{CM}/kube-root-ca.crt"), |answer| {
        answer.code == 200 && answer.uid() != first.uid()
    })
    .await?;
    c.record("comes back", true);
    Ok(())
}

async fn role_and_binding(c: &mut Context) -> Outcome {
    let base = format!("{RBAC}/namespaces/{{ns}}");
    let rules =
        json!([{ "apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": ["a"] }]);
    c.post("role", &format!("{base}/roles"), json!({ "metadata": { "name": "r" }, "rules": rules })).await?;
    let binding = json!({ "metadata": { "name": "b" }, "roleRef": { "kind": "Role", "name": "r" },
        "subjects": [{ "kind": "User", "name": "u" }, { "kind": "ServiceAccount", "name": "s" }, { "kind": "Group", "name": "g" }] });
    c.post("binding", &format!("{base}/rolebindings"), binding).await?;
    Ok(())
}

async fn role_that_is_invalid(c: &mut Context) -> Outcome {
    let path = format!("{RBAC}/namespaces/{{ns}}/roles");
    c.post(
        "no verbs",
        &path,
        json!({ "metadata": { "name": "r" }, "rules": [{ "apiGroups": [""], "resources": ["pods"] }] }),
    )
    .await?;
    c.post(
        "no resources",
        &path,
        json!({ "metadata": { "name": "r" }, "rules": [{ "apiGroups": [""], "verbs": ["get"] }] }),
    )
    .await?;
    c.post(
        "urls",
        &path,
        json!({ "metadata": { "name": "r" }, "rules": [{ "nonResourceURLs": ["/x"], "verbs": ["get"] }] }),
    )
    .await?;
    Ok(())
}

async fn cluster_role_and_binding(c: &mut Context) -> Outcome {
    let rules = json!([{ "nonResourceURLs": ["/healthz*"], "verbs": ["get"] }, { "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] }]);
    c.post(
        "role",
        &format!("{RBAC}/clusterroles"),
        json!({ "metadata": { "name": "r-{id}" }, "rules": rules }),
    )
    .await?;
    let binding = json!({ "metadata": { "name": "b-{id}" }, "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r-{id}" },
        "subjects": [{ "kind": "ServiceAccount", "name": "s", "namespace": "{ns}" }] });
    c.post("binding", &format!("{RBAC}/clusterrolebindings"), binding).await?;
    c.patch(
        "another role",
        PatchType::Merge,
        &format!("{RBAC}/clusterrolebindings/b-{{id}}"),
        json!({ "roleRef": { "name": "x" } }),
    )
    .await?;
    Ok(())
}

async fn cluster_role_is_aggregated(c: &mut Context) -> Outcome {
    let path = format!("{RBAC}/clusterroles");
    let part = json!({ "metadata": { "name": "part-{id}", "labels": { "part-of": "{id}" } }, "rules": [{ "apiGroups": [""], "resources": ["pods"], "verbs": ["get"] }] });
    c.create(&path, part).await?;
    let whole = json!({ "metadata": { "name": "whole-{id}" }, "aggregationRule": { "clusterRoleSelectors": [{ "matchLabels": { "part-of": "{id}" } }] } });
    c.create(&path, whole).await?;
    let answer = c
        .wait_until(&format!("{path}/whole-{{id}}"), |answer| answer.value_at("/rules/0").is_object())
        .await?;
    c.record("rules", answer.value_at("/rules"));
    Ok(())
}

async fn binding_that_is_invalid(c: &mut Context) -> Outcome {
    let path = format!("{RBAC}/namespaces/{{ns}}/rolebindings");
    c.post("no role", &path, json!({ "metadata": { "name": "b" } })).await?;
    c.post(
        "kind of the role",
        &path,
        json!({ "metadata": { "name": "b" }, "roleRef": { "kind": "Poem", "name": "r" } }),
    )
    .await?;
    c.post("kind of a subject", &path, json!({ "metadata": { "name": "b" }, "roleRef": { "kind": "Role", "name": "r" }, "subjects": [{ "kind": "Robot", "name": "x" }] })).await?;
    Ok(())
}
