//! Canonical form of times and base64.

use base64::{
    Engine as _,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};

use super::go_time::{Layout, parse};
use crate::clock;

/// Go ignores trailing bits but requires padding.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

/// `metav1.Time` to UTC and whole seconds.
pub fn canonical_time(text: &str) -> Option<String> {
    parse(text, Layout::Seconds).ok().map(clock::format_time)
}

/// `metav1.MicroTime` to UTC and microseconds.
pub fn canonical_micro_time(text: &str) -> Option<String> {
    parse(text, Layout::Micros).ok().map(clock::format_micro_time)
}

/// Canonical base64; `None` if it is canonical already.
pub fn canonical_bytes(text: &str) -> Option<String> {
    let clean: String = text.chars().filter(|one| !is_line_end(*one)).collect();
    let bytes = LENIENT.decode(&clean).ok()?;
    let written = base64::engine::general_purpose::STANDARD.encode(bytes);
    (written != text).then_some(written)
}

fn is_line_end(one: char) -> bool {
    matches!(one, '\n' | '\r')
}

/// Offset of the first invalid byte as Go counts: including line breaks, which are skipped.
pub fn base64_error_offset(text: &str) -> Option<usize> {
    let mut bytes = text.bytes().enumerate().filter(|(_, one)| !is_line_end(char::from(*one)));
    loop {
        for place in 0..4 {
            match bytes.next() {
                None if place == 0 => return None,
                None => return Some(text.len() - place),
                Some((at, b'=')) => return padding_error_offset(&mut bytes, place, at, text.len()),
                Some((_, one)) if one.is_ascii_alphanumeric() || matches!(one, b'+' | b'/') => {}
                Some((at, _)) => return Some(at),
            }
        }
    }
}

/// Checks what follows the first `=`: a second one after two digits, then nothing.
fn padding_error_offset(
    rest: &mut dyn Iterator<Item = (usize, u8)>,
    place: usize,
    at: usize,
    end: usize,
) -> Option<usize> {
    match place {
        0 | 1 => Some(at),
        2 => match rest.next() {
            None => Some(end),
            Some((_, b'=')) => rest.next().map(|(extra, _)| extra),
            Some((next, _)) => Some(next - 1),
        },
        _ => rest.next().map(|(extra, _)| extra),
    }
}
