//! References into other namespaces, and whether they are granted.
//!
//! A reference to a template, a Secret or a config map lends the operator's rights to whoever writes it, so the object that
//! is referred to, or its namespace, has to name the one that refers. Waiting for another workspace lends nothing and is free.

use crate::{
    api::{
        CaptClusterSpec, CaptControlPlaneSpec, SecretRef, TemplateRef, WorkspaceTemplateApplySpec,
        names::ALLOW_REFERENCES_ANNOTATION,
    },
    model::{
        ObjectKey, Problem, grant,
        template::{DataSource, EnvValue, ValidatedTemplate, resolve_secret},
        text::Namespace,
    },
};

use super::{
    check::Findings,
    lookup::{Annotations, Lookup, LookupError},
};

/// Where an apply names its template.
pub(super) const TEMPLATE_PATH: &str = "spec.templateRef";

/// What is referred to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Template,
    ConfigMap,
    Secret,
    /// A Secret that gets written, and made if it is not there.
    WrittenSecret,
}

/// A reference and the field that it stands in.
#[derive(Debug)]
pub(super) struct Reference {
    path: String,
    kind: Kind,
    key: ObjectKey,
}

/// A reference whose names cannot be read is left out: the validator says what is wrong with it.
fn reference(path: String, kind: Kind, namespace: &str, name: &str) -> Option<Reference> {
    ObjectKey::parse(namespace, name).ok().map(|key| Reference { path, kind, key })
}

fn template(path: String, to: Option<&TemplateRef>, home: &Namespace) -> Option<Reference> {
    let to = to?;
    let namespace = to.namespace.as_deref().filter(|it| !it.is_empty()).unwrap_or(home.as_str());
    reference(path, Kind::Template, namespace, &to.name)
}

fn secret(path: String, kind: Kind, to: &SecretRef) -> Option<Reference> {
    reference(path, kind, &to.namespace, &to.name)
}

/// References of a `CAPTCluster`, or of what a template makes one from.
pub(super) fn of_cluster(path: &str, spec: &CaptClusterSpec, home: &Namespace) -> Vec<Reference> {
    template(format!("{path}.vpcTemplateRef"), spec.vpc_template_ref.as_ref(), home).into_iter().collect()
}

/// References of a `CAPTControlPlane`, or of what a template makes one from.
pub(super) fn of_control_plane(path: &str, spec: &CaptControlPlaneSpec, home: &Namespace) -> Vec<Reference> {
    let own = template(format!("{path}.workspaceTemplateRef"), spec.workspace_template_ref.as_ref(), home);
    let profiles = spec.additional_fargate_profiles.iter().enumerate().filter_map(|(at, profile)| {
        let path = format!("{path}.additionalFargateProfiles[{at}].workspaceTemplateRef");
        template(path, profile.workspace_template_ref.as_ref(), home)
    });
    own.into_iter().chain(profiles).collect()
}

/// References of a `WorkspaceTemplateApply`.
pub(super) fn of_apply(spec: &WorkspaceTemplateApplySpec, home: &Namespace) -> Vec<Reference> {
    let own = template(TEMPLATE_PATH.to_owned(), spec.template_ref.as_ref(), home);
    let waits = spec.wait_for_secrets.iter().enumerate();
    let waits = waits.filter_map(|(at, to)| secret(format!("spec.waitForSecrets[{at}]"), Kind::Secret, to));
    let inputs = spec.inputs_from.iter().enumerate();
    let inputs = inputs.filter_map(|(at, input)| {
        secret(format!("spec.inputsFrom[{at}].secretRef"), Kind::Secret, &input.secret_ref)
    });
    let written = spec.write_connection_secret_to_ref.as_ref();
    let written =
        written.and_then(|to| secret("spec.writeConnectionSecretToRef".to_owned(), Kind::WrittenSecret, to));
    own.into_iter().chain(waits).chain(inputs).chain(written).collect()
}

/// References of a template whose placeholders are filled in, made by the object that applies it.
pub(super) fn of_filled(template: &ValidatedTemplate, writes_own_secret: bool) -> Vec<Reference> {
    let data = |path: String, source: &DataSource| {
        let kind = match source {
            DataSource::ConfigMap(_) => Kind::ConfigMap,
            DataSource::Secret(_) => Kind::Secret,
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
        Some(Reference { path, kind: Kind::WrittenSecret, key: resolve_secret(to).ok()? })
    });
    files.chain(env).chain(written).collect()
}

enum Grant {
    Given,
    Refused,
    /// The object is not there yet; whoever makes it decides.
    Open,
}

/// Says which of the references are not granted.
pub(super) async fn check(
    references: Vec<Reference>,
    home: &Namespace,
    lookup: &dyn Lookup,
    findings: &mut Findings,
) {
    for reference in references.into_iter().filter(|it| it.key.namespace != *home) {
        match granted(&reference, home, lookup).await {
            Ok(Grant::Given) => {}
            Ok(Grant::Refused) => findings.problems.push(refusal(&reference, home)),
            Ok(Grant::Open) => findings.warnings.push(open(&reference, home)),
            Err(error) => findings.warnings.push(format!(
                "{}: {error}, so nobody knows yet whether the reference is granted",
                reference.path
            )),
        }
    }
}

async fn granted(reference: &Reference, home: &Namespace, lookup: &dyn Lookup) -> Result<Grant, LookupError> {
    let Reference { kind, key, .. } = reference;
    let of_namespace = lookup.namespace(&key.namespace).await?;
    if of_namespace.as_ref().is_some_and(|it| grant::allows(it, home)) {
        return Ok(Grant::Given);
    }
    let of_object: Option<Annotations> = match kind {
        Kind::Template => lookup.template(key).await?.map(|it| it.metadata.annotations.unwrap_or_default()),
        Kind::ConfigMap => lookup.config_map(key).await?,
        Kind::Secret | Kind::WrittenSecret => lookup.secret(key).await?,
    };
    Ok(match (of_namespace, of_object) {
        (_, Some(object)) if grant::allows(&object, home) => Grant::Given,
        (Some(_), Some(_)) => Grant::Refused,
        // Nobody can allow in advance what an object that does not exist is written over.
        (Some(_), None) if *kind == Kind::WrittenSecret => Grant::Refused,
        _ => Grant::Open,
    })
}

fn name(reference: &Reference) -> String {
    let kind = match reference.kind {
        Kind::Template => "WorkspaceTemplate",
        Kind::ConfigMap => "ConfigMap",
        Kind::Secret | Kind::WrittenSecret => "Secret",
    };
    format!("{kind} {}", reference.key)
}

fn refusal(reference: &Reference, home: &Namespace) -> Problem {
    let namespace = &reference.key.namespace;
    Problem {
        path: reference.path.clone(),
        message: format!("{} may not be referred to from namespace {home}", name(reference)),
        remedy: format!("annotate it, or namespace {namespace}, with {ALLOW_REFERENCES_ANNOTATION}: {home}"),
    }
}

fn open(reference: &Reference, home: &Namespace) -> String {
    format!(
        "{}: {} is not there yet; it has to be annotated with {ALLOW_REFERENCES_ANNOTATION}: {home}",
        reference.path,
        name(reference)
    )
}
