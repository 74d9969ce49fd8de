//! What the operator may do, and what it may not.

use std::collections::BTreeSet;

use k8s_openapi::api::rbac::v1::PolicyRule;
use serde_json::Value;

use super::{
    overlays::{OVERLAYS, name, of_kind, rendered_overlay},
    rbac::{AccessRequest, Grant, collect_grants, compare, is_allowed},
};

const NAMESPACE: &str = "capt-system";
const ACCOUNT: &str = "capt";
const READ: [&str; 3] = ["get", "list", "watch"];
const WRITE: [&str; 5] = ["create", "update", "patch", "delete", "deletecollection"];
const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io";
const CONTROL_PLANE: &str = "controlplane.cluster.x-k8s.io";
const CORE: &str = "cluster.x-k8s.io";
const SANDBOX: &str = "sandbox.capt.x-k8s.io";

fn operator_grants(overlay: &str) -> Vec<Grant> {
    collect_grants(&rendered_overlay(overlay), NAMESPACE, ACCOUNT)
}

/// The rules that hold in every namespace.
fn cluster_wide_rules(overlay: &str) -> Vec<PolicyRule> {
    operator_grants(overlay).into_iter().filter(|it| it.namespace.is_none()).flat_map(|it| it.rules).collect()
}

/// Exactly these verbs on a resource such as `captclusters/status`.
#[track_caller]
fn assert_exact_verbs(rules: &[PolicyRule], group: &str, resource: &str, verbs: &[&str]) {
    let (plural, sub) = resource.split_once('/').unwrap_or((resource, ""));
    let all = READ.iter().chain(&WRITE).copied();
    let found: BTreeSet<&str> = all.filter(|verb| is_allowed(rules, verb, group, plural, sub)).collect();
    assert_eq!(found, verbs.iter().copied().collect(), "{resource}.{group}");
}

#[test]
fn a_cluster_is_read_and_never_written() {
    for overlay in ["base", "webhook", "clusterctl/infrastructure"] {
        let rules = cluster_wide_rules(overlay);
        assert_exact_verbs(&rules, CORE, "clusters", &READ);
        for sub in ["clusters/status", "clusters/finalizers", "clusters/scale"] {
            assert_exact_verbs(&rules, CORE, sub, &[]);
        }
    }
}

#[test]
fn a_cluster_is_written_where_we_stand_in_for_its_controller() {
    let rules = cluster_wide_rules("standalone");
    assert_exact_verbs(&rules, CORE, "clusters", &["get", "list", "watch", "patch"]);
    assert_exact_verbs(&rules, CORE, "clusters/status", &["patch"]);
    assert_exact_verbs(&rules, CORE, "clusters/finalizers", &["update"]);
    assert_exact_verbs(&rules, INFRASTRUCTURE, "captclusters", &["get", "list", "watch", "patch", "delete"]);
    assert_exact_verbs(
        &rules,
        CONTROL_PLANE,
        "captcontrolplanes",
        &["get", "list", "watch", "patch", "delete"],
    );
}

#[test]
fn our_kinds_get_exactly_what_is_done_to_them() {
    let rules = cluster_wide_rules("base");
    let watched = ["get", "list", "watch", "patch"];
    let kinds = [
        (INFRASTRUCTURE, "captclusters"),
        (INFRASTRUCTURE, "captidentities"),
        (INFRASTRUCTURE, "workspacetemplates"),
        (CONTROL_PLANE, "captcontrolplanes"),
    ];
    for (group, plural) in kinds {
        assert_exact_verbs(&rules, group, plural, &watched);
        assert_exact_verbs(&rules, group, &format!("{plural}/status"), &["patch"]);
    }
    let made = ["get", "list", "watch", "create", "patch", "delete"];
    assert_exact_verbs(&rules, INFRASTRUCTURE, "workspacetemplateapplies", &made);
    assert_exact_verbs(&rules, INFRASTRUCTURE, "workspacetemplateapplies/status", &["patch"]);
    // Owners with blockOwnerDeletion.
    for (group, plural) in [
        (INFRASTRUCTURE, "captclusters"),
        (INFRASTRUCTURE, "workspacetemplateapplies"),
        (CONTROL_PLANE, "captcontrolplanes"),
    ] {
        assert_exact_verbs(&rules, group, &format!("{plural}/finalizers"), &["update"]);
    }
    // Cluster API makes objects from these; we do nothing with them.
    assert_exact_verbs(&rules, INFRASTRUCTURE, "captclustertemplates", &[]);
    assert_exact_verbs(&rules, CONTROL_PLANE, "captcontrolplanetemplates", &[]);
}

