//! embedded-kube beside kube-apiserver + etcd: the same clients, the same TLS, the same disk, one after the other.
//!
//! Both are processes of their own and both write durably (etcd syncs, so do we). `make bench` runs it; every figure is
//! a ratio of the two in this very run, because machines are noisy.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a benchmark that cannot go on stops, and it prints its table"
)]

mod figures;
mod load;
mod server;

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use conformance::config::Settings;

use crate::{
    figures::{Figure, table},
    load::LoadResult,
    server::Server,
};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    if let Some(place) = arguments.iter().position(|word| word == "serve") {
        let directory = arguments.get(place + 1).context("serve DIR")?;
        return runtime.block_on(server::serve_embedded(PathBuf::from(directory)));
    }
    // `cargo test --all-targets` starts benches too, without this argument.
    if !arguments.iter().any(|word| word == "--bench") {
        println!("kube: nothing is measured unless by `make bench`");
        return Ok(());
    }
    runtime.block_on(compare())
}

async fn compare() -> Result<()> {
    let Some(bin) = Settings::read().real_bin else {
        println!("kube: skipped, there is no kube-apiserver to compare with (make real-kube)");
        return Ok(());
    };
    let ours = measure("embedded-kube", Server::embedded().await?).await?;
    let theirs = measure("kube-apiserver + etcd", Server::real(&bin).await?).await?;
    println!("\n{}", table(&compare_with_targets(&ours, &theirs)));
    Ok(())
}

async fn measure(name: &str, server: Server) -> Result<LoadResult> {
    println!("{name}: ready after {:.0} ms", server.start.as_secs_f64() * 1e3);
    let measured = load::measure_server(&server).await.with_context(|| format!("measure {name}"))?;
    println!("{name}: {measured:.2?}");
    Ok(measured)
}

fn compare_with_targets(ours: &LoadResult, theirs: &LoadResult) -> Vec<Figure> {
    vec![
        Figure::at_most("start to ready", "ms", ours.start_ms, theirs.start_ms, 0.1),
        Figure::at_most(
            "memory, 1,000 Secrets + 200 custom resources",
            "MB",
            ours.memory_mb,
            theirs.memory_mb,
            0.125,
        ),
        Figure::at_most("durable create, p50, one client", "ms", ours.create_ms, theirs.create_ms, 1.0),
        Figure::at_least(
            "creates by 8 clients, 10,000 in all",
            "/s",
            ours.creates_per_second,
            theirs.creates_per_second,
            2.0,
        ),
        Figure::at_most(
            "event after the write's answer, p99",
            "ms",
            ours.delivery_ms,
            theirs.delivery_ms,
            1.0,
        )
        .and_below(10.0),
        Figure::at_most("list of 10,000 objects", "ms", ours.list_ms, theirs.list_ms, 1.0),
    ]
}
