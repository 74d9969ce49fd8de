//! Objects of a state file that can be probed.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::PlanReason;

/// Resources of the built-in provider exist in the state only.
const BUILTIN_PROVIDER: &str = "terraform.io/builtin/terraform";

/// A managed object in a state.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StateObject {
    /// Its address.
    pub address: String,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Schema version that it was written with.
    pub version: u64,
    /// Its attributes as raw JSON.
    pub attributes: Box<RawValue>,
    /// Private data of the provider, in base64.
    pub private: String,
}

#[derive(Deserialize)]
struct StateFile {
    lineage: String,
    serial: u64,
    #[serde(default)]
    resources: Vec<StateResource>,
}

#[derive(Deserialize)]
struct StateResource {
    #[serde(default)]
    module: Option<String>,
    mode: String,
    #[serde(rename = "type")]
    kind: String,
    name: String,
    provider: String,
    #[serde(default)]
    instances: Vec<StateInstance>,
}

#[derive(Deserialize)]
struct StateInstance {
    #[serde(default)]
    index_key: Option<serde_json::Value>,
    #[serde(default)]
    status: Option<String>,
    #[serde(default)]
    deposed: Option<String>,
    #[serde(default)]
    schema_version: u64,
    #[serde(default)]
    attributes: Option<Box<RawValue>>,
    #[serde(default)]
    private: Option<String>,
}

/// The probeable content of a state.
#[derive(Debug, Default)]
pub struct StateObjects {
    /// Lineage and serial.
    pub state_version: String,
    /// All managed objects.
    pub objects: Vec<StateObject>,
    /// Types of the data sources.
    pub data_types: BTreeSet<String>,
}

/// The objects of a state, provided all belong to the given provider and none is tainted or deposed.
pub fn parse_objects(state: &[u8], provider: &str) -> Result<StateObjects, PlanReason> {
    let file: StateFile = serde_json::from_slice(state).map_err(|_| PlanReason::Unreadable)?;
    let mut found = StateObjects {
        state_version: format!("{} {}", file.lineage, file.serial),
        ..StateObjects::default()
    };
    for resource in &file.resources {
        let of = |address: &str| resource.provider.contains(&format!("provider[\"{address}\"]"));
        if resource.mode != "managed" {
            if !of(provider) {
                return Err(PlanReason::OtherProvider { address: resource_address(resource, None) });
            }
            found.data_types.insert(resource.kind.clone());
        } else if !of(BUILTIN_PROVIDER) {
            if !of(provider) {
                return Err(PlanReason::OtherProvider { address: resource_address(resource, None) });
            }
            for instance in &resource.instances {
                found.objects.push(parse_instance(resource, instance)?);
            }
        }
    }
    Ok(found)
}

fn parse_instance(resource: &StateResource, instance: &StateInstance) -> Result<StateObject, PlanReason> {
    let address = resource_address(resource, instance.index_key.as_ref());
    match instance {
        StateInstance { status: None, deposed: None, attributes: Some(attributes), .. } => Ok(StateObject {
            address,
            kind: resource.kind.clone(),
            version: instance.schema_version,
            attributes: attributes.clone(),
            private: instance.private.clone().unwrap_or_default(),
        }),
        _ => Err(PlanReason::Unsettled { address }),
    }
}

fn resource_address(resource: &StateResource, index: Option<&serde_json::Value>) -> String {
    let module = resource.module.as_ref().map(|module| format!("{module}.")).unwrap_or_default();
    let data = if resource.mode == "managed" { "" } else { "data." };
    let index = index.map(|index| format!("[{index}]")).unwrap_or_default();
    format!("{module}{data}{}.{}{index}", resource.kind, resource.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const AWS: &str = "registry.terraform.io/hashicorp/aws";

    fn state(resource: &str) -> String {
        format!("{{\"lineage\":\"l\",\"serial\":7,\"resources\":[{resource}]}}")
    }

    fn vpc(more: &str) -> String {
        state(&format!(
            "{{\"mode\":\"managed\",\"type\":\"aws_vpc\",\"name\":\"a\",\"provider\":\"provider[\\\"{AWS}\\\"]\",\
             \"instances\":[{{\"index_key\":\"x\",\"schema_version\":1,\"attributes\":{{\"id\": 1.50}}{more}}}]}}"
        ))
    }

    #[test]
    fn attributes_stay_as_they_are() {
        let found = parse_objects(vpc("").as_bytes(), AWS).unwrap();
        assert_eq!(found.state_version, "l 7");
        let object = &found.objects[0];
        assert_eq!((object.address.as_str(), object.version), ("aws_vpc.a[\"x\"]", 1));
        assert_eq!(object.attributes.get(), "{\"id\": 1.50}");
    }

    #[test]
    fn what_is_tainted_deposed_or_somebody_elses_is_for_a_plan() {
        for more in [",\"status\":\"tainted\"", ",\"deposed\":\"1\""] {
            let why = parse_objects(vpc(more).as_bytes(), AWS).unwrap_err();
            assert_eq!(why, PlanReason::Unsettled { address: "aws_vpc.a[\"x\"]".to_owned() });
        }
        let why = parse_objects(vpc("").as_bytes(), "registry.terraform.io/hashicorp/random").unwrap_err();
        assert_eq!(why, PlanReason::OtherProvider { address: "aws_vpc.a".to_owned() });
        assert_eq!(parse_objects(b"{", AWS).unwrap_err(), PlanReason::Unreadable);
    }

    #[test]
    fn terraforms_own_objects_need_no_probe() {
        let own = "{\"mode\":\"managed\",\"type\":\"terraform_data\",\"name\":\"a\",\"provider\":\
                   \"provider[\\\"terraform.io/builtin/terraform\\\"]\",\"instances\":[{}]}";
        assert_eq!(parse_objects(state(own).as_bytes(), AWS).unwrap().objects.len(), 0);
        let remote = own.replace("managed", "data").replace("terraform_data", "terraform_remote_state");
        assert!(matches!(
            parse_objects(state(&remote).as_bytes(), AWS),
            Err(PlanReason::OtherProvider { .. })
        ));
    }
}
