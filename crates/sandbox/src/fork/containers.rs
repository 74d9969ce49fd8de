//! Images, variables and resources of a fork's containers.

use serde_json::{Map, Value, json};

use super::{Order, env};
use crate::{
    api::{Resources, conditions::reasons},
    refusal::Refusal,
};

/// Brings the customizations into a pod, in their order: images, env, resources.
pub(super) fn customize(
    pod: &mut Map<String, Value>,
    order: &Order<'_>,
    notes: &mut Vec<String>,
) -> Result<(), Refusal> {
    tell_of_hooks(pod, notes);
    for container in all_mut(pod) {
        deduplicate_ports(container);
        env::deduplicate(container);
    }
    for container in list_mut(pod, "containers") {
        env::put_first(container, &env::downward(order));
    }
    let custom = &order.fork.customizations;
    for (index, image) in custom.images.iter().enumerate() {
        let container = named(pod, image.container.as_deref(), &format!("images[{index}]"))?;
        container.insert("image".into(), image.image.clone().into());
    }
    for (index, variable) in custom.env.iter().enumerate() {
        let place = format!("env[{index}]");
        let container = named(pod, variable.container.as_deref(), &place)?;
        env::apply(container, variable, (order, &place), notes)?;
    }
    for (index, resources) in custom.resources.iter().enumerate() {
        let container = named(pod, resources.container.as_deref(), &format!("resources[{index}]"))?;
        put_resources(container, resources);
    }
    Ok(())
}

/// What a fork does once more, and its author may not expect.
fn tell_of_hooks(pod: &mut Map<String, Value>, notes: &mut Vec<String>) {
    let names = |containers: Vec<&mut Map<String, Value>>| -> String {
        containers.iter().map(|it| name_of(it).to_owned()).collect::<Vec<_>>().join(", ")
    };
    let before: Vec<_> = list_mut(pod, "initContainers").collect();
    if !before.is_empty() {
        notes.push(format!("the init containers run again in the fork: {}", names(before)));
    }
    let hooked: Vec<_> = all_mut(pod).filter(|it| it.contains_key("lifecycle")).collect();
    if !hooked.is_empty() {
        notes.push(format!("the lifecycle hooks run in the fork too: {}", names(hooked)));
    }
}

/// The container that is meant: the named one, or the only one.
fn named<'a>(
    pod: &'a mut Map<String, Value>,
    name: Option<&str>,
    place: &str,
) -> Result<&'a mut Map<String, Value>, Refusal> {
    let place = format!("customizations.{place}.container");
    let names = |pod: &mut Map<String, Value>| -> Vec<String> {
        all_mut(pod).map(|it| name_of(it).to_owned()).collect()
    };
    let Some(name) = name else {
        let main: Vec<_> = list_mut(pod, "containers").map(|it| name_of(it).to_owned()).collect();
        if main.len() > 1 {
            return Err(Refusal::new(
                reasons::CONTAINER_REQUIRED,
                format!("{place}: one of [{}]", main.join(", ")),
            ));
        }
        return list_mut(pod, "containers").next().ok_or_else(|| {
            Refusal::new(reasons::CONTAINER_NOT_FOUND, format!("{place}: the baseline has no container"))
        });
    };
    let known = names(pod);
    all_mut(pod).find(|it| name_of(it) == name).ok_or_else(|| {
        Refusal::new(
            reasons::CONTAINER_NOT_FOUND,
            format!("{place}: {name:?} is not one of [{}]", known.join(", ")),
        )
    })
}

fn name_of(container: &Map<String, Value>) -> &str {
    container.get("name").and_then(Value::as_str).unwrap_or_default()
}

/// Containers, then those that run before.
fn all_mut(pod: &mut Map<String, Value>) -> impl Iterator<Item = &mut Map<String, Value>> {
    let mut lists: Vec<_> =
        pod.iter_mut().filter(|(name, _)| matches!(name.as_str(), "containers" | "initContainers")).collect();
    lists.sort_by(|one, other| one.0.cmp(other.0));
    lists.into_iter().flat_map(|(_, list)| objects(list))
}

fn list_mut<'a>(
    pod: &'a mut Map<String, Value>,
    name: &str,
) -> impl Iterator<Item = &'a mut Map<String, Value>> + use<'a> {
    pod.get_mut(name).into_iter().flat_map(objects)
}

fn objects(list: &mut Value) -> impl Iterator<Item = &mut Map<String, Value>> {
    list.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut)
}

/// A port that is listed twice is one port: an apply refuses two entries with the same number and protocol.
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

fn put_resources(container: &mut Map<String, Value>, wanted: &Resources) {
    let resources = container.entry("resources").or_insert_with(|| json!({}));
    if !resources.is_object() {
        *resources = json!({});
    }
    for (field, amounts) in [("requests", &wanted.requests), ("limits", &wanted.limits)] {
        for (name, amount) in amounts {
            if !resources[field].is_object() {
                resources[field] = json!({});
            }
            // A quantity is text in a Deployment, also if its author wrote a number.
            resources[field][name] = match serde_json::to_value(amount).unwrap_or_default() {
                Value::Number(number) => number.to_string().into(),
                other => other,
            };
        }
    }
}