#[test]
fn the_rest_is_what_runs_need() {
    let rules = cluster_wide_rules("base");
    assert_exact_verbs(
        &rules,
        "",
        "secrets",
        &["get", "list", "watch", "create", "update", "patch", "delete"],
    );
    assert_exact_verbs(&rules, "", "configmaps", &READ);
    assert_exact_verbs(&rules, "", "namespaces", &READ);
    assert_exact_verbs(&rules, "events.k8s.io", "events", &["create", "patch"]);
    assert_exact_verbs(&rules, "apiextensions.k8s.io", "customresourcedefinitions", &["get"]);
    // What upstream's role had, or what would be a way to more rights.
    for (group, resource) in [
        ("", "pods/exec"),
        ("", "pods/portforward"),
        ("", "nodes"),
        ("", "serviceaccounts/token"),
        ("rbac.authorization.k8s.io", "clusterroles"),
        ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
    ] {
        assert_exact_verbs(&rules, group, resource, &[]);
    }
}

#[test]
fn sandboxes_get_exactly_what_is_done_for_them() {
    let rules = cluster_wide_rules("base");
    assert_exact_verbs(&rules, SANDBOX, "sandboxes", &["get", "list", "watch", "patch", "delete"]);
    assert_exact_verbs(&rules, SANDBOX, "sandboxes/status", &["patch"]);
    assert_exact_verbs(&rules, SANDBOX, "sandboxes/finalizers", &["update"]);
    assert_exact_verbs(
        &rules,
        SANDBOX,
        "localworkloads",
        &["get", "list", "watch", "create", "patch", "delete"],
    );
    let made = ["get", "list", "watch", "create", "patch", "delete"];
    assert_exact_verbs(&rules, "apps", "deployments", &made);
    assert_exact_verbs(&rules, "apps", "deployments/status", &[]);
    assert_exact_verbs(&rules, "", "services", &made);
    assert_exact_verbs(&rules, "", "pods", &["list", "watch"]);
    assert_exact_verbs(&rules, "", "events", &["list"]);
    assert_exact_verbs(&rules, "", "persistentvolumeclaims", &["get"]);
    assert_exact_verbs(&rules, "policy", "poddisruptionbudgets", &["list"]);
    assert_exact_verbs(&rules, "networking.k8s.io", "networkpolicies", &["list"]);
    assert_exact_verbs(&rules, "storage.k8s.io", "storageclasses", &["list"]);
    assert_exact_verbs(&rules, "coordination.k8s.io", "leases", &["list", "watch"]);
    assert_exact_verbs(&rules, "discovery.k8s.io", "endpointslices", &["list", "watch"]);
    let written = ["list", "watch", "create", "patch", "delete"];
    assert_exact_verbs(&rules, "gateway.networking.k8s.io", "httproutes", &written);
    assert_exact_verbs(&rules, "gateway.networking.k8s.io", "httproutes/status", &[]);
    assert_exact_verbs(&rules, SANDBOX, "localworkloads/status", &["patch"]);
    assert_exact_verbs(&rules, SANDBOX, "routegroups", &["list", "watch", "delete"]);
    assert_exact_verbs(&rules, SANDBOX, "routegroups/status", &["patch"]);
    for other in ["replicasets", "statefulsets", "daemonsets"] {
        assert_exact_verbs(&rules, "apps", other, &[]);
    }
}

