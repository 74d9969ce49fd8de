//! Runs a local AWS until Ctrl-C or `POST /_capt/shutdown`.

use std::{net::SocketAddr, path::PathBuf};

use clap::Parser;
use local_aws::{Config, LocalAws};

/// Runs a local AWS on the loopback interface.
#[derive(Parser)]
struct Args {
    /// Python interpreter of a virtual environment with requirements.txt installed.
    #[arg(long)]
    python: PathBuf,
    /// Listen port; 0 selects a free one.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// File that persists the EKS model across restarts.
    #[arg(long)]
    persist: Option<PathBuf>,
    /// File for moto's output.
    #[arg(long)]
    log: Option<PathBuf>,
}

#[tokio::main]
#[expect(clippy::print_stdout, reason = "the address is what the example is for")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args = Args::parse();
    let config = Config {
        listen: SocketAddr::from(([127, 0, 0, 1], args.port)),
        persist: args.persist,
        log: args.log,
        ..Config::new(args.python)
    };
    let aws = LocalAws::start(config).await?;
    println!("{} instance {}", aws.endpoint(), aws.instance());
    tokio::select! {
        () = aws.stop_requested() => {}
        signal = tokio::signal::ctrl_c() => signal?,
    }
    aws.shutdown().await;
    Ok(())
}
