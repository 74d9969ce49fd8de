//! F1, F9 and F13: whose pods a request reaches, through routers that run beside the controllers, and what the status says of it.

use std::net::SocketAddr;

use futures::{StreamExt as _, future::join_all, stream};
use kube::{api::DynamicObject, runtime::wait::await_condition};
use serde_json::json;

use super::{
    env_settings::env_number,
    network::in_own_network,
    routed_harness::{RoutedHarness, is_programmed},
    test_namespace::{TestNamespace, is_current},
    traffic::{send_request, service_endpoints},
};

fn baggage_header(key: &str) -> String {
    format!("baggage: sd-routing-key={key}\r\n")
}

const SERVICES: [&str; 3] = ["cart", "web", "mail"];
const KEYS: usize = 6;

/// Whether the Sandbox of this number forks the service of this number.
fn is_forked(sandbox: usize, service: usize) -> bool {
    !(sandbox + service).is_multiple_of(3)
}

/// Headers of one request, and the number of the Sandbox whose key they carry by the rules.
fn random_headers(numbers: &mut fastrand::Rng) -> (String, Option<usize>) {
    let (at, other) = (numbers.usize(..KEYS), numbers.usize(..KEYS));
    match numbers.u8(..9) {
        0 => (String::new(), None),
        1 => (baggage_header("nobodys"), None),
        2 | 3 => (baggage_header(&format!("pr-{at}-key")), Some(at)),
        4 => (format!("tracestate: a=b,sd-routing-key=pr-{at}-key\r\n"), Some(at)),
        5 => {
            let both = format!("tracestate: sd-routing-key=pr-{other}-key\r\n");
            (both + &baggage_header(&format!("pr-{at}-key")), Some(at))
        }
        6 => (format!("baggage: xsd-routing-key=pr-{at}-key,sd-routing-key-2=pr-{at}-key\r\n"), None),
        7 => (format!("baggage: sd-routing-key=PR-{at}-KEY, ,=,;;\"sd-routing-key=pr-{at}-key\"\r\n"), None),
        _ => ("baggage: =;,%%\r\n".to_owned(), None),
    }
}

/// The answers that were wrong, of so many.
async fn send_requests(seed: u64, count: usize, to: &[Vec<SocketAddr>]) -> Vec<String> {
    let mut numbers = fastrand::Rng::with_seed(seed);
    let mut wrong = Vec::new();
    for _ in 0..count {
        let service = numbers.usize(..SERVICES.len());
        let (headers, key) = random_headers(&mut numbers);
        let tag = match key.filter(|at| is_forked(*at, service)) {
            Some(at) => format!("pr-{at}"),
            None => "v1".to_owned(),
        };
        let way = to[service][numbers.usize(..to[service].len())];
        let said = send_request(way, &headers).await;
        if said.as_deref() != Ok(&format!("repo/{}:{tag}", SERVICES[service])) {
            wrong.push(format!("{headers:?} to {}: {said:?}", SERVICES[service]));
        }
    }
    wrong
}

/// `F1_REQUESTS=100000` is the number that the property asks for; the routers alone get fifty keys in their own tests.
#[tokio::test(flavor = "multi_thread")]
async fn f1_no_request_reaches_a_wrong_pod() {
    if !in_own_network("sandbox::routing_keys::f1_no_request_reaches_a_wrong_pod") {
        return;
    }
    let town = RoutedHarness::start(&SERVICES).await;
    for at in 0..KEYS {
        let of: Vec<&str> =
            (0..SERVICES.len()).filter(|it| is_forked(at, *it)).map(|service| SERVICES[service]).collect();
        town.create_sandbox(&format!("pr-{at}"), &of).await;
    }
    for at in 0..KEYS {
        town.namespace.wait_until("Sandbox", &format!("pr-{at}"), "programmed", is_programmed).await;
    }
    let to = join_all(SERVICES.iter().map(|it| service_endpoints(&town.namespace, it))).await;
    let count = env_number("F1_REQUESTS", 2000_usize);
    let callers = join_all((0..4).map(|seed| send_requests(seed, count.div_ceil(4), &to))).await;
    let wrong = callers.concat();
    assert!(wrong.is_empty(), "{} of {count}, the first: {}", wrong.len(), wrong[0]);
    town.shut_down().await;
}

/// What both routers say.
async fn answers_of_both_routers(
    shop: &TestNamespace,
    service: &str,
    key: &str,
) -> Vec<Result<String, String>> {
    let all = service_endpoints(shop, service).await;
    assert_eq!(all.len(), 2, "{service} leads to both");
    let headers = baggage_header(key);
    join_all(all.into_iter().map(|to| send_request(to, &headers))).await
}

