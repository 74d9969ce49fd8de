//! Prometheus metrics of a router.

use std::{fmt::Write as _, sync::atomic::Ordering};

use super::worker::ProxyShared;
use crate::{
    local_transport::TunnelStats,
    table::{BUCKETS, MetricsSnapshot, Route, RouteTable},
};

/// All metrics. No label contains a routing key: their number is unbounded.
pub(super) fn render_routes(table: &RouteTable, pools: (usize, usize), connections: usize) -> String {
    let mut out = String::new();
    let routes = table
        .routes()
        .iter()
        .map(|route| (service_label(route), route.metrics().snapshot()))
        .collect::<Vec<_>>();
    write_header(&mut out, "router_requests_total", "counter", "Requests by kind of responder.");
    for (service, reading) in &routes {
        for (kind, count) in reading.requests {
            write_sample(
                &mut out,
                "router_requests_total",
                &format!("{service},route=\"{}\"", kind.as_str()),
                count,
            );
        }
    }
    for (name, help, of) in [
        (
            "router_unknown_key_total",
            "Requests with a routing key that no route has.",
            (|reading| reading.unknown_keys) as fn(&MetricsSnapshot) -> u64,
        ),
        ("router_passed_through_total", "Connections that are not HTTP.", |reading| reading.passed_through),
    ] {
        write_header(&mut out, name, "counter", help);
        for (service, reading) in &routes {
            write_sample(&mut out, name, service, of(reading));
        }
    }
    write_durations(&mut out, &routes);
    for (name, help, value) in [
        ("router_table_entries", "Overrides in the table.", table.override_count()),
        ("router_table_routes", "Ports of services in the table.", table.routes().len()),
        ("router_connections", "Open connections from callers.", connections),
        ("router_pool_idle", "Idle connections to pods.", pools.0),
        ("router_pool_shared", "Shared connections to pods.", pools.1),
    ] {
        write_header(&mut out, name, "gauge", help);
        write_sample(&mut out, name, "", value);
    }
    out
}

/// Connections that were closed or refused because of a limit.
pub(super) fn render_limits(shared: &ProxyShared) -> String {
    let (evicted, refused) = shared.connections.counts();
    let mut out = String::new();
    let name = "router_connections_closed_total";
    write_header(&mut out, name, "counter", "Connections from callers closed because of a limit.");
    for (limit, count) in [
        ("idle", evicted),
        ("peer", refused),
        ("read", shared.writes.stalled()),
        ("resets", shared.reset_floods.load(Ordering::Relaxed)),
    ] {
        write_sample(&mut out, name, &format!("limit=\"{limit}\""), count);
    }
    out
}

/// Metrics of the tunnel. A workload has a time series only while an agent is connected.
pub(super) fn render_tunnel(figures: &TunnelStats) -> String {
    let mut out = String::new();
    write_header(&mut out, "tunnel_connected", "gauge", "Local workloads with a connected agent.");
    write_sample(&mut out, "tunnel_connected", "", figures.connected.len());
    write_header(
        &mut out,
        "tunnel_rtt_seconds",
        "gauge",
        "Round-trip time of the last ping to a developer's machine.",
    );
    for (workload, rtt) in &figures.connected {
        if let Some(rtt) = rtt {
            let label = format!("workload=\"{workload}\"");
            write_sample(&mut out, "tunnel_rtt_seconds", &label, rtt.as_secs_f64());
        }
    }
    let help = "Reconnects of agents.";
    write_header(&mut out, "tunnel_reconnects_total", "counter", help);
    write_sample(&mut out, "tunnel_reconnects_total", "", figures.reconnects);
    out
}

fn write_durations(out: &mut String, routes: &[(String, MetricsSnapshot)]) {
    let name = "router_request_duration_seconds";
    write_header(out, name, "histogram", "From the request head to the end of the response.");
    for (service, reading) in routes {
        for (at, count) in reading.cumulative.iter().enumerate() {
            let end = BUCKETS.get(at).map_or_else(|| "+Inf".to_owned(), |micros| seconds(*micros));
            write_sample(out, &format!("{name}_bucket"), &format!("{service},le=\"{end}\""), count);
        }
        write_sample(out, &format!("{name}_sum"), service, reading.sum.as_secs_f64());
        write_sample(out, &format!("{name}_count"), service, reading.cumulative[BUCKETS.len()]);
    }
}

fn seconds(micros: u64) -> String {
    std::time::Duration::from_micros(micros).as_secs_f64().to_string()
}

/// Kubernetes names need no escaping.
fn service_label(route: &Route) -> String {
    format!("service=\"{}\"", route.service())
}

fn write_header(out: &mut String, name: &str, kind: &str, help: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn write_sample(out: &mut String, name: &str, labels: &str, value: impl std::fmt::Display) {
    let _ = if labels.is_empty() {
        writeln!(out, "{name} {value}")
    } else {
        writeln!(out, "{name}{{{labels}}} {value}")
    };
}
