//! Cost of many routing keys compared with one.

use std::time::Instant;

use sandbox_router::table::{Backend, Route, RouteTable, RoutingKey, ServicePort, Target};

use crate::{
    in_turns,
    load::Load,
    programs::Programs,
    report::{Report, median},
};

/// CPU for a request with 10,000 keys against one.
pub(crate) fn measure(programs: &Programs, report: &mut Report, rounds: u64, seconds: u64) {
    let load = Load { connections: 32, seconds, header: Some("baggage: a=b,sd-routing-key=k1") };
    let proxies = [&programs.router, &programs.router_10k];
    let taken = in_turns(&proxies, rounds * 2, |proxy| load.http1(proxy));
    let (one, many) = (taken[0].1, taken[1].1);
    let more = 100.0 * (many / one - 1.0);
    let shown = format!("{one:.1} µs, {many:.1} µs ({more:+.1} %)");
    report.add("1 key, 10,000 keys: CPU/request", &shown, "≤ +5 %", Some(more <= 5.0));
}

fn made(sandboxes: usize) -> RouteTable {
    let mut builder = RouteTable::builder();
    for service in 0..3 {
        let name = ServicePort::new("shop", &format!("service-{service}"), 80);
        let baseline = Backend::baseline([([10, 0, 0, service], 80).into()]);
        let route = builder.add(Route::new(name, baseline).with_listener(20_000 + u16::from(service)));
        for at in 0..sandboxes {
            let [.., a, b] = u32::try_from(at).unwrap().to_be_bytes();
            let fork = Backend::fork("shop", &format!("pr-{at}"), [([10, 1, a, b], 8080).into()]);
            route.set_override(RoutingKey::parse(&format!("k{at:012}")).unwrap(), Target::Backend(fork));
        }
    }
    builder.build()
}

/// Making a table, and what it takes.
pub(crate) fn table(report: &mut Report) {
    let times = (0..20).map(|_| {
        let begin = Instant::now();
        let table = made(1000);
        let took = begin.elapsed().as_secs_f64() * 1e3;
        assert_eq!(table.override_count(), 3000);
        took
    });
    let time = median(times);
    let shown = format!("{time:.1} ms");
    report.add("build a table of 1,000 sandboxes × 3 services", &shown, "≤ 20 ms", Some(time <= 20.0));
    let before = crate::idle::resident(std::process::id());
    let table = made(30_000);
    let bytes = (crate::idle::resident(std::process::id()) - before) * 1024 / table.override_count();
    report.add("memory of a table", &format!("{bytes} bytes/route"), "≤ 1024", Some(bytes <= 1024));
}
