//! Images, variables and resources of a fork's containers.

use capt_kinds::sandbox::{Resources, conditions::reasons};
use serde_json::{Map, Value, json};

use super::{ForkRequest, env};
use crate::rejection::Rejection;

/// Applies the customizations to a pod, in this order: images, env, resources.
pub(super) fn customize(
    pod: &mut Map<String, Value>,
    order: &ForkRequest<'_>,
    notes: &mut Vec<String>,
) -> Result<(), Rejection> {
    note_hooks(pod, notes);
    for container in all_containers_mut(pod) {
        deduplicate_ports(container);
        env::deduplicate(container);
    }
    for container in containers_mut(pod, "containers") {
        env::prepend(container, &env::sandbox_variables(order));
    }
    let custom = &order.fork.customizations;
    for (index, image) in custom.images.iter().enumerate() {
        let container = find_container(pod, image.container.as_deref(), &format!("images[{index}]"))?;
        container.insert("image".into(), image.image.clone().into());
    }
    for (index, variable) in custom.env.iter().enumerate() {
        let place = format!("env[{index}]");
        let container = find_container(pod, variable.container.as_deref(), &place)?;
        env::apply_variable(container, variable, (order, &place), notes)?;
    }
    for (index, resources) in custom.resources.iter().enumerate() {
        let container = find_container(pod, resources.container.as_deref(), &format!("resources[{index}]"))?;
        set_resources(container, resources);
    }
    Ok(())
}

/// Notes init containers and lifecycle hooks, which run again in a fork.
fn note_hooks(pod: &mut Map<String, Value>, notes: &mut Vec<String>) {
    let names = |containers: Vec<&mut Map<String, Value>>| -> String {
        containers.iter().map(|it| container_name(it).to_owned()).collect::<Vec<_>>().join(", ")
    };
    let before: Vec<_> = containers_mut(pod, "initContainers").collect();
    if !before.is_empty() {
        notes.push(format!("the init containers run again in the fork: {}", names(before)));
    }
    let hooked: Vec<_> = all_containers_mut(pod).filter(|it| it.contains_key("lifecycle")).collect();
    if !hooked.is_empty() {
        notes.push(format!("the lifecycle hooks run in the fork too: {}", names(hooked)));
    }
}

/// The named container, or the only one if no name is given.
fn find_container<'a>(
    pod: &'a mut Map<String, Value>,
    name: Option<&str>,
    place: &str,
) -> Result<&'a mut Map<String, Value>, Rejection> {
    let place = format!("customizations.{place}.container");
    let names = |pod: &mut Map<String, Value>| -> Vec<String> {
        all_containers_mut(pod).map(|it| container_name(it).to_owned()).collect()
    };
    let Some(name) = name else {
        let main: Vec<_> =
            containers_mut(pod, "containers").map(|it| container_name(it).to_owned()).collect();
        if main.len() > 1 {
            return Err(Rejection::new(
                reasons::CONTAINER_REQUIRED,
                format!("{place}: one of [{}]", main.join(", ")),
            ));
        }
        return containers_mut(pod, "containers").next().ok_or_else(|| {
            Rejection::new(reasons::CONTAINER_NOT_FOUND, format!("{place}: the baseline has no container"))
        });
    };
    let known = names(pod);
    all_containers_mut(pod).find(|it| container_name(it) == name).ok_or_else(|| {
        Rejection::new(
            reasons::CONTAINER_NOT_FOUND,
            format!("{place}: {name:?} is not one of [{}]", known.join(", ")),
        )
    })
}

fn container_name(container: &Map<String, Value>) -> &str {
    container.get("name").and_then(Value::as_str).unwrap_or_default()
}

/// Containers, then init containers.
fn all_containers_mut(pod: &mut Map<String, Value>) -> impl Iterator<Item = &mut Map<String, Value>> {
    let mut lists: Vec<_> =
        pod.iter_mut().filter(|(name, _)| matches!(name.as_str(), "containers" | "initContainers")).collect();
    lists.sort_by(|one, other| one.0.cmp(other.0));
    lists.into_iter().flat_map(|(_, list)| objects(list))
}

fn containers_mut<'a>(
    pod: &'a mut Map<String, Value>,
    name: &str,
) -> impl Iterator<Item = &'a mut Map<String, Value>> + use<'a> {
    pod.get_mut(name).into_iter().flat_map(objects)
}

fn objects(list: &mut Value) -> impl Iterator<Item = &mut Map<String, Value>> {
    list.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut)
}

/// Removes duplicate ports: an apply rejects two entries with the same number and protocol.
fn deduplicate_ports(container: &mut Map<String, Value>) {
    let Some(ports) = container.get_mut("ports").and_then(Value::as_array_mut) else { return };
    let key =
        |port: &Value| (port["containerPort"].clone(), port["protocol"].as_str().unwrap_or("TCP").to_owned());
    let mut seen = Vec::new();
    ports.retain(|port| {
        let key = key(port);
        let is_new = !seen.contains(&key);
        seen.push(key);
        is_new
    });
}

fn set_resources(container: &mut Map<String, Value>, wanted: &Resources) {
    let resources = container.entry("resources").or_insert_with(|| json!({}));
    if !resources.is_object() {
        *resources = json!({});
    }
    for (field, amounts) in [("requests", &wanted.requests), ("limits", &wanted.limits)] {
        for (name, amount) in amounts {
            if !resources[field].is_object() {
                resources[field] = json!({});
            }
            // A quantity is a string in a Deployment, even if the customization has a number.
            resources[field][name] = match serde_json::to_value(amount).unwrap_or_default() {
                Value::Number(number) => number.to_string().into(),
                other => other,
            };
        }
    }
}
