//! Reads a terraform state file in process.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use thiserror::Error;

/// The bytes are not a complete state file: truncated by a kill, or not a state at all.
#[derive(Debug, Error)]
#[error("not a complete terraform state")]
pub struct InvalidState(#[from] serde_json::Error);

/// Version of a state: its lineage and serial.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct StateVersion {
    /// Lineage: unique id of the state's history.
    pub lineage: String,
    /// Serial: incremented by terraform with every change.
    pub serial: u64,
}

/// A state file, reduced to the fields in use.
#[derive(Debug, Clone)]
pub struct State {
    /// Lineage and serial.
    pub version: StateVersion,
    /// Managed resources and data sources.
    pub resources: Vec<StateResource>,
}

/// One `resource` or `data` block.
#[derive(Debug, Clone, Deserialize)]
pub struct StateResource {
    /// Path of the module; absent in the root module.
    #[serde(default)]
    pub module: Option<String>,
    /// `managed` or `data`.
    pub mode: String,
    /// The type, `aws_vpc`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The name in the configuration.
    pub name: String,
    /// The provider's address, as `provider["registry.terraform.io/hashicorp/aws"]`.
    #[serde(default)]
    pub provider: String,
    /// Its instances.
    #[serde(default)]
    pub instances: Vec<StateInstance>,
}

/// One instance of a resource.
#[derive(Debug, Clone, Deserialize)]
pub struct StateInstance {
    /// Key in `count` or `for_each`.
    #[serde(default)]
    pub index_key: Option<serde_json::Value>,
    /// `tainted`, or nothing.
    #[serde(default)]
    pub status: Option<String>,
    /// Key of a deposed object: the old one of an incomplete replacement.
    #[serde(default)]
    pub deposed: Option<String>,
    /// The attributes, parsed on demand.
    #[serde(default)]
    attributes: Option<Box<RawValue>>,
}

/// A managed object with its address.
#[derive(Debug, Clone)]
pub struct ManagedObject<'a> {
    /// As terraform prints it: `module.a.aws_subnet.private["b"]`.
    pub address: String,
    /// The resource's type.
    pub kind: &'a str,
    /// The instance itself.
    pub instance: &'a StateInstance,
}

impl StateVersion {
    /// Parses lineage and serial. Reads the whole file, so a truncated one is rejected.
    pub fn parse(bytes: &[u8]) -> Result<Self, InvalidState> {
        Ok(serde_json::from_slice(bytes)?)
    }
}

/// The state file with another serial; everything else stays byte for byte.
pub fn with_serial(bytes: &[u8], serial: u64) -> Result<Vec<u8>, InvalidState> {
    let mut fields: BTreeMap<String, Box<RawValue>> = serde_json::from_slice(bytes)?;
    fields.insert("serial".to_owned(), to_raw_value(&serial)?);
    let mut text = serde_json::to_vec_pretty(&fields)?;
    text.push(b'\n');
    Ok(text)
}

/// Whether two state files have the same contents, in whatever layout.
pub(super) fn is_same_state(one: &[u8], other: &[u8]) -> bool {
    let value = |bytes| serde_json::from_slice::<serde_json::Value>(bytes).ok();
    one == other || value(one).is_some_and(|one| value(other) == Some(one))
}

impl State {
    /// Parses a whole state file.
    pub fn parse(bytes: &[u8]) -> Result<Self, InvalidState> {
        // Two passes, because serde cannot keep raw values behind a flattened field.
        #[derive(Deserialize)]
        struct Body {
            #[serde(default)]
            resources: Vec<StateResource>,
        }
        let version = StateVersion::parse(bytes)?;
        let body: Body = serde_json::from_slice(bytes)?;
        Ok(Self { version, resources: body.resources })
    }

    /// Every managed object, deposed ones included.
    pub fn managed_objects(&self) -> impl Iterator<Item = ManagedObject<'_>> {
        self.resources.iter().filter(|resource| resource.mode == "managed").flat_map(|resource| {
            resource.instances.iter().map(move |instance| ManagedObject {
                address: address(resource, instance),
                kind: &resource.kind,
                instance,
            })
        })
    }

    /// Whether there are no managed objects: a destroy is complete.
    pub fn is_empty(&self) -> bool {
        self.managed_objects().next().is_none()
    }
}

impl StateInstance {
    /// Whether the object is tainted: terraform will replace it because its creation failed.
    pub fn is_tainted(&self) -> bool {
        self.status.as_deref() == Some("tainted")
    }

    /// A string attribute.
    pub fn string_attribute(&self, name: &str) -> Option<String> {
        self.attribute(name)?.as_str().map(str::to_owned)
    }

    /// All attributes.
    pub fn attributes(&self) -> Option<serde_json::Value> {
        serde_json::from_str(self.attributes.as_ref()?.get()).ok()
    }

    /// An attribute.
    pub fn attribute(&self, name: &str) -> Option<serde_json::Value> {
        let attributes = self.attributes.as_ref()?;
        let mut map: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(attributes.get()).ok()?;
        map.remove(name)
    }
}

fn address(resource: &StateResource, instance: &StateInstance) -> String {
    let module = resource.module.as_ref().map(|module| format!("{module}.")).unwrap_or_default();
    let index = match &instance.index_key {
        Some(key) => format!("[{key}]"),
        None => String::new(),
    };
    format!("{module}{}.{}{index}", resource.kind, resource.name)
}
