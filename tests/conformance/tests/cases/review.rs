//! Reviews: who am I, may I, may somebody, whose token is this.

use conformance::{Case, Context, Outcome, Req, cases};
use serde_json::{Value, json};

const AUTHORIZATION: &str = "/apis/authorization.k8s.io/v1";
const AUTHENTICATION: &str = "/apis/authentication.k8s.io/v1";

pub(crate) fn cases() -> Vec<Case> {
    cases!["review":
        who_i_am,
        what_i_may,
        what_i_may_outside_resources,
        what_i_may_with_both_attributes,
        what_somebody_may,
        what_somebody_may_by_a_role,
        what_somebody_may_in_a_namespace,
        a_subject_that_is_nobody,
        rules_of_mine,
        a_token_that_is_none,
        a_token_of_a_service_account,
        a_token_request,
    ]
}

async fn who_i_am(c: &mut Context) -> Outcome {
    let answer = c.send_ok(Req::post(format!("{AUTHENTICATION}/selfsubjectreviews"), json!({}))).await?;
    c.record("kind", json!([answer.value_at("/apiVersion"), answer.value_at("/kind")]));
    let groups = answer.value_at("/status/userInfo/groups").as_array().cloned().unwrap_or_default();
    c.record("has a name", !answer.str_at("/status/userInfo/username").is_empty());
    c.record("is a master", groups.contains(&json!("system:masters")));
    c.record("is authenticated", groups.contains(&json!("system:authenticated")));
    Ok(())
}

async fn what_i_may(c: &mut Context) -> Outcome {
    let body = json!({ "spec": { "resourceAttributes": { "namespace": "{ns}", "verb": "create", "resource": "pods" } } });
    c.post("pods", &format!("{AUTHORIZATION}/selfsubjectaccessreviews"), body).await?;
    Ok(())
}

async fn what_i_may_outside_resources(c: &mut Context) -> Outcome {
    let body = json!({ "spec": { "nonResourceAttributes": { "path": "/healthz", "verb": "get" } } });
    c.post("path", &format!("{AUTHORIZATION}/selfsubjectaccessreviews"), body).await?;
    Ok(())
}

async fn what_i_may_with_both_attributes(c: &mut Context) -> Outcome {
    let path = format!("{AUTHORIZATION}/selfsubjectaccessreviews");
    let both = json!({ "spec": { "nonResourceAttributes": { "path": "/", "verb": "get" }, "resourceAttributes": { "verb": "get", "resource": "pods" } } });
    c.post("both", &path, both).await?;
    c.post("neither", &path, json!({ "spec": {} })).await?;
    Ok(())
}

fn about(user: &str, verb: &str, resource: &str) -> Value {
    json!({ "spec": { "user": user, "resourceAttributes": { "namespace": "{ns}", "verb": verb, "resource": resource } } })
}

async fn what_somebody_may(c: &mut Context) -> Outcome {
    let path = format!("{AUTHORIZATION}/subjectaccessreviews");
    c.post("nobody", &path, about("nobody-{id}", "get", "secrets")).await?;
    let master = json!({ "spec": { "user": "x", "groups": ["system:masters"], "resourceAttributes": { "verb": "*", "resource": "*", "group": "*" } } });
    c.post("a master", &path, master).await?;
    Ok(())
}

async fn what_somebody_may_by_a_role(c: &mut Context) -> Outcome {
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}";
    let rules = json!([{ "apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list"] }]);
    c.create(&format!("{rbac}/roles"), json!({ "metadata": { "name": "r" }, "rules": rules })).await?;
    c.create(&format!("{rbac}/rolebindings"), json!({ "metadata": { "name": "b" }, "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r" },
        "subjects": [{ "kind": "User", "name": "user-{id}", "apiGroup": "rbac.authorization.k8s.io" }] }))
        .await?;
    let path = format!("{AUTHORIZATION}/subjectaccessreviews");
    // The authoriser learns of the role a moment later.
    conformance::wait_for("the role", || async {
        Ok(c.send(Req::post(path.clone(), about("user-{id}", "get", "secrets")))
            .await?
            .value_at("/status/allowed")
            == json!(true))
    })
    .await?;
    for (verb, resource) in [("get", "secrets"), ("delete", "secrets"), ("get", "pods")] {
        let answer = c.send_ok(Req::post(path.clone(), about("user-{id}", verb, resource))).await?;
        c.record(&format!("{verb} {resource}"), answer.value_at("/status"));
    }
    Ok(())
}

