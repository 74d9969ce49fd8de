//! What users bring: templates, and objects that apply them.

use std::collections::{BTreeMap, BTreeSet};

use super::{Blueprint, BlueprintError, Body, FillError, Inputs, Key, Role, fill};
use crate::{
    api::{BuiltInModule, DeletionPolicy, WorkspaceTemplateApply},
    manifest::{Checked, ValidatedManifests},
    model::{
        ObjectKey,
        apply::{ValidatedApply, Work},
        names,
        template::{DataSource, EnvValue, ValidatedTemplate, resolve_secret},
    },
    modules::Builtin,
};

/// One workspace for each `WorkspaceTemplateApply`.
pub(super) fn workspaces(manifests: &ValidatedManifests) -> Result<Vec<Blueprint>, Vec<BlueprintError>> {
    let (mut all, mut errors) = (Vec::new(), Vec::new());
    for apply in manifests.applies.values() {
        match workspace(apply, manifests) {
            Ok(blueprint) => all.push(blueprint),
            Err(more) => errors.extend(more),
        }
    }
    if errors.is_empty() { Ok(all) } else { Err(errors) }
}

type Apply = Checked<WorkspaceTemplateApply, ValidatedApply>;

fn workspace(apply: &Apply, manifests: &ValidatedManifests) -> Result<Blueprint, Vec<BlueprintError>> {
    let key = Key::new(apply.key.namespace.as_str(), names::workspace(apply.key.name.as_str()));
    let owner = format!("WorkspaceTemplateApply {}", apply.key);
    let (role, body) = match &apply.valid.work {
        Work::Template { template, variables } => {
            (Role::Custom, template_body(&key, template, variables.clone(), manifests)?)
        }
        Work::Module { module, inputs, from: _ } => {
            let (role, module) = match module {
                BuiltInModule::Vpc => (Role::Vpc, Builtin::Vpc),
                BuiltInModule::Eks => (Role::Eks, Builtin::Eks),
                BuiltInModule::Fargate => (Role::Custom, Builtin::Fargate),
            };
            (role, Body::Module { module, inputs: inputs.clone().into_iter().collect() })
        }
    };
    let waits = apply.valid.wait_for_workspaces.iter();
    Ok(Blueprint {
        role,
        owner,
        eks_cluster: changed_cluster(&body),
        region: apply.valid.region.as_ref().map(ToString::to_string),
        handed: Vec::new(),
        after: waits
            .map(|key| Key::new(key.namespace.as_str(), names::workspace(key.name.as_str())))
            .collect(),
        connection_secret: apply.valid.connection_secret.clone().or_else(|| own_secret(&body)),
        retained: apply.valid.retain || is_orphaned(&body),
        key,
        body,
    })
}

/// The EKS cluster that a built-in module changes; for a template nobody can tell.
fn changed_cluster(body: &Body) -> Option<String> {
    let name = |inputs: &Inputs| inputs.get("cluster_name").and_then(|name| name.as_str()).map(str::to_owned);
    match body {
        Body::Module { module: Builtin::Eks | Builtin::Fargate, inputs } => name(inputs),
        Body::Module { .. } | Body::Template { .. } => None,
    }
}

/// The Secret that a template's own spec names.
pub(super) fn own_secret(body: &Body) -> Option<ObjectKey> {
    match body {
        Body::Template { template, .. } => {
            template.connection_secret.as_ref().and_then(|reference| resolve_secret(reference).ok())
        }
        Body::Module { .. } => None,
    }
}

pub(super) fn is_orphaned(body: &Body) -> bool {
    matches!(body, Body::Template { template, .. } if template.deletion_policy == DeletionPolicy::Orphan)
}

/// A template with its placeholders filled in.
pub(super) fn template_body(
    workspace: &Key,
    template: &ObjectKey,
    variables: BTreeMap<String, String>,
    manifests: &ValidatedManifests,
) -> Result<Body, Vec<BlueprintError>> {
    let missing = || vec![BlueprintError::no_template(workspace, template)];
    let found = manifests.templates.get(template).ok_or_else(missing)?;
    let says =
        |error: FillError| BlueprintError::in_template(&found.origin.file, template, &error.to_string());
    let valid = fill(&found.object.spec, &workspace.name, &variables)
        .map_err(|errors| errors.into_iter().map(says).collect::<Vec<_>>())?;
    Ok(Body::Template { template: Box::new(valid), variables, file: found.origin.file.clone() })
}

/// What reads the Secret that another workspace makes, waits for it.
pub(super) fn wait_for_secrets(all: &mut [Blueprint], manifests: &ValidatedManifests) {
    let makers: BTreeMap<ObjectKey, Key> =
        all.iter().filter_map(|it| Some((it.connection_secret.clone()?, it.key.clone()))).collect();
    for blueprint in all {
        let mut wanted: BTreeSet<ObjectKey> = waited_for(blueprint, manifests);
        if let Body::Template { template, .. } = &blueprint.body {
            wanted.extend(secrets_read(template));
        }
        let found = wanted.iter().filter(|secret| !manifests.secrets.contains_key(*secret));
        let needs: Vec<Key> = found.filter_map(|secret| makers.get(secret)).cloned().collect();
        blueprint.after.extend(needs.into_iter().filter(|need| *need != blueprint.key));
    }
}

fn waited_for(blueprint: &Blueprint, manifests: &ValidatedManifests) -> BTreeSet<ObjectKey> {
    let mine = |apply: &&Apply| blueprint.owner == format!("WorkspaceTemplateApply {}", apply.key);
    let apply = manifests.applies.values().find(mine);
    apply.map(|apply| apply.valid.wait_for_secrets.iter().cloned().collect()).unwrap_or_default()
}

fn secrets_read(template: &ValidatedTemplate) -> impl Iterator<Item = ObjectKey> + '_ {
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
