//! Minimal msgpack reader that answers one question: is every value known?
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
