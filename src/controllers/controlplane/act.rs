//! Does what was decided. No branch on the spec.

use kube::ResourceExt as _;
use sandbox::api::{Sandbox, SandboxSpec};
use serde_json::json;

use super::{Context, balancers, decide::Decision, delete::Teardown, dereference::Remains};
use crate::{
    api::{CaptControlPlane, WorkspaceTemplateApply, conditions::reasons, names},
    controllers::common::{Thing, drive, meter::since},
    k8s::{self, Deleted, K8sError, events::News},
};

/// What we do when we tell.
const ACTION: &str = "Act";

/// What came of a decision.
#[derive(Debug)]
pub(super) struct Acted {
    /// The object as it is now.
    pub object: CaptControlPlane,
    /// Workspaces that the API server refused, by name, and why.
    pub refused: Vec<(String, String)>,
    /// The first thing that went wrong. The others were done all the same.
    pub trouble: Option<K8sError>,
}

/// Carries a decision out. One workspace that cannot be written does not stop the others.
pub(super) async fn carry_out(
    object: CaptControlPlane,
    decision: Decision,
    ctx: &Context,
) -> Result<Acted, K8sError> {
    let Decision { spec, eks, takes_over, profiles, removals, pokes, calm, secrets } = decision;
    let kube = &ctx.common.kube;
    let mut acted = Acted { object, refused: Vec::new(), trouble: None };
    if takes_over {
        keep_account_wide(&acted.object, ctx).await?;
    }
    for wanted in eks.into_iter().map(|it| *it).chain(profiles) {
        let applied = apply(&acted.object, &wanted, ctx).await;
        acted.note(&wanted, applied);
    }
    for secret in &secrets {
        let written = kube.apply(secret).await.map(|_| ());
        acted.trouble = acted.trouble.or_else(|| written.err());
    }
    for dropped in &removals {
        let gone = kube.delete(dropped, k8s::Removal::Background).await;
        let note =
            format!("WorkspaceTemplateApply {} goes: the spec does not name its profile", dropped.name_any());
        ctx.common.events.tell(&acted.object, News::normal(ACTION, "RemovingFargateProfile", note)).await;
        acted.trouble = acted.trouble.or_else(|| gone.err());
    }
    let uid = acted.object.uid().unwrap_or_default();
    for name in &calm {
        ctx.looks.poked(&uid, name, None);
    }
    for lost in &pokes {
        let asked = poke(&acted.object, lost, ctx).await;
        acted.trouble = acted.trouble.or_else(|| asked.err());
    }
    if let Some(fields) = spec {
        acted.object = kube.merge(&acted.object, json!({ "spec": fields })).await?;
    }
    Ok(acted)
}

impl Acted {
    fn note(&mut self, wanted: &WorkspaceTemplateApply, applied: Result<(), K8sError>) {
        match applied {
            Ok(()) => {}
            Err(K8sError::Invalid { source, .. }) => {
                self.refused
                    .push((wanted.name_any(), format!("the API server refuses it: {}", source.message)));
            }
            Err(error) => {
                self.trouble.get_or_insert(error);
            }
        }
    }
}

async fn apply(
    object: &CaptControlPlane,
    wanted: &WorkspaceTemplateApply,
    ctx: &Context,
) -> Result<(), K8sError> {
    let applied = ctx.common.kube.apply(wanted).await?;
    // A generation of one is a new object.
    if applied.metadata.generation == Some(1) {
        let note = format!("made WorkspaceTemplateApply {}", wanted.name_any());
        ctx.common.events.tell(object, News::normal(ACTION, "CreatedWorkspace", note)).await;
    }
    Ok(())
}

/// Asks a workspace to run again.
async fn poke(
    object: &CaptControlPlane,
    lost: &WorkspaceTemplateApply,
    ctx: &Context,
) -> Result<(), K8sError> {
    let now = (ctx.common.clock)();
    let text = k8s::conditions::whole_seconds(now).to_string();
    ctx.common.kube.set_annotation(lost, names::REQUESTED_ANNOTATION, &text).await?;
    ctx.looks.poked(&object.uid().unwrap_or_default(), &lost.name_any(), Some(now));
    let note = format!("EKS lost what WorkspaceTemplateApply {} made; it runs again", lost.name_any());
    ctx.common.events.tell(object, News::warning(ACTION, "FargateProfileLost", note)).await;
    Ok(())
}

/// Upstream makes the Spot role of the whole account with one cluster. Whatever becomes of this cluster, it stays.
async fn keep_account_wide(object: &CaptControlPlane, ctx: &Context) -> Result<(), K8sError> {
    let kube = &ctx.common.kube;
    let name = format!("{}-spot-role-create", object.name_any());
    let found: Option<WorkspaceTemplateApply> = kube.get(object.namespace().as_deref(), &name).await?;
    let uid = object.uid();
    let is_ours =
        |it: &WorkspaceTemplateApply| it.owner_references().iter().any(|it| Some(&it.uid) == uid.as_ref());
    if let Some(found) = found.filter(is_ours).filter(|it| it.spec.retain_workspace_on_delete != Some(true)) {
        kube.merge(&found, json!({"spec": {"retainWorkspaceOnDelete": true}})).await?;
    }
    Ok(())
}

/// What came of a step of a deletion.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Removed {
    /// Something has to go first.
    Waiting {
        /// In one word.
        reason: &'static str,
        /// What.
        why: String,
    },
    /// The step is done; the next one follows.
    Next,
    /// The object may go.
    Released,
}

/// Carries a step of a deletion out.
pub(super) async fn tear_down(
    object: &CaptControlPlane,
    step: Teardown,
    remains: &Remains,
    ctx: &Context,
) -> Result<Removed, K8sError> {
    let kube = &ctx.common.kube;
    match step {
        Teardown::Sandboxes { delete, why } => {
            for metadata in delete {
                let sandbox = Sandbox { metadata, spec: SandboxSpec::default(), status: None };
                kube.delete(&sandbox, k8s::Removal::Background).await?;
            }
            Ok(Removed::Waiting { reason: reasons::WAITING_FOR_SANDBOXES_DELETION, why })
        }
        Teardown::Balancers { delete, why } => {
            if let Err(error) = balancers::remove(object, remains, &delete, &ctx.common).await {
                // It is tried again, until nobody waits any longer.
                tracing::debug!(%error, "the load balancers of routers cannot be told to go");
            }
            Ok(Removed::Waiting { reason: reasons::WAITING_FOR_LOAD_BALANCERS_DELETION, why })
        }
        Teardown::Workspaces { delete, reason, why } => {
            keep_account_wide(object, ctx).await?;
            for apply in &delete {
                if kube.delete(apply, k8s::Removal::Background).await? == Deleted::Gone && delete.len() == 1 {
                    return Ok(Removed::Next);
                }
            }
            Ok(Removed::Waiting { reason, why })
        }
        Teardown::Secrets(secrets) => {
            for secret in &secrets {
                kube.delete(secret, k8s::Removal::Background).await?;
            }
            Ok(Removed::Next)
        }
        Teardown::Release => {
            kube.remove_finalizers(object, &[names::CONTROL_PLANE_FINALIZER]).await?;
            ctx.looks.forget(&object.uid().unwrap_or_default());
            let (meta, meter) = (&object.metadata, &ctx.common.meter);
            meter.profiles(&drive::path(meta), &[]);
            if let Some(took) = since(meta.deletion_timestamp.as_ref(), (ctx.common.clock)()) {
                meter.removed(Thing::Cluster, took);
            }
            Ok(Removed::Released)
        }
    }
}
