//! What the operator may do, and what it may not.

use std::collections::BTreeSet;

use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::Value;

use super::{
    rbac::{Asked, Grant, allowed, compare, grants},
    rendered::{OVERLAYS, name, of_kind, rendered},
};

const NAMESPACE: &str = "capt-system";
const ACCOUNT: &str = "capt";
const READ: [&str; 3] = ["get", "list", "watch"];
const WRITE: [&str; 5] = ["create", "update", "patch", "delete", "deletecollection"];
const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io";
const CONTROL_PLANE: &str = "controlplane.cluster.x-k8s.io";
const CORE: &str = "cluster.x-k8s.io";
const SANDBOX: &str = "sandbox.capt.x-k8s.io";

fn granted(overlay: &str) -> Vec<Grant> {
    grants(&rendered(overlay), NAMESPACE, ACCOUNT)
}

/// The rules that hold in every namespace.
fn everywhere(overlay: &str) -> Vec<PolicyRule> {
    granted(overlay).into_iter().filter(|it| it.namespace.is_none()).flat_map(|it| it.rules).collect()
}

/// Exactly these verbs on a resource such as `captclusters/status`.
#[track_caller]
fn exactly(rules: &[PolicyRule], group: &str, resource: &str, verbs: &[&str]) {
    let (plural, sub) = resource.split_once('/').unwrap_or((resource, ""));
    let all = READ.iter().chain(&WRITE).copied();
    let found: BTreeSet<&str> = all.filter(|verb| allowed(rules, verb, group, plural, sub)).collect();
    assert_eq!(found, verbs.iter().copied().collect(), "{resource}.{group}");
}

#[test]
fn a_cluster_is_read_and_never_written() {
    for overlay in ["base", "webhook", "clusterctl/infrastructure"] {
        let rules = everywhere(overlay);
        exactly(&rules, CORE, "clusters", &READ);
        for sub in ["clusters/status", "clusters/finalizers", "clusters/scale"] {
            exactly(&rules, CORE, sub, &[]);
        }
    }
}

#[test]
fn a_cluster_is_written_where_we_stand_in_for_its_controller() {
    let rules = everywhere("standalone");
    exactly(&rules, CORE, "clusters", &["get", "list", "watch", "patch"]);
    exactly(&rules, CORE, "clusters/status", &["patch"]);
    exactly(&rules, CORE, "clusters/finalizers", &["update"]);
    exactly(&rules, INFRASTRUCTURE, "captclusters", &["get", "list", "watch", "patch", "delete"]);
    exactly(&rules, CONTROL_PLANE, "captcontrolplanes", &["get", "list", "watch", "patch", "delete"]);
}

#[test]
fn our_kinds_get_exactly_what_is_done_to_them() {
    let rules = everywhere("base");
    let watched = ["get", "list", "watch", "patch"];
    let kinds = [
        (INFRASTRUCTURE, "captclusters"),
        (INFRASTRUCTURE, "captidentities"),
        (INFRASTRUCTURE, "workspacetemplates"),
        (CONTROL_PLANE, "captcontrolplanes"),
    ];
    for (group, plural) in kinds {
        exactly(&rules, group, plural, &watched);
        exactly(&rules, group, &format!("{plural}/status"), &["patch"]);
    }
    let made = ["get", "list", "watch", "create", "patch", "delete"];
    exactly(&rules, INFRASTRUCTURE, "workspacetemplateapplies", &made);
    exactly(&rules, INFRASTRUCTURE, "workspacetemplateapplies/status", &["patch"]);
    // Owners with blockOwnerDeletion.
    for (group, plural) in [
        (INFRASTRUCTURE, "captclusters"),
        (INFRASTRUCTURE, "workspacetemplateapplies"),
        (CONTROL_PLANE, "captcontrolplanes"),
    ] {
        exactly(&rules, group, &format!("{plural}/finalizers"), &["update"]);
    }
    // Cluster API makes objects from these; we do nothing with them.
    exactly(&rules, INFRASTRUCTURE, "captclustertemplates", &[]);
    exactly(&rules, CONTROL_PLANE, "captcontrolplanetemplates", &[]);
}

