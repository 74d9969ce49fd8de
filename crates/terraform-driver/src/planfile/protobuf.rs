//! Minimal protobuf reader.

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

/// Iterates over the fields of a message; yields `None` once and ends at invalid bytes.
pub(super) struct FieldReader<'a> {
    rest: &'a [u8],
}

impl<'a> FieldReader<'a> {
    pub(super) fn new(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            value |= u64::from(byte & 0x7f).checked_shl(shift)?;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn take_bytes(&mut self, length: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(usize::try_from(length).ok()?)?;
        self.rest = rest;
        Some(taken)
    }

    fn field(&mut self) -> Option<Field<'a>> {
        let tag = self.varint()?;
        let number = tag >> 3;
        match tag & 7 {
            0 => Some(Field::Varint(number, self.varint()?)),
            1 => Some(Field::Fixed(number, self.take_bytes(8)?)),
            2 => {
                let length = self.varint()?;
                Some(Field::Bytes(number, self.take_bytes(length)?))
            }
            5 => Some(Field::Fixed(number, self.take_bytes(4)?)),
            _ => None,
        }
    }
}

impl<'a> Iterator for FieldReader<'a> {
    type Item = Option<Field<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.rest = &[];
        }
        Some(field)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn fields_of_all_wire_types_are_walked() {
        let message =
            [0x08, 0x96, 0x01, 0x12, 0x02, b'h', b'i', 0x1d, 1, 2, 3, 4, 0x21, 1, 2, 3, 4, 5, 6, 7, 8];
        let fields: Vec<_> = FieldReader::new(&message).map(Option::unwrap).collect();
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

    proptest! {
        #[test]
        fn no_bytes_make_it_panic_or_loop(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(FieldReader::new(&bytes).count() <= bytes.len());
        }
    }
}
