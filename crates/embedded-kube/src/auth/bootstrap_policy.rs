//! Default cluster roles and bindings, limited to the served resources.

use serde_json::{Value, json};

const READ: &[&str] = &["get", "list", "watch"];
const WRITE: &[&str] = &["create", "delete", "deletecollection", "patch", "update"];
const READ_WRITE: &[&str] =
    &["get", "list", "watch", "create", "delete", "deletecollection", "patch", "update"];
const ADMIN_LABEL: &str = "rbac.authorization.k8s.io/aggregate-to-admin";
const EDIT_LABEL: &str = "rbac.authorization.k8s.io/aggregate-to-edit";
const VIEW_LABEL: &str = "rbac.authorization.k8s.io/aggregate-to-view";

fn resource_rule(verbs: &[&str], groups: &[&str], resources: &[&str]) -> Value {
    json!({ "verbs": sorted(verbs), "apiGroups": sorted(groups), "resources": sorted(resources) })
}

fn url_rule(urls: &[&str]) -> Value {
    json!({ "verbs": ["get"], "nonResourceURLs": sorted(urls) })
}

/// kube-apiserver sorts verbs in its default rules.
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

fn cluster_role(name: &str, label: Option<&str>, rules: impl Into<Value>) -> Value {
    let rules: Value = rules.into();
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": metadata(name, label), "rules": rules,
    })
}

fn aggregated_role(name: &str, label: Option<&str>, of: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": metadata(name, label),
        "aggregationRule": { "clusterRoleSelectors": [{ "matchLabels": { of: "true" } }] },
        "rules": null,
    })
}

fn cluster_role_binding(name: &str, groups: &[&str]) -> Value {
    const RBAC: &str = "rbac.authorization.k8s.io";
    let subjects: Vec<Value> =
        groups.iter().map(|group| json!({ "apiGroup": RBAC, "kind": "Group", "name": group })).collect();
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": metadata(name, None), "subjects": subjects,
        "roleRef": { "apiGroup": RBAC, "kind": "ClusterRole", "name": name },
    })
}

/// The default cluster roles.
pub fn cluster_roles() -> Vec<Value> {
    const AUTHENTICATION: &str = "authentication.k8s.io";
    const AUTHORIZATION: &str = "authorization.k8s.io";
    let everything =
        vec![resource_rule(&["*"], &["*"], &["*"]), json!({ "verbs": ["*"], "nonResourceURLs": ["*"] })];
    let discovery = url_rule(&[
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
    let monitoring = url_rule(&[
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
        cluster_role("cluster-admin", None, everything),
        cluster_role("system:discovery", None, vec![discovery]),
        cluster_role(
            "system:monitoring",
            None,
            vec![monitoring, resource_rule(&["get"], &[""], &["nodes/metrics"])],
        ),
        cluster_role(
            "system:basic-user",
            None,
            vec![
                resource_rule(
                    &["create"],
                    &[AUTHORIZATION],
                    &["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
                ),
                resource_rule(&["create"], &[AUTHENTICATION], &["selfsubjectreviews"]),
            ],
        ),
        cluster_role(
            "system:public-info-viewer",
            None,
            vec![url_rule(&["/livez", "/readyz", "/healthz", "/version", "/version/"])],
        ),
        aggregated_role("admin", None, ADMIN_LABEL),
        aggregated_role("edit", Some(ADMIN_LABEL), EDIT_LABEL),
        aggregated_role("view", Some(EDIT_LABEL), VIEW_LABEL),
        cluster_role(
            "system:aggregate-to-admin",
            Some(ADMIN_LABEL),
            vec![
                resource_rule(&["create"], &[AUTHORIZATION], &["localsubjectaccessreviews"]),
                resource_rule(READ_WRITE, &["rbac.authorization.k8s.io"], &["roles", "rolebindings"]),
            ],
        ),
        cluster_role("system:aggregate-to-edit", Some(EDIT_LABEL), edit_rules()),
        cluster_role("system:aggregate-to-view", Some(VIEW_LABEL), view_rules()),
        cluster_role(
            "system:auth-delegator",
            None,
            vec![
                resource_rule(&["create"], &[AUTHENTICATION], &["tokenreviews"]),
                resource_rule(&["create"], &[AUTHORIZATION], &["subjectaccessreviews"]),
            ],
        ),
    ]
}

fn edit_rules() -> Vec<Value> {
    vec![
        resource_rule(
            READ,
            &[""],
            &["pods/attach", "pods/proxy", "pods/exec", "pods/portforward", "secrets", "services/proxy"],
        ),
        resource_rule(&["impersonate"], &[""], &["serviceaccounts"]),
        resource_rule(WRITE, &[""], &["pods", "pods/attach", "pods/proxy", "pods/exec", "pods/portforward"]),
        resource_rule(&["create"], &[""], &["pods/eviction"]),
        resource_rule(
            WRITE,
            &[""],
            &["serviceaccounts", "services", "services/proxy", "configmaps", "secrets"],
        ),
        resource_rule(&["create"], &[""], &["serviceaccounts/token"]),
        resource_rule(WRITE, &["", "events.k8s.io"], &["events"]),
        resource_rule(
            WRITE,
            &["apps"],
            &["deployments", "deployments/scale", "replicasets", "replicasets/scale"],
        ),
        resource_rule(READ_WRITE, &["coordination.k8s.io"], &["leases"]),
    ]
}

fn view_rules() -> Vec<Value> {
    vec![
        resource_rule(
            READ,
            &[""],
            &["pods", "serviceaccounts", "services", "services/status", "endpoints", "configmaps"],
        ),
        resource_rule(READ, &[""], &["pods/status", "namespaces/status", "pods/log"]),
        resource_rule(READ, &[""], &["namespaces"]),
        resource_rule(READ, &["", "events.k8s.io"], &["events"]),
        resource_rule(READ, &["discovery.k8s.io"], &["endpointslices"]),
        resource_rule(
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

/// The default cluster role bindings.
pub fn cluster_role_bindings() -> Vec<Value> {
    const KNOWN: &str = "system:authenticated";
    vec![
        cluster_role_binding("cluster-admin", &["system:masters"]),
        cluster_role_binding("system:monitoring", &["system:monitoring"]),
        cluster_role_binding("system:discovery", &[KNOWN]),
        cluster_role_binding("system:basic-user", &[KNOWN]),
        cluster_role_binding("system:public-info-viewer", &[KNOWN, "system:unauthenticated"]),
    ]
}
