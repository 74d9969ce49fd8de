//! Texts with one spelling: times and base64.

use base64::{
    Engine as _,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use jiff::Timestamp;

use crate::clock;

/// Go forgives bits after the end, but not a missing `=`.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

/// `metav1.Time` to UTC and whole seconds.
pub fn canonical_time(text: &str) -> Option<String> {
    rfc3339(text).map(clock::seconds)
}

/// `metav1.MicroTime` to UTC and microseconds.
pub fn canonical_micro_time(text: &str) -> Option<String> {
    rfc3339(text).map(clock::micros)
}

/// A moment as Go reads RFC 3339: with `T`, seconds and an offset.
pub fn rfc3339(text: &str) -> Option<Timestamp> {
    let bytes = text.as_bytes();
    let plain = bytes.get(10) == Some(&b'T') && bytes.get(16) == Some(&b':') && bytes.get(4) == Some(&b'-');
    let offset = text.ends_with('Z')
        || bytes.len().checked_sub(6).and_then(|at| bytes.get(at)).is_some_and(|sign| b"+-".contains(sign));
    if plain && offset { text.parse().ok() } else { None }
}

/// Base64 as Go writes it again; `None` if it is so already.
pub fn canonical_bytes(text: &str) -> Option<String> {
    let clean: String = text.chars().filter(|one| !matches!(one, '\n' | '\r')).collect();
    let bytes = LENIENT.decode(&clean).ok()?;
    let written = base64::engine::general_purpose::STANDARD.encode(bytes);
    (written != text).then_some(written)
}

/// Where a text stops being base64, as Go counts.
pub fn base64_fault(text: &str) -> Option<usize> {
    use base64::DecodeError;
    let clean: String = text.chars().filter(|one| !matches!(one, '\n' | '\r')).collect();
    match LENIENT.decode(&clean) {
        Ok(_) => None,
        Err(DecodeError::InvalidByte(at, _) | DecodeError::InvalidLastSymbol(at, _)) => Some(at),
        Err(DecodeError::InvalidLength(length)) => Some(length / 4 * 4),
        Err(DecodeError::InvalidPadding) => Some(clean.trim_end_matches('=').len() / 4 * 4),
    }
}
