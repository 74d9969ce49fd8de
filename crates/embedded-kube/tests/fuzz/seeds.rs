//! Valid input to start from.

use serde_json::{Value, json};

/// One request.
pub(crate) struct Seed {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    pub(crate) content_type: &'static str,
    pub(crate) body: Vec<u8>,
}

/// Collections that are checked periodically.
pub(crate) const COLLECTIONS: &[&str] = &[
    "/api/v1/configmaps",
    "/api/v1/secrets",
    "/api/v1/pods",
    "/api/v1/services",
    "/apis/apps/v1/deployments",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/fuzz.example.com/v1/widgets",
];

const JSON: &str = "application/json";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const WIDGETS: &str = "/apis/fuzz.example.com/v1/namespaces/default/widgets";
const APPLY: &str = "application/apply-patch+yaml";
const MERGE: &str = "application/merge-patch+json";
const SCALE: &str = "/apis/apps/v1/namespaces/default/deployments/target/scale";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn seed(method: &'static str, path: &'static str, content_type: &'static str, body: &Value) -> Seed {
    Seed { method, path, content_type, body: body.to_string().into_bytes() }
}

fn deployment(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [
                    {"name": "a", "image": "a:1", "ports": [{"containerPort": 80}], "env": [{"name": "X", "value": "1"}],
                     "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}}},
                    {"name": "b", "image": "b", "livenessProbe": {"httpGet": {"path": "/", "port": "web"}}},
                ]},
            },
        },
    })
}

fn definition(plural: &str, kind: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.fuzz.example.com")},
        "spec": {
            "group": "fuzz.example.com", "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List")},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {
                        "type": "object",
                        "x-kubernetes-validations": [{"rule": "!has(self.size) || self.size < 100", "message": "too big"}],
                        "properties": {
                            "size": {"type": "integer", "minimum": 0, "default": 1},
                            "name": {"type": "string", "maxLength": 20, "pattern": "^[a-z]*$"},
                            "either": {"x-kubernetes-int-or-string": true},
                            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                            "items": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["key"],
                                "items": {"type": "object", "required": ["key"], "properties": {
                                    "key": {"type": "string"}, "value": {"type": "string", "default": "v"}}}},
                        },
                    },
                    "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                }}},
            }],
        },
    })
}

fn widget(name: &str) -> Value {
    json!({
        "apiVersion": "fuzz.example.com/v1", "kind": "Widget", "metadata": {"name": name},
        "spec": {"size": 3, "name": "abc", "either": "10%", "free": {"a": [1, {"b": null}]},
                 "items": [{"key": "k1"}, {"key": "k2", "value": "x"}]},
    })
}

/// A deeply nested widget, close to the parser's limit.
fn deep(levels: usize) -> Value {
    let free = (0..levels).fold(json!({}), |inner, _| json!({ "a": inner }));
    let mut object = widget("deep");
    object["spec"]["free"] = free;
    object
}

