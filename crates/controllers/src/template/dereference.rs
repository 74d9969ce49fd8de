//! Finds the workspaces that use a template. Read only, decides nothing.

use capt_kinds::api::{WorkspaceTemplate, WorkspaceTemplateApply};
use capt_kube::k8s::K8sError;
use capt_model::workspaces::WorkspaceKey;
use kube::ResourceExt;

use super::{TemplateContext, template_key, usage_index::TemplateUsageIndex};
use crate::common::invalid_object::filter_valid;

/// Workspaces that use a template.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct TemplateUsers(pub(super) Vec<String>);

/// The users by the index; none until the index is synced.
pub(super) fn dereference(object: &WorkspaceTemplate, index: &TemplateUsageIndex) -> Option<TemplateUsers> {
    index.users_of(&template_key(object)).map(TemplateUsers)
}

/// Whether a workspace in the API uses the template; the index may be stale.
pub(super) async fn is_used(object: &WorkspaceTemplate, ctx: &TemplateContext) -> Result<bool, K8sError> {
    let namespace = ctx.common.settings.namespace.as_deref();
    // Workspaces that do not deserialize are in the index, which parses nothing but the template reference.
    let all = filter_valid::<WorkspaceTemplateApply>(ctx.common.kube.list(namespace, "").await?);
    let me = template_key(object);
    Ok(all.iter().any(|it| referenced_template(it) == Some(me.clone())))
}

/// Key of the template that a workspace references.
fn referenced_template(user: &WorkspaceTemplateApply) -> Option<WorkspaceKey> {
    let reference = user.spec.template_ref.as_ref()?;
    let namespace = reference.namespace.clone().filter(|it| !it.is_empty()).or_else(|| user.namespace());
    Some(WorkspaceKey::new(&namespace.unwrap_or_default(), &reference.name))
}
