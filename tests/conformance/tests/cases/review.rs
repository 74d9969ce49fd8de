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
    let answer = c.must(Req::post(format!("{AUTHENTICATION}/selfsubjectreviews"), json!({}))).await?;
    c.saw("kind", json!([answer.at("/apiVersion"), answer.at("/kind")]));
    let groups = answer.at("/status/userInfo/groups").as_array().cloned().unwrap_or_default();
    c.saw("has a name", !answer.text("/status/userInfo/username").is_empty());
    c.saw("is a master", groups.contains(&json!("system:masters")));
    c.saw("is authenticated", groups.contains(&json!("system:authenticated")));
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
    c.make(&format!("{rbac}/roles"), json!({ "metadata": { "name": "r" }, "rules": rules })).await?;
    c.make(&format!("{rbac}/rolebindings"), json!({ "metadata": { "name": "b" }, "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r" },
        "subjects": [{ "kind": "User", "name": "user-{id}", "apiGroup": "rbac.authorization.k8s.io" }] }))
        .await?;
    let path = format!("{AUTHORIZATION}/subjectaccessreviews");
    // The authoriser learns of the role a moment later.
    conformance::eventually("the role", || async {
        Ok(c.send(Req::post(path.clone(), about("user-{id}", "get", "secrets"))).await?.at("/status/allowed")
            == json!(true))
    })
    .await?;
    for (verb, resource) in [("get", "secrets"), ("delete", "secrets"), ("get", "pods")] {
        let answer = c.must(Req::post(path.clone(), about("user-{id}", verb, resource))).await?;
        c.saw(&format!("{verb} {resource}"), answer.at("/status"));
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
    let answer = c.must(Req::post(format!("{AUTHORIZATION}/selfsubjectrulesreviews"), body)).await?;
    c.saw("kind", answer.at("/kind"));
    c.saw("incomplete", answer.at("/status/incomplete"));
    let all = json!({ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] });
    c.saw(
        "everything",
        answer.at("/status/resourceRules").as_array().is_some_and(|rules| rules.contains(&all)),
    );
    Ok(())
}

async fn a_token_that_is_none(c: &mut Context) -> Outcome {
    let path = format!("{AUTHENTICATION}/tokenreviews");
    let answer = c.must(Req::post(path.clone(), json!({ "spec": { "token": "nonsense" } }))).await?;
    c.saw("authenticated", answer.at("/status/authenticated"));
    c.saw("has an error", !answer.text("/status/error").is_empty());
    c.post("no token", &path, json!({ "spec": {} })).await?;
    Ok(())
}

const TOKENS: &str = "/api/v1/namespaces/{ns}/serviceaccounts/robot/token";

async fn token(c: &mut Context) -> Result<conformance::Answer, anyhow::Error> {
    c.make("/api/v1/namespaces/{ns}/serviceaccounts", json!({ "metadata": { "name": "robot" } })).await?;
    c.must(Req::post(TOKENS, json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": { "expirationSeconds": 3600 } }))).await
}

async fn a_token_of_a_service_account(c: &mut Context) -> Outcome {
    let token = token(c).await?.text("/status/token");
    let answer = c
        .must(Req::post(format!("{AUTHENTICATION}/tokenreviews"), json!({ "spec": { "token": token } })))
        .await?;
    c.saw("authenticated", answer.at("/status/authenticated"));
    c.saw("name", answer.at("/status/user/username"));
    c.saw("groups", answer.at("/status/user/groups"));
    c.saw("has a uid", !answer.text("/status/user/uid").is_empty());
    Ok(())
}

async fn a_token_request(c: &mut Context) -> Outcome {
    let answer = token(c).await?;
    c.saw("kind", json!([answer.at("/apiVersion"), answer.at("/kind")]));
    c.saw("seconds", answer.at("/spec/expirationSeconds"));
    c.saw("audiences", answer.at("/spec/audiences"));
    c.saw("looks like a token", answer.text("/status/token").split('.').count());
    c.saw("expires", answer.at("/status/expirationTimestamp"));
    let short = json!({ "spec": { "expirationSeconds": 5 } });
    c.post("too short", TOKENS, short).await?;
    c.post("nobody's", "/api/v1/namespaces/{ns}/serviceaccounts/nobody/token", json!({ "spec": {} })).await?;
    Ok(())
}
