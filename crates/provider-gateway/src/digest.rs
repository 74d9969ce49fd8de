//! Digests over parts that cannot be shifted from one into the next.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

/// A digest as a key.
pub type Key = [u8; 32];

/// The digest of some parts, each with its length before it.
pub fn of<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Key {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

/// Lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a string cannot fail.
        let _always_ok = write!(text, "{byte:02x}");
        text
    })
}

/// Reads what [`hex`] wrote.
pub fn parse(text: &str) -> Option<Key> {
    let mut key = [0; 32];
    for (at, byte) in key.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    (text.len() == 64).then_some(key)
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_was_written_is_read() {
        let key = super::of([&b"a"[..]]);
        assert_eq!(super::parse(&super::hex(&key)), Some(key));
        assert_eq!(super::parse("00"), None);
        assert_eq!(super::parse(&"ä".repeat(32)), None);
    }

    #[test]
    fn parts_cannot_be_shifted() {
        assert_ne!(super::of([&b"ab"[..], b"c"]), super::of([&b"a"[..], b"bc"]));
    }
}
