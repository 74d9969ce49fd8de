//! What the gateway of a router asks and tells the API server: whether somebody may connect, who is connected, and whose
//! certificate agents may trust.
//!
//! A router serves tunnels with these lines; the [`Gateway`] is also the `Locals` of its proxy:
//!
//! ```ignore
//! let gateway = Gateway::new(Arc::new(ApiServer::new(kube.clone())), Times::default());
//! let listener = TcpListener::bind(("0.0.0.0", sandbox_router::tunnel::PORT)).await?;
//! tasks.spawn(gateway.clone().serve(listener, tls, stop.clone()));
//! tasks.spawn(report(kube, namespace, gateway.clone(), Router { name, address }, stop.clone()));
//! ```
//!
//! [`Gateway`]: sandbox_router::tunnel::gateway::Gateway

mod authority;
mod report;
mod tls;
mod words;

pub use self::{
    authority::ApiServer,
    report::{Router, report},
    tls::{AUTHORITY, AUTHORITY_KEY, server_name},
};
pub(super) use self::{tls::Late, words::expected};
