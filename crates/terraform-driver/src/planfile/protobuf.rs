//! Fields of a plan file as values that can be matched by number and hashed.

use capt_util::protobuf::{self, Value};
use sha2::{Digest, Sha256};

/// An encoded field: its number and value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field<'a> {
    Varint(u64, u64),
    Bytes(u64, &'a [u8]),
    Fixed(u64, &'a [u8]),
}

impl Field<'_> {
    pub(super) fn number(&self) -> u64 {
        match self {
            Self::Varint(number, _) | Self::Bytes(number, _) | Self::Fixed(number, _) => *number,
        }
    }

    /// Hashes number, length and value, so that different fields have different hashes.
    pub(super) fn hash_into(&self, hash: &mut Sha256) {
        hash.update(self.number().to_be_bytes());
        match self {
            Self::Varint(_, value) => hash.update(value.to_be_bytes()),
            Self::Bytes(_, value) | Self::Fixed(_, value) => {
                hash.update((value.len() as u64).to_be_bytes());
                hash.update(value);
            }
        }
    }
}

/// The fields of a message; yields `None` once and ends at invalid bytes.
pub(super) fn fields(message: &[u8]) -> impl Iterator<Item = Option<Field<'_>>> {
    protobuf::fields(message).map(|field| {
        let field = field.ok()?;
        Some(match field.value {
            Value::Varint(value) => Field::Varint(field.number, value),
            Value::Bytes(bytes) => Field::Bytes(field.number, bytes),
            Value::Fixed(bytes) => Field::Fixed(field.number, bytes),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_all_wire_types_are_walked() {
        let message =
            [0x08, 0x96, 0x01, 0x12, 0x02, b'h', b'i', 0x1d, 1, 2, 3, 4, 0x21, 1, 2, 3, 4, 5, 6, 7, 8];
        let fields: Vec<_> = fields(&message).map(Option::unwrap).collect();
        assert_eq!(
            fields,
            [
                Field::Varint(1, 150),
                Field::Bytes(2, b"hi"),
                Field::Fixed(3, &[1, 2, 3, 4]),
                Field::Fixed(4, &[1, 2, 3, 4, 5, 6, 7, 8]),
            ]
        );
    }

    #[test]
    fn invalid_bytes_end_the_fields() {
        let fields: Vec<_> = fields(&[0x08, 0x01, 0x12, 0x7f]).collect();
        assert_eq!(fields, [Some(Field::Varint(1, 1)), None]);
    }
}
