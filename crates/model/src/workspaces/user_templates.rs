//! Workspaces of `WorkspaceTemplateApply` objects, and dependencies through connection Secrets.

use std::collections::{BTreeMap, BTreeSet};

use capt_kinds::api::{BuiltInModule, DeletionPolicy, WorkspaceTemplateApply, WorkspaceTemplateSpec};

use super::{
    DesiredWorkspace, DesiredWorkspaceError, ModuleInputs, TemplateError, WorkspaceKey, WorkspaceRole,
    WorkspaceSource,
    template::{TemplateOrigin, instantiate_template},
};
use crate::{
    manifest::{ValidatedManifests, ValidatedObject},
    model::{
        ObjectKey, names,
        template::{DataSource, EnvValue, ValidatedTemplate, resolve_secret},
        workspace_apply::{TerraformSource, ValidatedApply},
    },
    modules::EmbeddedModule,
};

/// One workspace for each `WorkspaceTemplateApply`.
pub(super) fn template_apply_workspaces(
    manifests: &ValidatedManifests,
) -> Result<Vec<DesiredWorkspace>, Vec<DesiredWorkspaceError>> {
    let (mut all, mut errors) = (Vec::new(), Vec::new());
    for apply in manifests.applies.values() {
        let source = |key: &WorkspaceKey, template: &ObjectKey, variables: &BTreeMap<String, String>| {
            template_source(key, template, variables.clone(), manifests)
        };
        match apply_workspace(&apply.key, &apply.valid, source) {
            Ok(blueprint) => all.push(blueprint),
            Err(more) => errors.extend(more),
        }
    }
    if errors.is_empty() { Ok(all) } else { Err(errors) }
}

type CheckedApply = ValidatedObject<WorkspaceTemplateApply, ValidatedApply>;

/// The workspace of a `WorkspaceTemplateApply`, without dependencies through Secrets. `instantiate` looks up its template and
/// substitutes the placeholders.
pub fn apply_workspace<E>(
    apply: &ObjectKey,
    valid: &ValidatedApply,
    instantiate: impl FnOnce(&WorkspaceKey, &ObjectKey, &BTreeMap<String, String>) -> Result<WorkspaceSource, E>,
) -> Result<DesiredWorkspace, E> {
    let key = WorkspaceKey::new(apply.namespace.as_str(), names::workspace_name(apply.name.as_str()));
    let (role, body) = match &valid.source {
        TerraformSource::Template { template, variables } => {
            (WorkspaceRole::Custom, instantiate(&key, template, variables)?)
        }
        TerraformSource::Module { module, inputs, from: _ } => {
            let (role, module) = match module {
                BuiltInModule::Vpc => (WorkspaceRole::Vpc, EmbeddedModule::Vpc),
                BuiltInModule::Eks => (WorkspaceRole::Eks, EmbeddedModule::Eks),
                BuiltInModule::Fargate => (WorkspaceRole::Custom, EmbeddedModule::Fargate),
            };
            (role, WorkspaceSource::Module { module, inputs: inputs.clone().into_iter().collect() })
        }
    };
    let waits = valid.wait_for_workspaces.iter();
    Ok(DesiredWorkspace {
        role,
        owner: format!("WorkspaceTemplateApply {apply}"),
        eks_cluster: target_eks_cluster(&body),
        region: valid.region.as_ref().map(ToString::to_string),
        output_refs: Vec::new(),
        depends_on: waits
            .map(|key| WorkspaceKey::new(key.namespace.as_str(), names::workspace_name(key.name.as_str())))
            .collect(),
        connection_secret: valid.connection_secret.clone().or_else(|| template_connection_secret(&body)),
        retained: valid.retain || has_orphan_policy(&body),
        key,
        source: body,
    })
}

/// The EKS cluster that a built-in module changes; unknown for a template.
fn target_eks_cluster(body: &WorkspaceSource) -> Option<String> {
    let name =
        |inputs: &ModuleInputs| inputs.get("cluster_name").and_then(|name| name.as_str()).map(str::to_owned);
    match body {
        WorkspaceSource::Module { module: EmbeddedModule::Eks | EmbeddedModule::Fargate, inputs } => {
            name(inputs)
        }
        WorkspaceSource::Module { .. } | WorkspaceSource::Template { .. } => None,
    }
}

