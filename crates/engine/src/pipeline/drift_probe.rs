//! Drift probe: detects without a plan that a workspace is unchanged since the last empty plan.
//!
//! The probe reads the resources through the provider and compares fingerprints. It can only confirm "unchanged"; in every
//! other case the caller must plan.

use provider_gateway::{
    digest,
    probe::{Fingerprint, FingerprintInputs, PlanReason, ProbeRequest, parse_objects},
};
use terraform_driver::{
    providers::lock_file,
    run::{ConfigurationDigests, StepContext},
    workspace::files::{read_json, remove_optional, write_json},
};

use super::error::PipelineError;
use crate::gateway::{AWS_PROVIDER_ADDRESS, GatewayReattachSource};

const FINGERPRINT_FILE: &str = "fingerprint.json";

/// Whether the workspace matches the fingerprint of its last empty plan; the inner error is the reason why not.
pub(super) async fn is_unchanged(
    source: &GatewayReattachSource<'_>,
    job: &StepContext<'_>,
    digests: &ConfigurationDigests,
) -> Result<Result<(), PlanReason>, PipelineError> {
    let path = job.workspace.meta_dir().join(FINGERPRINT_FILE);
    // A fingerprint that does not parse was written by another version.
    let Some(mut fingerprint) = read_json::<Fingerprint>(&path).ok().flatten() else {
        return Ok(Err(PlanReason::NoFingerprint));
    };
    let outcome = probe_and_compare(source, job, digests, &fingerprint).await;
    if outcome.is_ok() {
        fingerprint.checks += 1;
        write_json(&path, &fingerprint)?;
    }
    Ok(outcome)
}

async fn probe_and_compare(
    source: &GatewayReattachSource<'_>,
    job: &StepContext<'_>,
    digests: &ConfigurationDigests,
    fingerprint: &Fingerprint,
) -> Result<(), PlanReason> {
    let (inputs, objects) = collect_inputs(source, job, digests)?;
    fingerprint.check_inputs(&inputs)?;
    let ask = ProbeRequest {
        seat: fingerprint.seat.clone(),
        objects,
        data: fingerprint.data.clone(),
        fresh: false,
    };
    let probed = source.probe(job, ask).await.ok_or(PlanReason::UnknownConfiguration)?;
    fingerprint.compare(&probed)
}

/// Saves a fingerprint after an empty plan; removes it if the workspace cannot be probed.
pub(super) async fn save_fingerprint(
    source: &GatewayReattachSource<'_>,
    job: &StepContext<'_>,
    digests: &ConfigurationDigests,
) -> Result<(), PipelineError> {
    let path = job.workspace.meta_dir().join(FINGERPRINT_FILE);
    match take_fingerprint(source, job, digests).await {
        Ok(fingerprint) => Ok(write_json(&path, &fingerprint)?),
        Err(why) => {
            tracing::debug!(workspace = %job.workspace.dir().display(), %why, "workspace cannot be probed");
            Ok(remove_optional(&path)?)
        }
    }
}

async fn take_fingerprint(
    source: &GatewayReattachSource<'_>,
    job: &StepContext<'_>,
    digests: &ConfigurationDigests,
) -> Result<Fingerprint, PlanReason> {
    let seen = source.status().observed.ok_or(PlanReason::UnknownConfiguration)?;
    let (inputs, objects) = collect_inputs(source, job, digests)?;
    let seat = seen.seats.first().cloned().ok_or(PlanReason::Manifold)?;
    let ask = ProbeRequest { seat, objects, data: seen.data.clone(), fresh: true };
    let probed = source.probe(job, ask).await.ok_or(PlanReason::UnknownConfiguration)?;
    Fingerprint::from_probe(inputs, seen, &probed)
}

fn collect_inputs(
    source: &GatewayReattachSource<'_>,
    job: &StepContext<'_>,
    digests: &ConfigurationDigests,
) -> Result<(FingerprintInputs, Vec<provider_gateway::probe::StateObject>), PlanReason> {
    let state = job.workspace.state_bytes().ok().flatten().ok_or(PlanReason::Unreadable)?;
    let found = parse_objects(&state, AWS_PROVIDER_ADDRESS)?;
    let locked = lock_file::read_lock_entry(job.workspace.root(), AWS_PROVIDER_ADDRESS)
        .ok()
        .flatten()
        .ok_or(PlanReason::Unreadable)?;
    let inputs = FingerprintInputs {
        configuration: digests.configuration.clone(),
        state: format!("{} {}", found.state_version, digest::to_hex(digest::hash_parts([state.as_slice()]))),
        provider: format!("{} {}", locked.version, locked.hashes.join(" ")),
        surroundings: source.provider_environment_digest(job.environment),
    };
    Ok((inputs, found.objects))
}
