//! Validation of one object: the validators of `model`, templates, and references to other objects.

use capt_kinds::api::{
    CaptControlPlaneSpec, WorkspaceTemplateApply, WorkspaceTemplateSpec,
    schema::{MAX_LABELS, MAX_PROFILES, MAX_SELECTORS},
};
use capt_model::{
    model::{
        Limits, ObjectKey, Problem, cluster_class, control_plane, identity, immutability, names, network,
        newtypes::Namespace, overlap, template, workspace_apply,
    },
    workspaces::WorkspaceKey,
};

use super::{
    lookup::Lookup,
    references,
    reviewed_object::ReviewedObject,
    template::{fill_for_apply, identity_problems, template_problems},
};

/// Findings of a review.
#[derive(Debug, Default)]
pub(super) struct ReviewFindings {
    /// Reasons to reject the object.
    pub(super) problems: Vec<Problem>,
    /// Warnings for the user.
    pub(super) warnings: Vec<String>,
}

impl ReviewFindings {
    pub(super) fn warn(&mut self, warning: String) {
        self.warnings.push(warning);
    }

    fn collect<T>(&mut self, verdict: Result<T, Vec<Problem>>) -> Option<T> {
        match verdict {
            Ok(valid) => Some(valid),
            Err(problems) => {
                self.problems.extend(problems);
                None
            }
        }
    }

    fn check_template(&mut self, spec: &WorkspaceTemplateSpec) {
        if self.collect(template::validate(spec)).is_some() {
            self.problems.extend(template_problems(spec));
        }
    }

    /// Quotas can be raised in AWS without capt's knowledge, so exceeding one is only a warning.
    fn check_quotas<T>(&mut self, limits: &Limits, verdict: impl Fn(&Limits) -> Result<T, Vec<Problem>>) {
        let hard = verdict(&MAX_LIMITS).err().unwrap_or_default();
        let all = verdict(limits).err().unwrap_or_default();
        let soft = all.into_iter().filter(|problem| !hard.contains(problem));
        self.warnings.extend(soft.map(|problem| problem.to_string()));
        self.problems.extend(hard);
    }
}

/// Context of a validation.
#[derive(Clone, Copy)]
pub(super) struct ReviewContext<'a> {
    pub(super) home: &'a Namespace,
    /// The object's name, or its generateName prefix.
    pub(super) name: &'a str,
    pub(super) lookup: &'a dyn Lookup,
    pub(super) limits: &'a Limits,
}

/// Validates an object and its references.
pub(super) async fn validate_object(subject: &ReviewedObject, context: ReviewContext<'_>) -> ReviewFindings {
    let ReviewContext { home, lookup, .. } = context;
    let (mut findings, inner) = (ReviewFindings::default(), "spec.template.spec");
    let references = match subject {
        ReviewedObject::Cluster(it) => {
            findings.collect(network::validate(&it.spec, home));
            references::cluster_references("spec", &it.spec, home)
        }
        ReviewedObject::ClusterTemplate(it) => {
            findings.collect(cluster_class::validate_cluster_template(&it.spec, home));
            references::cluster_references(inner, &it.spec.template.spec, home)
        }
        ReviewedObject::ControlPlane(it) => {
            findings.check_quotas(context.limits, |limits| control_plane::validate(&it.spec, home, limits));
            warn_about_overlaps(&it.spec, home, &mut findings);
            references::control_plane_references("spec", &it.spec, home)
        }
        ReviewedObject::ControlPlaneTemplate(it) => {
            findings.check_quotas(context.limits, |limits| {
                cluster_class::validate_control_plane_template(&it.spec, home, limits)
            });
            warn_about_overlaps(&it.spec.template.spec, home, &mut findings);
            references::control_plane_references(inner, &it.spec.template.spec, home)
        }
        ReviewedObject::Template(it) => {
            findings.check_template(&it.spec);
            Vec::new()
        }
        ReviewedObject::Apply(it) => {
            findings.collect(workspace_apply::validate(&it.spec, home));
            references::check_grants(
                references::apply_references(&it.spec, home),
                home,
                lookup,
                &mut findings,
            )
            .await;
            check_filled_template(it, context, &mut findings).await
        }
        ReviewedObject::Identity(it) => {
            findings.collect(identity::validate(&it.spec));
            findings.problems.extend(identity_problems(&it.spec));
            Vec::new()
        }
    };
    references::check_grants(references, home, lookup, &mut findings).await;
    findings
}

/// Validates an update.
pub(super) fn validate_update(old: &ReviewedObject, new: &ReviewedObject) -> Vec<Problem> {
    match (old, new) {
        (ReviewedObject::Cluster(old), ReviewedObject::Cluster(new)) => {
            immutability::check_cluster_update(&old.spec, &new.spec)
        }
        (ReviewedObject::ControlPlane(old), ReviewedObject::ControlPlane(new)) => {
            immutability::check_control_plane_update(&old.spec, &new.spec)
        }
        (ReviewedObject::Apply(old), ReviewedObject::Apply(new)) => {
            immutability::check_apply_update(&old.spec, &new.spec)
        }
        _ => Vec::new(),
    }
}

/// The limits of the schema, which no quota exceeds.
const MAX_LIMITS: Limits = Limits {
    selectors_per_profile: MAX_SELECTORS,
    labels_per_selector: MAX_LABELS,
    profiles_per_cluster: MAX_PROFILES,
};

fn warn_about_overlaps(spec: &CaptControlPlaneSpec, home: &Namespace, findings: &mut ReviewFindings) {
    if let Ok(valid) = control_plane::validate(spec, home, &MAX_LIMITS) {
        let found = overlap::overlaps(&valid.profiles, valid.system_profile);
        findings.warnings.extend(found.iter().map(ToString::to_string));
    }
}

/// Fills the template with the object's variables. A missing or unreadable template is no error. A template without a grant
/// is not read, because messages would disclose its content.
async fn check_filled_template(
    apply: &WorkspaceTemplateApply,
    context: ReviewContext<'_>,
    findings: &mut ReviewFindings,
) -> Vec<references::Reference> {
    let ReviewContext { home, name, lookup, .. } = context;
    let Some(reference) = &apply.spec.template_ref else { return Vec::new() };
    if findings.problems.iter().any(|problem| problem.path == references::TEMPLATE_PATH) {
        return Vec::new();
    }
    let namespace = reference.namespace.as_deref().filter(|it| !it.is_empty()).unwrap_or(home.as_str());
    let Ok(key) = ObjectKey::parse(namespace, &reference.name) else { return Vec::new() };
    let template = match lookup.template(&key).await {
        Ok(Some(template)) => template,
        Ok(None) => return Vec::new(),
        Err(error) => {
            findings.warn(format!("spec.templateRef: {error}; the template was not validated"));
            return Vec::new();
        }
    };
    let workspace = WorkspaceKey::new(home.as_str(), names::workspace_name(name));
    let filled = fill_for_apply(&workspace, (&key, &template.spec), &apply.spec.variables, findings);
    let writes_own = apply.spec.write_connection_secret_to_ref.is_none();
    filled.map(|template| references::filled_template_references(&template, writes_own)).unwrap_or_default()
}
