//! What a router has seen, as Prometheus reads it.

use std::fmt::Write as _;

use crate::{
    locals::Figures,
    table::{BUCKETS, Reading, Route, Table},
};

/// All figures. No label has a routing key: there are too many of them.
pub(super) fn text(table: &Table, pools: (usize, usize), connections: usize) -> String {
    let mut out = String::new();
    let routes = table.routes().iter().map(|route| (label(route), route.meter().read())).collect::<Vec<_>>();
    head(&mut out, "router_requests_total", "counter", "Requests by what answered.");
    for (service, reading) in &routes {
        for (kind, count) in reading.requests {
            line(&mut out, "router_requests_total", &format!("{service},route=\"{}\"", kind.word()), count);
        }
    }
    for (name, help, of) in [
        (
            "router_unknown_key_total",
            "Requests with a routing key that no route knows.",
            (|reading| reading.unknown_keys) as fn(&Reading) -> u64,
        ),
        ("router_passed_through_total", "Connections that are not HTTP.", |reading| reading.passed_through),
    ] {
        head(&mut out, name, "counter", help);
        for (service, reading) in &routes {
            line(&mut out, name, service, of(reading));
        }
    }
    durations(&mut out, &routes);
    for (name, help, value) in [
        ("router_table_entries", "Overrides in the table.", table.overrides()),
        ("router_table_routes", "Ports of services in the table.", table.routes().len()),
        ("router_connections", "Open connections from callers.", connections),
        ("router_pool_idle", "Idle connections to pods.", pools.0),
        ("router_pool_shared", "Shared connections to pods.", pools.1),
    ] {
        head(&mut out, name, "gauge", help);
        line(&mut out, name, "", value);
    }
    out
}

/// The figures of the tunnel. A workload has a line only while somebody is connected for it.
pub(super) fn tunnel(figures: &Figures) -> String {
    let mut out = String::new();
    head(&mut out, "tunnel_connected", "gauge", "Local workloads that somebody is connected for.");
    line(&mut out, "tunnel_connected", "", figures.connected.len());
    head(&mut out, "tunnel_rtt_seconds", "gauge", "How long the last ping to a developer's machine took.");
    for (workload, rtt) in &figures.connected {
        if let Some(rtt) = rtt {
            let label = format!("workload=\"{workload}\"");
            line(&mut out, "tunnel_rtt_seconds", &label, rtt.as_secs_f64());
        }
    }
    let help = "Connections of agents that had been connected before.";
    head(&mut out, "tunnel_reconnects_total", "counter", help);
    line(&mut out, "tunnel_reconnects_total", "", figures.reconnects);
    out
}

fn durations(out: &mut String, routes: &[(String, Reading)]) {
    let name = "router_request_duration_seconds";
    head(out, name, "histogram", "From the head of a request to the end of its answer.");
    for (service, reading) in routes {
        for (at, count) in reading.within.iter().enumerate() {
            let end = BUCKETS.get(at).map_or_else(|| "+Inf".to_owned(), |micros| seconds(*micros));
            line(out, &format!("{name}_bucket"), &format!("{service},le=\"{end}\""), count);
        }
        line(out, &format!("{name}_sum"), service, reading.sum.as_secs_f64());
        line(out, &format!("{name}_count"), service, reading.within[BUCKETS.len()]);
    }
}

fn seconds(micros: u64) -> String {
    std::time::Duration::from_micros(micros).as_secs_f64().to_string()
}

/// Names of Kubernetes need no quoting.
fn label(route: &Route) -> String {
    format!("service=\"{}\"", route.service())
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    // Writing to a text does not fail.
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn line(out: &mut String, name: &str, labels: &str, value: impl std::fmt::Display) {
    let _ = if labels.is_empty() {
        writeln!(out, "{name} {value}")
    } else {
        writeln!(out, "{name}{{{labels}}} {value}")
    };
}
