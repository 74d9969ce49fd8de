//! Protobuf on raw bytes: fields are found, kept, dropped and appended; no message is decoded as a whole.
//!
//! Input is untrusted: no function panics or allocates according to a claimed length.

use thiserror::Error;

/// Bytes that are not a protobuf message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("not a protobuf message, from byte {at} on")]
pub struct MalformedMessage {
    /// Offset of the first invalid field.
    pub at: usize,
}

/// Value of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    /// Wire type 0.
    Varint(u64),
    /// Wire type 2: a string, bytes or a message.
    Bytes(&'a [u8]),
    /// Wire types 1 and 5: eight or four bytes.
    Fixed(&'a [u8]),
}

/// One field of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field<'a> {
    /// Its number.
    pub number: u64,
    /// Its value.
    pub value: Value<'a>,
    /// The encoded field, including its tag.
    pub raw: &'a [u8],
}

/// Iterates over the fields of a message. Ends after the first invalid one.
pub fn fields(message: &[u8]) -> impl Iterator<Item = Result<Field<'_>, MalformedMessage>> {
    let mut at = 0;
    let mut broken = false;
    std::iter::from_fn(move || {
        if broken || at >= message.len() {
            return None;
        }
        let start = at;
        let Some(field) = read_field(message, &mut at) else {
            broken = true;
            return Some(Err(MalformedMessage { at: start }));
        };
        Some(Ok(field))
    })
}

fn read_field<'a>(message: &'a [u8], at: &mut usize) -> Option<Field<'a>> {
    let start = *at;
    let tag = read_varint(message, at)?;
    let number = tag >> 3;
    let value = match tag & 7 {
        0 => Value::Varint(read_varint(message, at)?),
        2 => {
            let length = usize::try_from(read_varint(message, at)?).ok()?;
            Value::Bytes(take_bytes(message, at, length)?)
        }
        1 => Value::Fixed(take_bytes(message, at, 8)?),
        5 => Value::Fixed(take_bytes(message, at, 4)?),
        // Groups were removed from protobuf before this protocol existed.
        _ => return None,
    };
    let raw = message.get(start..*at)?;
    (number > 0).then_some(Field { number, value, raw })
}

fn take_bytes<'a>(message: &'a [u8], at: &mut usize, length: usize) -> Option<&'a [u8]> {
    let end = at.checked_add(length)?;
    let taken = message.get(*at..end)?;
    *at = end;
    Some(taken)
}

fn read_varint(message: &[u8], at: &mut usize) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = *message.get(*at)?;
        *at += 1;
        value |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// The last bytes field of that number; protobuf defines that the last one wins.
pub fn bytes_field(message: &[u8], number: u64) -> Result<Option<&[u8]>, MalformedMessage> {
    let mut found = None;
    for field in fields(message) {
        if let Field { number: n, value: Value::Bytes(bytes), .. } = field?
            && n == number
        {
            found = Some(bytes);
        }
    }
    Ok(found)
}

/// The last field of that number as a string.
pub fn string_field(message: &[u8], number: u64) -> Result<Option<&str>, MalformedMessage> {
    let found = bytes_field(message, number)?;
    found.map(std::str::from_utf8).transpose().map_err(|_| MalformedMessage { at: 0 })
}

/// Appends a bytes field; also an empty one, which differs from an absent one.
pub fn put_bytes(message: &mut Vec<u8>, number: u64, bytes: &[u8]) {
    put_varint(message, number << 3 | 2);
    put_varint(message, bytes.len() as u64);
    message.extend_from_slice(bytes);
}

/// Appends a varint field.
pub fn put_number(message: &mut Vec<u8>, number: u64, value: u64) {
    put_varint(message, number << 3);
    put_varint(message, value);
}

fn put_varint(message: &mut Vec<u8>, mut value: u64) {
    loop {
        let [low, ..] = value.to_le_bytes();
        value >>= 7;
        if value == 0 {
            message.push(low & 0x7f);
            return;
        }
        // Seven bits, with the continuation bit.
        message.push(low | 0x80);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_put_is_found() {
        let mut message = Vec::new();
        put_bytes(&mut message, 1, b"one");
        put_number(&mut message, 2, 300);
        put_bytes(&mut message, 1, b"again");
        assert_eq!(string_field(&message, 1), Ok(Some("again")));
        let all: Vec<_> = fields(&message).map(Result::unwrap).collect();
        assert_eq!(all.iter().map(|it| it.number).collect::<Vec<_>>(), [1, 2, 1]);
        assert_eq!(all[1].value, Value::Varint(300));
        assert_eq!(all.iter().flat_map(|it| it.raw).copied().collect::<Vec<u8>>(), message);
    }

    #[test]
    fn a_length_that_is_a_lie_is_malformed() {
        assert_eq!(bytes_field(&[0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f, 1], 1), Err(MalformedMessage { at: 0 }));
        assert_eq!(bytes_field(&[0x0a, 0xff], 1), Err(MalformedMessage { at: 0 }));
        assert_eq!(bytes_field(&[0x00, 0x00], 1), Err(MalformedMessage { at: 0 }));
        assert_eq!(bytes_field(&[0x0b], 1), Err(MalformedMessage { at: 0 }));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(message in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut length = 0;
            for field in fields(&message).flatten() {
                length += field.raw.len();
            }
            prop_assert!(length <= message.len());
        }

        #[test]
        fn every_number_survives(value in any::<u64>(), number in 1_u64..1000) {
            let mut message = Vec::new();
            put_number(&mut message, number, value);
            let field = fields(&message).next().unwrap().unwrap();
            prop_assert_eq!((field.number, field.value), (number, Value::Varint(value)));
        }
    }
}