async fn is_refused_by_both_routers(shop: &TestNamespace, service: &str, key: &str, why: &str) -> bool {
    let word = format!("x-sandbox-error: {why}");
    let is = |it: &Result<String, String>| {
        it.as_ref().is_err_and(|it| it.contains("HTTP/1.1 503 ") && it.contains(&word))
    };
    answers_of_both_routers(shop, service, key).await.iter().all(is)
}

/// Who has to answer which key of a service.
async fn assert_answers(shop: &TestNamespace, expected: &[(&str, &str, &str)]) {
    for (service, key, image) in expected {
        for said in answers_of_both_routers(shop, service, key).await {
            assert_eq!(said.as_deref(), Ok(*image), "{service} with {key:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn f9_a_conflict_harms_one_baseline_under_one_key_and_dead_pods_harm_nobody_else() {
    if !in_own_network(
        "sandbox::routing_keys::f9_a_conflict_harms_one_baseline_under_one_key_and_dead_pods_harm_nobody_else",
    ) {
        return;
    }
    let town = RoutedHarness::start(&SERVICES).await;
    let shop = &town.namespace;
    for (name, of) in [("a", &["cart", "web"][..]), ("b", &["cart"]), ("c", &["mail"])] {
        town.create_sandbox(name, of).await;
    }
    town.create_group().await;
    for name in ["a", "b", "c"] {
        shop.wait_until("Sandbox", name, "programmed", is_programmed).await;
    }
    let conflicts = json!([{"baseline": "shop/cart", "sandboxes": ["shop/a", "shop/b"]}]);
    shop.wait_until("RouteGroup", "g", "in conflict", |it| it["status"]["conflicts"] == conflicts).await;
    let conflict = async || is_refused_by_both_routers(shop, "cart", "group-key", "conflict").await;
    shop.wait_for("the group's key is refused where two want it", conflict).await;
    let others = [
        ("cart", "", "repo/cart:v1"),
        ("cart", "a-key", "repo/cart:a"),
        ("cart", "b-key", "repo/cart:b"),
        ("web", "group-key", "repo/web:a"),
        ("web", "b-key", "repo/web:v1"),
        ("mail", "", "repo/mail:v1"),
    ];
    assert_answers(shop, &others).await;
    assert_answers(shop, &[("mail", "group-key", "repo/mail:c")]).await;

    town.crash_image("c", "repo/mail:c").await;
    shop.wait_for("its routes say so", async || {
        assert_answers(shop, &others).await;
        is_refused_by_both_routers(shop, "mail", "group-key", "unready").await
    })
    .await;
    for _ in 0..20 {
        assert_answers(shop, &others).await;
    }
    town.shut_down().await;
}

/// Makes a Sandbox, and asks both routers in the moment in which its routes are said to be there.
async fn request_when_programmed(shop: &TestNamespace, name: String, ways: &[SocketAddr]) -> Vec<String> {
    shop.create_fork(&name, "cart").await;
    let is = |it: Option<&DynamicObject>| {
        it.is_some_and(|it| {
            let it = serde_json::to_value(it).unwrap();
            is_current(&it) && is_programmed(&it)
        })
    };
    let sandbox = await_condition(shop.api("Sandbox"), &name, is).await.unwrap().unwrap();
    let headers = baggage_header(sandbox.data["status"]["routingKey"].as_str().unwrap());
    let answers = join_all(ways.iter().map(|to| send_request(*to, &headers))).await;
    shop.delete("Sandbox", &name).await;
    shop.wait_until_deleted("Sandbox", &name).await;
    let expected = format!("repo/cart:{name}");
    let wrong = answers.into_iter().filter(|it| it.as_deref() != Ok(&expected));
    wrong.map(|it| format!("{name}: {it:?}")).collect()
}

/// `F13_SANDBOXES=1000` is the number that the property asks for.
#[tokio::test(flavor = "multi_thread")]
async fn f13_a_request_in_the_moment_in_which_routes_are_programmed_reaches_the_fork() {
    if !in_own_network(
        "sandbox::routing_keys::f13_a_request_in_the_moment_in_which_routes_are_programmed_reaches_the_fork",
    ) {
        return;
    }
    let town = RoutedHarness::start(&["cart"]).await;
    let to = service_endpoints(&town.namespace, "cart").await;
    let count = env_number("F13_SANDBOXES", 20);
    let all =
        stream::iter(0..count).map(|at| request_when_programmed(&town.namespace, format!("pr-{at}"), &to));
    // Others come and go meanwhile.
    let wrong: Vec<String> = all.buffer_unordered(4).collect::<Vec<_>>().await.concat();
    assert!(wrong.is_empty(), "{} of {count}: {wrong:#?}", wrong.len());
    town.shut_down().await;
}
