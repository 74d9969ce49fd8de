//! A state file that is edited: what is not touched stays byte for byte.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};

use super::{address::InstanceAddress, value::ResourceValue};

type Fields = BTreeMap<String, Box<RawValue>>;

/// A state file.
#[derive(Debug, Clone)]
pub struct StateDocument {
    fields: Fields,
    serial: u64,
    resources: Vec<Resource>,
}

#[derive(Debug, Clone)]
struct Resource {
    fields: Fields,
    address: InstanceAddress,
    is_managed: bool,
    instances: Vec<Fields>,
}

/// A managed object in a state.
#[derive(Debug, Clone, PartialEq)]
pub struct ObjectInState {
    /// Its address without the index of a deposed object.
    pub address: InstanceAddress,
    /// Key of a deposed object.
    pub deposed: Option<String>,
    /// Its attributes.
    pub value: ResourceValue,
}

/// An object to be written into a state.
#[derive(Debug, Clone, PartialEq)]
pub struct NewObject {
    /// Its address.
    pub address: InstanceAddress,
    /// The provider configuration, `provider["registry.terraform.io/hashicorp/aws"]`.
    pub provider: String,
    /// Its attributes.
    pub attributes: Value,
    /// Private data of the provider, in base64.
    pub private: String,
    /// Version of the type's schema.
    pub schema_version: u64,
    /// Whether its creation failed half-way.
    pub is_tainted: bool,
}

impl StateDocument {
    /// Parses a state file; `None` if it is not a complete one.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let mut fields: Fields = serde_json::from_slice(bytes).ok()?;
        let serial = serde_json::from_str(fields.get("serial")?.get()).ok()?;
        let resources: Vec<Fields> = match fields.remove("resources") {
            Some(raw) => serde_json::from_str(raw.get()).ok()?,
            None => Vec::new(),
        };
        let resources = resources.into_iter().map(Resource::parse).collect::<Option<_>>()?;
        Some(Self { fields, serial, resources })
    }

    /// A state without objects.
    pub fn empty(terraform_version: &str, lineage: &str) -> Option<Self> {
        let text = json!({
            "version": 4, "terraform_version": terraform_version, "serial": 0, "lineage": lineage, "outputs": {},
            "resources": [], "check_results": null,
        });
        Self::parse(text.to_string().as_bytes())
    }

    /// The bytes with the next serial.
    pub fn next_version(&self) -> serde_json::Result<Vec<u8>> {
        let mut fields = self.fields.clone();
        fields.insert("serial".to_owned(), to_raw_value(&(self.serial + 1))?);
        let resources: Vec<Fields> =
            self.resources.iter().map(Resource::to_fields).collect::<Result<_, _>>()?;
        fields.insert("resources".to_owned(), to_raw_value(&resources)?);
        let mut bytes = serde_json::to_vec_pretty(&fields)?;
        bytes.push(b'\n');
        Ok(bytes)
    }

    /// All managed objects, deposed ones included.
    pub fn objects(&self) -> impl Iterator<Item = ObjectInState> {
        self.resources.iter().filter(|resource| resource.is_managed).flat_map(|resource| {
            resource.instances.iter().map(|instance| ObjectInState {
                address: resource.address_of(instance),
                deposed: text(instance, "deposed"),
                value: instance_value(instance),
            })
        })
    }

    /// Writes an object. One that is in its place becomes deposed, so that the next apply destroys it.
    pub fn insert(&mut self, object: &NewObject) -> serde_json::Result<()> {
        let place = InstanceAddress { index: None, ..object.address.clone() };
        let at = self.resources.iter().position(|it| it.is_managed && it.address == place);
        let at = match at {
            Some(at) => at,
            None => {
                self.resources.push(Resource::new(place, &object.provider)?);
                self.resources.len() - 1
            }
        };
        let Some(resource) = self.resources.get_mut(at) else { return Ok(()) };
        let number = resource.instances.len();
        for instance in &mut resource.instances {
            if index_of(instance) == object.address.index && !instance.contains_key("deposed") {
                instance.insert("deposed".to_owned(), to_raw_value(&format!("{number:08x}"))?);
            }
        }
        resource.instances.push(object.to_fields()?);
        Ok(())
    }

    /// Replaces attributes and private data of the object with this value.
    pub fn update(
        &mut self,
        kind: &str,
        value: &ResourceValue,
        (attributes, private): (&Value, &str),
    ) -> serde_json::Result<()> {
        for instance in self.instances_of(kind).filter(|instance| instance_value(instance) == *value) {
            instance.insert("attributes".to_owned(), to_raw_value(attributes)?);
            instance.insert("private".to_owned(), to_raw_value(private)?);
        }
        Ok(())
    }

    /// Removes the object with this value.
    pub fn remove(&mut self, kind: &str, value: &ResourceValue) {
        for resource in self.resources.iter_mut().filter(|it| it.is_managed && it.address.kind == kind) {
            resource.instances.retain(|instance| instance_value(instance) != *value);
        }
        self.resources.retain(|resource| !resource.instances.is_empty());
    }

    fn instances_of(&mut self, kind: &str) -> impl Iterator<Item = &mut Fields> {
        let ours = self.resources.iter_mut().filter(move |it| it.is_managed && it.address.kind == kind);
        ours.flat_map(|resource| resource.instances.iter_mut())
    }
}

