//! Truncation of texts and names.

use sha2::{Digest as _, Sha256};
use terraform_driver::hex::hex;

/// Truncates to at most `most` bytes at a character boundary, ending in an ellipsis.
pub(super) fn truncate_text(text: &str, most: usize) -> String {
    const ELLIPSIS: char = '…';
    if text.len() <= most {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(most.saturating_sub(ELLIPSIS.len_utf8()));
    let mut kept = text[..end].to_owned();
    kept.push(ELLIPSIS);
    kept
}

/// Truncates a name to at most `most` bytes. A truncated name ends in a hash of the whole, so that names stay unique.
pub(super) fn truncate_name(name: &str, most: usize) -> String {
    if name.len() <= most {
        return name.to_owned();
    }
    let hash = hex(&Sha256::digest(name.as_bytes())[..4]);
    let end = name.floor_char_boundary(most.saturating_sub(hash.len() + 1));
    format!("{}-{hash}", name[..end].trim_end_matches(['-', '.']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_letters() {
        assert_eq!(truncate_text("short", 5), "short");
        assert_eq!(truncate_text("üüüü", 7), "üü…");
        assert!(truncate_text("üüüü", 7).len() <= 7);
    }

    #[test]
    fn long_names_stay_different() {
        let (one, other) = (format!("{}a", "x".repeat(80)), format!("{}b", "x".repeat(80)));
        assert_eq!((truncate_name(&one, 63).len(), truncate_name(&other, 63).len()), (63, 63));
        assert_ne!(truncate_name(&one, 63), truncate_name(&other, 63));
        assert_eq!(truncate_name("demo-vpc", 63), "demo-vpc");
        assert!(!truncate_name(&format!("{}.{}", "x".repeat(53), "y".repeat(30)), 63).contains(".-"));
    }
}
