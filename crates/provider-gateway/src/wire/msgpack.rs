//! Minimal msgpack reader.
//!
//! Terraform encodes unknown values as extensions (type 0 for unknown, type 12 for partially known), and uses
//! extensions for nothing else.

/// Whether a value is complete and contains no unknown value.
pub fn is_known(value: &[u8]) -> bool {
    let mut rest = value;
    // Number of values still to read; a map of `n` counts `2 n`. Iterative, so that deep nesting cannot exhaust the
    // stack.
    let mut due: u64 = 1;
    while due > 0 {
        let Some(read) = read_item(&mut rest) else { return false };
        due = match (due - 1).checked_add(read) {
            Some(due) => due,
            None => return false,
        };
    }
    rest.is_empty()
}

/// Reads one item; returns the number of nested items. `None` for an extension or invalid msgpack.
fn read_item(rest: &mut &[u8]) -> Option<u64> {
    let [kind] = *take_array::<1>(rest)?;
    let (skip, inner) = match kind {
        // Small numbers, nil and booleans.
        0x00..=0x7f | 0xe0..=0xff | 0xc0 | 0xc2 | 0xc3 => (0, 0),
        0x80..=0x8f => (0, 2 * u64::from(kind & 0x0f)),
        0x90..=0x9f => (0, u64::from(kind & 0x0f)),
        0xa0..=0xbf => (u64::from(kind & 0x1f), 0),
        0xc4 | 0xd9 => (u64::from(u8::from_be_bytes(*take_array(rest)?)), 0),
        0xc5 | 0xda => (u64::from(u16::from_be_bytes(*take_array(rest)?)), 0),
        0xc6 | 0xdb => (u64::from(u32::from_be_bytes(*take_array(rest)?)), 0),
        0xcc | 0xd0 => (1, 0),
        0xcd | 0xd1 => (2, 0),
        0xca | 0xce | 0xd2 => (4, 0),
        0xcb | 0xcf | 0xd3 => (8, 0),
        0xdc => (0, u64::from(u16::from_be_bytes(*take_array(rest)?))),
        0xdd => (0, u64::from(u32::from_be_bytes(*take_array(rest)?))),
        0xde => (0, 2 * u64::from(u16::from_be_bytes(*take_array(rest)?))),
        0xdf => (0, 2 * u64::from(u32::from_be_bytes(*take_array(rest)?))),
        // Extensions, and the one byte that msgpack never uses.
        0xc1 | 0xc7..=0xc9 | 0xd4..=0xd8 => return None,
    };
    *rest = rest.get(usize::try_from(skip).ok()?..)?;
    Some(inner)
}

/// One msgpack item; an array or map is followed by its items.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Item<'a> {
    /// Nil.
    Nil,
    /// A boolean.
    Bool(bool),
    /// A number that may be negative.
    Integer(i64),
    /// A number that is not negative.
    Unsigned(u64),
    /// A floating point number.
    Float(f64),
    /// A string.
    Text(&'a [u8]),
    /// Bytes.
    Bytes(&'a [u8]),
    /// An array of this length.
    Array(u64),
    /// A map with this number of pairs.
    Map(u64),
    /// An extension: an unknown value.
    Extension,
}

impl<'a> Item<'a> {
    /// Reads one item; `None` for invalid msgpack.
    pub fn read(rest: &mut &'a [u8]) -> Option<Self> {
        let [kind] = *take_array::<1>(rest)?;
        Some(match kind {
            0x00..=0x7f => Self::Unsigned(kind.into()),
            0xe0..=0xff => Self::Integer(i8::from_be_bytes([kind]).into()),
            0xc0 => Self::Nil,
            0xc2 | 0xc3 => Self::Bool(kind == 0xc3),
            0x80..=0x8f => Self::Map((kind & 0x0f).into()),
            0x90..=0x9f => Self::Array((kind & 0x0f).into()),
            0xa0..=0xbf => Self::Text(take_slice(rest, (kind & 0x1f).into())?),
            0xd9..=0xdb => Self::Text(take_sized(rest, kind - 0xd9)?),
            0xc4..=0xc6 => Self::Bytes(take_sized(rest, kind - 0xc4)?),
            0xcc..=0xcf => Self::Unsigned(take_unsigned(rest, kind - 0xcc)?),
            0xd0 => Self::Integer(i8::from_be_bytes(*take_array(rest)?).into()),
            0xd1 => Self::Integer(i16::from_be_bytes(*take_array(rest)?).into()),
            0xd2 => Self::Integer(i32::from_be_bytes(*take_array(rest)?).into()),
            0xd3 => Self::Integer(i64::from_be_bytes(*take_array(rest)?)),
            0xca => Self::Float(f32::from_be_bytes(*take_array(rest)?).into()),
            0xcb => Self::Float(f64::from_be_bytes(*take_array(rest)?)),
            0xdc | 0xdd => Self::Array(take_unsigned(rest, kind - 0xdb)?),
            0xde | 0xdf => Self::Map(take_unsigned(rest, kind - 0xdd)?),
            0xc7..=0xc9 => {
                let length = take_unsigned(rest, kind - 0xc7)?;
                take_slice(rest, length.checked_add(1)?)?;
                Self::Extension
            }
            0xd4..=0xd8 => {
                take_slice(rest, (1 << (kind - 0xd4)) + 1)?;
                Self::Extension
            }
            0xc1 => return None,
        })
    }
}

/// A big-endian number of one, two, four or eight bytes.
fn take_unsigned(rest: &mut &[u8], size: u8) -> Option<u64> {
    Some(match size {
        0 => u8::from_be_bytes(*take_array(rest)?).into(),
        1 => u16::from_be_bytes(*take_array(rest)?).into(),
        2 => u32::from_be_bytes(*take_array(rest)?).into(),
        _ => u64::from_be_bytes(*take_array(rest)?),
    })
}

fn take_sized<'a>(rest: &mut &'a [u8], size: u8) -> Option<&'a [u8]> {
    let length = take_unsigned(rest, size)?;
    take_slice(rest, length)
}

fn take_slice<'a>(rest: &mut &'a [u8], length: u64) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(usize::try_from(length).ok()?)?;
    *rest = left;
    Some(taken)
}

fn take_array<'a, const N: usize>(rest: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (taken, left) = rest.split_first_chunk()?;
    *rest = left;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_values_are_known() {
        for value in [
            &b"\xc0"[..],
            b"\x81\xa6region\xa9us-east-1",
            b"\x93\x01\xff\xc3",
            b"\xde\x00\x01\xa1a\xcb\0\0\0\0\0\0\0\0",
            b"\xd9\x03abc",
            b"\x90",
        ] {
            assert!(is_known(value), "{value:x?}");
        }
    }

    #[test]
    fn unknown_torn_and_senseless_values_are_not() {
        for value in [
            &b""[..],
            b"\xd4\x00\x00",
            b"\x81\xa1a\xd4\x00\x00",
            b"\x81\xa1a\xc7\x03\x0c\x81\x01\xc2",
            b"\x81\xa1a",
            b"\xdf\xff\xff\xff\xff",
            b"\xc0\xc0",
            b"\xc1",
        ] {
            assert!(!is_known(value), "{value:x?}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(value in proptest::collection::vec(any::<u8>(), 0..200)) {
            is_known(&value);
        }
    }
}