#[test]
fn the_rest_is_what_runs_need() {
    let rules = everywhere("base");
    exactly(&rules, "", "secrets", &["get", "list", "watch", "create", "update", "patch", "delete"]);
    exactly(&rules, "", "configmaps", &READ);
    exactly(&rules, "", "namespaces", &READ);
    exactly(&rules, "events.k8s.io", "events", &["create", "patch"]);
    exactly(&rules, "apiextensions.k8s.io", "customresourcedefinitions", &["get"]);
    // What upstream's role had, or what would be a way to more rights.
    for (group, resource) in [
        ("", "pods/exec"),
        ("", "pods/portforward"),
        ("", "nodes"),
        ("", "serviceaccounts/token"),
        ("rbac.authorization.k8s.io", "clusterroles"),
        ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
    ] {
        exactly(&rules, group, resource, &[]);
    }
}

#[test]
fn sandboxes_get_exactly_what_is_done_for_them() {
    let rules = everywhere("base");
    exactly(&rules, SANDBOX, "sandboxes", &["get", "list", "watch", "patch", "delete"]);
    exactly(&rules, SANDBOX, "sandboxes/status", &["patch"]);
    exactly(&rules, SANDBOX, "sandboxes/finalizers", &["update"]);
    exactly(&rules, SANDBOX, "localworkloads", &["get", "list", "watch", "create", "patch", "delete"]);
    let made = ["get", "list", "watch", "create", "patch", "delete"];
    exactly(&rules, "apps", "deployments", &made);
    exactly(&rules, "apps", "deployments/status", &[]);
    exactly(&rules, "", "services", &made);
    exactly(&rules, "", "pods", &["list", "watch"]);
    exactly(&rules, "", "events", &["list"]);
    exactly(&rules, "", "persistentvolumeclaims", &["get"]);
    exactly(&rules, "policy", "poddisruptionbudgets", &["list"]);
    exactly(&rules, "networking.k8s.io", "networkpolicies", &["list"]);
    exactly(&rules, "storage.k8s.io", "storageclasses", &["list"]);
    exactly(&rules, "coordination.k8s.io", "leases", &["list", "watch"]);
    exactly(&rules, "discovery.k8s.io", "endpointslices", &["list", "watch"]);
    let written = ["list", "watch", "create", "patch", "delete"];
    exactly(&rules, "gateway.networking.k8s.io", "httproutes", &written);
    exactly(&rules, "gateway.networking.k8s.io", "httproutes/status", &[]);
    exactly(&rules, SANDBOX, "localworkloads/status", &["patch"]);
    exactly(&rules, SANDBOX, "routegroups", &["list", "watch", "delete"]);
    exactly(&rules, SANDBOX, "routegroups/status", &["patch"]);
    for other in ["replicasets", "statefulsets", "daemonsets"] {
        exactly(&rules, "apps", other, &[]);
    }
}

#[test]
fn nothing_else_is_granted_anywhere() {
    // The resources that the tests above look at. A new one has to be looked at, too.
    let known = [
        "clusters",
        "captclusters",
        "captidentities",
        "workspacetemplates",
        "workspacetemplateapplies",
        "captcontrolplanes",
        "secrets",
        "configmaps",
        "namespaces",
        "events",
        "customresourcedefinitions",
        "leases",
        "validatingwebhookconfigurations",
        "sandboxes",
        "localworkloads",
        "deployments",
        "services",
        "pods",
        "persistentvolumeclaims",
        "poddisruptionbudgets",
        "networkpolicies",
        "storageclasses",
        "endpointslices",
        "routegroups",
        "httproutes",
    ];
    for overlay in OVERLAYS {
        for grant in granted(overlay) {
            for resource in grant.rules.iter().flat_map(|rule| rule.resources.iter().flatten()) {
                let plural = resource.split('/').next().unwrap();
                assert!(known.contains(&plural), "{overlay}: {} grants {resource}", grant.role);
            }
        }
    }
}

