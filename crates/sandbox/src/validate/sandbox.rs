//! Validates a Sandbox.

use capt_kinds::sandbox::{
    Customizations, DisconnectPolicy, EnvOperation, EnvVar, ForkSpec, LocalSpec, Sandbox, SandboxSpec,
    conditions::reasons, schema,
};
use kube::ResourceExt as _;

use super::problems::{
    DNS_LABEL, DNS_SUBDOMAIN, ENV_NAME, GRACE, Problems, QUANTITY, ROUTING_KEY, TTL, check_object_name,
};
use crate::{labels, rejection::Rejection, target};

/// Validates the name and the spec.
pub fn validate_sandbox(sandbox: &Sandbox) -> Result<(), Rejection> {
    check_object_name(&sandbox.name_any(), schema::MAX_NAME)?;
    let mut problems = Problems::default();
    check_spec(&sandbox.spec, &mut problems);
    let before = sandbox.status.as_ref().and_then(|it| it.routing_key.as_deref());
    let asked = sandbox.spec.routing_key.as_deref().filter(|it| !it.is_empty());
    if let (Some(before), Some(asked)) = (before, asked)
        && before != asked
    {
        problems.add("routingKey", format!("cannot be changed: it was {before:?}; make another sandbox"));
    }
    problems.into_result()?;
    check_same_namespace(sandbox)?;
    target::parse_targets(&sandbox.spec.endpoints).map(drop)
}

fn check_spec(spec: &SandboxSpec, problems: &mut Problems) {
    let SandboxSpec { description, cluster_ref, routing_key, ttl, forks, local, virtuals, endpoints } = spec;
    problems.check_length("description", description.as_deref().unwrap_or_default(), 255);
    if let Some(cluster) = cluster_ref {
        problems.check_text("clusterRef.name", &cluster.name, (&DNS_SUBDOMAIN, 253));
    }
    problems.check_pattern("routingKey", routing_key.as_deref().unwrap_or_default(), (&ROUTING_KEY, 63));
    if let Some(ttl) = ttl {
        problems.check_text("ttl.duration", &ttl.duration, (&TTL, 11));
    }
    if forks.is_empty() && local.is_empty() && virtuals.is_empty() {
        problems.add("forks", "is empty: a sandbox needs at least one of forks, local and virtual");
    }
    self::check_forks(forks, problems);
    check_locals(local, forks, problems);
    problems.check_count("virtual", virtuals.len(), schema::MAX_FORKS);
    problems.check_unique("virtual", "name", virtuals.iter().map(|it| it.name.as_str()));
    for (index, one) in virtuals.iter().enumerate() {
        problems.check_text(&format!("virtual[{index}].name"), &one.name, (&DNS_LABEL, 63));
        problems.check_workload(&format!("virtual[{index}].workload"), &one.workload);
    }
    problems.check_endpoints(endpoints);
}

fn check_forks(forks: &[ForkSpec], problems: &mut Problems) {
    problems.check_count("forks", forks.len(), schema::MAX_FORKS);
    problems.check_unique("forks", "name", forks.iter().map(ForkSpec::name));
    problems.check_unique("forks", "baseline", forks.iter().map(|it| it.fork_of.name.as_str()));
    for (index, fork) in forks.iter().enumerate() {
        let path = format!("forks[{index}]");
        if let Some(name) = &fork.name {
            problems.check_text(&format!("{path}.name"), name, (&DNS_LABEL, 63));
        }
        problems.check_workload(&format!("{path}.forkOf"), &fork.fork_of);
        check_customizations(&format!("{path}.customizations"), &fork.customizations, problems);
    }
}

fn check_customizations(path: &str, custom: &Customizations, problems: &mut Problems) {
    let Customizations { replicas, images, env, resources, preserved_labels, patch } = custom;
    if !(0..=100).contains(replicas) {
        problems.add(&format!("{path}.replicas"), format!("{replicas} is not between 0 and 100"));
    }
    problems.check_count(&format!("{path}.images"), images.len(), 32);
    for (index, image) in images.iter().enumerate() {
        let path = format!("{path}.images[{index}]");
        if image.image.is_empty() {
            problems.add(&format!("{path}.image"), "must not be empty");
        }
        problems.check_length(&format!("{path}.image"), &image.image, 1024);
        check_container(&path, image.container.as_deref(), problems);
    }
    problems.check_count(&format!("{path}.env"), env.len(), 128);
    for (index, variable) in env.iter().enumerate() {
        self::check_variable(&format!("{path}.env[{index}]"), variable, problems);
    }
    problems.check_count(&format!("{path}.resources"), resources.len(), 32);
    for (index, one) in resources.iter().enumerate() {
        let path = format!("{path}.resources[{index}]");
        check_container(&path, one.container.as_deref(), problems);
        for (name, amount) in one.requests.iter().chain(&one.limits) {
            if let k8s_openapi::apimachinery::pkg::util::intstr::IntOrString::String(amount) = amount {
                problems.check_pattern(&format!("{path}.{name}"), amount, (&QUANTITY, 64));
            }
        }
    }
    problems.check_count(&format!("{path}.preservedLabels"), preserved_labels.len(), 16);
    for (index, expression) in preserved_labels.iter().enumerate() {
        let path = format!("{path}.preservedLabels[{index}]");
        problems.check_length(&path, expression, 253);
        if expression.is_empty() || labels::compile_key_regex(expression).is_err() {
            problems.add(&path, format!("{expression:?} is not a valid regular expression"));
        }
    }
    if let Some(patch) = patch {
        if patch.value.is_empty() {
            problems.add(&format!("{path}.patch.value"), "must not be empty");
        }
        problems.check_length(&format!("{path}.patch.value"), &patch.value, schema::MAX_PATCH);
    }
}

