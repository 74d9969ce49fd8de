//! What the gateway saves, against plain terraform in the same run on the same machine: `make bench`.
//!
//! Prints a table. `ROUNDS` is how often each figure is taken (3); the median is shown. Absolute times say more about the
//! machine than about the gateway: look at the last column.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a measurement that cannot be taken stops, and says where"
)]

mod forwarded;
mod reference;
#[path = "../../tests/support/mod.rs"]
mod support;
mod usage;

use std::{
    fs,
    process::Stdio,
    time::{Duration, Instant},
};

use futures::{StreamExt as _, future::join_all};
use provider_gateway::{
    admin::{AdminSecret, GatewayClient},
    gateway::RunRegistration,
    probe::{Fingerprint, FingerprintInputs, ProbeRequest, parse_objects},
    serve::RunActivity,
};
use support::{Bench, Workspace, outer, own_processes, package, provider_env};
use tokio::process::{Child, Command};
use usage::{Cost, Peak, cpu_of, cpu_of_children, cpu_of_the_local_aws};

const AWS: &str = "registry.terraform.io/hashicorp/aws";
const PLAN: &[&str] = &["plan", "-no-color", "-detailed-exitcode"];
const APPLY: &[&str] = &["apply", "-auto-approve", "-no-color"];
const DESTROY: &[&str] = &["destroy", "-auto-approve", "-no-color"];

/// A gateway in a process of its own, as it is in life.
struct Gateway {
    process: Child,
    client: GatewayClient,
}

impl Gateway {
    #[expect(clippy::disallowed_methods, reason = "the gateway that is measured")]
    async fn start(dir: &std::path::Path) -> Self {
        let process = Command::new(env!("CARGO_BIN_EXE_provider-gateway"))
            .arg("serve")
            .arg(dir)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let client = GatewayClient::new(dir.join("admin.sock"), AdminSecret::file_in(dir));
        while client.report().await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Self { process, client }
    }

    fn register(workspace: &Workspace) -> RunRegistration {
        RunRegistration {
            workspace: "bench".to_owned(),
            tenant: "bench".to_owned(),
            address: AWS.to_owned(),
            package: package(),
            package_roots: vec![package()],
            locked: None,
            env: provider_env(),
            types: Some(workspace.types()),
            lease: None,
            is_replicated: false,
            clients: own_processes(),
        }
    }

    async fn run(&self, workspace: &Workspace, args: &[&str]) -> RunActivity {
        let registered = self.client.register(Self::register(workspace)).await.unwrap();
        workspace.run(args, Some(&registered.reattach)).await.ok();
        self.client.release(&registered.run).await.unwrap()
    }

    /// CPU of the gateway and its providers so far.
    async fn cpu(&self) -> Duration {
        let report = self.client.report().await.unwrap();
        let own = self.process.id().unwrap();
        report.providers.iter().map(|it| it.pid).chain([own]).map(cpu_of).sum()
    }

    async fn measure<F: Future>(&self, work: impl Fn() -> F) -> Cost {
        let (begun, before, children) = (Instant::now(), self.cpu().await, cpu_of_children());
        work().await;
        let wall = begun.elapsed();
        Cost {
            wall,
            cpu: self.cpu().await.saturating_sub(before) + cpu_of_children().saturating_sub(children),
        }
    }
}

fn rounds() -> usize {
    outer().get("ROUNDS").map_or(3, |rounds| rounds.parse().unwrap())
}

async fn plain<F: Future>(work: impl Fn() -> F) -> Cost {
    let (begun, children) = (Instant::now(), cpu_of_children());
    work().await;
    Cost { wall: begun.elapsed(), cpu: cpu_of_children().saturating_sub(children) }
}

fn line(what: &str, plain: &str, gateway: &str, ratio: f64) {
    println!("| {what} | {plain} | {gateway} | 1/{ratio:.1} |");
}

fn costs(what: &str, plain: Cost, other: Cost) {
    let text = |time: Duration| format!("{:.2} s", time.as_secs_f64());
    let ratio = |a: Duration, b: Duration| a.as_secs_f64() / b.as_secs_f64().max(0.0001);
    line(&format!("{what}, wall"), &text(plain.wall), &text(other.wall), ratio(plain.wall, other.wall));
    line(&format!("{what}, CPU"), &text(plain.cpu), &text(other.cpu), ratio(plain.cpu, other.cpu));
}

#[tokio::main]
async fn main() {
    // `cargo test --benches` only wants to know whether it starts.
    if std::env::args().any(|arg| arg == "--test") || !std::env::args().any(|arg| arg == "--bench") {
        return;
    }
    let bench = Bench::new().await;
    let own = bench.workspace("plain", reference::WORKSPACE);
    let shared = bench.workspace("shared", &reference::WORKSPACE.replace("bench-", "shared-"));
    println!("| what | plain terraform | here | ratio |\n|---|---|---|---|");
    let init = plain(|| async { own.run(&["init", "-no-color"], None).await.ok() }).await;
    let made = plain(|| async { own.run(APPLY, None).await.ok() }).await;
    let gateway = Gateway::start(&bench.dir.path().join("h")).await;
    let cold_init = gateway.measure(|| gateway.run(&shared, &["init", "-no-color"])).await;
    let cold = gateway.measure(|| gateway.run(&shared, APPLY)).await;
    costs("init, and the gateway's first provider", init, cold_init);
    costs("apply of 20 resources, first one of a gateway", made, cold);
    let mut one = Vec::new();
    for _ in 0..rounds() {
        one.push(plain(|| async { own.run(PLAN, None).await.ok() }).await);
    }
    let one = Cost::median(one);
    let mut other = Vec::new();
    for _ in 0..3 * rounds() {
        other.push(gateway.measure(|| gateway.run(&shared, PLAN)).await);
    }
    costs("plan without changes", one, Cost::median(other));
    parts(&gateway, &shared).await;
    let probe = probes(&gateway, &shared).await;
    costs("drift probe", one, probe);
    hundred(one, &gateway, &shared).await;
    memory(&own, &gateway, &shared).await;
    let gone = plain(|| async { own.run(DESTROY, None).await.ok() }).await;
    let also = gateway.measure(|| gateway.run(&shared, DESTROY)).await;
    costs("destroy of 20 resources", gone, also);
    forwarded::measure(&bench, &gateway).await;
    println!("\n{:?}", gateway.client.report().await.unwrap().counts);
}

