//! What a state file says about itself, read without terraform.

use serde::Deserialize;
use serde_json::value::RawValue;
use thiserror::Error;

/// Bytes that are not a whole state file: torn by a kill, or something else altogether.
#[derive(Debug, Error)]
#[error("not a complete terraform state")]
pub struct NotAState(#[from] serde_json::Error);

/// Identity of one snapshot: which history it belongs to and how far along it is.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Version {
    /// The history.
    pub lineage: String,
    /// The position in it; terraform raises it with every write that changes something.
    pub serial: u64,
}

/// A state file, as much of it as we need.
#[derive(Debug, Clone)]
pub struct State {
    /// Lineage and serial.
    pub version: Version,
    /// Everything that terraform manages or has read.
    pub resources: Vec<Resource>,
}

/// One `resource` or `data` block.
#[derive(Debug, Clone, Deserialize)]
pub struct Resource {
    /// Path of the module, absent in the root.
    #[serde(default)]
    pub module: Option<String>,
    /// `managed` or `data`.
    pub mode: String,
    /// The type, `aws_vpc`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The name in the configuration.
    pub name: String,
    /// What exists of it.
    #[serde(default)]
    pub instances: Vec<Instance>,
}

/// One real object.
#[derive(Debug, Clone, Deserialize)]
pub struct Instance {
    /// Key in `count` or `for_each`.
    #[serde(default)]
    pub index_key: Option<serde_json::Value>,
    /// `tainted`, or nothing.
    #[serde(default)]
    pub status: Option<String>,
    /// Set on the old object of a replacement under way.
    #[serde(default)]
    pub deposed: Option<String>,
    /// The attributes, not looked into unless asked for.
    #[serde(default)]
    attributes: Option<Box<RawValue>>,
}

/// A managed object with its address.
#[derive(Debug, Clone)]
pub struct Object<'a> {
    /// As terraform prints it: `module.a.aws_subnet.private["b"]`.
    pub address: String,
    /// The resource's type.
    pub kind: &'a str,
    /// The instance itself.
    pub instance: &'a Instance,
}

impl Version {
    /// Lineage and serial alone; still parses every byte, so a torn file is refused.
    pub fn of(bytes: &[u8]) -> Result<Self, NotAState> {
        Ok(serde_json::from_slice(bytes)?)
    }
}

impl State {
    /// Parses a whole state file.
    pub fn parse(bytes: &[u8]) -> Result<Self, NotAState> {
        // Two passes, because serde cannot keep raw values behind a flattened field.
        #[derive(Deserialize)]
        struct Body {
            #[serde(default)]
            resources: Vec<Resource>,
        }
        let version = Version::of(bytes)?;
        let body: Body = serde_json::from_slice(bytes)?;
        Ok(Self { version, resources: body.resources })
    }

    /// Every managed object, deposed ones included.
    pub fn managed(&self) -> impl Iterator<Item = Object<'_>> {
        self.resources.iter().filter(|resource| resource.mode == "managed").flat_map(|resource| {
            resource.instances.iter().map(move |instance| Object {
                address: address(resource, instance),
                kind: &resource.kind,
                instance,
            })
        })
    }

    /// Whether nothing is managed any more: the proof that a destroy is complete.
    pub fn is_empty(&self) -> bool {
        self.managed().next().is_none()
    }
}

impl Instance {
    /// Whether terraform would replace this object because a step of its creation failed.
    pub fn is_tainted(&self) -> bool {
        self.status.as_deref() == Some("tainted")
    }

    /// One attribute as a string, if it is one.
    pub fn text(&self, name: &str) -> Option<String> {
        self.attribute(name)?.as_str().map(str::to_owned)
    }

    /// One attribute.
    pub fn attribute(&self, name: &str) -> Option<serde_json::Value> {
        let attributes = self.attributes.as_ref()?;
        let mut map: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(attributes.get()).ok()?;
        map.remove(name)
    }
}

fn address(resource: &Resource, instance: &Instance) -> String {
    let module = resource.module.as_ref().map(|module| format!("{module}.")).unwrap_or_default();
    let index = match &instance.index_key {
        Some(key) => format!("[{key}]"),
        None => String::new(),
    };
    format!("{module}{}.{}{index}", resource.kind, resource.name)
}
