//! F1: no request reaches a wrong backend.

use std::net::SocketAddr;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use sandbox_router::table::{Backend, Route, ServicePort, Target};

use super::harness::{Pod, Reserved, http1, http2, key, proxy, table, whole};

const KEYS: u64 = 50;

/// Headers of one request, and the number of the key that they carry by the rules.
fn headers(numbers: &mut fastrand::Rng) -> (Vec<(&'static str, String)>, Option<u64>) {
    let at = numbers.u64(..KEYS);
    let other = numbers.u64(..KEYS);
    match numbers.u64(..14) {
        0 | 1 => (vec![], None),
        2 => (vec![("baggage", "sd-routing-key=nobodys".into())], None),
        3 | 4 => (vec![("baggage", format!("sd-routing-key=key-{at}"))], Some(at)),
        5 => (vec![("tracestate", format!("a=b,sd-routing-key=key-{at}"))], Some(at)),
        6 => (vec![("baggage", format!("x=1;p=2 , sd-sandbox = key-{at};q"))], Some(at)),
        7 => (
            vec![
                ("tracestate", format!("sd-routing-key=key-{other}")),
                ("baggage", format!("sd-routing-key=key-{at}")),
            ],
            Some(at),
        ),
        8 => (vec![("ot-baggage-sd-routing-key", format!("key-{at}"))], Some(at)),
        9 => (vec![("baggage", "u=1".into()), ("baggage", format!("sd-routing-key=key%2D{at}"))], Some(at)),
        // Look-alikes.
        10 => (vec![("baggage", format!("xsd-routing-key=key-{at},sd-routing-key-2=key-{at}"))], None),
        11 => (vec![("baggage", format!("u=sd-routing-key=key-{at};sd-routing-key=key-{at}"))], None),
        12 => (vec![("baggage", format!("sd-routing-key=KEY-{at}, ,=,;;\"sd-routing-key=key-{at}\""))], None),
        _ => (vec![("x-tenant", format!("key-{at}")), ("baggage", "=;,%%".into())], Some(at)),
    }
}

struct IsolationFixture {
    _pods: Vec<Pod>,
    ports: Vec<Reserved>,
}

/// Three services. Service `s` has forks for the keys that `has` says.
fn has(service: u64, key: u64) -> bool {
    !(key + service).is_multiple_of(3)
}

async fn isolation_fixture(proxy: &sandbox_router::proxy::Proxy) -> IsolationFixture {
    let (mut pods, mut ports, mut routes) = (vec![], vec![], vec![]);
    for service in 0..3 {
        let baseline = Pod::start(&format!("s{service}-baseline")).await;
        let port = Reserved::new();
        let name = ServicePort::new("shop", &format!("s{service}"), 80);
        let mut route = Route::new(name, Backend::baseline([baseline.address])).with_listener(port.port);
        route.add_key_header(http::HeaderName::from_static("x-tenant"));
        for at in (0..KEYS).filter(|at| has(service, *at)) {
            let fork = Pod::start(&format!("s{service}-key-{at}")).await;
            let target = Target::Backend(Backend::fork("shop", &format!("pr-{at}"), [fork.address]));
            route.set_override(key(&format!("key-{at}")), target);
            pods.push(fork);
        }
        pods.push(baseline);
        ports.push(port);
        routes.push(route);
    }
    let applied = proxy.apply(table(routes)).await;
    assert!(applied.failed.is_empty(), "{applied:?}");
    IsolationFixture { _pods: pods, ports }
}

fn request(headers: Vec<(&'static str, String)>) -> Request<Full<Bytes>> {
    let mut request = Request::get("http://cart.shop/nothing").body(Full::default()).unwrap();
    request.headers_mut().insert("host", "cart.shop".parse().unwrap());
    for (name, value) in headers {
        request.headers_mut().append(name, value.parse().unwrap());
    }
    request
}

/// One caller: every connection carries many requests to many places.
async fn caller(seed: u64, count: usize, ports: Vec<SocketAddr>) -> usize {
    let mut numbers = fastrand::Rng::with_seed(seed);
    let mut wrong = 0;
    let (mut single, mut shared) = (vec![], vec![]);
    for port in &ports {
        single.push(http1(*port).await);
        shared.push(http2(*port).await);
    }
    for _ in 0..count {
        let service = numbers.u64(..3);
        let at = usize::try_from(service).unwrap();
        let (headers, key) = headers(&mut numbers);
        let expected = match key.filter(|key| has(service, *key)) {
            Some(key) => format!("s{service}-key-{key}"),
            None => format!("s{service}-baseline"),
        };
        let response = if numbers.u64(..4) == 0 {
            shared[at].send_request(request(headers)).await
        } else {
            single[at].ready().await.unwrap();
            let mut request = request(headers);
            *request.uri_mut() = "/nothing".parse().unwrap();
            single[at].send_request(request).await
        };
        let (status, headers, _) = whole(response.unwrap()).await;
        if status != 200 || headers.get("x-pod").is_none_or(|pod| pod != expected.as_str()) {
            wrong += 1;
        }
    }
    wrong
}

/// `F1_REQUESTS=100000` is the number that the property asks for.
#[tokio::test(flavor = "multi_thread")]
async fn f1_no_request_reaches_a_wrong_backend() {
    let count = std::env::var("F1_REQUESTS").map_or(20_000, |count| count.parse::<usize>().unwrap());
    let proxy = proxy();
    let world = isolation_fixture(&proxy).await;
    let ports = world.ports.iter().map(Reserved::address).collect::<Vec<_>>();
    let callers = (0..8).map(|seed| tokio::spawn(caller(seed, count.div_ceil(8), ports.clone())));
    let wrong = futures::future::join_all(callers).await.into_iter().map(Result::unwrap).sum::<usize>();
    assert_eq!(wrong, 0, "of {count}");
}
