//! Objects whose creation we interrupted: terraform would replace them, although they are coming up well.

use terraform_driver::{
    events::Progress,
    run::{Job, Phase, StepError, interrupted_taints},
    state::Object,
    workspace::WorkspaceError,
};
use thiserror::Error;

use super::site::Site;
use crate::aws::{Eks, EksError, Health};

/// Why an interrupted object could not be looked after.
#[derive(Debug, Error)]
pub enum RepairError {
    /// EKS does not say how it is.
    #[error(transparent)]
    Eks(#[from] EksError),
    /// The taint does not come off.
    #[error("cannot take the taint off {address}, whose creation was interrupted")]
    Untaint {
        /// The object.
        address: String,
        /// Terraform's answer.
        #[source]
        source: StepError,
    },
    /// The workspace cannot be read.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
}

/// Waits for interrupted objects to come up and takes their taint off. One that failed stays tainted, and
/// terraform replaces it.
pub(super) async fn interrupted(site: &Site, job: &Job<'_>, region: Option<&str>) -> Result<(), RepairError> {
    let addresses = interrupted_taints(job.workspace)?;
    if addresses.is_empty() {
        return Ok(());
    }
    (job.hear)(Phase::Settling, &Progress::default());
    let eks = Eks::new(&site.cloud.sdk(region).await);
    let Some(state) = job.workspace.state()? else { return Ok(()) };
    // Of what other providers make nobody here can tell whether it is whole.
    let ours = |object: &Object<'_>| object.kind.starts_with("aws_") && addresses.contains(&object.address);
    for object in state.managed().filter(ours) {
        let id = object.instance.text("id").unwrap_or_default();
        let health = eks.settled(object.kind, &id, job.stop).await?;
        // For a type without such a state the next plan reads what is there and mends what is missing.
        if matches!(health, None | Some(Health::Active | Health::Gone)) {
            site.driver
                .untaint(job, &object.address)
                .await
                .map_err(|source| RepairError::Untaint { address: object.address.clone(), source })?;
        }
    }
    Ok(())
}
