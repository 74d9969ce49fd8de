//! A Sandbox from its making to its end.

use serde_json::{Value, json};

use super::{
    harness::SandboxHarness,
    test_namespace::{GROUP, TestNamespace, condition, condition_message, fork_spec, name},
};

/// A shop with one service whose pods are there.
pub(crate) async fn namespace_with_cart(world: &SandboxHarness) -> TestNamespace {
    let shop = world.create_namespace().await;
    shop.create_settled_service("cart").await;
    shop
}

#[tokio::test]
async fn a_fork_is_made_with_its_service_and_goes_with_its_sandbox() {
    let mut world = SandboxHarness::start().await;
    let shop = namespace_with_cart(&world).await;
    shop.create_fork("pr-1", "cart").await;
    shop.wait_for_condition("pr-1", "ForksReady", "True", "Ready").await;
    let sandbox = shop.wait_for_condition("pr-1", "RoutesProgrammed", "False", "NoRouters").await;
    assert_eq!(condition(&sandbox, "Accepted"), ("True".to_owned(), "Accepted".to_owned()));
    assert_eq!(condition(&sandbox, "BaselineResolved"), ("True".to_owned(), "BaselineFound".to_owned()));
    assert_eq!(condition(&sandbox, "ComputeReady"), ("True".to_owned(), "Nodes".to_owned()));
    assert_eq!(condition(&sandbox, "LocalsConnected"), ("True".to_owned(), "None".to_owned()));
    assert_eq!(sandbox["status"]["conditions"].as_array().map(Vec::len), Some(7), "all of them, always");
    assert_eq!(sandbox["status"]["readyForks"], "1/1");
    assert_eq!(sandbox["status"]["routingKey"].as_str().map(str::len), Some(13));

    let forks = shop.forks("pr-1").await;
    assert_eq!(forks.len(), 1);
    let fork = &forks[0];
    let status = &sandbox["status"]["forks"][0];
    assert_eq!(status["workload"], fork["metadata"]["name"]);
    assert_eq!(
        (&status["replicas"], &status["readyReplicas"], &status["upToDate"]),
        (&json!(1), &json!(1), &json!(true))
    );
    let container = &fork["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], "repo/cart:pr-1");
    let labels = fork["spec"]["template"]["metadata"]["labels"].as_object().unwrap();
    assert!(labels.keys().all(|it| it.starts_with(GROUP)), "{labels:?}");
    let owner = &fork["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["kind"], &owner["name"], &owner["controller"]),
        (&json!("Sandbox"), &json!("pr-1"), &json!(true))
    );

    let services = shop.fork_services("pr-1").await;
    assert_eq!(services.len(), 1);
    let (from, to) = (&status["services"][0]["from"], &status["services"][0]["to"]);
    assert_eq!((from, to), (&json!("cart"), &services[0]["metadata"]["name"]));
    assert_eq!(status["services"][0]["ports"], json!([{"port": 80, "targetPort": 8080}]));
    let slices = format!("kubernetes.io/service-name={}", name(&services[0]));
    shop.wait_for("the fork's Service leads to its pod", async || {
        let slices = shop.list("EndpointSlice", &slices).await;
        slices.iter().any(|it| it["endpoints"].as_array().is_some_and(|all| all.len() == 1))
    })
    .await;
    for reason in ["Accepted", "Forked", "ForkReady"] {
        shop.wait_for_event("pr-1", reason).await;
    }

    shop.delete("Sandbox", "pr-1").await;
    shop.wait_until_deleted("Sandbox", "pr-1").await;
    assert!(shop.forks("pr-1").await.is_empty() && shop.fork_services("pr-1").await.is_empty());
    assert!(shop.get("Deployment", "cart").await.is_some() && shop.get("Service", "cart").await.is_some());
    shop.wait_for_event("pr-1", "CleanedUp").await;
    world.stop_controllers().await;
}

#[tokio::test]
async fn a_pod_that_does_not_start_says_why_in_the_status() {
    let world = SandboxHarness::start().await;
    let shop = namespace_with_cart(&world).await;
    world.node.fail_image("repo/cart:pr-1", "ImagePullBackOff", "not found");
    shop.create_fork("pr-1", "cart").await;
    let sandbox = shop.wait_for_condition("pr-1", "ForksReady", "False", "PodFailing").await;
    assert_eq!(sandbox["status"]["forks"][0]["message"], "ImagePullBackOff: repo/cart:pr-1: not found");
    assert!(
        condition_message(&sandbox, "Ready").contains("ImagePullBackOff"),
        "{}",
        condition_message(&sandbox, "Ready")
    );
    assert_ne!(sandbox["status"]["phase"], "Failed", "it may still come");
    shop.wait_for_event("pr-1", "ForkFailed").await;
    world.node.clear_failures();
    shop.wait_for_condition("pr-1", "ForksReady", "True", "Ready").await;
}

#[tokio::test]
async fn a_pod_without_a_node_is_told_in_the_words_of_the_scheduler() {
    let world = SandboxHarness::start().await;
    let shop = namespace_with_cart(&world).await;
    world.node.leave_unscheduled("repo/cart:pr-1");
    shop.create_fork("pr-1", "cart").await;
    shop.wait_for_condition("pr-1", "ForksReady", "False", "Progressing").await;
    let of_sandbox = format!("{GROUP}/sandbox=pr-1");
    let pods = async || shop.list("Pod", &of_sandbox).await;
    shop.wait_for("there is a pod", async || !pods().await.is_empty()).await;
    let pods = pods().await;
    let text = "Pod not supported on Fargate: fields not supported: HostPort";
    shop.create_scheduling_event(&pods[0], text).await;
    // Events are not watched; they are polled while a fork is not ready.
    let sandbox = shop.wait_for_condition("pr-1", "ForksReady", "False", "PodFailing").await;
    assert!(
        condition_message(&sandbox, "ForksReady").contains(text),
        "{}",
        condition_message(&sandbox, "ForksReady")
    );
}

#[tokio::test]
async fn what_somebody_else_changes_of_a_fork_is_put_right() {
    let world = SandboxHarness::start().await;
    let shop = namespace_with_cart(&world).await;
    shop.create_fork("pr-1", "cart").await;
    shop.wait_for_condition("pr-1", "ForksReady", "True", "Ready").await;
    let fork = name(&shop.forks("pr-1").await[0]).to_owned();
    let patch =
        json!({"spec": {"replicas": 3}, "metadata": {"labels": {(format!("{GROUP}/baseline")): "x"}}});
    shop.merge_patch("Deployment", &fork, patch).await.unwrap();
    let is_right = |it: &Value| {
        it["spec"]["replicas"] == 1 && it["metadata"]["labels"][format!("{GROUP}/baseline")] == "cart"
    };
    shop.wait_until("Deployment", &fork, "as it was", is_right).await;

    let service = name(&shop.fork_services("pr-1").await[0]).to_owned();
    shop.delete("Service", &service).await;
    shop.wait_until("Service", &service, "there again", |it| {
        it["metadata"].get("deletionTimestamp").is_none()
    })
    .await;
    shop.delete("Deployment", &fork).await;
    shop.wait_until("Deployment", &fork, "there again", |it| {
        it["metadata"].get("deletionTimestamp").is_none()
    })
    .await;
}

#[tokio::test]
async fn a_changed_spec_changes_the_fork_and_drops_what_it_does_not_name_any_more() {
    let world = SandboxHarness::start().await;
    let shop = namespace_with_cart(&world).await;
    shop.create_service("web").await;
    let spec = json!({"forks": [
        {"forkOf": {"name": "cart"}, "customizations": {"images": [{"image": "repo/cart:a"}]}},
        {"forkOf": {"name": "web"}},
    ]});
    shop.create_sandbox("pr-1", spec).await;
    shop.wait_for_condition("pr-1", "ForksReady", "True", "Ready").await;
    assert_eq!((shop.forks("pr-1").await.len(), shop.fork_services("pr-1").await.len()), (2, 2));
    let custom = json!({"images": [{"image": "repo/cart:b"}], "env": [{"name": "LOG", "value": "debug"}]});
    shop.merge_patch("Sandbox", "pr-1", json!({"spec": fork_spec("cart", &custom)})).await.unwrap();
    shop.wait_for("one fork is left, and it is another one", async || {
        let forks = shop.forks("pr-1").await;
        let image = |it: &Value| it["spec"]["template"]["spec"]["containers"][0]["image"].clone();
        forks.len() == 1 && image(&forks[0]) == "repo/cart:b" && shop.fork_services("pr-1").await.len() == 1
    })
    .await;
    let fork = &shop.forks("pr-1").await[0];
    let env = fork["spec"]["template"]["spec"]["containers"][0]["env"].as_array().unwrap().clone();
    assert!(env.contains(&json!({"name": "LOG", "value": "debug"})), "{env:?}");
    assert!(env.contains(&json!({"name": "SANDBOX_NAME", "value": "pr-1"})), "{env:?}");
}

#[tokio::test]
async fn local_workloads_of_the_spec_become_objects_that_go_with_it() {
    let world = SandboxHarness::start().await;
    let shop = namespace_with_cart(&world).await;
    let local = json!({"local": [{"name": "mine", "from": {"name": "cart"},
        "mappings": [{"port": 8080, "toLocal": "localhost:3000"}]}]});
    shop.create_sandbox("pr-1", local).await;
    let made = shop.wait_until("LocalWorkload", "pr-1-mine", "there", |_| true).await;
    assert_eq!(made["spec"]["sandboxRef"]["name"], "pr-1");
    assert_eq!(made["spec"]["mappings"][0]["toLocal"], "localhost:3000");
    let is_led =
        |it: &Value| it["status"]["services"][0]["ports"] == json!([{"port": 80, "targetPort": 8080}]);
    shop.wait_until("LocalWorkload", "pr-1-mine", "told which Services lead to it", is_led).await;
    let sandbox = shop.wait_for_condition("pr-1", "LocalsConnected", "False", "NotConnected").await;
    assert_eq!(sandbox["status"]["connectedLocals"], "0/1");
    assert!(shop.forks("pr-1").await.is_empty());

    let now = json!([{"type": "Connected", "status": "True", "reason": "Connected", "message": "",
        "lastTransitionTime": "2026-11-17T05:00:00Z"}]);
    shop.set_status("LocalWorkload", "pr-1-mine", json!({"conditions": now})).await;
    let sandbox = shop.wait_for_condition("pr-1", "LocalsConnected", "True", "Connected").await;
    assert_eq!(sandbox["status"]["connectedLocals"], "1/1");
    shop.delete("Sandbox", "pr-1").await;
    shop.wait_until_deleted("Sandbox", "pr-1").await;
    assert!(shop.get("LocalWorkload", "pr-1-mine").await.is_none());
}

/// What a router needs to send requests to a developer's machine is there when the agent connects.
#[tokio::test]
async fn a_local_workload_has_a_route_as_soon_as_its_service_is_there() {
    let mut world = SandboxHarness::start().await;
    let shop = namespace_with_cart(&world).await;
    shop.create_sandbox("pr-1", json!({"virtual": [{"name": "v", "workload": {"name": "cart"}}]})).await;
    let spec = json!({"sandboxRef": {"name": "pr-1"}, "from": {"name": "cart"},
        "mappings": [{"port": 8080, "toLocal": "localhost:3000"}]});
    shop.create_object("LocalWorkload", json!({"metadata": {"name": "mine"}, "spec": spec})).await.unwrap();
    let services = |it: &Value| it["status"]["services"].as_array().map_or(0, Vec::len);
    shop.wait_until("LocalWorkload", "mine", "behind one Service", |it| services(it) == 1).await;
    let mut other = super::test_namespace::service_object("cart");
    other["metadata"]["name"] = json!("basket");
    shop.create_object("Service", other).await.unwrap();
    shop.wait_until("LocalWorkload", "mine", "behind two", |it| services(it) == 2).await;
    shop.delete("Service", "basket").await;
    shop.wait_until("LocalWorkload", "mine", "behind one again", |it| services(it) == 1).await;
    // Under the key of the Sandbox, which it may get later.
    shop.wait_for("the route leads there", async || {
        super::route_status::route_target(&shop, "cart", 80, "pr-1").await.as_deref()
            == Some("local/shop/mine")
    })
    .await;
    shop.delete("Deployment", "cart").await;
    let is_lost = |it: &Value| condition(it, "Accepted").1 == "BaselineNotFound";
    shop.wait_until("LocalWorkload", "mine", "without a baseline", is_lost).await;
    world.stop_controllers().await;
}

#[tokio::test]
async fn a_sandbox_waits_for_its_baseline_and_keeps_its_fork_when_that_goes() {
    let world = SandboxHarness::start().await;
    let shop = world.create_namespace().await;
    shop.create_fork("pr-1", "cart").await;
    let sandbox = shop.wait_for_condition("pr-1", "BaselineResolved", "False", "BaselineNotFound").await;
    assert_eq!(sandbox["status"]["phase"], "Pending");
    assert!(shop.forks("pr-1").await.is_empty());
    shop.create_service("cart").await;
    shop.wait_for_condition("pr-1", "ForksReady", "True", "Ready").await;
    shop.delete("Deployment", "cart").await;
    let sandbox = shop.wait_for_condition("pr-1", "BaselineResolved", "False", "BaselineDeleted").await;
    assert_eq!(sandbox["status"]["forks"][0]["readyReplicas"], 1);
    assert_eq!((shop.forks("pr-1").await.len(), shop.fork_services("pr-1").await.len()), (1, 1));
}

#[tokio::test]
async fn forks_are_told_the_addresses_of_their_neighbours() {
    let world = SandboxHarness::start().await;
    let shop = namespace_with_cart(&world).await;
    shop.create_service("web").await;
    let from = json!({"fork": {"forkOf": {"name": "cart"}, "expression": "http://{{.Service.Host}}:{{.Service.Port}}/"}});
    let spec = json!({"forks": [
        {"forkOf": {"name": "cart"}},
        {"forkOf": {"name": "web"}, "customizations": {"env": [{"name": "CART", "valueFrom": from}]}},
    ]});
    shop.create_sandbox("pr-1", spec).await;
    let sandbox = shop.wait_for_condition("pr-1", "ForksReady", "True", "Ready").await;
    let to = sandbox["status"]["forks"][0]["services"][0]["to"].as_str().unwrap();
    let forks = shop.forks("pr-1").await;
    let web = forks.iter().find(|it| name(it).starts_with("web-")).unwrap();
    let env = web["spec"]["template"]["spec"]["containers"][0]["env"].as_array().unwrap();
    let value = env.iter().find(|it| it["name"] == "CART").unwrap()["value"].as_str().unwrap();
    assert_eq!(value, format!("http://{to}.shop.svc:80/"));
}

#[tokio::test]
async fn a_virtual_workload_is_told_with_the_services_that_lead_to_it() {
    let world = SandboxHarness::start().await;
    let shop = namespace_with_cart(&world).await;
    shop.create_sandbox("pr-1", json!({"virtual": [{"name": "v", "workload": {"name": "cart"}}]})).await;
    let sandbox = shop.wait_for_condition("pr-1", "BaselineResolved", "True", "BaselineFound").await;
    let services = json!([{"service": "cart", "ports": [{"port": 80, "targetPort": 8080}]}]);
    assert_eq!(sandbox["status"]["virtual"], json!([{"name": "v", "services": services}]));
    assert!(shop.forks("pr-1").await.is_empty());
}
