//! Request bodies in protobuf: the `k8s\0` envelope, and the object in it by the table.
//!
//! The result is what the same object would be in JSON after decoding, so nothing behind this has to know how a body
//! came. Replies are never protobuf: every client that asks for it takes JSON too.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::{
    decode::undecodable,
    go::{GoField, GoStruct, GoType, OwnJson},
    go_struct_at,
    normalise::normalise,
    schema, shape_of, table,
    wire::{Piece, Wire},
};
use crate::{
    clock,
    failure::{Answer, Failure},
    hex::hex,
    registry::api_version,
};

const PREFIX: &[u8] = b"k8s\0";
/// Messages in messages; schemas of CRDs are the deepest that make sense.
const DEEPEST: usize = 200;

/// What the request is about, where the envelope does not say.
#[derive(Debug, Clone, Copy)]
pub struct Expected<'a> {
    /// API group.
    pub group: &'a str,
    /// Version.
    pub version: &'a str,
    /// Kind.
    pub kind: &'a str,
}

/// The object in an envelope, with `apiVersion` and `kind`.
pub fn from_protobuf(body: &[u8], expected: Expected<'_>) -> Answer<Value> {
    let unreadable = |why: &str| unrecognized(body, expected.kind, why);
    if body.is_empty() {
        return Err(unreadable("empty data"));
    }
    let Some(envelope) = body.strip_prefix(PREFIX) else {
        let why = "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]";
        return Err(unreadable(why));
    };
    if envelope.is_empty() {
        return Err(unreadable("empty body"));
    }
    let (mut version, mut kind, raw) = open(envelope).map_err(|why| unreadable(&why))?;
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
        return Err(undecodable((&kind, short), expected.kind, &why));
    };
    let message = table::get().kind(group, short, &kind).and_then(go_struct_at);
    let mut object = match message.map(|go| message_fields(raw, go, 0)) {
        Some(Ok(fields)) => Value::Object(fields),
        Some(Err(why)) => return Err(undecodable((&kind, short), expected.kind, &why)),
        None => Value::Object(Map::new()),
    };
    if let Value::Object(fields) = &mut object {
        fields.insert("apiVersion".to_owned(), version.into());
        fields.insert("kind".to_owned(), kind.into());
    }
    normalise(&mut object, &shape);
    Ok(object)
}

/// The refusal of a body whose kind is not known.
fn unrecognized(body: &[u8], kind: &str, why: &str) -> Failure {
    const SHOWN: usize = 30;
    let summary = match body {
        [] => "<empty>".to_owned(),
        [b'{', ..] => String::from_utf8_lossy(body.get(..SHOWN).unwrap_or(body)).into_owned(),
        _ => hex(body.get(..SHOWN).unwrap_or(body)),
    };
    let more = if body.len() > SHOWN { " ..." } else { "" };
    Failure::bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): {why} ({summary}{more})"
    ))
}

