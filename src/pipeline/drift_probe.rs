//! Whether a workspace is as the last plan left it, without a plan.
//!
//! A probe says 'unchanged' or nothing: whatever else it finds, a plan decides.

use provider_gateway::{
    digest,
    probe::{Ask, Fingerprint, Inputs, Why, objects},
};
use terraform_driver::{
    providers::lock,
    run::{Digests, Job},
    workspace::files::{read_json, remove_optional, write_json},
};

use super::error::WorkError;
use crate::gateway::{ADDRESS, RunLender};

const FILE: &str = "fingerprint.json";

/// Whether everything is as it was when a plan found nothing to change; why not, otherwise.
pub(super) async fn is_unchanged(
    lender: &RunLender<'_>,
    job: &Job<'_>,
    digests: &Digests,
) -> Result<Result<(), Why>, WorkError> {
    let path = job.workspace.meta().join(FILE);
    // One that does not parse is of another version.
    let Some(mut fingerprint) = read_json::<Fingerprint>(&path).ok().flatten() else {
        return Ok(Err(Why::NoFingerprint));
    };
    let outcome = compare(lender, job, digests, &fingerprint).await;
    if outcome.is_ok() {
        fingerprint.checks += 1;
        write_json(&path, &fingerprint)?;
    }
    Ok(outcome)
}

async fn compare(
    lender: &RunLender<'_>,
    job: &Job<'_>,
    digests: &Digests,
    fingerprint: &Fingerprint,
) -> Result<(), Why> {
    let (inputs, objects) = gather(lender, job, digests)?;
    fingerprint.worth_a_probe(&inputs)?;
    let ask = Ask { seat: fingerprint.seat.clone(), objects, data: fingerprint.data.clone(), fresh: false };
    let probed = lender.probe(job, ask).await.ok_or(Why::UnknownConfiguration)?;
    fingerprint.compare(&probed)
}

/// Takes a fingerprint after a plan that found nothing to change. What cannot have one has none.
pub(super) async fn remember(
    lender: &RunLender<'_>,
    job: &Job<'_>,
    digests: &Digests,
) -> Result<(), WorkError> {
    let path = job.workspace.meta().join(FILE);
    match take(lender, job, digests).await {
        Ok(fingerprint) => Ok(write_json(&path, &fingerprint)?),
        Err(why) => {
            tracing::debug!(workspace = %job.workspace.dir().display(), %why, "it cannot be probed");
            Ok(remove_optional(&path)?)
        }
    }
}

async fn take(lender: &RunLender<'_>, job: &Job<'_>, digests: &Digests) -> Result<Fingerprint, Why> {
    let seen = lender.lent().seen.ok_or(Why::UnknownConfiguration)?;
    let (inputs, objects) = gather(lender, job, digests)?;
    let seat = seen.seats.first().cloned().ok_or(Why::Manifold)?;
    let ask = Ask { seat, objects, data: seen.data.clone(), fresh: true };
    let probed = lender.probe(job, ask).await.ok_or(Why::UnknownConfiguration)?;
    Fingerprint::of(inputs, seen, &probed)
}

fn gather(
    lender: &RunLender<'_>,
    job: &Job<'_>,
    digests: &Digests,
) -> Result<(Inputs, Vec<provider_gateway::probe::Object>), Why> {
    let state = job.workspace.state_bytes().ok().flatten().ok_or(Why::Unreadable)?;
    let found = objects(&state, ADDRESS)?;
    let locked = lock::locked(job.workspace.root(), ADDRESS).ok().flatten().ok_or(Why::Unreadable)?;
    let inputs = Inputs {
        configuration: digests.configuration.clone(),
        state: format!("{} {}", found.state, digest::hex(&digest::of([state.as_slice()]))),
        provider: format!("{} {}", locked.version, locked.hashes.join(" ")),
        surroundings: lender.surroundings(job.environment),
    };
    Ok((inputs, found.objects))
}
