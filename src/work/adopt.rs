//! Objects whose creation was under way when terraform was killed together with its disk.
//!
//! Terraform writes an object into the state when its creation has ended, and an EKS cluster takes ten minutes for that.
//! So what is about to be created is noted, and kept with the state, before terraform starts; and the note goes when
//! terraform has ended by itself. A note that is still there tells of objects that may exist and that no state knows. Those
//! of EKS are looked for, and taken into the state; a second one could not be made anyway, because names are unique.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use terraform_driver::{
    clock,
    plan::{Action, Summary},
    render::{Request, Source},
    workspace::{
        Workspace,
        files::{FileError, read_json, remove_optional, write_json},
    },
};
use tokio_util::sync::CancellationToken;

use super::{repair::RepairError, site::Site};
use crate::aws::{Eks, Health, Principal};

/// What is being created; in `.capt/creating.json`.
#[derive(Debug, Serialize, Deserialize)]
struct Creating {
    since: Timestamp,
    addresses: Vec<String>,
}

/// Clocks differ a little.
const SKEW_SECONDS: i64 = 120;

/// Notes what an apply is about to create.
pub(super) fn note(workspace: &Workspace, summary: &Summary) -> Result<(), FileError> {
    let new = summary.changes.iter().filter(|it| matches!(it.action, Action::Add | Action::Replace));
    let addresses: Vec<String> = new.map(|it| it.address.clone()).collect();
    write_json(&path(workspace), &Creating { since: clock::now(), addresses })
}

/// Terraform has ended by itself: what it made is in the state.
pub(super) fn forget(workspace: &Workspace) -> Result<(), FileError> {
    remove_optional(&path(workspace))
}

fn path(workspace: &Workspace) -> std::path::PathBuf {
    workspace.meta().join("creating.json")
}

/// Objects that exist and that the state does not know: address and id.
pub(super) async fn find(
    site: &Site,
    workspace: &Workspace,
    request: &Request,
    (principal, stop): (Option<&Principal>, &CancellationToken),
) -> Result<BTreeMap<String, String>, RepairError> {
    let mut found = BTreeMap::new();
    let Some(creating) = read_json::<Creating>(&path(workspace)).map_err(workspace_error)? else {
        return Ok(found);
    };
    let state = workspace.state()?;
    let known = |address: &str| {
        state.as_ref().is_some_and(|state| state.managed().any(|object| object.address == address))
    };
    let candidates: Vec<(&String, &'static str, String)> = creating
        .addresses
        .iter()
        .filter(|address| !known(address))
        .filter_map(|address| identify(address, request).map(|(kind, id)| (address, kind, id)))
        .collect();
    if candidates.is_empty() {
        return Ok(found);
    }
    let region = request.provider.as_ref().map(|provider| provider.region.as_str());
    let eks = Eks::new(&site.sdk(region, principal).await);
    for (address, kind, id) in candidates {
        let ours =
            eks.created(kind, &id).await?.is_some_and(|at| at >= creating.since.as_second() - SKEW_SECONDS);
        if ours && eks.settled(kind, &id, stop).await? == Some(Health::Active) {
            found.insert(address.clone(), id);
        }
    }
    Ok(found)
}

fn workspace_error(error: FileError) -> RepairError {
    RepairError::Workspace(error.into())
}

/// Type and id of an object of the built-in modules, by its address. Of a user's template nobody can tell.
fn identify(address: &str, request: &Request) -> Option<(&'static str, String)> {
    if !matches!(request.source, Source::Module(_)) {
        return None;
    }
    let cluster = text(&request.variables, "cluster_name")?;
    match address {
        "aws_eks_cluster.this" => Some(("aws_eks_cluster", cluster)),
        "aws_eks_fargate_profile.this" => {
            let name = text(&request.variables, "profile_name")?;
            Some(("aws_eks_fargate_profile", format!("{cluster}:{name}")))
        }
        "aws_eks_fargate_profile.system[0]" => Some(("aws_eks_fargate_profile", format!("{cluster}:system"))),
        other => {
            let name = other.strip_prefix("aws_eks_addon.this[\"")?.strip_suffix("\"]")?;
            Some(("aws_eks_addon", format!("{cluster}:{name}")))
        }
    }
}

fn text(variables: &Map<String, Value>, name: &str) -> Option<String> {
    variables.get(name).and_then(Value::as_str).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request(source: Source) -> Request {
        let mut request = Request::new("default", "demo", source);
        request.variables =
            json!({"cluster_name": "demo", "profile_name": "apps"}).as_object().unwrap().clone();
        request
    }

    #[test]
    fn objects_of_eks_are_known_by_their_addresses() {
        let module = request(Source::Module(BTreeMap::new()));
        let id = |address: &str| identify(address, &module).map(|(_, id)| id);
        assert_eq!(id("aws_eks_cluster.this").as_deref(), Some("demo"));
        assert_eq!(id("aws_eks_fargate_profile.this").as_deref(), Some("demo:apps"));
        assert_eq!(id("aws_eks_fargate_profile.system[0]").as_deref(), Some("demo:system"));
        assert_eq!(id("aws_eks_addon.this[\"coredns\"]").as_deref(), Some("demo:coredns"));
        assert_eq!(id("aws_iam_role.cluster"), None);
    }

    #[test]
    fn of_a_users_template_nobody_can_tell() {
        let theirs = request(Source::Inline {
            format: terraform_driver::render::InlineFormat::default(),
            text: String::new(),
        });
        assert_eq!(identify("aws_eks_cluster.this", &theirs), None);
    }
}