/// Objects that must exist first.
pub(crate) fn fixtures() -> Vec<Seed> {
    let map = json!({"metadata": {"name": "target", "labels": {"a": "b"}}, "data": {"x": "1"}});
    vec![
        seed("POST", CONFIG_MAPS, JSON, &map),
        seed("POST", DEPLOYMENTS, JSON, &deployment("target")),
        seed(
            "POST",
            "/api/v1/namespaces/default/pods",
            JSON,
            &json!({"metadata": {"name": "target"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}),
        ),
        seed("POST", DEFINITIONS, JSON, &definition("widgets", "Widget")),
    ]
}

/// Creates and updates, in each encoding.
pub(crate) fn bodies() -> Vec<Seed> {
    let secret = json!({"metadata": {"generateName": "s-"}, "type": "Opaque", "stringData": {"a": "b"}, "data": {"c": "ZA=="}});
    let service = json!({"metadata": {"generateName": "svc-"}, "spec": {"ports": [{"port": 80, "targetPort": "web"}], "selector": {"a": "b"}}});
    let pod = json!({"metadata": {"generateName": "p-"}, "spec": {"containers": [{"name": "c", "image": "i"}], "volumes": [{"name": "v", "emptyDir": {}}]}});
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  generateName: y-\n  annotations: {a: \"1\"}\ndata:\n  text: |\n    lines\n";
    // runtime.Unknown around a ConfigMap named "p".
    let protobuf = b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\x05\x0a\x03\x0a\x01p".to_vec();
    vec![
        seed(
            "PUT",
            SCALE,
            JSON,
            &json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {"name": "target"}, "spec": {"replicas": 2}}),
        ),
        seed(
            "POST",
            "/api/v1/namespaces/default/pods/target/eviction",
            JSON,
            &json!({"kind": "Eviction", "metadata": {"name": "target"}, "deleteOptions": {"dryRun": ["All"], "preconditions": {"uid": "u"}}}),
        ),
        seed(
            "POST",
            "/api/v1/namespaces/default/pods/target/binding",
            JSON,
            &json!({"metadata": {"name": "target"}, "target": {"kind": "Node", "name": "n"}}),
        ),
        seed("POST", WIDGETS, JSON, &deep(110)),
        seed("POST", WIDGETS, JSON, &deep(122)),
        seed(
            "POST",
            CONFIG_MAPS,
            JSON,
            &json!({"metadata": {"generateName": "m-"}, "data": {"a": "b"}, "binaryData": {"c": "ZA=="}}),
        ),
        seed("POST", "/api/v1/namespaces/default/secrets", JSON, &secret),
        seed("POST", "/api/v1/namespaces/default/services", JSON, &service),
        seed("POST", "/api/v1/namespaces/default/pods", JSON, &pod),
        seed("POST", DEPLOYMENTS, JSON, &deployment("another")),
        seed("PUT", "/apis/apps/v1/namespaces/default/deployments/target", JSON, &deployment("target")),
        seed("POST", DEFINITIONS, JSON, &definition("gadgets", "Gadget")),
        seed("POST", WIDGETS, JSON, &widget("w")),
        Seed {
            method: "POST",
            path: CONFIG_MAPS,
            content_type: "application/yaml",
            body: yaml.as_bytes().to_vec(),
        },
        Seed {
            method: "POST",
            path: CONFIG_MAPS,
            content_type: "application/vnd.kubernetes.protobuf",
            body: protobuf,
        },
        seed(
            "DELETE",
            "/api/v1/namespaces/default/configmaps/m-none",
            JSON,
            &json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}),
        ),
        seed(
            "POST",
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            JSON,
            &json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}),
        ),
    ]
}

/// All four kinds, on built-in and custom resources.
pub(crate) fn patches() -> Vec<Seed> {
    const MAP: &str = "/api/v1/namespaces/default/configmaps/target";
    const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/default/deployments/target";
    const APPLY_MAP: &str = "/api/v1/namespaces/default/configmaps/applied?fieldManager=fuzz&force=true";
    const APPLY_DEPLOYMENT: &str =
        "/apis/apps/v1/namespaces/default/deployments/applied?fieldManager=fuzz&force=true";
    const APPLY_WIDGET: &str =
        "/apis/fuzz.example.com/v1/namespaces/default/widgets/applied?fieldManager=fuzz&force=true";
    let json_patch = json!([
        {"op": "test", "path": "/metadata/name", "value": "target"},
        {"op": "add", "path": "/metadata/labels/x~1y", "value": "1"},
        {"op": "copy", "from": "/data", "path": "/data2"},
        {"op": "replace", "path": "/data/x", "value": "2"},
    ]);
    let strategic = json!({"spec": {"template": {"spec": {
        "$setElementOrder/containers": [{"name": "b"}, {"name": "a"}],
        "containers": [{"name": "a", "image": "a:2", "$patch": "replace"}, {"name": "b", "$patch": "delete"}],
    }}}});
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied", "labels": {"l": "1"}}, "data": {"k": "v"}});
    vec![
        seed("PATCH", SCALE, MERGE, &json!({"spec": {"replicas": 1}})),
        seed("PATCH", MAP, "application/json-patch+json", &json_patch),
        seed(
            "PATCH",
            MAP,
            MERGE,
            &json!({"data": {"x": null, "y": "1"}, "metadata": {"labels": {"a": "c"}}}),
        ),
        seed(
            "PATCH",
            DEPLOYMENT,
            MERGE,
            &json!({"spec": {"replicas": 3, "template": {"spec": {"terminationGracePeriodSeconds": 5}}}}),
        ),
        seed("PATCH", DEPLOYMENT, "application/strategic-merge-patch+json", &strategic),
        seed(
            "PATCH",
            DEPLOYMENT,
            "application/strategic-merge-patch+json",
            &json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["x"], "labels": {"$patch": "replace", "a": "b"}}}),
        ),
        seed(
            "PATCH",
            "/apis/apps/v1/namespaces/default/deployments/target/scale",
            MERGE,
            &json!({"spec": {"replicas": 1}}),
        ),
        seed("PATCH", APPLY_MAP, APPLY, &map),
        seed("PATCH", APPLY_DEPLOYMENT, APPLY, &deployment("applied")),
        seed("PATCH", APPLY_WIDGET, APPLY, &widget("applied")),
    ]
}
