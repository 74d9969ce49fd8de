//! Bad input (sandbox B.5): what an API server refuses, our validator refuses too, and both name the field.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on stops, and says where"
)]

mod cases;
mod server;

use capt_kinds::sandbox::{LocalWorkload, RouteGroup, Sandbox};
use kube::{
    Api, ResourceExt as _,
    api::{DynamicObject, PostParams},
};
use sandbox::{
    rejection::Rejection,
    validate::{validate_group, validate_local, validate_sandbox},
};
use serde_json::{Value, json};

use self::cases::{
    Case, fork, good, group, groups, local, locals, mapping, sandbox, sandbox_fields, sandboxes,
};

fn verdict(object: &Value) -> Result<(), Rejection> {
    let invalid = |error: &serde_json::Error| Rejection::new("InvalidSpec", error.to_string());
    match object["kind"].as_str().unwrap() {
        "Sandbox" => serde_json::from_value::<Sandbox>(object.clone())
            .map_err(|it| invalid(&it))
            .and_then(|it| validate_sandbox(&it)),
        "RouteGroup" => serde_json::from_value::<RouteGroup>(object.clone())
            .map_err(|it| invalid(&it))
            .and_then(|it| validate_group(&it)),
        _ => serde_json::from_value::<LocalWorkload>(object.clone())
            .map_err(|it| invalid(&it))
            .and_then(|it| validate_local(&it)),
    }
}

/// Where the field is, without numbers: `mappings[0].port` of ours is `mappings[0].port` or `mappings` of the server's.
fn names(text: &str, field: &str) -> bool {
    let last = field.rsplit(['.', '[']).find(|it| !it.ends_with(']')).unwrap_or(field);
    text.contains(field) || text.contains(last)
}

#[tokio::test]
async fn b5_what_the_api_server_refuses_the_validator_refuses_too() {
    let kube = server::start().await;
    for Case(what, object, field) in
        sandboxes().into_iter().chain(sandbox_fields()).chain(groups()).chain(locals())
    {
        let api: Api<DynamicObject> = server::api(&kube, object["kind"].as_str().unwrap());
        let given: DynamicObject = serde_json::from_value(object.clone()).unwrap();
        let answer = api.create(&PostParams::default(), &given).await;
        let kube::Error::Api(status) = answer.expect_err(what) else { panic!("{what}: no answer") };
        assert_eq!(status.code, 422, "{what}: {}", status.message);
        assert!(
            names(&status.message, field),
            "{what}: the server does not name {field}: {}",
            status.message
        );
        let refusal = verdict(&object).expect_err(what);
        assert_eq!(refusal.reason, "InvalidSpec", "{what}");
        assert!(refusal.message.contains(field), "{what}: the validator does not name {field}: {refusal}");
    }
}

#[tokio::test]
async fn what_the_definition_shows_is_taken_whole_by_both() {
    let kube = server::start().await;
    for object in good() {
        let api: Api<DynamicObject> = server::api(&kube, object["kind"].as_str().unwrap());
        let given: DynamicObject = serde_json::from_value(object.clone()).unwrap();
        let kept = api.create(&PostParams::default(), &given).await.unwrap();
        server::assert_kept(&object["spec"], &kept.data["spec"]);
        assert_eq!(verdict(&object), Ok(()), "{}", given.name_any());
        assert_eq!(
            verdict(&serde_json::to_value(&kept).unwrap()),
            Ok(()),
            "{} with its defaults",
            given.name_any()
        );
    }
}

#[tokio::test]
async fn b5_what_cannot_be_changed_is_not_changed() {
    let kube = server::start().await;
    let cases = [
        (
            sandbox("a", &json!({"forks": [fork("cart")], "routingKey": "one"})),
            "/spec/routingKey",
            json!("two"),
            "routingKey",
        ),
        (
            sandbox("b", &json!({"forks": [fork("cart")], "clusterRef": {"name": "one"}})),
            "/spec/clusterRef/name",
            json!("two"),
            "clusterRef",
        ),
        (
            group(&json!({"match": {"label": {"key": "a", "value": "b"}}, "routingKey": "one"})),
            "/spec/routingKey",
            json!("two"),
            "routingKey",
        ),
        (local(&mapping(80, "localhost:80")), "/spec/sandboxRef/name", json!("two"), "sandboxRef"),
    ];
    for (object, at, value, field) in cases {
        let api: Api<DynamicObject> = server::api(&kube, object["kind"].as_str().unwrap());
        let given: DynamicObject = serde_json::from_value(object.clone()).unwrap();
        let kept = api.create(&PostParams::default(), &given).await.unwrap();
        let mut changed = serde_json::to_value(&kept).unwrap();
        *changed.pointer_mut(at).unwrap() = value;
        let changed: DynamicObject = serde_json::from_value(changed).unwrap();
        let answer = api.replace(&given.name_any(), &PostParams::default(), &changed).await;
        let kube::Error::Api(status) = answer.expect_err(field) else { panic!("{field}: no answer") };
        assert!(status.code == 422 && status.message.contains(field), "{}", status.message);
        // Anything else may be.
        let mut described = kept.clone();
        described.metadata.labels = Some([("team".to_owned(), "cart".to_owned())].into());
        api.replace(&given.name_any(), &PostParams::default(), &described).await.unwrap();
    }
}

#[tokio::test]
async fn b5_a_key_that_was_left_out_cannot_be_added_later() {
    let kube = server::start().await;
    let api: Api<DynamicObject> = server::api(&kube, "Sandbox");
    let given: DynamicObject =
        serde_json::from_value(sandbox("c", &json!({"forks": [fork("cart")]}))).unwrap();
    let mut kept = api.create(&PostParams::default(), &given).await.unwrap();
    kept.data["spec"]["routingKey"] = json!("later");
    let kube::Error::Api(status) = api.replace("c", &PostParams::default(), &kept).await.unwrap_err() else {
        panic!("no answer")
    };
    assert!(status.message.contains("routingKey"), "{}", status.message);
}
