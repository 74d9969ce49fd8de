//! Objects whose creation we interrupted: terraform would replace them, although they are coming up well.

use terraform_driver::{
    events::Progress,
    run::{Job, Phase, StepError, interrupted_taints},
    state::Object,
    workspace::WorkspaceError,
};
use thiserror::Error;

use super::site::Site;
use crate::aws::{Eks, EksError, Health, Principal};

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

/// Types that exist as soon as the call that makes them returns. An interruption cuts off only what the provider
/// does afterwards, and a plan sees that. Of any other type nobody here can tell whether it is whole, so it stays
/// tainted.
const MADE_AT_ONCE: &[&str] = &[
    "aws_cloudwatch_log_group",
    "aws_eip",
    "aws_eks_access_entry",
    "aws_eks_access_policy_association",
    "aws_flow_log",
    "aws_iam_openid_connect_provider",
    "aws_iam_policy",
    "aws_iam_role",
    "aws_iam_role_policy",
    "aws_iam_role_policy_attachment",
    "aws_internet_gateway",
    "aws_kms_alias",
    "aws_kms_key",
    "aws_route",
    "aws_route_table",
    "aws_route_table_association",
    "aws_security_group",
    "aws_security_group_rule",
    "aws_subnet",
    "aws_vpc",
];

/// Waits for interrupted objects to come up and takes their taint off. One that failed stays tainted, and
/// terraform replaces it.
pub(super) async fn interrupted(
    site: &Site,
    job: &Job<'_>,
    (region, principal): (Option<&str>, Option<&Principal>),
) -> Result<(), RepairError> {
    let addresses = interrupted_taints(job.workspace)?;
    if addresses.is_empty() {
        return Ok(());
    }
    (job.hear)(Phase::Settling, &Progress::default());
    let eks = Eks::new(&site.sdk(region, principal).await);
    let Some(state) = job.workspace.state()? else { return Ok(()) };
    let ours = |object: &Object<'_>| object.instance.deposed.is_none() && addresses.contains(&object.address);
    for object in state.managed().filter(ours) {
        let id = object.instance.text("id").unwrap_or_default();
        let health = eks.settled(object.kind, &id, job.stop).await?;
        let whole = match health {
            Some(Health::Active | Health::Gone) => true,
            Some(Health::Failed(_)) => false,
            // The next plan reads what is there and mends what is missing.
            None => MADE_AT_ONCE.contains(&object.kind),
        };
        if whole {
            site.driver
                .untaint(job, &object.address)
                .await
                .map_err(|source| RepairError::Untaint { address: object.address.clone(), source })?;
        }
    }
    Ok(())
}