/// Whether a role is for users, as a part of the default roles.
fn is_for_users(role: &Value) -> bool {
    let labels = role["metadata"]["labels"].as_object().into_iter().flatten();
    labels.into_iter().any(|(key, _)| key.starts_with("rbac.authorization.k8s.io/aggregate-to-"))
}

#[test]
fn h9_an_operator_of_one_namespace_has_no_right_on_objects_of_another() {
    let namespaced = rendered_overlay("namespaced");
    let grants = collect_grants(&namespaced, "capt-team-a", ACCOUNT);
    let (everywhere, own): (Vec<_>, Vec<_>) = grants.into_iter().partition(|it| it.namespace.is_none());
    let everywhere: Vec<PolicyRule> = everywhere.into_iter().flat_map(|it| it.rules).collect();
    let resources = everywhere.iter().flat_map(|rule| rule.resources.iter().flatten());
    assert_eq!(
        resources.collect::<BTreeSet<_>>(),
        ["captidentities", "captidentities/status", "customresourcedefinitions", "namespaces"]
            .map(str::to_owned)
            .iter()
            .collect(),
        "nothing that belongs to a namespace"
    );
    assert_exact_verbs(&everywhere, "", "namespaces", &["get"]);
    // In its namespace it may do what the operator of all namespaces may do, without Sandboxes.
    let places: BTreeSet<_> = own.iter().map(|it| it.namespace.clone().unwrap()).collect();
    assert_eq!(places, ["capt-team-a", "team-a"].map(str::to_owned).into());
    let manager =
        |grants: &[Grant]| grants.iter().find(|it| it.role == "capt-manager").unwrap().rules.clone();
    assert_eq!(manager(&own), manager(&operator_grants("base")));
    for role in ["ClusterRole", "ClusterRoleBinding"] {
        assert!(of_kind(&namespaced, role).into_iter().all(|it| name(it) != "capt-sandboxes"));
    }
    let container = &of_kind(&namespaced, "Deployment")[0]["spec"]["template"]["spec"]["containers"][0];
    let args = container["args"].as_array().unwrap();
    for flag in ["--namespace=team-a", "--sandboxes=false"] {
        assert!(args.iter().any(|arg| arg == flag), "{args:?}");
    }
}

#[test]
fn h9_only_the_role_of_sandboxes_may_write_workloads() {
    for overlay in ["base", "standalone", "webhook"] {
        for grant in operator_grants(overlay).into_iter().filter(|it| it.role != "capt-sandboxes") {
            for (group, resource) in [("apps", "deployments"), ("", "services"), ("", "pods")] {
                assert_exact_verbs(&grant.rules, group, resource, &[]);
            }
        }
    }
}

