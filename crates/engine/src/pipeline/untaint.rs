//! Untaints resources whose creation was interrupted by a stop. Terraform would replace them, although they come up.

use terraform_driver::{
    events::TerraformProgress,
    run::{StepContext, StepError, StepPhase, interrupted_taints},
    state::ManagedObject,
    workspace::WorkspaceError,
};
use thiserror::Error;

use super::data_directory::DataDirectory;
use crate::aws::{EksClient, EksError, EksHealth, Principal};

/// Why an interrupted resource could not be inspected or untainted.
#[derive(Debug, Error)]
pub enum InterruptedResourceError {
    /// EKS could not be queried.
    #[error(transparent)]
    Eks(#[from] EksError),
    /// `untaint` failed.
    #[error("cannot untaint {address}, whose creation was interrupted")]
    Untaint {
        /// The object.
        address: String,
        /// Terraform's error.
        #[source]
        source: StepError,
    },
    /// The workspace cannot be read.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
}

/// Types that are complete when their create call returns. An interruption cuts off only the provider's follow-up calls,
/// which the next plan detects. The completeness of any other type is unknown, so it stays tainted.
const SYNCHRONOUS_TYPES: &[&str] = &[
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

/// Waits for interrupted resources to become active and untaints them. A failed resource stays tainted, and terraform
/// replaces it.
pub(super) async fn untaint_interrupted(
    data_dir: &DataDirectory,
    job: &StepContext<'_>,
    (region, principal): (Option<&str>, Option<&Principal>),
) -> Result<(), InterruptedResourceError> {
    let addresses = interrupted_taints(job.workspace)?;
    if addresses.is_empty() {
        return Ok(());
    }
    (job.on_progress)(StepPhase::Settling, &TerraformProgress::default());
    let eks = EksClient::new(&data_dir.sdk_config(region, principal).await);
    let Some(state) = job.workspace.state()? else { return Ok(()) };
    let ours =
        |object: &ManagedObject<'_>| object.instance.deposed.is_none() && addresses.contains(&object.address);
    for object in state.managed_objects().filter(ours) {
        let id = object.instance.string_attribute("id").unwrap_or_default();
        let health = eks.wait_until_settled(object.kind, &id, job.stop).await?;
        let whole = match health {
            Some(EksHealth::Active | EksHealth::NotFound) => true,
            Some(EksHealth::Failed(_)) => false,
            // The next plan refreshes the resource and completes what is missing.
            None => SYNCHRONOUS_TYPES.contains(&object.kind),
        };
        if whole {
            data_dir.driver.untaint(job, &object.address).await.map_err(|source| {
                InterruptedResourceError::Untaint { address: object.address.clone(), source }
            })?;
        }
    }
    Ok(())
}
