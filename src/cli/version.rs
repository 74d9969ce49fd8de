//! `capt version`: prints the versions of capt, the engine and the providers.

use capt_engine::{pipeline::find_engine, process_env::ProcessEnv};
use serde::Serialize;
use terraform_driver::providers::{MirroredProvider, ProviderDiscovery};

use super::{
    OutputFormat,
    output::{self, ExitStatus},
    run_setup::EngineArgs,
};

/// Arguments of `capt version`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    tools: EngineArgs,
    /// Output format.
    #[arg(short, long, value_enum, default_value_t)]
    output: OutputFormat,
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
    /// What confines runs on this machine.
    isolation: String,
}

pub(super) async fn run(args: &Args, process_env: &ProcessEnv) -> anyhow::Result<ExitStatus> {
    let mut versions = Versions {
        capt: env!("CARGO_PKG_VERSION"),
        engine: None,
        engine_path: None,
        providers_from: None,
        providers: Vec::new(),
        problem: None,
        isolation: isolation_text(),
    };
    match find_engine(process_env, args.tools.engine.as_deref()).await {
        Ok(engine) => {
            versions.engine = Some(format!("{} {}", engine.kind, engine.version));
            versions.engine_path = Some(engine.path.display().to_string());
            match args.tools.discover_providers(process_env, engine.kind) {
                Ok(discovery) => {
                    versions.providers_from = Some(discovery.source.to_string());
                    versions.providers = provider_versions(&discovery);
                }
                Err(error) => versions.problem = Some(format!("{error:#}")),
            }
        }
        Err(error) => versions.problem = Some(error.to_string()),
    }
    output::print_formatted(args.output, &versions, || versions_text(&versions))?;
    Ok(if versions.problem.is_none() { ExitStatus::Done } else { ExitStatus::Refused })
}

fn isolation_text() -> String {
    let support = isolation::probe();
    match support.problem() {
        Some(problem) => format!("{support}: templates are refused, because {problem}"),
        None => support.to_string(),
    }
}

fn provider_versions(discovery: &ProviderDiscovery) -> Vec<String> {
    let each = |held: &MirroredProvider| -> Vec<String> {
        held.versions.iter().map(|version| format!("{} {version}", held.address())).collect()
    };
    discovery.mirrored.iter().flat_map(each).collect()
}

fn versions_text(versions: &Versions) -> String {
    let mut lines = vec![format!("capt       {}", versions.capt)];
    let mut line = |name: &str, value: &str| lines.push(format!("{name:<10} {value}"));
    if let (Some(engine), Some(path)) = (&versions.engine, &versions.engine_path) {
        line("engine", &format!("{engine} ({path})"));
    }
    line("isolation", &versions.isolation);
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