fn question(workspace: &Workspace, seen: &RunActivity) -> ProbeRequest {
    let state = fs::read(workspace.root.join("terraform.tfstate")).unwrap();
    let seat = seen.seats.first().unwrap().clone();
    ProbeRequest {
        seat,
        objects: parse_objects(&state, AWS).unwrap().objects,
        data: seen.data.clone(),
        fresh: true,
    }
}

async fn probes(gateway: &Gateway, workspace: &Workspace) -> Cost {
    let seen = gateway.run(workspace, PLAN).await;
    let ask = question(workspace, &seen);
    let first = gateway.client.probe(Gateway::register(workspace), ask.clone()).await.unwrap().unwrap();
    let text = str::to_owned;
    let inputs = FingerprintInputs {
        configuration: text("c"),
        state: text("s"),
        provider: text("p"),
        surroundings: text("e"),
    };
    let fingerprint = Fingerprint::from_probe(inputs, seen, &first).unwrap();
    let mut all = Vec::new();
    for _ in 0..5 * rounds() {
        let cost = gateway.measure(|| async {
            let probed =
                gateway.client.probe(Gateway::register(workspace), ask.clone()).await.unwrap().unwrap();
            fingerprint.compare(&probed).unwrap();
        });
        all.push(cost.await);
        // Otherwise the limit on reads would be measured.
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    Cost::median(all)
}

/// Where the time of a plan through the gateway goes.
async fn parts(gateway: &Gateway, workspace: &Workspace) {
    let mut all = [Vec::new(), Vec::new(), Vec::new(), Vec::new()];
    let without = [PLAN, &["-refresh=false"]].concat();
    for _ in 0..3 * rounds() {
        all[0].push(gateway.measure(|| async { workspace.run(&["version"], None).await.ok() }).await);
        all[1].push(gateway.measure(|| gateway.run(workspace, &["validate", "-no-color"])).await);
        all[2].push(gateway.measure(|| gateway.run(workspace, &without)).await);
        all[3].push(gateway.measure(|| gateway.run(workspace, PLAN)).await);
    }
    println!("\nA plan through the gateway, step by step; each has the one before in it:\n");
    println!("| step | wall | CPU |\n|---|---|---|");
    let names = ["terraform starts and ends", "schema and validation", "plan without a refresh", "plan"];
    for (name, costs) in names.into_iter().zip(all) {
        let Cost { wall, cpu } = Cost::median(costs);
        println!("| {name} | {:.0} ms | {:.0} ms |", wall.as_secs_f64() * 1e3, cpu.as_secs_f64() * 1e3);
    }
    println!("\n| what | plain terraform | here | ratio |\n|---|---|---|---|");
}

/// How many checks an operator on two cores makes at once: two places per core, of which the last is for changes.
const AT_ONCE: usize = 3;

/// The same workspace a hundred times stands for a hundred; no answer is shared. Plain terraform is not run a hundred
/// times: one plan, times a hundred, divided by the two that the processors carry at once.
async fn hundred(one: Cost, gateway: &Gateway, workspace: &Workspace) {
    let seen = gateway.run(workspace, PLAN).await;
    let ask = question(workspace, &seen);
    let of_aws = cpu_of_the_local_aws();
    let cost = gateway
        .measure(|| async {
            let each = (0..100).map(|_| async {
                gateway.client.probe(Gateway::register(workspace), ask.clone()).await.unwrap().unwrap()
            });
            futures::stream::iter(each).buffer_unordered(AT_ONCE).collect::<Vec<_>>().await
        })
        .await;
    let of_aws = cpu_of_the_local_aws().saturating_sub(of_aws);
    let plain = Cost { wall: one.wall * 50, cpu: one.cpu * 100 };
    costs("100 unchanged workspaces (plain: reckoned, two at a time)", plain, cost);
    println!("| of these, the local AWS's own CPU (in no other row) | | {:.2} s | |", of_aws.as_secs_f64());
}

async fn memory(own: &Workspace, gateway: &Gateway, shared: &Workspace) {
    let args = &[PLAN, &["-lock=false"]].concat();
    let plain = Peak::during(&[], async {
        join_all((0..8).map(|_| async { own.run(args, None).await.ok() })).await;
    })
    .await;
    let pids = [gateway.process.id().unwrap()];
    let text = |bytes: u64| format!("{} MB", bytes >> 20);
    let show = |what: &str, bytes: u64| {
        line(
            &format!("8 {what} at once, peak memory (PSS)"),
            &text(plain),
            &text(bytes),
            plain as f64 / bytes.max(1) as f64,
        );
    };
    let plans = Peak::during(&pids, async {
        join_all((0..8).map(|_| gateway.run(shared, args))).await;
    });
    show("plans", plans.await);
    let ask = question(shared, &gateway.run(shared, PLAN).await);
    let probes = Peak::during(&pids, async {
        for _ in 0..5 {
            join_all((0..8).map(|_| gateway.client.probe(Gateway::register(shared), ask.clone()))).await;
        }
    });
    show("probes", probes.await);
}
