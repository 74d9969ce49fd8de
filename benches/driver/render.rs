//! From the text of the quickstart to the bytes of its workspaces, in process.

use std::{
    collections::BTreeMap,
    hint::black_box,
    time::{Duration, Instant},
};

use anyhow::{anyhow, ensure};
use capt_model::{
    manifest::{self, ManifestSource},
    model::Limits,
    workspaces::{
        AppliedOutputs, DesiredWorkspace, ProviderDefaults, WorkspaceKey, desired_workspaces,
        resolve_references,
    },
};
use serde_json::{Value, json};
use terraform_driver::{output::Outputs, render::render};

use crate::table::{Table, Verdict, median, seconds};

const QUICKSTART: &str = include_str!("../../examples/quickstart.yaml");
const WORKSPACES: usize = 4;
const WARM_UP: usize = 20;
const RUNS: usize = 200;
const TARGET: Duration = Duration::from_millis(5);

pub(crate) fn measure(table: &mut Table) -> anyhow::Result<()> {
    let known = fake_outputs(&load_quickstart()?.1)?;
    let mut times = Vec::with_capacity(RUNS);
    for run in 0..WARM_UP + RUNS {
        let begun = Instant::now();
        let bytes = render_quickstart(&known)?;
        let time = begun.elapsed();
        ensure!(black_box(bytes) > 10_000, "only {bytes} bytes were rendered");
        if run >= WARM_UP {
            times.push(time);
        }
    }
    let time = median(times.into_iter());
    let target = format!("< {}", seconds(TARGET));
    table.add(
        "render the quickstart (4 workspaces)",
        &seconds(time),
        &target,
        Verdict::from_met(time < TARGET),
    );
    Ok(())
}

type QuickstartInputs = (manifest::ValidatedManifests, Vec<DesiredWorkspace>);

fn load_quickstart() -> anyhow::Result<QuickstartInputs> {
    let source = ManifestSource { name: "quickstart.yaml".to_owned(), text: QUICKSTART.to_owned() };
    let loaded = manifest::load(&[source]).map_err(|errors| anyhow!("{errors:?}"))?;
    let manifests =
        manifest::validate(&loaded, &Limits::default()).map_err(|errors| anyhow!("{errors:?}"))?;
    let blueprints = desired_workspaces(&manifests).map_err(|errors| anyhow!("{errors:?}"))?;
    Ok((manifests, blueprints))
}

/// All of it once; how many bytes came out.
fn render_quickstart(known: &AppliedOutputs) -> anyhow::Result<usize> {
    let (manifests, blueprints) = load_quickstart()?;
    ensure!(blueprints.len() == WORKSPACES, "the quickstart has {} workspaces", blueprints.len());
    let place = ProviderDefaults {
        local_endpoint: Some("http://127.0.0.1:4566".to_owned()),
        default_region: "eu-central-1".to_owned(),
    };
    let mut bytes = 0;
    for blueprint in &blueprints {
        let resolved = resolve_references(blueprint, known, &manifests, &BTreeMap::new(), &place)?;
        ensure!(resolved.missing.is_empty(), "{}: {:?}", blueprint.key, resolved.missing);
        let rendered = render(&resolved.request)?;
        bytes += rendered.files.values().map(|file| file.bytes.len()).sum::<usize>();
    }
    Ok(bytes)
}

/// Something for every value that one workspace takes from another.
fn fake_outputs(blueprints: &[DesiredWorkspace]) -> anyhow::Result<AppliedOutputs> {
    let mut outputs: BTreeMap<WorkspaceKey, serde_json::Map<String, Value>> = BTreeMap::new();
    for handed in blueprints.iter().flat_map(|blueprint| &blueprint.output_refs) {
        let value = json!({ "value": "vpc-0123456789abcdef0", "type": "string" });
        outputs.entry(handed.from.clone()).or_default().insert(handed.name.to_owned(), value);
    }
    let mut known = AppliedOutputs::default();
    for (key, outputs) in outputs {
        let state = json!({ "version": 4, "serial": 1, "lineage": "bench", "outputs": outputs });
        known.by_workspace.insert(key, Outputs::from_state(state.to_string().as_bytes())?);
    }
    Ok(known)
}
