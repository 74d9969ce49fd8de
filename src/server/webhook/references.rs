//! Early refusal of references to other namespaces that are not granted. The operator checks them again, and enforces them.
//!
//! A reference uses the operator's permissions on behalf of its author, so the target or its namespace must grant it to the
//! referring namespace. A missing target is refused like one without a grant, so that the answer does not tell what exists.

use capt_kinds::{
    api::{
        CaptClusterSpec, CaptControlPlaneSpec, SecretRef, TemplateRef, WorkspaceTemplateApplySpec,
        names::ALLOW_REFERENCES_ANNOTATION,
    },
    grant,
};
use capt_model::model::{
    ObjectKey, Problem,
    newtypes::Namespace,
    template::{DataSource, EnvValue, ValidatedTemplate, resolve_secret},
};

use super::{
    lookup::{Annotations, Lookup, LookupError},
    validate::ReviewFindings,
};

/// Path of an apply's template reference.
pub(super) const TEMPLATE_PATH: &str = "spec.templateRef";

/// Kind of a reference's target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReferencedKind {
    Template,
    /// A workspace that is waited for.
    Workspace,
    ConfigMap,
    Secret,
    /// A Secret that is written, and created if missing. Nothing grants that in another namespace.
    WrittenSecret,
}

/// A reference and its field.
#[derive(Debug)]
pub(super) struct Reference {
    path: String,
    kind: ReferencedKind,
    key: ObjectKey,
}

/// Invalid names are skipped here; the validator reports them.
fn parse_reference(path: String, kind: ReferencedKind, namespace: &str, name: &str) -> Option<Reference> {
    ObjectKey::parse(namespace, name).ok().map(|key| Reference { path, kind, key })
}

fn template_reference(path: String, to: Option<&TemplateRef>, home: &Namespace) -> Option<Reference> {
    let to = to?;
    let namespace = to.namespace.as_deref().filter(|it| !it.is_empty()).unwrap_or(home.as_str());
    parse_reference(path, ReferencedKind::Template, namespace, &to.name)
}

fn secret_reference(path: String, kind: ReferencedKind, to: &SecretRef) -> Option<Reference> {
    parse_reference(path, kind, &to.namespace, &to.name)
}

/// References of a `CAPTCluster` or of its template.
pub(super) fn cluster_references(path: &str, spec: &CaptClusterSpec, home: &Namespace) -> Vec<Reference> {
    template_reference(format!("{path}.vpcTemplateRef"), spec.vpc_template_ref.as_ref(), home)
        .into_iter()
        .collect()
}

/// References of a `CAPTControlPlane` or of its template.
pub(super) fn control_plane_references(
    path: &str,
    spec: &CaptControlPlaneSpec,
    home: &Namespace,
) -> Vec<Reference> {
    let own = template_reference(
        format!("{path}.workspaceTemplateRef"),
        spec.workspace_template_ref.as_ref(),
        home,
    );
    let profiles = spec.additional_fargate_profiles.iter().enumerate().filter_map(|(at, profile)| {
        let path = format!("{path}.additionalFargateProfiles[{at}].workspaceTemplateRef");
        template_reference(path, profile.workspace_template_ref.as_ref(), home)
    });
    own.into_iter().chain(profiles).collect()
}

/// References of a `WorkspaceTemplateApply`.
pub(super) fn apply_references(spec: &WorkspaceTemplateApplySpec, home: &Namespace) -> Vec<Reference> {
    let own = template_reference(TEMPLATE_PATH.to_owned(), spec.template_ref.as_ref(), home);
    let waits = spec.wait_for_secrets.iter().enumerate();
    let waits = waits.filter_map(|(at, to)| {
        secret_reference(format!("spec.waitForSecrets[{at}]"), ReferencedKind::Secret, to)
    });
    let inputs = spec.inputs_from.iter().enumerate();
    let inputs = inputs.filter_map(|(at, input)| {
        secret_reference(
            format!("spec.inputsFrom[{at}].secretRef"),
            ReferencedKind::Secret,
            &input.secret_ref,
        )
    });
    let written = spec.write_connection_secret_to_ref.as_ref();
    let written = written.and_then(|to| {
        secret_reference("spec.writeConnectionSecretToRef".to_owned(), ReferencedKind::WrittenSecret, to)
    });
    let workspaces = spec.wait_for_workspaces.iter().enumerate().filter_map(|(at, to)| {
        let namespace = to.namespace.as_deref().filter(|it| !it.is_empty()).unwrap_or(home.as_str());
        parse_reference(
            format!("spec.waitForWorkspaces[{at}]"),
            ReferencedKind::Workspace,
            namespace,
            &to.name,
        )
    });
    own.into_iter().chain(waits).chain(workspaces).chain(inputs).chain(written).collect()
}