/// `runtime.Unknown`: apiVersion, kind and the object's bytes.
fn open(envelope: &[u8]) -> Result<(String, String, &[u8]), String> {
    let (mut version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    let mut wire = Wire::new(envelope, "Unknown");
    while let Some(field) = wire.field()? {
        match field {
            (1, Piece::Bytes(bytes)) => {
                let mut meta = Wire::new(bytes, "TypeMeta");
                while let Some(field) = meta.field()? {
                    match field {
                        (1, Piece::Bytes(bytes)) => version = text(bytes),
                        (2, Piece::Bytes(bytes)) => kind = text(bytes),
                        _ => {}
                    }
                }
            }
            (2, Piece::Bytes(bytes)) => raw = bytes,
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
    if depth > DEEPEST {
        return Err("proto: message is nested too deep".to_owned());
    }
    let mut fields = Map::new();
    let mut wire = Wire::new(bytes, go.name);
    while let Some((number, piece)) = wire.field()? {
        if let Some(field) = go.fields.iter().find(|field| field.number == number) {
            let slot = fields.entry(field.name).or_insert(Value::Null);
            add(slot, piece, &field.kind, field, depth)?;
        } else if let Some((_, inner)) = go.inline.iter().find(|(inline, _)| *inline == number)
            && let (Some(inner), Piece::Bytes(bytes)) = (go_struct_at(*inner), piece)
        {
            fields.append(&mut message_fields(bytes, inner, depth + 1)?);
        }
    }
    Ok(fields)
}

/// Puts one occurrence of a field where it belongs: lists and maps come one entry at a time.
fn add(
    slot: &mut Value,
    piece: Piece<'_>,
    kind: &'static GoType,
    field: &GoField,
    depth: usize,
) -> Result<(), String> {
    match kind {
        GoType::Pointer(inner) => add(slot, piece, inner, field, depth),
        GoType::List { items, wrapped: false, .. } => {
            if slot.is_null() {
                *slot = Value::Array(Vec::new());
            }
            let Value::Array(list) = slot else { return Ok(()) };
            match (piece, &**items) {
                (Piece::Bytes(bytes), GoType::Int32 | GoType::Int64 | GoType::Bool) => {
                    let mut wire = Wire::new(bytes, field.name);
                    while !wire.is_empty() {
                        list.push(single(Piece::Varint(wire.varint()?), items, field, depth)?);
                    }
                }
                _ => list.push(single(piece, items, field, depth)?),
            }
            Ok(())
        }
        GoType::Map { values, .. } => {
            if slot.is_null() {
                *slot = Value::Object(Map::new());
            }
            let Value::Object(map) = slot else { return Ok(()) };
            let Piece::Bytes(bytes) = piece else { return Err(wrong(piece, field)) };
            let (key, value) = entry(bytes, values, field, depth)?;
            map.insert(key, value);
            Ok(())
        }
        kind => {
            *slot = single(piece, kind, field, depth)?;
            Ok(())
        }
    }
}

fn entry(
    bytes: &[u8],
    values: &'static GoType,
    field: &GoField,
    depth: usize,
) -> Result<(String, Value), String> {
    let (mut key, mut value) = (String::new(), Value::Null);
    let mut wire = Wire::new(bytes, field.name);
    while let Some((number, piece)) = wire.field()? {
        match (number, piece) {
            (1, Piece::Bytes(bytes)) => key = text(bytes),
            (2, piece) => value = single(piece, values, field, depth)?,
            _ => {}
        }
    }
    // Bytes that are not there are no bytes, and no bytes are `""` in a map.
    if value.is_null() && matches!(values, GoType::Bytes) {
        value = "".into();
    }
    Ok((key, value))
}

fn single(piece: Piece<'_>, kind: &'static GoType, field: &GoField, depth: usize) -> Result<Value, String> {
    Ok(match (piece, kind) {
        (piece, GoType::Pointer(inner)) => single(piece, inner, field, depth)?,
        (Piece::Bytes(bytes), GoType::String(..)) => text(bytes).into(),
        (Piece::Bytes(bytes), GoType::Bytes) => STANDARD.encode(bytes).into(),
        (Piece::Varint(number), GoType::Bool) => (number != 0).into(),
        (Piece::Varint(number), GoType::Int32) => low_half(number).into(),
        (Piece::Varint(number), GoType::Int64) => number.cast_signed().into(),
        (Piece::Fixed64(bits), GoType::Float) => f64::from_bits(bits).into(),
        (Piece::Bytes(bytes), GoType::Struct(index)) => match go_struct_at(*index) {
            Some(go) => Value::Object(message_fields(bytes, go, depth + 1)?),
            None => Value::Null,
        },
        (Piece::Bytes(bytes), GoType::List { items, wrapped: true, .. }) => {
            let mut list = Vec::new();
            let mut wire = Wire::new(bytes, field.name);
            while let Some((number, piece)) = wire.field()? {
                if number == 1 {
                    list.push(single(piece, items, field, depth)?);
                }
            }
            Value::Array(list)
        }
        (Piece::Bytes(bytes), GoType::Own(own)) => own_message(bytes, *own, depth)?,
        _ => return Err(wrong(piece, field)),
    })
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "negative numbers travel as 64 bits and mean their lower half"
)]
fn low_half(number: u64) -> i32 {
    number as i32
}

fn wrong(piece: Piece<'_>, field: &GoField) -> String {
    let wire = match piece {
        Piece::Varint(_) => 0,
        Piece::Fixed64(_) => 1,
        Piece::Bytes(_) => 2,
        Piece::Fixed32 => 5,
    };
    // The one field whose Go name is not its JSON name in capitals.
    if field.name == "metadata" {
        return format!("proto: wrong wireType = {wire} for field ObjectMeta");
    }
    let mut name = field.name.chars();
    let first: String = name.next().map(|first| first.to_uppercase().collect()).unwrap_or_default();
    format!("proto: wrong wireType = {wire} for field {first}{}", name.as_str())
}

/// The parts of the small messages: numbers and bytes by field number, the last one counts.
#[derive(Default)]
struct Parts<'a> {
    numbers: [u64; 4],
    bytes: [Option<&'a [u8]>; 4],
    /// Everything with number 2, for the one message that repeats it.
    second: Vec<&'a [u8]>,
}

impl<'a> Parts<'a> {
    fn of(message: &'a [u8]) -> Result<Self, String> {
        let mut parts = Self::default();
        let mut wire = Wire::new(message, "");
        while let Some((number, piece)) = wire.field()? {
            let Ok(at) = usize::try_from(number) else { continue };
            match piece {
                Piece::Varint(value) => {
                    if let Some(slot) = parts.numbers.get_mut(at) {
                        *slot = value;
                    }
                }
                Piece::Bytes(bytes) => {
                    if number == 2 {
                        parts.second.push(bytes);
                    }
                    if let Some(slot) = parts.bytes.get_mut(at) {
                        *slot = Some(bytes);
                    }
                }
                Piece::Fixed64(_) | Piece::Fixed32 => {}
            }
        }
        Ok(parts)
    }
}

fn own_message(message: &[u8], own: OwnJson, depth: usize) -> Result<Value, String> {
    let parts = Parts::of(message)?;
    let [_, first, second, _] = parts.numbers;
    let [_, first_bytes, second_bytes, third_bytes] = parts.bytes;
    Ok(match own {
        OwnJson::Time | OwnJson::MicroTime if message.is_empty() => Value::Null,
        OwnJson::Time => moment(first, 0).map_or(Value::Null, |at| clock::seconds(at).into()),
        OwnJson::MicroTime => {
            moment(first, low_half(second)).map_or(Value::Null, |at| clock::micros(at).into())
        }
        OwnJson::Duration => format!("{}ns", first.cast_signed()).into(),
        OwnJson::Quantity => quantity(&text(first_bytes.unwrap_or(b"0")))?,
        OwnJson::IntOrString if first == 1 => text(third_bytes.unwrap_or_default()).into(),
        OwnJson::IntOrString => low_half(second).into(),
        OwnJson::Raw | OwnJson::Fields | OwnJson::Json => match first_bytes {
            None | Some([]) => Value::Null,
            Some(json) => serde_json::from_slice(json).map_err(|error| error.to_string())?,
        },
        OwnJson::OrArray if !parts.second.is_empty() => {
            let list: Result<Vec<_>, _> = parts.second.iter().map(|one| schema_message(one, depth)).collect();
            Value::Array(list?)
        }
        OwnJson::OrStringArray if !parts.second.is_empty() => {
            parts.second.iter().map(|one| text(one)).collect()
        }
        OwnJson::OrArray | OwnJson::OrStringArray => {
            first_bytes.map_or(Ok(Value::Null), |bytes| schema_message(bytes, depth))?
        }
        OwnJson::OrBool => {
            second_bytes.map_or(Ok(Value::Bool(first != 0)), |bytes| schema_message(bytes, depth))?
        }
    })
}

fn schema_message(bytes: &[u8], depth: usize) -> Result<Value, String> {
    match schema() {
        Some(go) => message_fields(bytes, go, depth + 1).map(Value::Object),
        None => Ok(Value::Null),
    }
}

fn quantity(text: &str) -> Result<Value, String> {
    super::quantity::quantity_fault(text).map_or_else(|| Ok(text.into()), |why| Err(why.to_owned()))
}

fn moment(seconds: u64, nanos: i32) -> Option<Timestamp> {
    Timestamp::new(seconds.cast_signed(), nanos).ok()
}
