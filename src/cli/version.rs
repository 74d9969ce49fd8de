//! `capt version`: what this is, and what it found on this machine.

use serde::Serialize;

use super::{
    Format,
    output::{self, ExitStatus},
    setup::Tools,
};
use crate::config::Outer;

/// How to say it.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    tools: Tools,
    /// How to print.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

#[derive(Serialize)]
struct Versions {
    capt: &'static str,
    engine: Option<String>,
    #[serde(rename = "enginePath")]
    engine_path: Option<String>,
    #[serde(rename = "providersFrom")]
    providers_from: Option<String>,
    providers: Vec<String>,
    problem: Option<String>,
}

pub(super) async fn run(args: &Args, outer: &Outer) -> anyhow::Result<ExitStatus> {
    let mut versions = Versions {
        capt: env!("CARGO_PKG_VERSION"),
        engine: None,
        engine_path: None,
        providers_from: None,
        providers: Vec::new(),
        problem: None,
    };
    match args.tools.find(outer).await {
        Ok((engine, discovery)) => {
            versions.engine = Some(format!("{} {}", engine.kind, engine.version));
            versions.engine_path = Some(engine.path.display().to_string());
            versions.providers_from = Some(discovery.source.to_string());
            versions.providers = discovery
                .held
                .iter()
                .flat_map(|held| held.versions.iter().map(|version| format!("{} {version}", held.address())))
                .collect();
        }
        Err(error) => versions.problem = Some(format!("{error:#}")),
    }
    match args.output {
        Format::Json => output::json(&versions)?,
        Format::Text => output::data(&text(&versions))?,
    }
    Ok(if versions.problem.is_none() { ExitStatus::Done } else { ExitStatus::Refused })
}

fn text(versions: &Versions) -> String {
    let mut lines = vec![format!("capt       {}", versions.capt)];
    let mut line = |name: &str, value: &str| lines.push(format!("{name:<10} {value}"));
    if let (Some(engine), Some(path)) = (&versions.engine, &versions.engine_path) {
        line("engine", &format!("{engine} ({path})"));
    }
    if let Some(source) = &versions.providers_from {
        line("providers", &format!("from {source}"));
    }
    for provider in &versions.providers {
        line("", provider);
    }
    if let Some(problem) = &versions.problem {
        line("problem", problem);
    }
    lines.join("\n") + "\n"
}
