//! A service and a fork of it, behind the router, on this machine: `cargo run -p sandbox-router --example two`.

use std::{convert::Infallible, net::Ipv4Addr, sync::Arc};

use http_body_util::Full;
use hyper::{Response, body::Bytes, service::service_fn};
use hyper_util::rt::TokioIo;
use sandbox_router::{
    local_transport::NoLocalTransport,
    proxy::{Proxy, ProxySettings},
    table::{Backend, Route, RouteTable, RoutingKey, ServicePort, Target},
};
use tokio::net::TcpListener;

const PORT: u16 = 8080;

#[tokio::main]
#[expect(clippy::print_stdout, reason = "that is what an example is for")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (baseline, fork) = (pod("the service as it is\n").await?, pod("the fork of pr-1\n").await?);
    let settings = ProxySettings { address: Ipv4Addr::LOCALHOST.into(), ..ProxySettings::default() };
    let proxy = Proxy::start(settings, Arc::new(NoLocalTransport))?;
    let mut builder = RouteTable::builder();
    let service = ServicePort::new("shop", "cart", 80);
    let route = builder.add(Route::new(service, Backend::baseline([baseline])).with_listener(PORT));
    let key = RoutingKey::parse("k1").ok_or("k1 is a key")?;
    route.set_override(key, Target::Backend(Backend::fork("shop", "pr-1", [fork])));
    if let Some((port, error)) = proxy.apply(builder.build()).await.failed.pop() {
        return Err(format!("port {port} of this machine is taken: {error}").into());
    }
    println!("curl localhost:{PORT}");
    println!("curl localhost:{PORT} -H 'baggage: sd-routing-key=k1'");
    tokio::signal::ctrl_c().await?;
    proxy.stop().await;
    Ok(())
}

/// A server that always says the same.
async fn pod(says: &'static str) -> std::io::Result<std::net::SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let answer = service_fn(async |_| {
                Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(says.as_bytes()))))
            });
            tokio::spawn(
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer),
            );
        }
    });
    Ok(address)
}
