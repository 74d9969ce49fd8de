//! What a state file holds that can be probed.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Why;

/// Terraform's own resources live in the state alone; there is nothing to ask anybody about.
const BUILTIN: &str = "terraform.io/builtin/terraform";

/// One managed object, as it stands in a state.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Object {
    /// Its address.
    pub address: String,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// The version of the schema that it was written with.
    pub version: u64,
    /// Its attributes, untouched.
    pub attributes: Box<RawValue>,
    /// What the provider keeps to itself, in base64.
    pub private: String,
}

#[derive(Deserialize)]
struct File {
    lineage: String,
    serial: u64,
    #[serde(default)]
    resources: Vec<Resource>,
}

#[derive(Deserialize)]
struct Resource {
    #[serde(default)]
    module: Option<String>,
    mode: String,
    #[serde(rename = "type")]
    kind: String,
    name: String,
    provider: String,
    #[serde(default)]
    instances: Vec<Instance>,
}

#[derive(Deserialize)]
struct Instance {
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

/// What can be asked about a state.
#[derive(Debug, Default)]
pub struct Objects {
    /// Which version of which state.
    pub state: String,
    /// Everything that is managed.
    pub objects: Vec<Object>,
    /// The types of the data sources.
    pub data: BTreeSet<String>,
}

/// The objects of a state, all of the provider with this address; a reason if it cannot be probed.
pub fn objects(state: &[u8], provider: &str) -> Result<Objects, Why> {
    let file: File = serde_json::from_slice(state).map_err(|_| Why::Unreadable)?;
    let mut found = Objects { state: format!("{} {}", file.lineage, file.serial), ..Objects::default() };
    for resource in &file.resources {
        let of = |address: &str| resource.provider.contains(&format!("provider[\"{address}\"]"));
        if resource.mode != "managed" {
            if !of(provider) {
                return Err(Why::OtherProvider { address: name(resource, None) });
            }
            found.data.insert(resource.kind.clone());
        } else if !of(BUILTIN) {
            if !of(provider) {
                return Err(Why::OtherProvider { address: name(resource, None) });
            }
            for instance in &resource.instances {
                found.objects.push(object(resource, instance)?);
            }
        }
    }
    Ok(found)
}

fn object(resource: &Resource, instance: &Instance) -> Result<Object, Why> {
    let address = name(resource, instance.index_key.as_ref());
    match instance {
        Instance { status: None, deposed: None, attributes: Some(attributes), .. } => Ok(Object {
            address,
            kind: resource.kind.clone(),
            version: instance.schema_version,
            attributes: attributes.clone(),
            private: instance.private.clone().unwrap_or_default(),
        }),
        _ => Err(Why::Unsettled { address }),
    }
}

fn name(resource: &Resource, index: Option<&serde_json::Value>) -> String {
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
        let found = objects(vpc("").as_bytes(), AWS).unwrap();
        assert_eq!(found.state, "l 7");
        let object = &found.objects[0];
        assert_eq!((object.address.as_str(), object.version), ("aws_vpc.a[\"x\"]", 1));
        assert_eq!(object.attributes.get(), "{\"id\": 1.50}");
    }

    #[test]
    fn what_is_tainted_deposed_or_somebody_elses_is_for_a_plan() {
        for more in [",\"status\":\"tainted\"", ",\"deposed\":\"1\""] {
            let why = objects(vpc(more).as_bytes(), AWS).unwrap_err();
            assert_eq!(why, Why::Unsettled { address: "aws_vpc.a[\"x\"]".to_owned() });
        }
        let why = objects(vpc("").as_bytes(), "registry.terraform.io/hashicorp/random").unwrap_err();
        assert_eq!(why, Why::OtherProvider { address: "aws_vpc.a".to_owned() });
        assert_eq!(objects(b"{", AWS).unwrap_err(), Why::Unreadable);
    }

    #[test]
    fn terraforms_own_objects_need_no_probe() {
        let own = "{\"mode\":\"managed\",\"type\":\"terraform_data\",\"name\":\"a\",\"provider\":\
                   \"provider[\\\"terraform.io/builtin/terraform\\\"]\",\"instances\":[{}]}";
        assert_eq!(objects(state(own).as_bytes(), AWS).unwrap().objects.len(), 0);
        let remote = own.replace("managed", "data").replace("terraform_data", "terraform_remote_state");
        assert!(matches!(objects(state(&remote).as_bytes(), AWS), Err(Why::OtherProvider { .. })));
    }
}
