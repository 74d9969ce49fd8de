//! The router as a process of its own, with a table of the given number of keys.

use std::{
    io::Read,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use sandbox_router::{
    local_transport::NoLocalTransport,
    proxy::{Proxy, ProxySettings},
    table::{Backend, Route, RouteTable, RoutingKey, ServicePort, Target},
};

/// `port backend backend-of-http2 other-backend-of-http2 keys`
pub(crate) fn run(arguments: &[String]) {
    let number = |at: usize| arguments[at].parse::<u16>().unwrap();
    let (port, backends, keys) = (number(0), [number(1), number(2), number(3)], number(4));
    // Like the binary: one thread for everything but the requests.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let settings = ProxySettings { address: Ipv4Addr::LOCALHOST.into(), ..ProxySettings::default() };
        let proxy = Proxy::start(settings, Arc::new(NoLocalTransport)).unwrap();
        let mut builder = RouteTable::builder();
        for (listen, to) in (port..).zip(backends) {
            let to = SocketAddr::from((Ipv4Addr::LOCALHOST, to));
            let service = ServicePort::new("shop", &format!("at-{listen}"), 80);
            let route = builder.add(Route::new(service, Backend::baseline([to])).with_listener(listen));
            for at in 1..=keys {
                let fork = Backend::fork("shop", &format!("pr-{at}"), [to]);
                route.set_override(RoutingKey::parse(&format!("k{at}")).unwrap(), Target::Backend(fork));
            }
        }
        let applied = proxy.apply(builder.build()).await;
        assert!(applied.failed.is_empty(), "{applied:?}");
        tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).unwrap().recv().await;
    });
    let _ = std::io::stdin().read(&mut [0]);
}
