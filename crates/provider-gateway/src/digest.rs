//! SHA-256 digests over length-prefixed parts.

/// Lower-case hexadecimal.
pub use hex::encode as to_hex;
use sha2::{Digest as _, Sha256};

/// A digest used as key.
pub type DigestKey = [u8; 32];

/// Hashes parts, each prefixed with its length, so that bytes cannot move between parts.
pub fn hash_parts<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> DigestKey {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

/// Parses the output of [`to_hex`].
pub fn parse_hex(text: &str) -> Option<DigestKey> {
    let mut key = [0; 32];
    hex::decode_to_slice(text, &mut key).ok()?;
    Some(key)
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_was_written_is_read() {
        let key = super::hash_parts([&b"a"[..]]);
        assert_eq!(super::parse_hex(&super::to_hex(key)), Some(key));
        assert_eq!(super::parse_hex("00"), None);
        assert_eq!(super::parse_hex(&"ä".repeat(32)), None);
    }

    #[test]
    fn parts_cannot_be_shifted() {
        assert_ne!(super::hash_parts([&b"ab"[..], b"c"]), super::hash_parts([&b"a"[..], b"bc"]));
    }
}
