//! Hexadecimal encoding of digests.

use std::fmt::Write;

/// Lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a string cannot fail.
        let _always_ok = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_byte_is_two_digits() {
        assert_eq!(super::hex(&[0, 1, 0xab, 0xff]), "0001abff");
    }
}
