//! Objects whose creation was under way when terraform was killed.
//!
//! Terraform writes an object into the state when its creation has ended, and an EKS cluster takes ten minutes for that.
//! So what is about to be created is noted, and kept with the state, before terraform starts; and the note goes when
//! terraform has ended by itself. A note that is still there tells of objects that may exist and that no state knows. Those
//! of EKS are looked for, and taken into the state; a second one could not be made anyway, because names are unique.
//!
//! A Fargate profile that takes the place of another one is made beside it, at the same address. Then the old one gets an
//! address of its own, which no configuration knows: the next apply takes in the new one, and the old one goes.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use terraform_driver::{
    clock,
    plan::{Action, Summary},
    render::{Request, Source},
    run::Job,
    workspace::{
        Workspace,
        files::{FileError, read_json, remove_optional, write_json},
    },
};
use tokio_util::sync::CancellationToken;

use super::{error::WorkError, repair::RepairError, site::Site};
use crate::aws::{Eks, Health, Principal};

/// What is being created; in `.capt/creating.json`.
#[derive(Debug, Serialize, Deserialize)]
struct Creating {
    since: Timestamp,
    #[serde(default)]
    objects: Vec<Object>,
}

/// An object of EKS.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Object {
    address: String,
    kind: String,
    id: String,
}

/// An object that exists and that the state does not know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lost {
    /// Where it belongs.
    pub(super) address: String,
    /// What it is called.
    pub(super) id: String,
    /// Whether it is as it should be.
    pub(super) is_well: bool,
    /// Where the one belongs that it was to take the place of.
    pub(super) aside: Option<String>,
}

const PROFILE: &str = "aws_eks_fargate_profile";
/// Clocks differ a little.
const SKEW_SECONDS: i64 = 120;

/// Notes what an apply is about to create.
pub(super) fn note(workspace: &Workspace, summary: &Summary, request: &Request) -> Result<(), FileError> {
    let new = summary.changes.iter().filter(|it| matches!(it.action, Action::Add | Action::Replace));
    let objects = new.filter_map(|it| identify(&it.address, request)).collect();
    write_json(&path(workspace), &Creating { since: clock::now(), objects })
}

/// Terraform has ended by itself: what it made is in the state.
pub(super) fn forget(workspace: &Workspace) -> Result<(), FileError> {
    remove_optional(&path(workspace))
}

fn path(workspace: &Workspace) -> std::path::PathBuf {
    workspace.meta().join("creating.json")
}

/// Objects that exist and that the state does not know.
pub(super) async fn find(
    site: &Site,
    workspace: &Workspace,
    region: Option<&str>,
    (principal, stop): (Option<&Principal>, &CancellationToken),
) -> Result<Vec<Lost>, RepairError> {
    let mut found = Vec::new();
    let Some(creating) = read_json::<Creating>(&path(workspace)).map_err(workspace_error)? else {
        return Ok(found);
    };
    let missing = missing(workspace, creating.objects)?;
    if missing.is_empty() {
        return Ok(found);
    }
    let eks = Eks::new(&site.sdk(region, principal).await);
    for (Object { address, kind, id }, aside) in missing {
        let made = eks.created(&kind, &id).await?;
        if made.is_none_or(|at| at < creating.since.as_second() - SKEW_SECONDS) {
            continue;
        }
        let is_well = match eks.settled(&kind, &id, stop).await? {
            Some(Health::Gone) | None => continue,
            health => health == Some(Health::Active),
        };
        found.push(Lost { address, id, is_well, aside });
    }
    Ok(found)
}

/// Those that the state does not know, with the address for what is in their place.
fn missing(
    workspace: &Workspace,
    objects: Vec<Object>,
) -> Result<Vec<(Object, Option<String>)>, RepairError> {
    let state = workspace.state()?;
    let in_place = |address: &str| {
        let mut all = state.iter().flat_map(terraform_driver::state::State::managed);
        let object = all.find(|it| it.address == address && it.instance.deposed.is_none())?;
        Some(object.instance.text("id").unwrap_or_default())
    };
    Ok(objects
        .into_iter()
        .filter_map(|object| match in_place(&object.address) {
            None => Some((object, None)),
            Some(id) if id == object.id || object.kind != PROFILE => None,
            Some(id) => {
                let name = id.rsplit(':').next().unwrap_or_default().to_owned();
                Some((object, Some(format!("{PROFILE}.replaced_{name}"))))
            }
        })
        .collect())
}

