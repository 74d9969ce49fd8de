//! The objects that a saved plan creates, with their values, and the data sources that were read for it.

use std::io::{Cursor, Read};

use super::{
    BODY_ACTION, BODY_IMPORTING, CHANGE_ADDRESS, CHANGE_BODY, CHANGE_DEPOSED_KEY, PLAN_RESOURCE_CHANGES,
    PlanFileError, names,
    protobuf::{Field, fields},
};
use crate::{plan::PlanAction, state::State};

const CHANGE_PROVIDER: u64 = 8;
const BODY_VALUES: u64 = 2;
const VALUE_MSGPACK: u64 = 1;

/// An object that a plan creates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectToCreate {
    /// Its address.
    pub address: String,
    /// The provider configuration, `provider["registry.terraform.io/hashicorp/aws"]`.
    pub provider: String,
    /// The planned value in msgpack. May contain secrets.
    pub value: Vec<u8>,
}

/// A data source that was read for a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataSourceValue {
    /// Its name in the configuration.
    pub name: String,
    /// Its attributes.
    pub attributes: serde_json::Value,
}

/// What a saved plan creates, and what was read for it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlannedObjects {
    /// The managed objects that it creates, also in place of others; without those that it imports.
    pub creates: Vec<ObjectToCreate>,
    /// The data sources of the root module.
    pub data: Vec<DataSourceValue>,
}

impl PlannedObjects {
    /// Parses a saved plan.
    pub fn parse(bytes: &[u8]) -> Result<Self, PlanFileError> {
        let mut archive = zip::ZipArchive::new(Cursor::new(bytes))?;
        let (mut message, mut state) = (Vec::new(), Vec::new());
        archive.by_name("tfplan")?.read_to_end(&mut message)?;
        archive.by_name("tfstate")?.read_to_end(&mut state)?;
        let mut creates = Vec::new();
        for field in fields(&message) {
            if let Field::Bytes(PLAN_RESOURCE_CHANGES, raw) = field.ok_or(PlanFileError::Damaged)? {
                creates.extend(decode_create(raw)?);
            }
        }
        Ok(Self { creates, data: decode_data(&state)? })
    }
}

fn decode_data(state: &[u8]) -> Result<Vec<DataSourceValue>, PlanFileError> {
    let state = State::parse(state).map_err(|_| PlanFileError::Damaged)?;
    let data = state.resources.iter().filter(|it| it.mode == "data" && it.module.is_none());
    Ok(data
        .filter_map(|resource| {
            let attributes = resource.instances.first()?.attributes()?;
            Some(DataSourceValue { name: resource.name.clone(), attributes })
        })
        .collect())
}

fn decode_create(raw: &[u8]) -> Result<Option<ObjectToCreate>, PlanFileError> {
    let (mut object, mut creates) =
        (ObjectToCreate { address: String::new(), provider: String::new(), value: Vec::new() }, false);
    for field in fields(raw) {
        match field.ok_or(PlanFileError::Damaged)? {
            Field::Bytes(CHANGE_ADDRESS, text) => object.address = String::from_utf8_lossy(text).into_owned(),
            Field::Bytes(CHANGE_PROVIDER, text) => {
                object.provider = String::from_utf8_lossy(text).into_owned();
            }
            Field::Bytes(CHANGE_DEPOSED_KEY, key) if !key.is_empty() => return Ok(None),
            Field::Bytes(CHANGE_BODY, body) => {
                let Some(value) = decode_created_value(body)? else { return Ok(None) };
                (object.value, creates) = (value, true);
            }
            _ => {}
        }
    }
    let (managed, _) = names::mode_and_type(&object.address);
    Ok((creates && managed).then_some(object))
}

/// The value after the change; `None` if the change creates nothing.
fn decode_created_value(body: &[u8]) -> Result<Option<Vec<u8>>, PlanFileError> {
    let (mut action, mut import, mut after) = (PlanAction::NoOp, false, None);
    for field in fields(body) {
        match field.ok_or(PlanFileError::Damaged)? {
            Field::Varint(BODY_ACTION, number) => action = names::decode_action(number),
            Field::Bytes(BODY_IMPORTING, _) => import = true,
            // The value before, if there is one, comes first.
            Field::Bytes(BODY_VALUES, value) => after = Some(value),
            _ => {}
        }
    }
    let creates = matches!(action, PlanAction::Add | PlanAction::Replace) && !import;
    let Some(after) = after.filter(|_| creates) else { return Ok(None) };
    let mut value = Vec::new();
    for field in fields(after) {
        if let Field::Bytes(VALUE_MSGPACK, bytes) = field.ok_or(PlanFileError::Damaged)? {
            value = bytes.to_vec();
        }
    }
    Ok(Some(value))
}
