//! Texts and names that must fit.

use sha2::{Digest as _, Sha256};
use terraform_driver::hex::hex;

/// A text of at most `most` bytes. One that is cut ends in an ellipsis, and never inside of a letter.
pub(super) fn cut(text: &str, most: usize) -> String {
    const ELLIPSIS: char = '…';
    if text.len() <= most {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(most.saturating_sub(ELLIPSIS.len_utf8()));
    let mut kept = text[..end].to_owned();
    kept.push(ELLIPSIS);
    kept
}

/// A name of at most `most` bytes. One that is too long keeps its beginning and gets a hash of the whole: two different
/// names never become one.
pub(super) fn fit(name: &str, most: usize) -> String {
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
        assert_eq!(cut("short", 5), "short");
        assert_eq!(cut("üüüü", 7), "üü…");
        assert!(cut("üüüü", 7).len() <= 7);
    }

    #[test]
    fn long_names_stay_different() {
        let (one, other) = (format!("{}a", "x".repeat(80)), format!("{}b", "x".repeat(80)));
        assert_eq!((fit(&one, 63).len(), fit(&other, 63).len()), (63, 63));
        assert_ne!(fit(&one, 63), fit(&other, 63));
        assert_eq!(fit("demo-vpc", 63), "demo-vpc");
        assert!(!fit(&format!("{}.{}", "x".repeat(53), "y".repeat(30)), 63).contains(".-"));
    }
}
