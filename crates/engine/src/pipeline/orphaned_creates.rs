//! Orphaned creates: EKS resources whose creation was in progress when terraform was killed.
//!
//! Terraform records a resource in the state when its creation completes, which takes ten minutes for an EKS cluster.
//! Therefore the EKS resources that an apply is about to create are recorded, and backed up with the state, before terraform
//! starts. The record is removed after a successful apply, or when nothing is left to change. One that is still present lists
//! resources that may exist outside the state. They are looked up and imported; their names are unique, so creating them again
//! would fail. All other types are found through the gateway's journal (`journal_replay`).
//!
//! A replacement Fargate profile is created before the old one is deleted, at the same address. In that case the old profile
//! is moved to an address that is not in the configuration: the next apply imports the new profile and destroys the old one.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use terraform_driver::{
    clock,
    plan::{PlanAction, PlanSummary},
    render::{RenderRequest, RootSource},
    run::StepContext,
    workspace::{
        WorkspaceDir,
        files::{FileError, read_json, remove_optional, write_json},
    },
};
use tokio_util::sync::CancellationToken;

use super::{data_directory::DataDirectory, error::PipelineError, untaint::InterruptedResourceError};
use crate::aws::{EksApi as _, EksClient, EksError, EksHealth, OWNER_TAG, Principal};

/// The creates that an apply is about to make; stored in `.capt/creating.json`.
#[derive(Debug, Serialize, Deserialize)]
struct PendingCreates {
    since: Timestamp,
    #[serde(default)]
    objects: Vec<EksObject>,
}

/// An EKS resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct EksObject {
    address: String,
    kind: String,
    id: String,
    /// Value of the owner tag that the cluster gets. Another cluster of this name is not ours, whenever it was created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
}

/// A resource that exists and is not in the state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OrphanedResource {
    /// Address in the configuration.
    pub(super) address: String,
    /// Import id.
    pub(super) id: String,
    /// Whether EKS reports it as active.
    pub(super) is_healthy: bool,
    /// Address that the resource it replaces is moved to.
    pub(super) displaced_to: Option<String>,
}

const FARGATE_PROFILE_TYPE: &str = "aws_eks_fargate_profile";
/// Tolerated difference between the local clock and the clock of AWS.
pub(super) const CLOCK_SKEW_SECONDS: i64 = 120;

/// Records what an apply is about to create.
pub(super) fn record_pending_creates(
    workspace: &WorkspaceDir,
    summary: &PlanSummary,
    request: &RenderRequest,
) -> Result<(), FileError> {
    let new = summary.changes.iter().filter(|it| matches!(it.action, PlanAction::Add | PlanAction::Replace));
    let objects = new.filter_map(|it| identify_eks_object(&it.address, request)).collect();
    write_json(&record_path(workspace), &PendingCreates { since: clock::now(), objects })
}

/// Removes the record: everything in it is in the state.
pub(super) fn clear_pending_creates(workspace: &WorkspaceDir) -> Result<(), FileError> {
    remove_optional(&record_path(workspace))
}

/// Whether an unfinished apply was about to create a resource at this address, so that it will be looked up here.
pub(super) fn is_recorded(workspace: &WorkspaceDir, address: &str) -> Result<bool, FileError> {
    let recorded = read_json::<PendingCreates>(&record_path(workspace))?;
    Ok(recorded.is_some_and(|it| it.objects.iter().any(|object| object.address == address)))
}

fn record_path(workspace: &WorkspaceDir) -> std::path::PathBuf {
    workspace.meta_dir().join("creating.json")
}

