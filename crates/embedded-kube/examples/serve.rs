//! Serves a cluster until interrupted: `cargo run -p embedded-kube --example serve -- DATA [ADDRESS]`.

#![allow(clippy::print_stdout, reason = "it is what an example is for")]

use embedded_kube::cluster::{EmbeddedKube, ListenConfig};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let data = arguments.next().ok_or("usage: serve DATA [ADDRESS]")?;
    let listen = match arguments.next() {
        Some(address) => ListenConfig::at(address.parse()?),
        None => ListenConfig::loopback(),
    };
    let kube = EmbeddedKube::builder().data(data).listen(listen).start().await?;
    if let Some(path) = kube.kubeconfig_path() {
        println!("{}", path.display());
    }
    tokio::signal::ctrl_c().await?;
    kube.stop().await;
    Ok(())
}