#[test]
fn h9_the_default_roles_include_our_kinds_and_an_editor_is_no_approver() {
    let base = rendered_overlay("base");
    let rules = |role: &str, to: &str| -> Vec<PolicyRule> {
        let role = of_kind(&base, "ClusterRole").into_iter().find(|it| name(it) == role).unwrap();
        let label = format!("rbac.authorization.k8s.io/aggregate-to-{to}");
        assert_eq!(role["metadata"]["labels"][label], "true");
        serde_json::from_value(role["rules"].clone()).unwrap()
    };
    let (view, edit) = (rules("capt-view", "view"), rules("capt-edit", "edit"));
    let approve = rules("capt-approver", "admin");
    for crd in capt_kinds::api::crds() {
        let (group, plural) = (crd.spec.group.as_str(), crd.spec.names.plural.as_str());
        let namespaced = crd.spec.scope == "Namespaced";
        assert_exact_verbs(&view, group, plural, if namespaced { &READ } else { &[] });
        assert_exact_verbs(&edit, group, plural, if namespaced { &WRITE } else { &[] });
        for rules in [&view, &edit, &approve] {
            assert_exact_verbs(rules, group, &format!("{plural}/status"), &[]);
        }
    }
    let approval = "workspacetemplateapplies/approval";
    assert_exact_verbs(&edit, INFRASTRUCTURE, approval, &[]);
    assert_exact_verbs(&approve, INFRASTRUCTURE, approval, &["update"]);
    assert!(is_allowed(&edit, "connect", SANDBOX, "localworkloads", "tunnel"));
    for rules in [&view, &edit, &approve] {
        assert_exact_verbs(rules, "", "secrets", &[]);
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
        for grant in operator_grants(overlay) {
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
        for role in
            rendered_overlay(overlay).iter().filter(|it| it["kind"] == "ClusterRole" || it["kind"] == "Role")
        {
            assert!(!role["rules"].to_string().contains('*'), "{overlay}: {} has a wildcard", name(role));
            assert!(!role["rules"].to_string().contains("nonResourceURLs"), "{overlay}: {}", name(role));
            assert!(role.get("aggregationRule").is_none(), "{overlay}: {}", name(role));
        }
    }
}

#[test]
fn the_lease_is_in_our_namespace_alone() {
    let base = operator_grants("base");
    let asked = |verb: &str, namespace: &str| AccessRequest {
        verb: verb.to_owned(),
        group: "coordination.k8s.io".to_owned(),
        resource: "leases".to_owned(),
        namespace: namespace.to_owned(),
        name: "capt-leader".to_owned(),
        ..AccessRequest::default()
    };
    let ours: Vec<AccessRequest> = ["get", "create", "update"].map(|verb| asked(verb, NAMESPACE)).into();
    assert!(compare(&base, &ours).refused.is_empty());
    let theirs = [asked("get", "kube-system"), asked("patch", NAMESPACE), asked("delete", NAMESPACE)];
    assert_eq!(compare(&base, &theirs).refused.len(), 3);
}

#[test]
fn the_webhook_overlay_may_write_its_own_configuration_and_no_other() {
    let webhook = operator_grants("webhook");
    let asked = |verb: &str, name: &str| AccessRequest {
        verb: verb.to_owned(),
        group: "admissionregistration.k8s.io".to_owned(),
        resource: "validatingwebhookconfigurations".to_owned(),
        name: name.to_owned(),
        ..AccessRequest::default()
    };
    let objects = rendered_overlay("webhook");
    let configuration = name(of_kind(&objects, "ValidatingWebhookConfiguration")[0]).to_owned();
    assert!(
        compare(&webhook, &[asked("get", &configuration), asked("patch", &configuration)]).refused.is_empty()
    );
    for refused in [asked("patch", "somebody-elses"), asked("create", ""), asked("delete", &configuration)] {
        assert_eq!(compare(&webhook, [&refused]).refused.len(), 1, "{refused}");
    }
    assert_eq!(compare(&operator_grants("base"), &[asked("patch", &configuration)]).refused.len(), 1);
}

#[test]
fn the_webhook_overlay_may_keep_its_certificates_and_nothing_beside_them() {
    let webhook: Vec<Grant> =
        operator_grants("webhook").into_iter().filter(|it| it.role == "capt-webhook").collect();
    let asked = |verb: &str, namespace: &str, name: &str| AccessRequest {
        verb: verb.to_owned(),
        resource: "secrets".to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        ..AccessRequest::default()
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
        let objects = rendered_overlay(overlay);
        let pod = of_kind(&objects, "Deployment")[0]["spec"]["template"]["spec"].clone();
        assert_eq!(pod["serviceAccountName"], ACCOUNT);
        let roles = objects.iter().filter(|it: &&Value| it["kind"] == "ClusterRole" || it["kind"] == "Role");
        let roles: BTreeSet<&str> = roles.filter(|it| !is_for_users(it)).map(name).collect();
        let grants = operator_grants(overlay);
        let bound: BTreeSet<&str> = grants.iter().map(|it| it.role.as_str()).collect();
        assert_eq!(roles, bound, "{overlay}");
    }
}