/// Finds recorded resources that exist and are not in the state.
pub(super) async fn find_orphans(
    data_dir: &DataDirectory,
    workspace: &WorkspaceDir,
    region: Option<&str>,
    (principal, stop): (Option<&Principal>, &CancellationToken),
) -> Result<Vec<OrphanedResource>, InterruptedResourceError> {
    let mut found = Vec::new();
    let Some(creating) = read_json::<PendingCreates>(&record_path(workspace)).map_err(workspace_error)?
    else {
        return Ok(found);
    };
    let missing = absent_from_state(workspace, creating.objects)?;
    if missing.is_empty() {
        return Ok(found);
    }
    let eks = EksClient::new(&data_dir.sdk_config(region, principal).await);
    for (EksObject { address, kind, id, owner }, aside) in missing {
        let made = eks.created_at(&kind, &id).await?;
        if made.is_none_or(|at| at < creating.since.as_second() - CLOCK_SKEW_SECONDS)
            || !is_owned(&eks, &id, owner.as_deref()).await?
        {
            continue;
        }
        let is_well = match eks.wait_until_settled(&kind, &id, stop).await? {
            Some(EksHealth::NotFound) | None => continue,
            health => health == Some(EksHealth::Active),
        };
        found.push(OrphanedResource { address, id, is_healthy: is_well, displaced_to: aside });
    }
    Ok(found)
}

/// Whether a cluster has the owner tag that it was to get, if it was to get one.
async fn is_owned(eks: &EksClient, cluster: &str, owner: Option<&str>) -> Result<bool, EksError> {
    let Some(owner) = owner else { return Ok(true) };
    let found = eks.describe_cluster(cluster).await?;
    Ok(found.is_some_and(|it| it.tags.get(OWNER_TAG).map(String::as_str) == Some(owner)))
}

/// Recorded resources that are not in the state, each with the new address of the resource that occupies its address.
fn absent_from_state(
    workspace: &WorkspaceDir,
    objects: Vec<EksObject>,
) -> Result<Vec<(EksObject, Option<String>)>, InterruptedResourceError> {
    let state = workspace.state()?;
    let in_place = |address: &str| {
        let mut all = state.iter().flat_map(terraform_driver::state::State::managed_objects);
        let object = all.find(|it| it.address == address && it.instance.deposed.is_none())?;
        Some(object.instance.string_attribute("id").unwrap_or_default())
    };
    Ok(objects
        .into_iter()
        .filter_map(|object| match in_place(&object.address) {
            None => Some((object, None)),
            Some(id) if id == object.id || object.kind != FARGATE_PROFILE_TYPE => None,
            Some(id) => {
                let name = id.rsplit(':').next().unwrap_or_default().to_owned();
                Some((object, Some(format!("{FARGATE_PROFILE_TYPE}.replaced_{name}"))))
            }
        })
        .collect())
}

/// Moves resources that occupy the address of an orphan.
pub(super) async fn displace_existing(
    data_dir: &DataDirectory,
    job: &StepContext<'_>,
    found: &[OrphanedResource],
) -> Result<(), PipelineError> {
    for lost in found {
        if let Some(aside) = &lost.displaced_to {
            data_dir.driver.move_state_address(job, &lost.address, aside).await?;
        }
    }
    Ok(())
}

/// Imports orphans into the state, so that a destroy includes them.
pub(super) async fn import_orphans(
    data_dir: &DataDirectory,
    job: &StepContext<'_>,
    found: &[OrphanedResource],
) -> Result<(), PipelineError> {
    displace_existing(data_dir, job, found).await?;
    for lost in found {
        data_dir.driver.import(job, &lost.address, &lost.id).await?;
    }
    Ok(clear_pending_creates(job.workspace)?)
}

fn workspace_error(error: FileError) -> InterruptedResourceError {
    InterruptedResourceError::Workspace(error.into())
}

/// Identifies an EKS resource of the built-in modules by its address. Resources of user templates cannot be identified.
fn identify_eks_object(address: &str, request: &RenderRequest) -> Option<EksObject> {
    if !matches!(request.source, RootSource::Module(_)) {
        return None;
    }
    let cluster = string_variable(&request.variables, "cluster_name")?;
    let (kind, id) = match address {
        "aws_eks_cluster.this" => ("aws_eks_cluster", cluster),
        "aws_eks_fargate_profile.this" => {
            let name = string_variable(&request.variables, "profile_name")?;
            (FARGATE_PROFILE_TYPE, format!("{cluster}:{name}"))
        }
        "aws_eks_fargate_profile.system[0]" => (FARGATE_PROFILE_TYPE, format!("{cluster}:system")),
        other => {
            let name = other.strip_prefix("aws_eks_addon.this[\"")?.strip_suffix("\"]")?;
            ("aws_eks_addon", format!("{cluster}:{name}"))
        }
    };
    let owner = string_variable(&request.variables, "owner").filter(|_| kind == "aws_eks_cluster");
    Some(EksObject { address: address.to_owned(), kind: kind.to_owned(), id, owner })
}