async fn what_somebody_may_in_a_namespace(c: &mut Context) -> Outcome {
    let path = format!("{AUTHORIZATION}/namespaces/{{ns}}/localsubjectaccessreviews");
    let mut body = about("nobody-{id}", "get", "secrets");
    body["metadata"] = json!({ "namespace": "{ns}" });
    c.post("local", &path, body.clone()).await?;
    body["spec"]["resourceAttributes"]["namespace"] = json!("elsewhere");
    c.post("elsewhere", &path, body).await?;
    Ok(())
}

async fn a_subject_that_is_nobody(c: &mut Context) -> Outcome {
    let body = json!({ "spec": { "resourceAttributes": { "verb": "get", "resource": "pods" } } });
    c.post("no user", &format!("{AUTHORIZATION}/subjectaccessreviews"), body).await?;
    Ok(())
}

async fn rules_of_mine(c: &mut Context) -> Outcome {
    let body = json!({ "spec": { "namespace": "{ns}" } });
    let answer = c.send_ok(Req::post(format!("{AUTHORIZATION}/selfsubjectrulesreviews"), body)).await?;
    c.record("kind", answer.value_at("/kind"));
    c.record("incomplete", answer.value_at("/status/incomplete"));
    let all = json!({ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] });
    c.record(
        "everything",
        answer.value_at("/status/resourceRules").as_array().is_some_and(|rules| rules.contains(&all)),
    );
    Ok(())
}

async fn a_token_that_is_none(c: &mut Context) -> Outcome {
    let path = format!("{AUTHENTICATION}/tokenreviews");
    let answer = c.send_ok(Req::post(path.clone(), json!({ "spec": { "token": "nonsense" } }))).await?;
    c.record("authenticated", answer.value_at("/status/authenticated"));
    c.record("has an error", !answer.str_at("/status/error").is_empty());
    c.post("no token", &path, json!({ "spec": {} })).await?;
    Ok(())
}

const TOKENS: &str = "/api/v1/namespaces/{ns}/serviceaccounts/robot/token";

async fn token(c: &mut Context) -> Result<conformance::ApiResponse, anyhow::Error> {
    c.create("/api/v1/namespaces/{ns}/serviceaccounts", json!({ "metadata": { "name": "robot" } })).await?;
    c.send_ok(Req::post(TOKENS, json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": { "expirationSeconds": 3600 } }))).await
}

async fn a_token_of_a_service_account(c: &mut Context) -> Outcome {
    let token = token(c).await?.str_at("/status/token");
    let answer = c
        .send_ok(Req::post(format!("{AUTHENTICATION}/tokenreviews"), json!({ "spec": { "token": token } })))
        .await?;
    c.record("authenticated", answer.value_at("/status/authenticated"));
    c.record("name", answer.value_at("/status/user/username"));
    c.record("groups", answer.value_at("/status/user/groups"));
    c.record("has a uid", !answer.str_at("/status/user/uid").is_empty());
    Ok(())
}

async fn a_token_request(c: &mut Context) -> Outcome {
    let answer = token(c).await?;
    c.record("kind", json!([answer.value_at("/apiVersion"), answer.value_at("/kind")]));
    c.record("seconds", answer.value_at("/spec/expirationSeconds"));
    c.record("audiences", answer.value_at("/spec/audiences"));
    c.record("looks like a token", answer.str_at("/status/token").split('.').count());
    c.record("expires", answer.value_at("/status/expirationTimestamp"));
    let short = json!({ "spec": { "expirationSeconds": 5 } });
    c.post("too short", TOKENS, short).await?;
    c.post("nobody's", "/api/v1/namespaces/{ns}/serviceaccounts/nobody/token", json!({ "spec": {} })).await?;
    Ok(())
}