fn check_container(path: &str, name: Option<&str>, problems: &mut Problems) {
    if let Some(name) = name {
        problems.check_text(&format!("{path}.container"), name, (&DNS_LABEL, 63));
    }
}

fn check_variable(path: &str, variable: &EnvVar, problems: &mut Problems) {
    let EnvVar { name, container: of, operation, value, value_from } = variable;
    problems.check_text(&format!("{path}.name"), name, (&ENV_NAME, 253));
    check_container(path, of.as_deref(), problems);
    problems.check_length(&format!("{path}.value"), value.as_deref().unwrap_or_default(), schema::MAX_VALUE);
    if value.is_some() && value_from.is_some() {
        problems.add(path, "has value or valueFrom, not both");
    }
    if *operation == EnvOperation::Delete && (value.is_some() || value_from.is_some()) {
        problems.add(path, "is deleted and so has no value and no valueFrom");
    }
    if let Some(from) = value_from {
        let said = [from.secret.is_some(), from.config_map.is_some(), from.fork.is_some()];
        if said.iter().filter(|it| **it).count() != 1 {
            problems.add(&format!("{path}.valueFrom"), "needs exactly one of secret, configMap and fork");
        }
        for (field, key) in [("secret", &from.secret), ("configMap", &from.config_map)] {
            if let Some(key) = key {
                problems.check_text(
                    &format!("{path}.valueFrom.{field}.name"),
                    &key.name,
                    (&DNS_SUBDOMAIN, 253),
                );
            }
        }
        if let Some(fork) = &from.fork {
            problems.check_workload(&format!("{path}.valueFrom.fork.forkOf"), &fork.fork_of);
            problems.check_length(&format!("{path}.valueFrom.fork.expression"), &fork.expression, 1024);
        }
    }
}

fn check_locals(locals: &[LocalSpec], forks: &[ForkSpec], problems: &mut Problems) {
    problems.check_count("local", locals.len(), schema::MAX_FORKS);
    problems.check_unique("local", "name", locals.iter().map(|it| it.name.as_str()));
    problems.check_unique("local", "baseline", locals.iter().map(|it| it.from.name.as_str()));
    for (index, local) in locals.iter().enumerate() {
        let LocalSpec { name, from, mappings, disconnect_policy, disconnect_grace_period, over } = local;
        let path = format!("local[{index}]");
        problems.check_text(&format!("{path}.name"), name, (&DNS_LABEL, 30));
        problems.check_workload(&format!("{path}.from"), from);
        problems.check_mappings(&format!("{path}.mappings"), mappings);
        if let Some(grace) = disconnect_grace_period {
            problems.check_text(&format!("{path}.disconnectGracePeriod"), grace, (&GRACE, 4));
        }
        if let Some(over) = over {
            problems.check_override(&format!("{path}.override"), over);
        }
        let is_forked = forks.iter().any(|it| it.fork_of.name == from.name);
        if is_forked && over.is_none() && *disconnect_policy != DisconnectPolicy::Fork {
            let what = format!("{:?} is forked too: that needs override or disconnectPolicy Fork", from.name);
            problems.add(&format!("{path}.from"), what);
        }
    }
}

/// Forks run in the namespace of their baselines, because they use the same `ConfigMaps`, Secrets and service accounts.
fn check_same_namespace(sandbox: &Sandbox) -> Result<(), Rejection> {
    let home = sandbox.namespace().unwrap_or_default();
    let forks = sandbox.spec.forks.iter().map(|it| ("forks", "forkOf", &it.fork_of));
    let locals = sandbox.spec.local.iter().map(|it| ("local", "from", &it.from));
    let virtuals = sandbox.spec.virtuals.iter().map(|it| ("virtual", "workload", &it.workload));
    for (list, field, workload) in forks.chain(locals).chain(virtuals) {
        if let Some(namespace) = workload.namespace.as_ref().filter(|it| **it != home) {
            return Err(Rejection::new(
                reasons::CROSS_NAMESPACE_FORK,
                format!(
                    "spec.{list}: {field} {} is in the namespace {namespace}, and the sandbox in {home}; make a sandbox there and \
                     join both with a RouteGroup",
                    workload.name
                ),
            ));
        }
    }
    Ok(())
}