fn string_variable(variables: &Map<String, Value>, name: &str) -> Option<String> {
    variables.get(name).and_then(Value::as_str).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    fn request(source: RootSource) -> RenderRequest {
        let mut request = RenderRequest::new("default", "demo", source);
        request.variables =
            json!({"cluster_name": "demo", "profile_name": "apps"}).as_object().unwrap().clone();
        request
    }

    fn profile(id: &str) -> EksObject {
        EksObject {
            address: format!("{FARGATE_PROFILE_TYPE}.this"),
            kind: FARGATE_PROFILE_TYPE.to_owned(),
            id: id.to_owned(),
            owner: None,
        }
    }

    fn with_state(instances: &Value) -> (tempfile::TempDir, WorkspaceDir) {
        let dir = tempfile::tempdir().unwrap();
        let workspace = WorkspaceDir::at(dir.path().join("ws"));
        workspace.sync_files([]).unwrap();
        let state = json!({"version": 4, "terraform_version": "1.11.4", "serial": 3, "lineage": "x", "outputs": {},
            "resources": [{"mode": "managed", "type": FARGATE_PROFILE_TYPE, "name": "this",
                "provider": "provider[\"registry.terraform.io/hashicorp/aws\"]", "instances": instances}]});
        std::fs::write(workspace.root().join("terraform.tfstate"), state.to_string()).unwrap();
        (dir, workspace)
    }

    #[test]
    fn objects_of_eks_are_known_by_their_addresses() {
        let module = request(RootSource::Module(BTreeMap::new()));
        let id = |address: &str| identify_eks_object(address, &module).map(|it| it.id);
        assert_eq!(id("aws_eks_cluster.this").as_deref(), Some("demo"));
        assert_eq!(id("aws_eks_fargate_profile.this").as_deref(), Some("demo:apps"));
        assert_eq!(id("aws_eks_fargate_profile.system[0]").as_deref(), Some("demo:system"));
        assert_eq!(id("aws_eks_addon.this[\"coredns\"]").as_deref(), Some("demo:coredns"));
        assert_eq!(id("aws_iam_role.cluster"), None);
    }

    #[test]
    fn of_a_users_template_nobody_can_tell() {
        let theirs = request(RootSource::Inline {
            format: terraform_driver::render::InlineFormat::default(),
            text: String::new(),
        });
        assert_eq!(identify_eks_object("aws_eks_cluster.this", &theirs), None);
    }

    #[test]
    fn what_the_state_has_is_not_missing_and_what_is_in_the_way_is_put_aside() {
        let old = json!([{"schema_version": 0, "attributes": {"id": "demo:apps"}}]);
        let (_dir, workspace) = with_state(&old);
        let new = profile("demo:apps-0a0b0c");
        assert_eq!(absent_from_state(&workspace, vec![profile("demo:apps")]).unwrap(), []);
        let aside = Some(format!("{FARGATE_PROFILE_TYPE}.replaced_apps"));
        assert_eq!(absent_from_state(&workspace, vec![new.clone()]).unwrap(), [(new.clone(), aside)]);
        // Terraform may have written down already that the old one is on its way out.
        let deposed =
            json!([{"schema_version": 0, "deposed": "0a0b0c0d", "attributes": {"id": "demo:apps"}}]);
        let (_dir, workspace) = with_state(&deposed);
        assert_eq!(absent_from_state(&workspace, vec![new.clone()]).unwrap(), [(new, None)]);
    }

    #[test]
    fn a_cluster_is_never_put_aside() {
        let old = json!([{"schema_version": 0, "attributes": {"id": "demo:apps"}}]);
        let (_dir, workspace) = with_state(&old);
        let mut cluster = profile("other");
        cluster.kind = "aws_eks_cluster".to_owned();
        assert_eq!(absent_from_state(&workspace, vec![cluster]).unwrap(), []);
    }
}
