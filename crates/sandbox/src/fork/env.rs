//! Variables of a fork's containers.

use kube::ResourceExt as _;
use serde_json::{Map, Value, json};

use super::Order;
use crate::{
    api::{EnvFrom, EnvOperation, EnvVar, ForkValue, conditions::reasons},
    refusal::Refusal,
};

/// Where a fork is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// Name of its Service, with its namespace.
    pub host: String,
    /// The first port of its Service.
    pub port: i32,
}

/// What a fork is told about itself. Signadot's names too, so that code written for it runs unchanged.
pub(super) fn downward(order: &Order<'_>) -> Vec<Value> {
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

/// Puts variables before all others, in place of those with the same names: others may refer to them.
pub(super) fn put_first(container: &mut Map<String, Value>, variables: &[Value]) {
    change(container, |list| {
        list.retain(|it| !variables.iter().any(|ours| ours["name"] == it["name"]));
        list.splice(0..0, variables.iter().cloned());
    });
}

/// Of several variables with one name the last one counts in Kubernetes, and an apply takes only one.
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
pub(super) fn apply(
    container: &mut Map<String, Value>,
    variable: &EnvVar,
    (order, place): (&Order<'_>, &str),
    notes: &mut Vec<String>,
) -> Result<(), Refusal> {
    let position = |list: &[Value]| list.iter().position(|it| it["name"].as_str() == Some(&variable.name));
    if variable.operation == EnvOperation::Delete {
        match change(container, |list| position(list).map(|at| list.remove(at))) {
            Some(_) => {}
            None => notes
                .push(format!("customizations.{place}: there is no variable {} to delete", variable.name)),
        }
        return Ok(());
    }
    let entry = entry(variable, order, place)?;
    change(container, |list| match position(list) {
        Some(at) => list[at] = entry,
        None => list.push(entry),
    });
    Ok(())
}

fn entry(variable: &EnvVar, order: &Order<'_>, place: &str) -> Result<Value, Refusal> {
    let name = &variable.name;
    let Some(EnvFrom { secret, config_map, fork }) = &variable.value_from else {
        return Ok(json!({"name": name, "value": variable.value.clone().unwrap_or_default()}));
    };
    if let Some(fork) = fork {
        return Ok(json!({"name": name, "value": expanded(fork, order, place)?}));
    }
    if let Some(key) = secret {
        return Ok(json!({"name": name, "valueFrom": {"secretKeyRef": {"name": key.name, "key": key.key}}}));
    }
    if let Some(key) = config_map {
        return Ok(
            json!({"name": name, "valueFrom": {"configMapKeyRef": {"name": key.name, "key": key.key}}}),
        );
    }
    Err(Refusal::new(
        reasons::INVALID_SPEC,
        format!("customizations.{place}.valueFrom needs exactly one of secret, configMap and fork"),
    ))
}

/// The text with the address of a fork in it.
fn expanded(value: &ForkValue, order: &Order<'_>, place: &str) -> Result<String, Refusal> {
    let refuse = |what: String| {
        Refusal::new(reasons::INVALID_EXPRESSION, format!("customizations.{place}.valueFrom.fork: {what}"))
    };
    let of = &value.fork_of.name;
    let address = order
        .addresses
        .get(of)
        .ok_or_else(|| refuse(format!("{of} has no Service that leads to its fork in this sandbox")))?;
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

/// Changes the variables of a container. What is no list counts as none.
fn change<T>(container: &mut Map<String, Value>, with: impl FnOnce(&mut Vec<Value>) -> T) -> T {
    let mut list =
        container.get_mut("env").and_then(Value::as_array_mut).map(std::mem::take).unwrap_or_default();
    let done = with(&mut list);
    container.insert("env".into(), Value::Array(list));
    done
}
