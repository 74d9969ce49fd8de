//! The router beside nginx and Envoy, in the same run on the same machine: `make bench`.
//!
//! Each proxy has one thread on one core; the backend and the load have the other core. `CAPT_BENCH_ROUNDS` is how often
//! each figure is taken (3), in turns, and the median is shown; `ROUTER_BENCH_SECONDS` is how long one takes (3). Absolute
//! figures say more about the machine than about the router: look at the ratios.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    clippy::cast_precision_loss,
    reason = "a measurement that cannot be taken stops, and says where"
)]

mod idle;
mod keys;
mod load;
mod programs;
mod report;
mod serve;

use std::{env, fs, thread};

use load::{Load, Sample};
use programs::{HTTP2_BACKENDS, Programs, Proxied};
use report::{Report, median};

fn main() {
    let arguments = env::args().collect::<Vec<_>>();
    if arguments.get(1).is_some_and(|it| it == "serve") {
        return serve::run(&arguments[2..]);
    }
    // `cargo test --all-targets` starts benches too, without this argument.
    if !arguments.iter().any(|it| it == "--bench") {
        return;
    }
    let rounds = setting("CAPT_BENCH_ROUNDS", 3);
    let seconds = setting("ROUTER_BENCH_SECONDS", 3);
    let programs = Programs::start();
    let mut report = Report::default();
    throughput(&programs, &mut report, rounds, seconds);
    shared(&programs, &mut report, rounds, seconds);
    latency(&programs, &mut report, rounds, seconds);
    keys::measure(&programs, &mut report, rounds, seconds);
    keys::table(&mut report);
    idle::measure(&programs, &mut report);
    println!("\n{}\n\n{report}", machine(&programs));
}

fn setting(name: &str, otherwise: u64) -> u64 {
    env::var(name).map_or(otherwise, |text| text.parse().expect(name))
}

/// What the figures were measured on. No name of the machine, no path.
fn machine(programs: &Programs) -> String {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap();
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let model = model.map_or("an unnamed CPU", |(_, name)| name.trim()).to_owned();
    let cores = thread::available_parallelism().unwrap();
    let load = fs::read_to_string("/proc/loadavg").unwrap();
    let load = load.split_whitespace().next().unwrap().to_owned();
    format!("{cores} cores of {model}, load {load} at the end; {}; optimised build", programs.versions())
}

/// Samples of each proxy, taken in turns: what disturbs one round disturbs all of them.
fn in_turns(
    proxies: &[&Proxied],
    rounds: u64,
    take: impl Fn(&Proxied) -> Sample,
) -> Vec<(f64, f64, f64, f64)> {
    let mut samples = proxies.iter().map(|_| Vec::new()).collect::<Vec<_>>();
    for _ in 0..rounds {
        for (at, proxy) in proxies.iter().enumerate() {
            samples[at].push(take(proxy));
        }
    }
    let figures = |of: &Vec<Sample>| {
        let one = |part: fn(&Sample) -> f64| median(of.iter().map(part));
        (one(|it| it.rate), one(|it| it.cpu), one(|it| it.p50), one(|it| it.p99))
    };
    samples.iter().map(figures).collect()
}

fn throughput(programs: &Programs, report: &mut Report, rounds: u64, seconds: u64) {
    for (what, header) in [("no key", None), ("a key", Some("baggage: a=b,sd-routing-key=k1"))] {
        let load = Load { connections: 32, seconds, header };
        let proxies = [&programs.direct, &programs.nginx, &programs.envoy, &programs.router];
        let taken = in_turns(&proxies, rounds, |proxy| load.http1(proxy));
        let [direct, nginx, envoy, ours] = taken.try_into().expect("four");
        let title = |figure: &str| format!("HTTP/1.1, {what}: {figure}");
        let shown = format!(
            "direct {:.0}k, nginx {:.1}k, Envoy {:.1}k, router {:.1}k",
            direct.0 / 1e3,
            nginx.0 / 1e3,
            envoy.0 / 1e3,
            ours.0 / 1e3
        );
        report.add(&title("requests/s"), &shown, "", None);
        let (by_nginx, by_envoy) = (ours.0 / nginx.0, ours.0 / envoy.0);
        report.add(&title("against nginx"), &format!("{by_nginx:.2}×"), "≥ 0.9×", Some(by_nginx >= 0.9));
        report.add(&title("against Envoy"), &format!("{by_envoy:.2}×"), "≥ 2.5×", Some(by_envoy >= 2.5));
        let shown = format!("nginx {:.1}, Envoy {:.1}, router {:.1}", nginx.1, envoy.1, ours.1);
        report.add(&title("CPU µs/request"), &shown, "≤ 35", Some(ours.1 <= 35.0));
    }
}

fn shared(programs: &Programs, report: &mut Report, rounds: u64, seconds: u64) {
    let load = Load { connections: 4, seconds, header: Some("baggage: a=b,sd-routing-key=k1") };
    for (at, backend) in HTTP2_BACKENDS.iter().enumerate() {
        let proxies = [&programs.direct, &programs.envoy, &programs.router];
        let taken = in_turns(&proxies, rounds, |proxy| load.http2(proxy, at));
        let [direct, envoy, ours] = taken.try_into().expect("three");
        let title = |figure: &str| format!("h2c, a key, pods like {backend}: {figure}");
        let shown = format!(
            "direct {:.1}k, Envoy {:.1}k, router {:.1}k",
            direct.0 / 1e3,
            envoy.0 / 1e3,
            ours.0 / 1e3
        );
        report.add(&title("requests/s"), &shown, "", None);
        let (ratio, most) = (ours.0 / envoy.0, direct.0 / envoy.0);
        // Where load and backend cannot do as much on their core, no proxy at all would miss it too.
        let (shown, met) = if most < 2.5 {
            (format!("{ratio:.2}× (no proxy at all: {most:.2}×)"), None)
        } else {
            (format!("{ratio:.2}×"), Some(ratio >= 2.5))
        };
        report.add(&title("against Envoy"), &shown, "≥ 2.5×", met);
        let shown = format!("Envoy {:.1}, router {:.1}", envoy.1, ours.1);
        report.add(&title("CPU µs/request"), &shown, "", None);
    }
}

fn latency(programs: &Programs, report: &mut Report, rounds: u64, seconds: u64) {
    let load = Load { connections: 1, seconds, header: Some("baggage: a=b,sd-routing-key=k1") };
    let proxies = [&programs.direct, &programs.nginx, &programs.envoy, &programs.router];
    let taken = in_turns(&proxies, rounds, |proxy| load.http1(proxy));
    let [direct, nginx, envoy, ours] = taken.try_into().expect("four");
    let shown = format!(
        "direct {:.0} µs, nginx {:.0} µs, Envoy {:.0} µs, router {:.0} µs",
        direct.2, nginx.2, envoy.2, ours.2
    );
    report.add("one connection: p50", &shown, "", None);
    let ratio = ours.2 / nginx.2;
    let met = Some(ratio <= 1.2);
    report.add("one connection: p50 against nginx", &format!("{ratio:.2}×"), "≤ 1.2×", met);
    let shown = format!(
        "nginx {:.2} ms, Envoy {:.2} ms, router {:.2} ms",
        nginx.3 / 1e3,
        envoy.3 / 1e3,
        ours.3 / 1e3
    );
    report.add("one connection: p99", &shown, "< 2 ms", Some(ours.3 < 2000.0));
}
