//! Protobuf request bodies: the `k8s\0` envelope and its object, decoded by the type table.
//!
//! The result is the JSON form of the object, so later stages do not depend on the encoding. Replies are never
//! protobuf: every client that accepts it accepts JSON too.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::{
    go_struct::{CustomJson, GoField, GoStruct, GoType},
    go_struct_at,
    normalise::normalise,
    protobuf_wire::{WireReader, WireValue},
    schema_props_struct, shape_of,
    type_check::decode_error,
    type_table,
};
use crate::{
    clock,
    hex::hex,
    registry::api_version,
    status_error::{ApiResult, StatusError},
};

const ENVELOPE_PREFIX: &[u8] = b"k8s\0";
/// Maximum message nesting; CRD schemas are the deepest valid messages.
const MAX_DEPTH: usize = 200;

/// The expected type, if the envelope does not state it.
#[derive(Debug, Clone, Copy)]
pub struct ExpectedKind<'a> {
    /// API group.
    pub group: &'a str,
    /// Version.
    pub version: &'a str,
    /// Kind.
    pub kind: &'a str,
}

/// Decodes an envelope; the object has `apiVersion` and `kind`.
pub fn from_protobuf(body: &[u8], expected: ExpectedKind<'_>) -> ApiResult<Value> {
    let unreadable = |why: &str| unrecognized(body, expected.kind, why);
    if body.is_empty() {
        return Err(unreadable("empty data"));
    }
    let Some(envelope) = body.strip_prefix(ENVELOPE_PREFIX) else {
        let why = "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]";
        return Err(unreadable(why));
    };
    if envelope.is_empty() {
        return Err(unreadable("empty body"));
    }
    let (mut version, mut kind, raw) = open_envelope(envelope).map_err(|why| unreadable(&why))?;
    if kind.is_empty() {
        expected.kind.clone_into(&mut kind);
    }
    if version.is_empty() {
        version = api_version(expected.group, expected.version);
    }
    let (group, short) = version.split_once('/').unwrap_or(("", &version));
    let Some(shape) = shape_of(group, short, &kind) else {
        let why = format!(
            "no kind {kind:?} is registered for version {version:?} in scheme \"pkg/runtime/scheme.go:111\""
        );
        return Err(decode_error((&kind, short), expected.kind, &why));
    };
    let message = type_table::type_table().kind(group, short, &kind).and_then(go_struct_at);
    let mut object = match message.map(|go| message_fields(raw, go, 0)) {
        Some(Ok(fields)) => Value::Object(fields),
        Some(Err(why)) => return Err(decode_error((&kind, short), expected.kind, &why)),
        None => Value::Object(Map::new()),
    };
    if let Value::Object(fields) = &mut object {
        fields.insert("apiVersion".to_owned(), version.into());
        fields.insert("kind".to_owned(), kind.into());
    }
    normalise(&mut object, &shape);
    Ok(object)
}

/// The error of a body with an unknown kind.
fn unrecognized(body: &[u8], kind: &str, why: &str) -> StatusError {
    const SHOWN: usize = 30;
    let summary = match body {
        [] => "<empty>".to_owned(),
        [b'{', ..] => String::from_utf8_lossy(body.get(..SHOWN).unwrap_or(body)).into_owned(),
        _ => hex(body.get(..SHOWN).unwrap_or(body)),
    };
    let more = if body.len() > SHOWN { " ..." } else { "" };
    StatusError::bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): {why} ({summary}{more})"
    ))
}

