//! Authentication and authorization.

use embedded_kube::request::User;
use http::Request;
use serde_json::json;

use super::{MAPS, config_map, get, listening, memory, over_tls, post, send};

fn ann() -> User {
    User { name: "ann".to_owned(), groups: vec!["system:authenticated".to_owned()], ..User::default() }
}

#[tokio::test]
async fn nobody_sees_health_and_nothing_else() {
    let kube = listening().await;
    let nobody = over_tls(&kube, Some("")).await;
    assert_eq!(get(&nobody, "/healthz").await.text, "ok");
    let answer = get(&nobody, MAPS).await;
    assert_eq!(answer.code, 403);
    assert_eq!(
        answer.message(),
        r#"configmaps is forbidden: User "system:anonymous" cannot list resource "configmaps" in API group "" in the namespace "default""#
    );
    let answer = get(&nobody, "/nowhere").await;
    assert_eq!(
        (answer.code, answer.message().as_str()),
        (403, r#"forbidden: User "system:anonymous" cannot get path "/nowhere""#)
    );
}

#[tokio::test]
async fn a_wrong_token_is_unauthorized() {
    let kube = listening().await;
    for token in ["wrong", "a.b.c", "k8s-aws-v1.aGVsbG8"] {
        let answer = get(&over_tls(&kube, Some(token)).await, "/healthz").await;
        assert_eq!((answer.code, answer.message().as_str()), (401, "Unauthorized"), "{token}");
        assert_eq!(answer.json()["reason"], "Unauthorized");
    }
}

#[tokio::test]
async fn a_binding_gives_rights_at_once_and_takes_them_with_it() {
    let kube = memory().await;
    let (admin, ann) = (kube.client(), kube.client_as(ann()));
    assert_eq!(get(&ann, MAPS).await.code, 403);
    let binding = json!({
        "metadata": {"name": "ann"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"}],
    });
    let bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
    let made = post(&admin, bindings, &binding).await;
    assert_eq!(made.code, 201, "{}", made.text);
    assert_eq!(get(&ann, MAPS).await.code, 200);
    assert_eq!(get(&ann, "/api/v1/namespaces/kube-system/configmaps").await.code, 403);
    assert_eq!(get(&ann, "/api/v1/namespaces/default/secrets").await.code, 403);
    assert_eq!(send(&admin, Request::delete(format!("{bindings}/ann")), "").await.code, 200);
    assert_eq!(get(&ann, MAPS).await.code, 403);
}

#[tokio::test]
async fn whoever_may_change_but_not_create_creates_nothing_by_an_apply_or_a_put() {
    let kube = memory().await;
    let (admin, ann) = (kube.client(), kube.client_as(ann()));
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
    let rights = json!({"apiGroups": [""], "resources": ["configmaps", "services"], "verbs": ["get", "patch", "update"]});
    let role = json!({"metadata": {"name": "changer"}, "rules": [rights]});
    assert_eq!(post(&admin, &format!("{rbac}/roles"), &role).await.code, 201);
    let binding = json!({
        "metadata": {"name": "ann"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "changer"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"}],
    });
    assert_eq!(post(&admin, &format!("{rbac}/rolebindings"), &binding).await.code, 201);

    let apply = || {
        Request::patch(format!("{MAPS}/x?fieldManager=m"))
            .header("content-type", "application/apply-patch+yaml")
    };
    let map = config_map("x").to_string();
    let refused = send(&ann, apply(), map.clone()).await;
    assert_eq!(
        (refused.code, refused.message().as_str()),
        (
            403,
            r#"configmaps "x" is forbidden: User "ann" cannot create resource "configmaps" in API group "" in the namespace "default""#
        )
    );
    let service = "/api/v1/namespaces/default/services/s";
    let body = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    let put = || Request::put(service).header("content-type", "application/json");
    let refused = send(&ann, put(), body.to_string()).await;
    assert_eq!(
        (refused.code, refused.message().as_str()),
        (
            403,
            r#"services "s" is forbidden: User "ann" cannot create resource "services" in API group "" in the namespace "default""#
        )
    );
    assert_eq!(get(&admin, &format!("{MAPS}/x")).await.code, 404);

    assert_eq!(send(&admin, apply(), map.clone()).await.code, 201);
    assert_eq!(send(&admin, put(), body.to_string()).await.code, 201);
    assert_eq!(send(&ann, apply(), map).await.code, 200, "what is there may be changed");
    assert_eq!(send(&ann, put(), body.to_string()).await.code, 200);
}

#[tokio::test]
async fn impersonation_needs_leave_and_makes_another_user() {
    let kube = memory().await;
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let ask = || {
        Request::post(path)
            .header("content-type", "application/json")
            .header("impersonate-user", "bob")
            .header("impersonate-group", "devs")
    };
    let answer = send(&kube.client(), ask(), "{}").await;
    assert_eq!(answer.code, 201, "{}", answer.text);
    let info = &answer.json()["status"]["userInfo"];
    assert_eq!(*info, json!({"username": "bob", "groups": ["devs", "system:authenticated"]}));
    let refused = send(&kube.client_as(ann()), ask(), "{}").await;
    assert_eq!(
        (refused.code, refused.message().as_str()),
        (
            403,
            r#"users "bob" is forbidden: User "ann" cannot impersonate resource "users" in API group "" at the cluster scope"#
        )
    );
}

#[tokio::test]
async fn a_service_accounts_token_works_until_the_account_is_gone() {
    let kube = listening().await;
    let admin = kube.client();
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let made = post(&admin, accounts, &json!({"metadata": {"name": "bot"}})).await;
    assert_eq!(made.code, 201, "{}", made.text);
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let made = post(&admin, &format!("{accounts}/bot/token"), &request).await;
    assert_eq!(made.code, 201, "{}", made.text);
    let token = made.json()["status"]["token"].as_str().unwrap().to_owned();
    let bot = over_tls(&kube, Some(&token)).await;
    let me = post(&bot, "/apis/authentication.k8s.io/v1/selfsubjectreviews", &json!({})).await;
    assert_eq!(me.json()["status"]["userInfo"]["username"], "system:serviceaccount:default:bot");
    let review = json!({"spec": {"token": token}});
    let review = post(&admin, "/apis/authentication.k8s.io/v1/tokenreviews", &review).await;
    assert_eq!(review.json()["status"]["authenticated"], true, "{}", review.text);
    assert_eq!(send(&admin, Request::delete(format!("{accounts}/bot")), "").await.code, 200);
    assert_eq!(get(&bot, "/healthz").await.code, 401);
    let late = post(&admin, &format!("{accounts}/bot/token"), &request).await;
    assert_eq!((late.code, late.message().as_str()), (404, "serviceaccounts \"bot\" not found"));
    let short = json!({"spec": {"expirationSeconds": 5}});
    post(&admin, accounts, &json!({"metadata": {"name": "bot"}})).await;
    let short = post(&admin, &format!("{accounts}/bot/token"), &short).await;
    assert_eq!(short.code, 422, "{}", short.text);
}

#[tokio::test]
async fn access_reviews_say_yes_no_and_why() {
    let kube = memory().await;
    let (admin, ann) = (kube.client(), kube.client_as(ann()));
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let ask =
        json!({"spec": {"resourceAttributes": {"verb": "list", "resource": "pods", "namespace": "default"}}});
    assert_eq!(post(&admin, path, &ask).await.json()["status"], json!({"allowed": true}));
    assert_eq!(post(&ann, path, &ask).await.json()["status"], json!({"allowed": false}));
    let discover = json!({"spec": {"nonResourceAttributes": {"verb": "get", "path": "/api"}}});
    assert_eq!(
        post(&ann, path, &discover).await.json()["status"],
        json!({"allowed": true, "reason": "RBAC: allowed by ClusterRoleBinding \"system:discovery\" of ClusterRole \"system:discovery\" to Group \"system:authenticated\""})
    );
    assert_eq!(post(&ann, path, &json!({"spec": {}})).await.code, 422);
    let rules = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let rules = post(&ann, rules, &json!({"spec": {"namespace": "default"}})).await.json();
    let paths = rules["status"]["nonResourceRules"].to_string();
    assert!(paths.contains("/openapi/*"), "{rules}");
    let other = json!({"spec": {"user": "ann", "resourceAttributes": {"verb": "get", "resource": "pods"}}});
    let other = post(&admin, "/apis/authorization.k8s.io/v1/subjectaccessreviews", &other).await;
    assert_eq!(other.json()["status"]["allowed"], false);
}
