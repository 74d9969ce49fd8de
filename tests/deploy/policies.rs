//! The admission policies, evaluated as the API server does.

use std::sync::Arc;

use kube_cel::{
    KubeCelExt as _,
    cel::{Context, Program, Value as Cel, extractors::This, to_value},
};
use serde_json::{Value, json};

use super::overlays::{name, of_kind, rendered_overlay};

const OPERATOR: &str = "system:serviceaccount:capt-system:capt";

/// A request that a policy looks at.
struct Review {
    operation: &'static str,
    user: &'static str,
    /// Whether the user has the permission that the policy asks for.
    authorized: bool,
    object: Value,
    old_object: Value,
}

fn policy(of: &str) -> Value {
    let base = rendered_overlay("base");
    let found = of_kind(&base, "ValidatingAdmissionPolicy").into_iter().find(|it| name(it) == of).cloned();
    let policy = found.unwrap();
    let bound = of_kind(&base, "ValidatingAdmissionPolicyBinding")
        .into_iter()
        .any(|it| it["spec"]["policyName"] == of && it["spec"]["validationActions"] == json!(["Deny"]));
    assert!(bound, "{of} is bound, and denies");
    assert_eq!(policy["spec"]["failurePolicy"], "Fail", "{of}");
    policy["spec"].clone()
}

/// The first message of a policy that refuses the request.
fn refusal(policy: &Value, review: &Review) -> Option<String> {
    let mut context = Context::default().with_all();
    let request = json!({"operation": review.operation, "userInfo": {"username": review.user}});
    context.add_variable("request", to_value(request).unwrap()).unwrap();
    context.add_variable("object", to_value(&review.object).unwrap()).unwrap();
    context.add_variable("oldObject", to_value(&review.old_object).unwrap()).unwrap();
    add_authorizer(&mut context, review.authorized);
    for variable in policy["variables"].as_array().into_iter().flatten() {
        let value = evaluate(&context, &variable["expression"]);
        let name = format!("variables.{}", variable["name"].as_str().unwrap());
        // The variables of a policy are fields of one object; here each is a variable of its own.
        context.add_variable(name.replace('.', "_"), value).unwrap();
    }
    let conditions = policy["matchConditions"].as_array().into_iter().flatten();
    if conditions.into_iter().any(|it| evaluate(&context, &it["expression"]) != Cel::Bool(true)) {
        return None;
    }
    let mut rules = policy["validations"].as_array().unwrap().iter();
    let refusing = rules.find(|it| evaluate(&context, &it["expression"]) != Cel::Bool(true));
    refusing.map(|it| it["message"].as_str().unwrap().to_owned())
}