/// References of a filled template, attributed to the apply.
pub(super) fn filled_template_references(
    template: &ValidatedTemplate,
    writes_own_secret: bool,
) -> Vec<Reference> {
    let data = |path: String, source: &DataSource| {
        let kind = match source {
            DataSource::ConfigMap(_) => ReferencedKind::ConfigMap,
            DataSource::Secret(_) => ReferencedKind::Secret,
        };
        source.resolve().ok().map(|found| Reference { path, kind, key: found.object })
    };
    let files = template.var_files.iter().enumerate();
    let files = files.filter_map(|(at, file)| {
        data(format!("spec.templateRef: varFiles[{at}] of the template"), &file.from)
    });
    let env = template.env.iter().enumerate().filter_map(|(at, variable)| match &variable.value {
        EnvValue::From(source) => data(format!("spec.templateRef: env[{at}] of the template"), source),
        EnvValue::Literal(_) => None,
    });
    let written = template.connection_secret.as_ref().filter(|_| writes_own_secret).and_then(|to| {
        let path = "spec.templateRef: writeConnectionSecretToRef of the template".to_owned();
        Some(Reference { path, kind: ReferencedKind::WrittenSecret, key: resolve_secret(to).ok()? })
    });
    files.chain(env).chain(written).collect()
}

/// Reports references without a grant.
pub(super) async fn check_grants(
    references: Vec<Reference>,
    home: &Namespace,
    lookup: &dyn Lookup,
    findings: &mut ReviewFindings,
) {
    for reference in references.into_iter().filter(|it| it.key.namespace != *home) {
        match is_granted(&reference, home, lookup).await {
            Ok(true) => {}
            Ok(false) => findings.problems.push(denied_problem(&reference, home)),
            Err(error) => findings
                .warnings
                .push(format!("{}: {error}; whether the reference is granted is unknown", reference.path)),
        }
    }
}

async fn is_granted(
    reference: &Reference,
    home: &Namespace,
    lookup: &dyn Lookup,
) -> Result<bool, LookupError> {
    let Reference { kind, key, .. } = reference;
    let allows = |annotations: Option<Annotations>| grant::allows(annotations.as_ref(), home.as_str());
    if *kind == ReferencedKind::WrittenSecret {
        return Ok(false);
    }
    if allows(lookup.namespace(&key.namespace).await?) {
        return Ok(true);
    }
    let of_object: Option<Annotations> = match kind {
        ReferencedKind::Template => {
            lookup.template(key).await?.map(|it| it.metadata.annotations.unwrap_or_default())
        }
        ReferencedKind::Workspace => lookup.workspace(key).await?,
        ReferencedKind::ConfigMap => lookup.config_map(key).await?,
        ReferencedKind::Secret | ReferencedKind::WrittenSecret => lookup.secret(key).await?,
    };
    Ok(allows(of_object))
}

fn describe_target(reference: &Reference) -> String {
    let kind = match reference.kind {
        ReferencedKind::Template => "WorkspaceTemplate",
        ReferencedKind::Workspace => "WorkspaceTemplateApply",
        ReferencedKind::ConfigMap => "ConfigMap",
        ReferencedKind::Secret | ReferencedKind::WrittenSecret => "Secret",
    };
    format!("{kind} {}", reference.key)
}

fn denied_problem(reference: &Reference, home: &Namespace) -> Problem {
    let namespace = &reference.key.namespace;
    let (verb, remedy) = match reference.kind {
        ReferencedKind::WrittenSecret => (
            "write",
            format!("use a Secret in namespace {home}; outputs stay in the workspace's own namespace"),
        ),
        _ => (
            "refer to",
            format!("annotate it, or namespace {namespace}, with {ALLOW_REFERENCES_ANNOTATION}: {home}"),
        ),
    };
    Problem {
        path: reference.path.clone(),
        message: format!("namespace {home} is not permitted to {verb} {}", describe_target(reference)),
        remedy,
    }
}
