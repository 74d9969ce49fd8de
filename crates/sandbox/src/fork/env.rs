//! Environment variables of a fork's containers.

use capt_kinds::sandbox::{EnvFrom, EnvOperation, EnvVar, ForkValue, conditions::reasons};
use kube::ResourceExt as _;
use serde_json::{Map, Value, json};

use super::ForkRequest;
use crate::rejection::Rejection;

/// Address of a fork's Service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForkAddress {
    /// Name of its Service, with its namespace.
    pub host: String,
    /// The first port of its Service.
    pub port: i32,
}

/// The variables that describe the Sandbox, also under Signadot's names, so that code written for Signadot runs unchanged.
pub(super) fn sandbox_variables(order: &ForkRequest<'_>) -> Vec<Value> {
    let (sandbox, baseline) = (order.sandbox.name_any(), &order.fork.fork_of);
    let namespace = order.sandbox.namespace().unwrap_or_default();
    let mut all = vec![
        ("SANDBOX_NAME", sandbox.clone()),
        ("SANDBOX_ROUTING_KEY", order.key.to_owned()),
        ("SIGNADOT_SANDBOX_NAME", sandbox),
        ("SIGNADOT_SANDBOX_ROUTING_KEY", order.key.to_owned()),
        ("SIGNADOT_BASELINE_KIND", "Deployment".to_owned()),
        ("SIGNADOT_BASELINE_NAMESPACE", namespace),
        ("SIGNADOT_BASELINE_NAME", baseline.name.clone()),
    ];
    all.extend(order.route_server.map(|it| ("SIGNADOT_ROUTESERVER", it.to_owned())));
    all.into_iter().map(|(name, value)| json!({"name": name, "value": value})).collect()
}

/// Prepends variables, replacing those of the same names: `$(NAME)` references resolve only to earlier variables.
pub(super) fn prepend(container: &mut Map<String, Value>, variables: &[Value]) {
    edit_env(container, |list| {
        list.retain(|it| !variables.iter().any(|ours| ours["name"] == it["name"]));
        list.splice(0..0, variables.iter().cloned());
    });
}

/// Removes duplicate names. The last one wins, as in Kubernetes; an apply rejects duplicates.
pub(super) fn deduplicate(container: &mut Map<String, Value>) {
    let Some(list) = container.get_mut("env").and_then(Value::as_array_mut) else { return };
    let names: Vec<Value> = list.iter().map(|it| it["name"].clone()).collect();
    let mut at = 0;
    list.retain(|it| {
        at += 1;
        !names[at..].contains(&it["name"])
    });
}

/// Sets or removes one variable.
pub(super) fn apply_variable(
    container: &mut Map<String, Value>,
    variable: &EnvVar,
    (order, place): (&ForkRequest<'_>, &str),
    notes: &mut Vec<String>,
) -> Result<(), Rejection> {
    let position = |list: &[Value]| list.iter().position(|it| it["name"].as_str() == Some(&variable.name));
    if variable.operation == EnvOperation::Delete {
        match edit_env(container, |list| position(list).map(|at| list.remove(at))) {
            Some(_) => {}
            None => notes
                .push(format!("customizations.{place}: there is no variable {} to delete", variable.name)),
        }
        return Ok(());
    }
    let entry = env_entry(variable, order, place)?;
    edit_env(container, |list| match position(list) {
        Some(at) => list[at] = entry,
        None => list.push(entry),
    });
    Ok(())
}

fn env_entry(variable: &EnvVar, order: &ForkRequest<'_>, place: &str) -> Result<Value, Rejection> {
    let name = &variable.name;
    let Some(EnvFrom { secret, config_map, fork }) = &variable.value_from else {
        return Ok(json!({"name": name, "value": variable.value.clone().unwrap_or_default()}));
    };
    if let Some(fork) = fork {
        return Ok(json!({"name": name, "value": expand_expression(fork, order, place)?}));
    }
    if let Some(key) = secret {
        return Ok(json!({"name": name, "valueFrom": {"secretKeyRef": {"name": key.name, "key": key.key}}}));
    }
    if let Some(key) = config_map {
        return Ok(
            json!({"name": name, "valueFrom": {"configMapKeyRef": {"name": key.name, "key": key.key}}}),
        );
    }
    Err(Rejection::new(
        reasons::INVALID_SPEC,
        format!("customizations.{place}.valueFrom needs exactly one of secret, configMap and fork"),
    ))
}

/// Expands the expression with the address of a fork.
fn expand_expression(value: &ForkValue, order: &ForkRequest<'_>, place: &str) -> Result<String, Rejection> {
    let refuse = |what: String| {
        Rejection::new(reasons::INVALID_EXPRESSION, format!("customizations.{place}.valueFrom.fork: {what}"))
    };
    let of = &value.fork_of.name;
    let address = order
        .addresses
        .get(of)
        .ok_or_else(|| refuse(format!("{of} has no Service for a fork in this sandbox")))?;
    let mut text = String::new();
    let mut rest = value.expression.as_str();
    while let Some((before, after)) = rest.split_once("{{") {
        let (inside, after) =
            after.split_once("}}").ok_or_else(|| refuse("a {{ is not closed".to_owned()))?;
        text.push_str(before);
        match inside.trim() {
            ".Service.Host" => text.push_str(&address.host),
            ".Service.Port" => text.push_str(&address.port.to_string()),
            other => {
                return Err(refuse(format!(
                    "{{{{{other}}}}} is neither {{{{.Service.Host}}}} nor {{{{.Service.Port}}}}"
                )));
            }
        }
        rest = after;
    }
    text.push_str(rest);
    Ok(text)
}

/// Edits the `env` list of a container. Anything but a list counts as empty.
fn edit_env<T>(container: &mut Map<String, Value>, with: impl FnOnce(&mut Vec<Value>) -> T) -> T {
    let mut list =
        container.get_mut("env").and_then(Value::as_array_mut).map(std::mem::take).unwrap_or_default();
    let done = with(&mut list);
    container.insert("env".into(), Value::Array(list));
    done
}