/// Makes room for what was found, where something else has its address.
pub(super) async fn make_room(site: &Site, job: &Job<'_>, found: &[Lost]) -> Result<(), WorkError> {
    for lost in found {
        if let Some(aside) = &lost.aside {
            site.driver.readdress(job, &lost.address, aside).await?;
        }
    }
    Ok(())
}

/// Takes what was found into the state, so that it is destroyed with the rest.
pub(super) async fn take_in(site: &Site, job: &Job<'_>, found: &[Lost]) -> Result<(), WorkError> {
    make_room(site, job, found).await?;
    for lost in found {
        site.driver.import(job, &lost.address, &lost.id).await?;
    }
    Ok(forget(job.workspace)?)
}

fn workspace_error(error: FileError) -> RepairError {
    RepairError::Workspace(error.into())
}

/// An object of the built-in modules, by its address. Of a user's template nobody can tell.
fn identify(address: &str, request: &Request) -> Option<Object> {
    if !matches!(request.source, Source::Module(_)) {
        return None;
    }
    let cluster = text(&request.variables, "cluster_name")?;
    let (kind, id) = match address {
        "aws_eks_cluster.this" => ("aws_eks_cluster", cluster),
        "aws_eks_fargate_profile.this" => {
            let name = text(&request.variables, "profile_name")?;
            (PROFILE, format!("{cluster}:{name}"))
        }
        "aws_eks_fargate_profile.system[0]" => (PROFILE, format!("{cluster}:system")),
        other => {
            let name = other.strip_prefix("aws_eks_addon.this[\"")?.strip_suffix("\"]")?;
            ("aws_eks_addon", format!("{cluster}:{name}"))
        }
    };
    Some(Object { address: address.to_owned(), kind: kind.to_owned(), id })
}

fn text(variables: &Map<String, Value>, name: &str) -> Option<String> {
    variables.get(name).and_then(Value::as_str).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    fn request(source: Source) -> Request {
        let mut request = Request::new("default", "demo", source);
        request.variables =
            json!({"cluster_name": "demo", "profile_name": "apps"}).as_object().unwrap().clone();
        request
    }

    fn profile(id: &str) -> Object {
        Object { address: format!("{PROFILE}.this"), kind: PROFILE.to_owned(), id: id.to_owned() }
    }

    fn with_state(instances: &Value) -> (tempfile::TempDir, Workspace) {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::at(dir.path().join("ws"));
        workspace.write([]).unwrap();
        let state = json!({"version": 4, "terraform_version": "1.11.4", "serial": 3, "lineage": "x", "outputs": {},
            "resources": [{"mode": "managed", "type": PROFILE, "name": "this",
                "provider": "provider[\"registry.terraform.io/hashicorp/aws\"]", "instances": instances}]});
        std::fs::write(workspace.root().join("terraform.tfstate"), state.to_string()).unwrap();
        (dir, workspace)
    }

    #[test]
    fn objects_of_eks_are_known_by_their_addresses() {
        let module = request(Source::Module(BTreeMap::new()));
        let id = |address: &str| identify(address, &module).map(|it| it.id);
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

    #[test]
    fn what_the_state_has_is_not_missing_and_what_is_in_the_way_is_put_aside() {
        let old = json!([{"schema_version": 0, "attributes": {"id": "demo:apps"}}]);
        let (_dir, workspace) = with_state(&old);
        let new = profile("demo:apps-0a0b0c");
        assert_eq!(missing(&workspace, vec![profile("demo:apps")]).unwrap(), []);
        let aside = Some(format!("{PROFILE}.replaced_apps"));
        assert_eq!(missing(&workspace, vec![new.clone()]).unwrap(), [(new.clone(), aside)]);
        // Terraform may have written down already that the old one is on its way out.
        let deposed =
            json!([{"schema_version": 0, "deposed": "0a0b0c0d", "attributes": {"id": "demo:apps"}}]);
        let (_dir, workspace) = with_state(&deposed);
        assert_eq!(missing(&workspace, vec![new.clone()]).unwrap(), [(new, None)]);
    }

    #[test]
    fn a_cluster_is_never_put_aside() {
        let old = json!([{"schema_version": 0, "attributes": {"id": "demo:apps"}}]);
        let (_dir, workspace) = with_state(&old);
        let mut cluster = profile("other");
        cluster.kind = "aws_eks_cluster".to_owned();
        assert_eq!(missing(&workspace, vec![cluster]).unwrap(), []);
    }
}
