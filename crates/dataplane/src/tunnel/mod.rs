//! Connects the tunnel gateway of a router with the API server: authorizes agents, reports sessions, publishes the CA.
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
mod session_status;
mod tls;

pub use self::{
    authority::ApiServerAuthority,
    report::{RouterIdentity, report_sessions},
    tls::{AUTHORITY, AUTHORITY_KEY, server_name},
};
pub(super) use self::{session_status::expected_session, tls::LateCertificate};