fn evaluate(context: &Context<'_>, expression: &Value) -> Cel {
    let text = expression.as_str().unwrap().replace("variables.", "variables_");
    let program = Program::compile(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
    program.execute(context).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The authorizer of the CEL library of Kubernetes, which allows or denies one permission.
fn add_authorizer(context: &mut Context<'_>, allowed: bool) {
    context.add_variable("authorizer", Cel::from("may")).unwrap();
    for step in ["group", "resource", "subresource", "namespace", "name", "check"] {
        context.add_function(step, move |This(so_far): This<Arc<String>>, what: Arc<String>| -> String {
            format!("{so_far} {step}={what}")
        });
    }
    context.add_function("allowed", move |This(asked): This<Arc<String>>| -> bool {
        assert_eq!(
            asked.as_str(),
            "may group=infrastructure.cluster.x-k8s.io resource=workspacetemplateapplies subresource=approval \
             namespace=team-a name=net check=update"
        );
        allowed
    });
}

/// A workspace with the annotations of an approval.
fn workspace(plan: Option<&str>, approver: Option<&str>) -> Value {
    let mut annotations = json!({"other": "annotation"});
    for (key, value) in [("capt.x-k8s.io/approve-plan", plan), ("capt.x-k8s.io/approved-by", approver)] {
        if let Some(value) = value {
            annotations[key] = value.into();
        }
    }
    json!({"metadata": {"name": "net", "namespace": "team-a", "annotations": annotations}})
}

#[test]
fn m3_an_approval_needs_its_own_permission_the_whole_hash_and_the_true_name() {
    let policy = policy("capt-approvals");
    let hash = "0123456789abcdef".repeat(4);
    let (before, approved) = (workspace(None, None), workspace(Some(&hash), Some("alice")));
    let update = |old: &Value, new: &Value, user: &'static str, authorized: bool| {
        let (object, old_object) = (new.clone(), old.clone());
        refusal(&policy, &Review { operation: "UPDATE", user, authorized, object, old_object })
    };
    assert_eq!(update(&before, &approved, "alice", true), None);
    let said = update(&before, &approved, "alice", false).unwrap();
    assert!(said.contains("workspacetemplateapplies/approval"), "{said}");
    for part in [&hash[..12], &hash[..63], "yes", &hash.to_uppercase()] {
        let said = update(&before, &workspace(Some(part), Some("alice")), "alice", true).unwrap();
        assert!(said.contains("the whole plan hash"), "{part}: {said}");
    }
    for approver in [Some("bob"), None] {
        let said = update(&before, &workspace(Some(&hash), approver), "alice", true).unwrap();
        assert!(said.contains("must be your user name"), "{approver:?}: {said}");
    }
    // Other edits of an approved object, and the withdrawal of an approval, need no permission.
    assert_eq!(update(&approved, &approved, "editor", false), None);
    assert_eq!(update(&approved, &before, "editor", false), None);
    // Neither a new plan nor another name comes with the permission of somebody else.
    for forged in [workspace(Some(&"f".repeat(64)), Some("alice")), workspace(Some(&hash), Some("bob"))] {
        assert!(update(&approved, &forged, "editor", false).is_some());
    }
    // An object without annotations.
    let bare = json!({"metadata": {"name": "net", "namespace": "team-a"}});
    assert_eq!(update(&bare, &bare, "editor", false), None);
    assert!(update(&bare, &approved, "editor", false).is_some());
}

#[test]
fn m3_an_object_is_not_created_approved_but_is_moved_with_its_approval() {
    let policy = policy("capt-approvals");
    let object = workspace(Some(&"a".repeat(64)), Some("alice"));
    let create = |authorized| {
        let (object, old_object) = (object.clone(), Value::Null);
        refusal(&policy, &Review { operation: "CREATE", user: "mover", authorized, object, old_object })
    };
    assert!(create(false).is_some());
    assert_eq!(create(true), None);
    let (object, old_object) = (workspace(None, None), Value::Null);
    let plain = Review { operation: "CREATE", user: "editor", authorized: false, object, old_object };
    assert_eq!(refusal(&policy, &plain), None);
}

/// The namespaces of a policy.
fn namespaces(policy: &Value) -> &Value {
    &policy["matchConstraints"]["namespaceSelector"]["matchExpressions"][0]["values"]
}

#[test]
fn h9_the_operator_changes_no_workload_of_the_control_plane() {
    let policy = policy("capt-operator-workloads");
    assert_eq!(*namespaces(&policy), json!(["kube-system", "kube-public", "kube-node-lease", "capt-system"]));
    let object = |labels: Value| json!({"metadata": {"name": "cart", "labels": labels}});
    let fork = object(json!({"sandbox.capt.x-k8s.io/sandbox": "pr-1"}));
    let review = |operation, user, object: &Value, old_object: &Value| {
        let (object, old_object) = (object.clone(), old_object.clone());
        refusal(&policy, &Review { operation, user, authorized: false, object, old_object })
    };
    let plain = object(json!({}));
    for (operation, new, old) in
        [("CREATE", &fork, &Value::Null), ("UPDATE", &fork, &fork), ("DELETE", &Value::Null, &plain)]
    {
        assert!(review(operation, OPERATOR, new, old).is_some(), "{operation}");
        assert_eq!(review(operation, "system:kube-controller-manager", new, old), None, "{operation}");
    }
    assert_eq!(review("DELETE", OPERATOR, &Value::Null, &fork), None, "what it left there");
}

#[test]
fn h9_nobody_makes_sandboxes_in_the_namespaces_of_the_control_plane() {
    let policy = policy("capt-sandbox-namespaces");
    assert_eq!(*namespaces(&policy), json!(["kube-system", "kube-public", "kube-node-lease", "capt-system"]));
    let rule = &policy["matchConstraints"]["resourceRules"][0];
    // Existing ones can be deleted, finalizers included.
    assert_eq!(rule["operations"], json!(["CREATE"]));
    let kinds: Vec<_> = capt_kinds::sandbox::crds().into_iter().map(|it| it.spec.names.plural).collect();
    for kind in kinds {
        assert!(rule["resources"].as_array().unwrap().iter().any(|it| *it == kind), "{kind}");
    }
    let (object, old_object) = (json!({"metadata": {}}), Value::Null);
    let review = Review { operation: "CREATE", user: "admin", authorized: true, object, old_object };
    assert!(refusal(&policy, &review).is_some());
}
