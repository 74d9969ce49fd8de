//! What a proxy is told at its start.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::Duration,
};

/// What a proxy is told at its start.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Its own name among the routers; sessions of local workloads are at one of them.
    pub name: String,
    /// Where the listeners of routes are.
    pub address: IpAddr,
    /// One listener for all routes, which goes by `Host`: for previews, and for callers that name the router themselves.
    pub front: Option<SocketAddr>,
    /// Health, metrics and explanations.
    pub admin: Option<SocketAddr>,
    /// Threads. Each one has its own listeners, connections and pool.
    pub workers: usize,
    /// Whether answers say who gave them, in `x-sandbox-route`.
    pub show_route: bool,
    /// Whether pods are processes of this machine, at 127.x.y.z for an address 10.x.y.z: where a cluster is only played.
    pub loopback_pods: bool,
    /// What nobody may exceed.
    pub limits: Limits,
    /// How long a listener stays when its route is gone: callers need a while to learn of it.
    pub linger: Duration,
    /// How long requests may take to finish at the end.
    pub drain: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            name: "router".to_owned(),
            address: Ipv4Addr::UNSPECIFIED.into(),
            front: None,
            admin: None,
            workers: 1,
            show_route: true,
            loopback_pods: false,
            limits: Limits::default(),
            linger: Duration::from_secs(15),
            drain: Duration::from_secs(30),
        }
    }
}

/// What nobody may exceed.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Open connections from callers, all workers together. Further ones wait to be accepted.
    pub connections: usize,
    /// Bytes of a request's or an answer's head.
    pub head_bytes: usize,
    /// Header lines of a head.
    pub head_lines: usize,
    /// From the first byte of a head to its last.
    pub head_time: Duration,
    /// From the start of a connection to its first byte.
    pub first_byte: Duration,
    /// Between two requests of a connection.
    pub idle: Duration,
    /// After so much silence the service is asked whether it speaks first.
    pub silence: Duration,
    /// Opening a connection to a pod.
    pub connect: Duration,
    /// How long a request waits for a session that is on its way from one router to another.
    pub moving: Duration,
    /// How much of a body is kept for a request that a local process may let fall through.
    pub kept_body: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 20_000,
            head_bytes: 64 * 1024,
            head_lines: 200,
            head_time: Duration::from_secs(30),
            first_byte: Duration::from_mins(5),
            idle: Duration::from_hours(1),
            silence: Duration::from_millis(300),
            connect: Duration::from_secs(5),
            moving: Duration::from_secs(2),
            kept_body: 1024 * 1024,
        }
    }
}
