//! Digests, and the routing keys and names derived from them.

use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// Crockford's base32 alphabet, without ambiguous letters.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// Length of a generated routing key: 65 bits.
const KEY_LENGTH: usize = 13;

/// The generated routing key of an object, derived from its uid and therefore stable.
pub fn routing_key(uid: &str) -> String {
    let hash = Sha256::digest(uid.as_bytes());
    // Five bits at a time; 13 characters need no more than the first nine bytes.
    let bits = hash.iter().take(16).fold(0_u128, |bits, byte| (bits << 8) | u128::from(*byte));
    (0..KEY_LENGTH)
        .map(|at| char::from(ALPHABET[usize::try_from((bits >> (123 - 5 * at)) & 31).unwrap_or_default()]))
        .collect()
}

/// A digest of a text, in hexadecimal.
pub fn sha256(text: &str) -> String {
    hex::encode(Sha256::digest(text.as_bytes()))
}

/// The first 16 characters of the digest of these lines.
pub(crate) fn lines_digest<'a>(lines: impl IntoIterator<Item = &'a str>) -> String {
    let mut hash = Sha256::new();
    for (at, line) in lines.into_iter().enumerate() {
        if at > 0 {
            hash.update(b"\n");
        }
        hash.update(line.as_bytes());
    }
    hex::encode(&hash.finalize()[..8])
}

/// `<begin>-<sandbox>-<hash>` of at most `longest` characters. The hash covers the parts, so that long names with a common
/// prefix stay distinct.
pub(crate) fn hashed_name(parts: [&str; 3], sandbox: &str, longest: usize) -> String {
    let hash = &sha256(&format!("{}/{sandbox}", parts.join("/")))[..4];
    let room = longest.saturating_sub(sandbox.len() + hash.len() + 2);
    // A baseline name may contain dots; a fork's name is part of a DNS label.
    let begin: String = parts[2].chars().map(|it| if it == '.' { '-' } else { it }).take(room).collect();
    let begin = begin.trim_end_matches('-');
    if begin.is_empty() { format!("{sandbox}-{hash}") } else { format!("{begin}-{sandbox}-{hash}") }
}

/// JSON text with sorted fields.
pub(crate) fn canonical_json(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            let fields = fields
                .iter()
                .map(|(name, value)| format!("{}:{}", Value::from(name.as_str()), canonical_json(value)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
        }
        Value::Array(items) => {
            format!("[{}]", items.iter().map(canonical_json).collect::<Vec<_>>().join(","))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_key_is_thirteen_characters_and_stays_the_same() {
        let key = routing_key("8c7a2f0e-4b7e-4a55-9d8e-0d7f3f1c2b11");
        assert_eq!(key, routing_key("8c7a2f0e-4b7e-4a55-9d8e-0d7f3f1c2b11"));
        assert_eq!(key.len(), 13);
        assert_ne!(key, routing_key("8c7a2f0e-4b7e-4a55-9d8e-0d7f3f1c2b12"));
    }

    #[test]
    fn every_key_follows_the_grammar_of_keys() {
        for number in 0..2000 {
            let key = routing_key(&format!("uid-{number}"));
            assert!(sandbox_router::key::is_key(&key), "{key}");
        }
    }

    /// The first 65 bits of the hash of the empty text are known to everybody: e3b0c44298fc1c149…
    #[test]
    fn a_key_is_the_first_bits_of_the_hash() {
        assert_eq!(sha256("")[..17], *"e3b0c44298fc1c149");
        assert_eq!(routing_key(""), "werc8gmrzge19");
    }

    #[test]
    fn lines_have_the_digest_of_the_text_that_they_are() {
        for text in ["", "shop/cart:80 k1 fork/shop/pr-1", "a\nb\n\nc"] {
            assert_eq!(lines_digest(text.split('\n')), sha256(text)[..16], "{text:?}");
        }
        assert_eq!(lines_digest([]), sha256("")[..16]);
    }

    #[test]
    fn a_name_is_cut_and_stays_its_own() {
        let long = "a".repeat(80);
        let other = format!("{long}b");
        let (one, two) = (
            hashed_name(["Deployment", "shop", &long], "pr-1", 52),
            hashed_name(["Deployment", "shop", &other], "pr-1", 52),
        );
        assert_eq!((one.len(), two.len()), (52, 52));
        assert_ne!(one, two);
        assert_ne!(
            hashed_name(["Deployment", "shop", "cart"], "pr-1", 52),
            hashed_name(["Service", "shop", "cart"], "pr-1", 52)
        );
        assert!(hashed_name(["Deployment", "shop", "a.b"], "pr-1", 52).starts_with("a-b-pr-1-"));
        assert!(hashed_name(["Deployment", "shop", "---"], "pr-1", 52).starts_with("pr-1-"));
    }

    #[test]
    fn the_order_of_fields_makes_no_difference_and_that_of_items_does() {
        assert_eq!(canonical_json(&json!({"b": [1, null], "a": "x"})), r#"{"a":"x","b":[1,null]}"#);
        assert_ne!(canonical_json(&json!([1, 2])), canonical_json(&json!([2, 1])));
    }
}
