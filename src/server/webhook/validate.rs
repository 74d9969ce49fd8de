//! The verdict on one object: the validators of the command line, and what they cannot see alone.

use crate::{
    api::{
        CaptControlPlaneSpec, WorkspaceTemplateApply, WorkspaceTemplateSpec,
        schema::{MAX_LABELS, MAX_PROFILES, MAX_SELECTORS},
    },
    blueprint::Key,
    model::{
        Limits, ObjectKey, Problem, apply, class, control_plane, identity, names, network, overlap, template,
        text::Namespace, update,
    },
};

use super::{
    lookup::Lookup,
    references,
    subject::Subject,
    template::{of_apply, of_identity, of_template},
};

/// What was found out about an object.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// What cannot be.
    pub(super) problems: Vec<Problem>,
    /// What a person should know.
    pub(super) warnings: Vec<String>,
}

impl Findings {
    pub(super) fn warn(&mut self, warning: String) {
        self.warnings.push(warning);
    }

    fn take<T>(&mut self, verdict: Result<T, Vec<Problem>>) -> Option<T> {
        match verdict {
            Ok(valid) => Some(valid),
            Err(problems) => {
                self.problems.extend(problems);
                None
            }
        }
    }

    fn template(&mut self, spec: &WorkspaceTemplateSpec) {
        if self.take(template::validate(spec)).is_some() {
            self.problems.extend(of_template(spec));
        }
    }

    /// A quota can be raised in AWS without anybody telling us, so one that is passed is a warning.
    fn quotas<T>(&mut self, limits: &Limits, verdict: impl Fn(&Limits) -> Result<T, Vec<Problem>>) {
        let hard = verdict(&RAISED).err().unwrap_or_default();
        let all = verdict(limits).err().unwrap_or_default();
        let soft = all.into_iter().filter(|problem| !hard.contains(problem));
        self.warnings.extend(soft.map(|problem| problem.to_string()));
        self.problems.extend(hard);
    }
}

/// Where an object stands, and whom to ask about others.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) home: &'a Namespace,
    /// The object's name; what is known of it while the API server has yet to make one.
    pub(super) name: &'a str,
    pub(super) lookup: &'a dyn Lookup,
    pub(super) limits: &'a Limits,
}

/// Looks at an object, alone and with those that it refers to.
pub(super) async fn check(subject: &Subject, context: Context<'_>) -> Findings {
    let Context { home, lookup, .. } = context;
    let (mut findings, inner) = (Findings::default(), "spec.template.spec");
    let references = match subject {
        Subject::Cluster(it) => {
            findings.take(network::validate(&it.spec, home));
            references::of_cluster("spec", &it.spec, home)
        }
        Subject::ClusterTemplate(it) => {
            findings.take(class::cluster(&it.spec, home));
            references::of_cluster(inner, &it.spec.template.spec, home)
        }
        Subject::ControlPlane(it) => {
            findings.quotas(context.limits, |limits| control_plane::validate(&it.spec, home, limits));
            shared_pods(&it.spec, home, &mut findings);
            references::of_control_plane("spec", &it.spec, home)
        }
        Subject::ControlPlaneTemplate(it) => {
            findings.quotas(context.limits, |limits| class::control_plane(&it.spec, home, limits));
            shared_pods(&it.spec.template.spec, home, &mut findings);
            references::of_control_plane(inner, &it.spec.template.spec, home)
        }
        Subject::Template(it) => {
            findings.template(&it.spec);
            Vec::new()
        }
        Subject::Apply(it) => {
            findings.take(apply::validate(&it.spec, home));
            references::check(references::of_apply(&it.spec, home), home, lookup, &mut findings).await;
            through_template(it, context, &mut findings).await
        }
        Subject::Identity(it) => {
            findings.take(identity::validate(&it.spec));
            findings.problems.extend(of_identity(&it.spec));
            Vec::new()
        }
    };
    references::check(references, home, lookup, &mut findings).await;
    findings
}

/// Looks at the change from one object to another of the same name.
pub(super) fn change(old: &Subject, new: &Subject) -> Vec<Problem> {
    match (old, new) {
        (Subject::Cluster(old), Subject::Cluster(new)) => update::cluster(&old.spec, &new.spec),
        (Subject::ControlPlane(old), Subject::ControlPlane(new)) => {
            update::control_plane(&old.spec, &new.spec)
        }
        (Subject::Apply(old), Subject::Apply(new)) => update::apply(&old.spec, &new.spec),
        _ => Vec::new(),
    }
}

/// What an account can have at the most.
const RAISED: Limits = Limits {
    selectors_per_profile: MAX_SELECTORS,
    labels_per_selector: MAX_LABELS,
    profiles_per_cluster: MAX_PROFILES,
};

fn shared_pods(spec: &CaptControlPlaneSpec, home: &Namespace, findings: &mut Findings) {
    if let Ok(valid) = control_plane::validate(spec, home, &RAISED) {
        let found = overlap::overlaps(&valid.profiles, valid.system_profile);
        findings.warnings.extend(found.iter().map(ToString::to_string));
    }
}

/// Fills the template with the object's variables. A template that is not there, or that nobody can ask for, stops nothing;
/// one that may not be referred to is not looked at, because what is said of it would tell what stands in it.
async fn through_template(
    apply: &WorkspaceTemplateApply,
    context: Context<'_>,
    findings: &mut Findings,
) -> Vec<references::Reference> {
    let Context { home, name, lookup, .. } = context;
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
            findings.warn(format!("spec.templateRef: {error}, so nobody looked at it"));
            return Vec::new();
        }
    };
    let workspace = Key::new(home.as_str(), names::workspace(name));
    let filled = of_apply(&workspace, (&key, &template.spec), &apply.spec.variables, findings);
    let writes_own = apply.spec.write_connection_secret_to_ref.is_none();
    filled.map(|template| references::of_filled(&template, writes_own)).unwrap_or_default()
}