/// The connection Secret in a template's spec.
pub(super) fn template_connection_secret(body: &WorkspaceSource) -> Option<ObjectKey> {
    match body {
        WorkspaceSource::Template { template, .. } => {
            template.connection_secret.as_ref().and_then(|reference| resolve_secret(reference).ok())
        }
        WorkspaceSource::Module { .. } => None,
    }
}

pub(super) fn has_orphan_policy(body: &WorkspaceSource) -> bool {
    matches!(body, WorkspaceSource::Template { template, .. } if template.deletion_policy == DeletionPolicy::Orphan)
}

/// Instantiates a template of the manifests.
pub(super) fn template_source(
    workspace: &WorkspaceKey,
    template: &ObjectKey,
    variables: BTreeMap<String, String>,
    manifests: &ValidatedManifests,
) -> Result<WorkspaceSource, Vec<DesiredWorkspaceError>> {
    let missing = || vec![DesiredWorkspaceError::missing_template(workspace, template)];
    let found = manifests.templates.get(template).ok_or_else(missing)?;
    let says = |error: TemplateError| {
        DesiredWorkspaceError::in_template(&found.origin.file, template, &error.to_string())
    };
    let origin = TemplateOrigin::File { path: &found.origin.file, local: manifests.local_modules };
    template_workspace_source(&found.object.spec, &workspace.name, variables, origin)
        .map_err(|errors| errors.into_iter().map(says).collect())
}

/// Root module of a template.
pub fn template_workspace_source(
    spec: &WorkspaceTemplateSpec,
    workspace: &str,
    variables: BTreeMap<String, String>,
    origin: TemplateOrigin<'_>,
) -> Result<WorkspaceSource, Vec<TemplateError>> {
    let template = Box::new(instantiate_template(spec, workspace, &variables, origin)?);
    let file = match origin {
        TemplateOrigin::File { path, .. } => path.to_owned(),
        TemplateOrigin::ApiObject => String::new(),
    };
    Ok(WorkspaceSource::Template { template, variables, file })
}

/// Adds a dependency on the workspace that writes a Secret to each workspace that reads it.
pub(super) fn add_secret_dependencies(all: &mut [DesiredWorkspace], manifests: &ValidatedManifests) {
    let makers: BTreeMap<ObjectKey, WorkspaceKey> =
        all.iter().filter_map(|it| Some((it.connection_secret.clone()?, it.key.clone()))).collect();
    for blueprint in all {
        let mut wanted: BTreeSet<ObjectKey> = awaited_secrets(blueprint, manifests);
        if let WorkspaceSource::Template { template, .. } = &blueprint.source {
            wanted.extend(referenced_secrets(template));
        }
        let found = wanted.iter().filter(|secret| !manifests.secrets.contains_key(*secret));
        let needs: Vec<WorkspaceKey> = found.filter_map(|secret| makers.get(secret)).cloned().collect();
        blueprint.depends_on.extend(needs.into_iter().filter(|need| *need != blueprint.key));
    }
}

fn awaited_secrets(blueprint: &DesiredWorkspace, manifests: &ValidatedManifests) -> BTreeSet<ObjectKey> {
    let mine = |apply: &&CheckedApply| blueprint.owner == format!("WorkspaceTemplateApply {}", apply.key);
    let apply = manifests.applies.values().find(mine);
    apply.map(|apply| apply.valid.wait_for_secrets.iter().cloned().collect()).unwrap_or_default()
}

fn referenced_secrets(template: &ValidatedTemplate) -> impl Iterator<Item = ObjectKey> + '_ {
    let files = template.var_files.iter().map(|file| &file.from);
    let env = template.env.iter().filter_map(|variable| match &variable.value {
        EnvValue::From(source) => Some(source),
        EnvValue::Literal(_) => None,
    });
    files.chain(env).filter_map(|source| match source {
        DataSource::Secret(_) => source.resolve().ok().map(|key| key.object),
        DataSource::ConfigMap(_) => None,
    })
}