impl Resource {
    fn new(address: InstanceAddress, provider: &str) -> serde_json::Result<Self> {
        let mut fields = Fields::from([
            ("mode".to_owned(), to_raw_value("managed")?),
            ("type".to_owned(), to_raw_value(&address.kind)?),
            ("name".to_owned(), to_raw_value(&address.name)?),
            ("provider".to_owned(), to_raw_value(provider)?),
        ]);
        if let Some(module) = &address.module {
            fields.insert("module".to_owned(), to_raw_value(module)?);
        }
        Ok(Self { fields, address, is_managed: true, instances: Vec::new() })
    }

    fn parse(mut fields: Fields) -> Option<Self> {
        let instances = match fields.remove("instances") {
            Some(raw) => serde_json::from_str(raw.get()).ok()?,
            None => Vec::new(),
        };
        let address = InstanceAddress {
            module: text(&fields, "module"),
            kind: text(&fields, "type")?,
            name: text(&fields, "name")?,
            index: None,
        };
        let is_managed = text(&fields, "mode")? == "managed";
        Some(Self { fields, address, is_managed, instances })
    }

    fn to_fields(&self) -> serde_json::Result<Fields> {
        let mut fields = self.fields.clone();
        fields.insert("instances".to_owned(), to_raw_value(&self.instances)?);
        Ok(fields)
    }

    fn address_of(&self, instance: &Fields) -> InstanceAddress {
        InstanceAddress { index: index_of(instance), ..self.address.clone() }
    }
}

impl NewObject {
    fn to_fields(&self) -> serde_json::Result<Fields> {
        let mut fields = Fields::from([
            ("schema_version".to_owned(), to_raw_value(&self.schema_version)?),
            ("attributes".to_owned(), to_raw_value(&self.attributes)?),
            ("sensitive_attributes".to_owned(), to_raw_value(&Value::Array(Vec::new()))?),
        ]);
        if let Some(index) = &self.address.index {
            fields.insert("index_key".to_owned(), to_raw_value(index)?);
        }
        if !self.private.is_empty() {
            fields.insert("private".to_owned(), to_raw_value(&self.private)?);
        }
        if self.is_tainted {
            fields.insert("status".to_owned(), to_raw_value("tainted")?);
        }
        Ok(fields)
    }
}

fn field<'a, T: Deserialize<'a>>(fields: &'a Fields, name: &str) -> Option<T> {
    serde_json::from_str(fields.get(name)?.get()).ok()
}

fn text(fields: &Fields, name: &str) -> Option<String> {
    field(fields, name)
}

fn index_of(instance: &Fields) -> Option<Value> {
    field(instance, "index_key")
}

fn instance_value(instance: &Fields) -> ResourceValue {
    ResourceValue::from_json(field(instance, "attributes").unwrap_or(Value::Null))
}