#[test]
fn no_rule_says_everything() {
    for overlay in OVERLAYS {
        for role in rendered(overlay).iter().filter(|it| it["kind"] == "ClusterRole" || it["kind"] == "Role")
        {
            assert!(!role["rules"].to_string().contains('*'), "{overlay}: {} has a wildcard", name(role));
            assert!(!role["rules"].to_string().contains("nonResourceURLs"), "{overlay}: {}", name(role));
            assert!(role.get("aggregationRule").is_none(), "{overlay}: {}", name(role));
        }
    }
}

#[test]
fn the_lease_is_in_our_namespace_alone() {
    let base = granted("base");
    let asked = |verb: &str, namespace: &str| Asked {
        verb: verb.to_owned(),
        group: "coordination.k8s.io".to_owned(),
        resource: "leases".to_owned(),
        namespace: namespace.to_owned(),
        name: "capt-leader".to_owned(),
        ..Asked::default()
    };
    let ours: Vec<Asked> = ["get", "create", "update"].map(|verb| asked(verb, NAMESPACE)).into();
    assert!(compare(&base, &ours).refused.is_empty());
    let theirs = [asked("get", "kube-system"), asked("patch", NAMESPACE), asked("delete", NAMESPACE)];
    assert_eq!(compare(&base, &theirs).refused.len(), 3);
}

#[test]
fn the_webhook_overlay_may_write_its_own_configuration_and_no_other() {
    let webhook = granted("webhook");
    let asked = |verb: &str, name: &str| Asked {
        verb: verb.to_owned(),
        group: "admissionregistration.k8s.io".to_owned(),
        resource: "validatingwebhookconfigurations".to_owned(),
        name: name.to_owned(),
        ..Asked::default()
    };
    let objects = rendered("webhook");
    let configuration = name(of_kind(&objects, "ValidatingWebhookConfiguration")[0]).to_owned();
    assert!(
        compare(&webhook, &[asked("get", &configuration), asked("patch", &configuration)]).refused.is_empty()
    );
    for refused in [asked("patch", "somebody-elses"), asked("create", ""), asked("delete", &configuration)] {
        assert_eq!(compare(&webhook, [&refused]).refused.len(), 1, "{refused}");
    }
    assert_eq!(compare(&granted("base"), &[asked("patch", &configuration)]).refused.len(), 1);
}

#[test]
fn the_webhook_overlay_may_keep_its_certificates_and_nothing_beside_them() {
    let webhook: Vec<Grant> = granted("webhook").into_iter().filter(|it| it.role == "capt-webhook").collect();
    let asked = |verb: &str, namespace: &str, name: &str| Asked {
        verb: verb.to_owned(),
        resource: "secrets".to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        ..Asked::default()
    };
    let certificates = "capt-webhook-certificates";
    let ours = [
        asked("get", NAMESPACE, certificates),
        asked("update", NAMESPACE, certificates),
        asked("create", NAMESPACE, ""),
    ];
    assert!(compare(&webhook, &ours).refused.is_empty());
    for refused in [
        asked("get", NAMESPACE, "somebody-elses"),
        asked("delete", NAMESPACE, certificates),
        asked("get", "kube-system", certificates),
        asked("create", "kube-system", ""),
    ] {
        assert_eq!(compare(&webhook, [&refused]).refused.len(), 1, "{refused}");
    }
}

#[test]
fn every_role_is_bound_to_the_account_of_the_pod() {
    for overlay in ["base", "webhook", "standalone"] {
        let objects = rendered(overlay);
        let pod = of_kind(&objects, "Deployment")[0]["spec"]["template"]["spec"].clone();
        assert_eq!(pod["serviceAccountName"], ACCOUNT);
        let roles = objects.iter().filter(|it: &&Value| it["kind"] == "ClusterRole" || it["kind"] == "Role");
        let roles: BTreeSet<&str> = roles.map(name).collect();
        let grants = granted(overlay);
        let bound: BTreeSet<&str> = grants.iter().map(|it| it.role.as_str()).collect();
        assert_eq!(roles, bound, "{overlay}");
    }
}
