//! Roles and bindings that are there from the start, reduced to what is served.

use serde_json::{Value, json};

const READ: &[&str] = &["get", "list", "watch"];
const WRITE: &[&str] = &["create", "delete", "deletecollection", "patch", "update"];
const READ_WRITE: &[&str] =
    &["get", "list", "watch", "create", "delete", "deletecollection", "patch", "update"];
const ADMIN_LABEL: &str = "rbac.authorization.k8s.io/aggregate-to-admin";
const EDIT_LABEL: &str = "rbac.authorization.k8s.io/aggregate-to-edit";
const VIEW_LABEL: &str = "rbac.authorization.k8s.io/aggregate-to-view";

fn on(verbs: &[&str], groups: &[&str], resources: &[&str]) -> Value {
    json!({ "verbs": sorted(verbs), "apiGroups": sorted(groups), "resources": sorted(resources) })
}

fn at(urls: &[&str]) -> Value {
    json!({ "verbs": ["get"], "nonResourceURLs": sorted(urls) })
}

/// The real server's rules are sorted, whatever order says more to a reader.
fn sorted<'a>(words: &[&'a str]) -> Vec<&'a str> {
    let mut words = words.to_vec();
    words.sort_unstable();
    words
}

fn metadata(name: &str, label: Option<&str>) -> Value {
    let mut metadata = json!({
        "name": name,
        "labels": { "kubernetes.io/bootstrapping": "rbac-defaults" },
        "annotations": { "rbac.authorization.kubernetes.io/autoupdate": "true" },
    });
    if let Some(label) = label {
        metadata["labels"][label] = "true".into();
    }
    metadata
}

fn role(name: &str, label: Option<&str>, rules: impl Into<Value>) -> Value {
    let rules: Value = rules.into();
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": metadata(name, label), "rules": rules,
    })
}

fn sum(name: &str, label: Option<&str>, of: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": metadata(name, label),
        "aggregationRule": { "clusterRoleSelectors": [{ "matchLabels": { of: "true" } }] },
        "rules": null,
    })
}

fn binding(name: &str, groups: &[&str]) -> Value {
    const RBAC: &str = "rbac.authorization.k8s.io";
    let subjects: Vec<Value> =
        groups.iter().map(|group| json!({ "apiGroup": RBAC, "kind": "Group", "name": group })).collect();
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": metadata(name, None), "subjects": subjects,
        "roleRef": { "apiGroup": RBAC, "kind": "ClusterRole", "name": name },
    })
}

/// Cluster roles.
pub fn cluster_roles() -> Vec<Value> {
    const AUTHENTICATION: &str = "authentication.k8s.io";
    const AUTHORIZATION: &str = "authorization.k8s.io";
    let everything = vec![on(&["*"], &["*"], &["*"]), json!({ "verbs": ["*"], "nonResourceURLs": ["*"] })];
    let discovery = at(&[
        "/livez",
        "/readyz",
        "/healthz",
        "/version",
        "/version/",
        "/openapi",
        "/openapi/*",
        "/api",
        "/api/*",
        "/apis",
        "/apis/*",
    ]);
    let monitoring = at(&[
        "/metrics",
        "/flagz",
        "/statusz",
        "/metrics/slis",
        "/livez",
        "/readyz",
        "/healthz",
        "/livez/*",
        "/readyz/*",
        "/healthz/*",
    ]);
    vec![
        role("cluster-admin", None, everything),
        role("system:discovery", None, vec![discovery]),
        role("system:monitoring", None, vec![monitoring, on(&["get"], &[""], &["nodes/metrics"])]),
        role(
            "system:basic-user",
            None,
            vec![
                on(&["create"], &[AUTHORIZATION], &["selfsubjectaccessreviews", "selfsubjectrulesreviews"]),
                on(&["create"], &[AUTHENTICATION], &["selfsubjectreviews"]),
            ],
        ),
        role(
            "system:public-info-viewer",
            None,
            vec![at(&["/livez", "/readyz", "/healthz", "/version", "/version/"])],
        ),
        sum("admin", None, ADMIN_LABEL),
        sum("edit", Some(ADMIN_LABEL), EDIT_LABEL),
        sum("view", Some(EDIT_LABEL), VIEW_LABEL),
        role(
            "system:aggregate-to-admin",
            Some(ADMIN_LABEL),
            vec![
                on(&["create"], &[AUTHORIZATION], &["localsubjectaccessreviews"]),
                on(READ_WRITE, &["rbac.authorization.k8s.io"], &["roles", "rolebindings"]),
            ],
        ),
        role("system:aggregate-to-edit", Some(EDIT_LABEL), edit()),
        role("system:aggregate-to-view", Some(VIEW_LABEL), view()),
        role(
            "system:auth-delegator",
            None,
            vec![
                on(&["create"], &[AUTHENTICATION], &["tokenreviews"]),
                on(&["create"], &[AUTHORIZATION], &["subjectaccessreviews"]),
            ],
        ),
    ]
}

fn edit() -> Vec<Value> {
    vec![
        on(
            READ,
            &[""],
            &["pods/attach", "pods/proxy", "pods/exec", "pods/portforward", "secrets", "services/proxy"],
        ),
        on(&["impersonate"], &[""], &["serviceaccounts"]),
        on(WRITE, &[""], &["pods", "pods/attach", "pods/proxy", "pods/exec", "pods/portforward"]),
        on(&["create"], &[""], &["pods/eviction"]),
        on(WRITE, &[""], &["serviceaccounts", "services", "services/proxy", "configmaps", "secrets"]),
        on(&["create"], &[""], &["serviceaccounts/token"]),
        on(WRITE, &["", "events.k8s.io"], &["events"]),
        on(WRITE, &["apps"], &["deployments", "deployments/scale", "replicasets", "replicasets/scale"]),
        on(READ_WRITE, &["coordination.k8s.io"], &["leases"]),
    ]
}

fn view() -> Vec<Value> {
    vec![
        on(
            READ,
            &[""],
            &["pods", "serviceaccounts", "services", "services/status", "endpoints", "configmaps"],
        ),
        on(READ, &[""], &["pods/status", "namespaces/status", "pods/log"]),
        on(READ, &[""], &["namespaces"]),
        on(READ, &["", "events.k8s.io"], &["events"]),
        on(READ, &["discovery.k8s.io"], &["endpointslices"]),
        on(
            READ,
            &["apps"],
            &[
                "deployments",
                "deployments/status",
                "deployments/scale",
                "replicasets",
                "replicasets/status",
                "replicasets/scale",
            ],
        ),
    ]
}

/// Who has them from the start.
pub fn cluster_role_bindings() -> Vec<Value> {
    const KNOWN: &str = "system:authenticated";
    vec![
        binding("cluster-admin", &["system:masters"]),
        binding("system:monitoring", &["system:monitoring"]),
        binding("system:discovery", &[KNOWN]),
        binding("system:basic-user", &[KNOWN]),
        binding("system:public-info-viewer", &[KNOWN, "system:unauthenticated"]),
    ]
}
