//! Proxy settings.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use super::admin_access::AdminAuthorizer;

/// Proxy settings.
#[derive(Debug, Clone)]
pub struct ProxySettings {
    /// Name of this router. Each session of a local workload is held by one router.
    pub name: String,
    /// Listen address of route listeners.
    pub address: IpAddr,
    /// Listener that routes by `Host`: for previews, and for callers that address the router itself.
    pub host_listener: Option<SocketAddr>,
    /// Listen address of the admin port.
    pub admin: Option<SocketAddr>,
    /// Decides who may read routes on the admin port from another machine; everybody if `None`.
    pub admin_authorizer: Option<Arc<dyn AdminAuthorizer>>,
    /// Number of threads. Each has its own listeners, connections and pool.
    pub workers: usize,
    /// Whether responses name their responder in `x-sandbox-route`.
    pub show_route: bool,
    /// Whether pods are simulated on this machine, with 127.x.y.z for the address 10.x.y.z.
    pub loopback_pods: bool,
    /// Whether simple HTTP/1.1 requests take the fast path instead of hyper. Callers see no difference.
    pub http1_fast_path: bool,
    /// Limits.
    pub limits: ProxyLimits,
    /// How long a listener outlives its route: callers need time to learn of the removal.
    pub linger: Duration,
    /// Drain timeout at shutdown.
    pub drain: Duration,
}

impl Default for ProxySettings {
    fn default() -> Self {
        Self {
            name: "router".to_owned(),
            address: Ipv4Addr::UNSPECIFIED.into(),
            host_listener: None,
            admin: None,
            admin_authorizer: None,
            workers: 1,
            show_route: true,
            loopback_pods: false,
            http1_fast_path: true,
            limits: ProxyLimits::default(),
            linger: Duration::from_secs(15),
            drain: Duration::from_secs(30),
        }
    }
}

/// Limits and timeouts.
#[derive(Debug, Clone)]
pub struct ProxyLimits {
    /// Open caller connections over all workers. Further ones wait in the listen backlog. From 80 % on, those that have
    /// been idle for longest are closed.
    pub max_connections: usize,
    /// Open connections of one peer address. Further ones replace an idle one of that peer, or are closed.
    pub max_connections_per_peer: usize,
    /// Maximum bytes of a request or response head.
    pub max_head_bytes: usize,
    /// Maximum header lines of a head.
    pub max_headers: usize,
    /// Timeout from the first to the last byte of a head.
    pub head_timeout: Duration,
    /// Timeout from the start of a connection to its first byte.
    pub first_byte_timeout: Duration,
    /// Timeout between two requests of a connection.
    pub idle_timeout: Duration,
    /// Interval in which a caller must take [`Self::min_write_bytes`] of a response that waits for it.
    pub write_interval: Duration,
    /// Bytes that a caller must take in each [`Self::write_interval`].
    pub min_write_bytes: usize,
    /// Requests of an HTTP/2 connection that its caller may reset before their response, in each
    /// [`Self::reset_interval`].
    pub max_premature_resets: u32,
    /// Interval of [`Self::max_premature_resets`].
    pub reset_interval: Duration,
    /// Silence after which a server-first protocol is considered.
    pub server_first_delay: Duration,
    /// Timeout of connecting to a pod.
    pub connect_timeout: Duration,
    /// How long a request waits for a session that moves between routers.
    pub session_move_timeout: Duration,
    /// Maximum buffered body of a request that may fall through.
    pub max_buffered_body: usize,
}

impl Default for ProxyLimits {
    fn default() -> Self {
        Self {
            max_connections: 20_000,
            max_connections_per_peer: 5_000,
            max_head_bytes: 64 * 1024,
            max_headers: 200,
            head_timeout: Duration::from_secs(30),
            first_byte_timeout: Duration::from_mins(5),
            idle_timeout: Duration::from_mins(5),
            write_interval: Duration::from_secs(30),
            min_write_bytes: 4096,
            max_premature_resets: 100,
            reset_interval: Duration::from_secs(30),
            server_first_delay: Duration::from_millis(300),
            connect_timeout: Duration::from_secs(5),
            session_move_timeout: Duration::from_secs(2),
            max_buffered_body: 1024 * 1024,
        }
    }
}
