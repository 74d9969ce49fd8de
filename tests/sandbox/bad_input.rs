//! F8: every case of bad input results in the expected reason, creates nothing, and costs few reconciles.

use http::Method;
use serde_json::{Value, json};

use super::{
    fault_injection::FaultEffect,
    harness::SandboxHarness,
    lifecycle::namespace_with_cart,
    test_namespace::{TestNamespace, condition_message, deployment_object, fork_spec},
};

/// What the API server says to a Sandbox that breaks a rule of its kind.
async fn admission_error(shop: &TestNamespace, name: &str, spec: Value) -> String {
    let object = json!({"metadata": {"name": name}, "spec": spec});
    match shop.create_object("Sandbox", object).await {
        Ok(_) => panic!("{name} was taken"),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn f8_what_a_rule_can_see_is_refused_and_the_field_is_named() {
    let world = SandboxHarness::idle().await;
    let shop = world.create_namespace().await;
    let fork = || json!({"forkOf": {"name": "cart"}});
    let local = |to: &str, port: i32| json!({"local": [{"name": "l", "from": {"name": "web"}, "mappings": [{"port": port, "toLocal": to}]}]});
    let same = json!({"forks": [fork()], "local": [{"name": "l", "from": {"name": "cart"}, "mappings": [{"port": 1, "toLocal": "a:1"}]}]});
    let endpoint = |name: &str| json!({"name": name, "target": "http://web.shop.svc"});
    let rows = [
        ("a-name-of-more-than-thirty-chars", json!({"forks": [fork()]}), "metadata.name"),
        ("nothing", json!({}), "at least one of forks, local and virtual"),
        (
            "twice",
            json!({"forks": [{"name": "a", "forkOf": {"name": "x"}}, {"name": "a", "forkOf": {"name": "y"}}]}),
            "forks",
        ),
        ("endpoints", json!({"forks": [fork()], "endpoints": [endpoint("a"), endpoint("a")]}), "endpoints"),
        (
            "same-baseline",
            json!({"forks": [{"name": "a", "forkOf": {"name": "x"}}, {"name": "b", "forkOf": {"name": "x"}}]}),
            "forkOf",
        ),
        ("fork-and-local", same, "local"),
        ("duration", json!({"forks": [fork()], "ttl": {"duration": "90s"}}), "ttl.duration"),
        ("port-zero", local("localhost:1", 0), "port"),
        ("port-too-high", local("localhost:1", 65536), "port"),
        ("no-port", local("localhost", 1), "toLocal"),
        ("kind", json!({"forks": [{"forkOf": {"kind": "StatefulSet", "name": "cart"}}]}), "forkOf.kind"),
    ];
    for (name, spec, field) in rows {
        let said = admission_error(&shop, name, spec).await;
        assert!(said.contains(field), "{name}: {said}");
    }
}

#[tokio::test]
async fn f8_what_cannot_be_changed_is_refused() {
    let world = SandboxHarness::idle().await;
    let shop = world.create_namespace().await;
    let mut spec = fork_spec("cart", &json!({}));
    spec["routingKey"] = json!("abc");
    spec["clusterRef"] = json!({"name": "eu"});
    shop.create_sandbox("pr-1", spec).await;
    for (field, patch) in
        [("routingKey", json!({"routingKey": "def"})), ("clusterRef", json!({"clusterRef": {"name": "us"}}))]
    {
        let error =
            shop.merge_patch("Sandbox", "pr-1", json!({"spec": patch})).await.unwrap_err().to_string();
        assert!(error.contains(field) && error.contains("cannot be changed"), "{error}");
    }
}

/// A row that the controller answers.
pub(crate) struct BadInputCase {
    pub(crate) name: &'static str,
    pub(crate) spec: Value,
    pub(crate) reason: &'static str,
    /// What people read.
    message: &'static str,
}

pub(crate) fn bad_input_cases() -> Vec<BadInputCase> {
    let row = |name, spec, reason, says| BadInputCase { name, spec, reason, message: says };
    let patched =
        |kind: &str, patch: &str| fork_spec("cart", &json!({"patch": {"type": kind, "value": patch}}));
    let elsewhere = json!({"forks": [{"forkOf": {"name": "cart", "namespace": "other"}}]});
    let mut target = fork_spec("cart", &json!({}));
    target["endpoints"] = json!([{"name": "web", "target": "http://web"}]);
    vec![
        row("elsewhere", elsewhere, "CrossNamespaceFork", "other"),
        row("of-a-fork", fork_spec("a-fork", &json!({})), "BaselineIsFork", "a-fork"),
        row(
            "which",
            fork_spec("two", &json!({"images": [{"image": "x"}]})),
            "ContainerRequired",
            "one of [app, sidecar]",
        ),
        row(
            "nobody",
            fork_spec("cart", &json!({"images": [{"container": "x", "image": "x"}]})),
            "ContainerNotFound",
            "app",
        ),
        row("no-yaml", patched("strategic", "spec: {{"), "InvalidPatch", "YAML"),
        row("no-object", patched("merge", "just text"), "InvalidPatch", "object"),
        row(
            "no-such-field",
            patched("json", "[{\"op\": \"remove\", \"path\": \"/spec/nothing\"}]"),
            "InvalidPatch",
            "",
        ),
        row(
            "no-such-op",
            patched("json", "[{\"op\": \"destroy\", \"path\": \"/spec\"}]"),
            "InvalidPatch",
            "",
        ),
        row(
            "bad-value",
            patched("strategic", "spec: {template: {spec: {restartPolicy: Sometimes}}}"),
            "InvalidPatch",
            "Sometimes",
        ),
        row("other-name", patched("merge", "metadata: {name: other}"), "InvalidPatch", ""),
        row(
            "other-selector",
            patched("merge", "spec: {selector: {matchLabels: {app: other}}}"),
            "InvalidPatch",
            "selector",
        ),
        row(
            "our-label",
            patched("merge", "spec: {template: {metadata: {labels: {sandbox.capt.x-k8s.io/fork: x}}}}"),
            "InvalidPatch",
            "sandbox.capt.x-k8s.io",
        ),
        row("host-port", fork_spec("hosted", &json!({})), "HostPort", "hostPort"),
        row(
            "host-network",
            patched("merge", "spec: {template: {spec: {hostNetwork: true}}}"),
            "HostPort",
            "hostNetwork",
        ),
        row(
            "keeps-app",
            fork_spec("cart", &json!({"preservedLabels": ["^app$"]})),
            "WouldReceiveBaselineTraffic",
            "Service cart",
        ),
        row("target", target, "InvalidTarget", "http://web"),
    ]
}

pub(crate) async fn namespace_with_bad_baselines(world: &SandboxHarness) -> TestNamespace {
    let shop = namespace_with_cart(world).await;
    let mut two = deployment_object("two");
    let containers = two["spec"]["template"]["spec"]["containers"].as_array_mut().unwrap();
    containers.push(json!({"name": "sidecar", "image": "repo/side:1"}));
    let mut hosted = deployment_object("hosted");
    hosted["spec"]["template"]["spec"]["containers"][0]["ports"][0]["hostPort"] = json!(8080);
    let mut fork = deployment_object("a-fork");
    fork["metadata"]["labels"]["sandbox.capt.x-k8s.io/fork"] = json!("a-fork");
    for object in [two, hosted, fork] {
        shop.create_object("Deployment", object).await.unwrap();
    }
    shop
}

#[tokio::test]
async fn f8_what_only_the_controller_can_see_is_said_and_makes_nothing() {
    let mut world = SandboxHarness::start().await;
    let shop = namespace_with_bad_baselines(&world).await;
    for BadInputCase { name, spec, reason, message } in bad_input_cases() {
        shop.create_sandbox(name, spec).await;
        let sandbox = shop.wait_for_condition(name, "Accepted", "False", reason).await;
        let text = condition_message(&sandbox, "Accepted");
        assert!(text.contains(message), "{name}: {text}");
        assert_eq!(sandbox["status"]["phase"], "Failed", "{name}");
        assert_eq!(sandbox["status"]["conditions"].as_array().map(Vec::len), Some(7), "{name}");
        assert!(shop.forks(name).await.is_empty() && shop.fork_services(name).await.is_empty(), "{name}");
    }
    world.settle().await;
    for BadInputCase { name, .. } in bad_input_cases() {
        shop.delete("Sandbox", name).await;
        shop.wait_until_deleted("Sandbox", name).await;
    }
    world.stop_controllers().await;
}

#[tokio::test]
async fn f8_a_refused_spec_is_looked_at_again_when_it_changes() {
    let world = SandboxHarness::start().await;
    let shop = namespace_with_bad_baselines(&world).await;
    shop.create_sandbox("pr-1", fork_spec("two", &json!({"images": [{"image": "x"}]}))).await;
    shop.wait_for_condition("pr-1", "Accepted", "False", "ContainerRequired").await;
    let right = fork_spec("two", &json!({"images": [{"container": "app", "image": "repo/two:1"}]}));
    shop.merge_patch("Sandbox", "pr-1", json!({ "spec": right })).await.unwrap();
    shop.wait_for_condition("pr-1", "ForksReady", "True", "Ready").await;
    // A spec that is wrong later leaves what is there alone.
    let wrong = fork_spec("two", &json!({"images": [{"container": "nobody", "image": "x"}]}));
    shop.merge_patch("Sandbox", "pr-1", json!({ "spec": wrong })).await.unwrap();
    shop.wait_for_condition("pr-1", "Accepted", "False", "ContainerNotFound").await;
    assert_eq!(shop.forks("pr-1").await.len(), 1);
}

#[tokio::test]
async fn f8_a_patch_may_remove_what_cannot_be_shared() {
    let world = SandboxHarness::start().await;
    let shop = namespace_with_bad_baselines(&world).await;
    let patch = "- {op: remove, path: /spec/template/spec/containers/0/ports/0/hostPort}";
    shop.create_sandbox("pr-1", fork_spec("hosted", &json!({"patch": {"type": "json", "value": patch}})))
        .await;
    shop.wait_for_condition("pr-1", "ForksReady", "True", "Ready").await;
}

#[tokio::test]
async fn f8_a_variable_that_is_not_there_may_be_deleted_and_is_told() {
    let world = SandboxHarness::start().await;
    let shop = namespace_with_cart(&world).await;
    shop.create_sandbox(
        "pr-1",
        fork_spec("cart", &json!({"env": [{"name": "NOBODY", "operation": "delete"}]})),
    )
    .await;
    shop.wait_for_condition("pr-1", "ForksReady", "True", "Ready").await;
    shop.wait_for("it is told", async || {
        let all = shop.list("Event", "").await;
        all.iter().any(|it| it["note"].as_str().is_some_and(|it| it.contains("NOBODY")))
    })
    .await;
}

#[tokio::test]
async fn f8_the_older_of_two_sandboxes_keeps_a_key_and_leaves_it_to_the_other() {
    let world = SandboxHarness::start().await;
    let shop = namespace_with_cart(&world).await;
    let with_key = || {
        let mut spec = fork_spec("cart", &json!({}));
        spec["routingKey"] = json!("abc");
        spec
    };
    shop.create_sandbox("a-first", with_key()).await;
    shop.wait_for_condition("a-first", "ForksReady", "True", "Ready").await;
    shop.create_sandbox("b-second", with_key()).await;
    let second = shop.wait_for_condition("b-second", "Accepted", "False", "RoutingKeyConflict").await;
    assert!(
        condition_message(&second, "Accepted").contains("shop/a-first"),
        "{}",
        condition_message(&second, "Accepted")
    );
    assert!(shop.forks("b-second").await.is_empty());
    shop.delete("Sandbox", "a-first").await;
    shop.wait_for_condition("b-second", "ForksReady", "True", "Ready").await;
}

#[tokio::test]
async fn f8_an_endpoint_waits_for_its_service() {
    let world = SandboxHarness::start().await;
    let shop = namespace_with_cart(&world).await;
    let mut spec = fork_spec("cart", &json!({}));
    spec["endpoints"] = json!([{"name": "web", "target": "http://web.shop.svc:80"}]);
    shop.create_sandbox("pr-1", spec).await;
    let sandbox = shop.wait_for_condition("pr-1", "Accepted", "False", "TargetNotFound").await;
    assert_eq!(sandbox["status"]["phase"], "Pending");
    shop.create_service("web").await;
    shop.wait_for_condition("pr-1", "Accepted", "True", "Accepted").await;
}

#[tokio::test]
async fn f8_a_name_that_is_taken_is_left_alone() {
    let world = SandboxHarness::idle().await;
    let shop = namespace_with_cart(&world).await;
    let sandbox = shop.create_fork("pr-1", "cart").await;
    assert_eq!(sandbox["metadata"]["name"], "pr-1");
    // A foreign Deployment has the name of the fork.
    let name = sandbox::fork::fork_name("shop", "cart", "pr-1");
    let theirs = shop.create_object("Deployment", deployment_object(&name)).await.unwrap();
    let mut world = world;
    world.start_controllers();
    let sandbox = shop.wait_for_condition("pr-1", "Accepted", "False", "NameTaken").await;
    assert!(condition_message(&sandbox, "Accepted").contains(&name));
    shop.delete("Sandbox", "pr-1").await;
    shop.wait_until_deleted("Sandbox", "pr-1").await;
    let now = shop.get("Deployment", &name).await.unwrap();
    assert_eq!(now["metadata"]["uid"], theirs["metadata"]["uid"]);
}

#[tokio::test]
async fn f8_trouble_of_the_api_server_is_never_a_failure_of_the_sandbox() {
    let world = SandboxHarness::start().await;
    let shop = namespace_with_cart(&world).await;
    let writes = |kind: &'static str| {
        move |method: &Method, path: &str| method != Method::GET && path.contains(&format!("/{kind}"))
    };
    world.faults.add(writes("deployments"), FaultEffect::Answer(500), 2);
    world.faults.add(writes("services"), FaultEffect::Answer(429), 1);
    world.faults.add(|_, path| path.ends_with("/sandboxes/pr-1/status"), FaultEffect::Answer(409), 2);
    shop.create_fork("pr-1", "cart").await;
    let seen = async {
        loop {
            let phase = shop.get("Sandbox", "pr-1").await.unwrap()["status"]["phase"].clone();
            assert_ne!(phase, "Failed");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        () = async { shop.wait_for_condition("pr-1", "ForksReady", "True", "Ready").await; } => {}
        () = seen => {}
    }
}