/// Opens `runtime.Unknown`: apiVersion, kind and the object's bytes.
fn open_envelope(envelope: &[u8]) -> Result<(String, String, &[u8]), String> {
    let (mut version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    let mut wire = WireReader::new(envelope, "Unknown");
    while let Some(field) = wire.field()? {
        match field {
            (1, WireValue::Bytes(bytes)) => {
                let mut meta = WireReader::new(bytes, "TypeMeta");
                while let Some(field) = meta.field()? {
                    match field {
                        (1, WireValue::Bytes(bytes)) => version = text(bytes),
                        (2, WireValue::Bytes(bytes)) => kind = text(bytes),
                        _ => {}
                    }
                }
            }
            (2, WireValue::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    Ok((version, kind, raw))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(super) fn message_fields(
    bytes: &[u8],
    go: &'static GoStruct,
    depth: usize,
) -> Result<Map<String, Value>, String> {
    if depth > MAX_DEPTH {
        return Err("proto: message is nested too deep".to_owned());
    }
    let mut fields = Map::new();
    let mut wire = WireReader::new(bytes, go.name);
    while let Some((number, piece)) = wire.field()? {
        if let Some(field) = go.fields.iter().find(|field| field.number == number) {
            let slot = fields.entry(field.name).or_insert(Value::Null);
            add_field(slot, piece, &field.kind, field, depth)?;
        } else if let Some((_, inner)) = go.inline.iter().find(|(inline, _)| *inline == number)
            && let (Some(inner), WireValue::Bytes(bytes)) = (go_struct_at(*inner), piece)
        {
            fields.append(&mut message_fields(bytes, inner, depth + 1)?);
        }
    }
    Ok(fields)
}

/// Adds one occurrence of a field: lists and maps arrive one entry at a time.
fn add_field(
    slot: &mut Value,
    piece: WireValue<'_>,
    kind: &'static GoType,
    field: &GoField,
    depth: usize,
) -> Result<(), String> {
    match kind {
        GoType::Pointer(inner) => add_field(slot, piece, inner, field, depth),
        GoType::List { items, wrapped: false, .. } => {
            if slot.is_null() {
                *slot = Value::Array(Vec::new());
            }
            let Value::Array(list) = slot else { return Ok(()) };
            match (piece, &**items) {
                (WireValue::Bytes(bytes), GoType::Int32 | GoType::Int64 | GoType::Bool) => {
                    let mut wire = WireReader::new(bytes, field.name);
                    while !wire.is_empty() {
                        list.push(scalar_value(WireValue::Varint(wire.varint()?), items, field, depth)?);
                    }
                }
                _ => list.push(scalar_value(piece, items, field, depth)?),
            }
            Ok(())
        }
        GoType::Map { values, .. } => {
            if slot.is_null() {
                *slot = Value::Object(Map::new());
            }
            let Value::Object(map) = slot else { return Ok(()) };
            let WireValue::Bytes(bytes) = piece else { return Err(wire_type_error(piece, field)) };
            let (key, value) = map_entry(bytes, values, field, depth)?;
            map.insert(key, value);
            Ok(())
        }
        kind => {
            *slot = scalar_value(piece, kind, field, depth)?;
            Ok(())
        }
    }
}

fn map_entry(
    bytes: &[u8],
    values: &'static GoType,
    field: &GoField,
    depth: usize,
) -> Result<(String, Value), String> {
    let (mut key, mut value) = (String::new(), Value::Null);
    let mut wire = WireReader::new(bytes, field.name);
    while let Some((number, piece)) = wire.field()? {
        match (number, piece) {
            (1, WireValue::Bytes(bytes)) => key = text(bytes),
            (2, piece) => value = scalar_value(piece, values, field, depth)?,
            _ => {}
        }
    }
    // Missing bytes are empty bytes, which are `""` in a map.
    if value.is_null() && matches!(values, GoType::Bytes) {
        value = "".into();
    }
    Ok((key, value))
}

fn scalar_value(
    piece: WireValue<'_>,
    kind: &'static GoType,
    field: &GoField,
    depth: usize,
) -> Result<Value, String> {
    Ok(match (piece, kind) {
        (piece, GoType::Pointer(inner)) => scalar_value(piece, inner, field, depth)?,
        (WireValue::Bytes(bytes), GoType::String(..)) => text(bytes).into(),
        (WireValue::Bytes(bytes), GoType::Bytes) => STANDARD.encode(bytes).into(),
        (WireValue::Varint(number), GoType::Bool) => (number != 0).into(),
        (WireValue::Varint(number), GoType::Int32) => low_half(number).into(),
        (WireValue::Varint(number), GoType::Int64) => number.cast_signed().into(),
        (WireValue::Fixed64(bits), GoType::Float) => f64::from_bits(bits).into(),
        (WireValue::Bytes(bytes), GoType::Struct(index)) => match go_struct_at(*index) {
            Some(go) => Value::Object(message_fields(bytes, go, depth + 1)?),
            None => Value::Null,
        },
        (WireValue::Bytes(bytes), GoType::List { items, wrapped: true, .. }) => {
            let mut list = Vec::new();
            let mut wire = WireReader::new(bytes, field.name);
            while let Some((number, piece)) = wire.field()? {
                if number == 1 {
                    list.push(scalar_value(piece, items, field, depth)?);
                }
            }
            Value::Array(list)
        }
        (WireValue::Bytes(bytes), GoType::CustomJson(own)) => custom_json_message(bytes, *own, depth)?,
        _ => return Err(wire_type_error(piece, field)),
    })
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "negative numbers are encoded in 64 bits, of which the lower half counts"
)]
fn low_half(number: u64) -> i32 {
    number as i32
}

fn wire_type_error(piece: WireValue<'_>, field: &GoField) -> String {
    let wire = match piece {
        WireValue::Varint(_) => 0,
        WireValue::Fixed64(_) => 1,
        WireValue::Bytes(_) => 2,
        WireValue::Fixed32 => 5,
    };
    // The only field whose Go name is not its capitalized JSON name.
    if field.name == "metadata" {
        return format!("proto: wrong wireType = {wire} for field ObjectMeta");
    }
    let mut name = field.name.chars();
    let first: String = name.next().map(|first| first.to_uppercase().collect()).unwrap_or_default();
    format!("proto: wrong wireType = {wire} for field {first}{}", name.as_str())
}

/// Fields of the small messages: numbers and bytes by field number; the last occurrence wins.
#[derive(Default)]
struct MessageParts<'a> {
    numbers: [u64; 4],
    bytes: [Option<&'a [u8]>; 4],
    /// All occurrences of field 2, for the only message that repeats it.
    second: Vec<&'a [u8]>,
}

impl<'a> MessageParts<'a> {
    fn parse(message: &'a [u8]) -> Result<Self, String> {
        let mut parts = Self::default();
        let mut wire = WireReader::new(message, "");
        while let Some((number, piece)) = wire.field()? {
            let Ok(at) = usize::try_from(number) else { continue };
            match piece {
                WireValue::Varint(value) => {
                    if let Some(slot) = parts.numbers.get_mut(at) {
                        *slot = value;
                    }
                }
                WireValue::Bytes(bytes) => {
                    if number == 2 {
                        parts.second.push(bytes);
                    }
                    if let Some(slot) = parts.bytes.get_mut(at) {
                        *slot = Some(bytes);
                    }
                }
                WireValue::Fixed64(_) | WireValue::Fixed32 => {}
            }
        }
        Ok(parts)
    }
}

fn custom_json_message(message: &[u8], own: CustomJson, depth: usize) -> Result<Value, String> {
    let parts = MessageParts::parse(message)?;
    let [_, first, second, _] = parts.numbers;
    let [_, first_bytes, second_bytes, third_bytes] = parts.bytes;
    Ok(match own {
        CustomJson::Time | CustomJson::MicroTime if message.is_empty() => Value::Null,
        CustomJson::Time => timestamp(first, 0).map_or(Value::Null, |at| clock::format_time(at).into()),
        CustomJson::MicroTime => {
            timestamp(first, low_half(second)).map_or(Value::Null, |at| clock::format_micro_time(at).into())
        }
        CustomJson::Duration => format!("{}ns", first.cast_signed()).into(),
        CustomJson::Quantity => quantity(&text(first_bytes.unwrap_or(b"0")))?,
        CustomJson::IntOrString if first == 1 => text(third_bytes.unwrap_or_default()).into(),
        CustomJson::IntOrString => low_half(second).into(),
        CustomJson::Raw | CustomJson::Fields | CustomJson::Json => match first_bytes {
            None | Some([]) => Value::Null,
            Some(json) => serde_json::from_slice(json).map_err(|error| error.to_string())?,
        },
        CustomJson::OrArray if !parts.second.is_empty() => {
            let list: Result<Vec<_>, _> = parts.second.iter().map(|one| schema_message(one, depth)).collect();
            Value::Array(list?)
        }
        CustomJson::OrStringArray if !parts.second.is_empty() => {
            parts.second.iter().map(|one| text(one)).collect()
        }
        CustomJson::OrArray | CustomJson::OrStringArray => {
            first_bytes.map_or(Ok(Value::Null), |bytes| schema_message(bytes, depth))?
        }
        CustomJson::OrBool => {
            second_bytes.map_or(Ok(Value::Bool(first != 0)), |bytes| schema_message(bytes, depth))?
        }
    })
}

fn schema_message(bytes: &[u8], depth: usize) -> Result<Value, String> {
    match schema_props_struct() {
        Some(go) => message_fields(bytes, go, depth + 1).map(Value::Object),
        None => Ok(Value::Null),
    }
}

fn quantity(text: &str) -> Result<Value, String> {
    crate::quantity::quantity_error(text).map_or_else(|| Ok(text.into()), |why| Err(why.to_owned()))
}

fn timestamp(seconds: u64, nanos: i32) -> Option<Timestamp> {
    Timestamp::new(seconds.cast_signed(), nanos).ok()
}
