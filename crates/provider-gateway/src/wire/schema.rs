//! The answer with all schemas, cut down to the types that a run can meet.
//!
//! The answer of hashicorp/aws is 4.9 MB, and decoding it is what terraform does first in every run. A workspace
//! names a dozen types of the 1 500. Entries are dropped by their key alone; no schema is decoded.

use std::collections::BTreeSet;

use super::proto::{Malformed, Value, fields, put_bytes, text};

/// Fields of `GetProviderSchema.Response` that are maps from the name of a type to its schema: resources, data
/// sources, ephemeral resources, list resources, state stores and actions. Both protocols use the same numbers.
/// Everything else (the provider's own schema, diagnostics, capabilities, functions) is kept.
const MAPS: &[u64] = &[2, 3, 8, 9, 10, 11];

/// What a run can meet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// Nobody knows, so everything.
    Everything,
    /// These types; words that are no types do no harm.
    Types(BTreeSet<String>),
}

impl Wanted {
    /// Whether a type is among them.
    pub fn has(&self, kind: &str) -> bool {
        match self {
            Self::Everything => true,
            Self::Types(types) => types.contains(kind),
        }
    }
}

/// Drops the entries that are not wanted.
pub fn filter(schema: &[u8], wanted: &Wanted) -> Result<Vec<u8>, Malformed> {
    if *wanted == Wanted::Everything {
        return Ok(schema.to_vec());
    }
    let mut kept = Vec::with_capacity(64 * 1024);
    for field in fields(schema) {
        let field = field?;
        let drop = match field.value {
            Value::Bytes(entry) if MAPS.contains(&field.number) => {
                // The key need not be the first field of an entry; one without a key has the empty one.
                !wanted.has(text(entry, 1)?.unwrap_or_default())
            }
            _ => false,
        };
        if !drop {
            kept.extend_from_slice(field.raw);
        }
    }
    Ok(kept)
}

/// The same for `GetMetadata.Response`, whose lists hold `{type_name = 1}`: data sources, resources and so on.
/// Terraform uses it to decide whether it may skip schemas, so it must not promise what was dropped.
pub fn filter_metadata(metadata: &[u8], wanted: &Wanted) -> Result<Vec<u8>, Malformed> {
    /// Capabilities, diagnostics and functions stay.
    const STAYS: &[u64] = &[1, 2, 5];
    let mut kept = Vec::new();
    for field in fields(metadata) {
        let field = field?;
        let drop = match field.value {
            Value::Bytes(entry) if !STAYS.contains(&field.number) => {
                !wanted.has(text(entry, 1)?.unwrap_or_default())
            }
            _ => false,
        };
        if !drop {
            kept.extend_from_slice(field.raw);
        }
    }
    Ok(kept)
}

/// All words of a text that could be the name of a type. A scan and not a parse: whatever mentions a type (a block,
/// an address in `moved`, `removed` or `import`, JSON, a state) mentions it as a word.
pub fn words(text: &str, into: &mut BTreeSet<String>) {
    let part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
    for word in text.split(|letter| !part(letter)) {
        if word.starts_with(|first: char| first.is_ascii_alphabetic()) && !into.contains(word) {
            into.insert(word.to_owned());
        }
    }
}

/// A map entry, for tests and for whoever has to build one.
pub fn entry(key: &str, value: &[u8]) -> Vec<u8> {
    let mut entry = Vec::new();
    put_bytes(&mut entry, 1, key.as_bytes());
    put_bytes(&mut entry, 2, value);
    entry
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn types(names: &[&str]) -> Wanted {
        Wanted::Types(names.iter().map(|name| (*name).to_owned()).collect())
    }

    fn schema(entries: &[(u64, &str)]) -> Vec<u8> {
        let mut message = Vec::new();
        put_bytes(&mut message, 1, b"provider");
        for (number, key) in entries {
            put_bytes(&mut message, *number, &entry(key, b"schema"));
        }
        put_bytes(&mut message, 6, b"capabilities");
        message
    }

    #[test]
    fn only_wanted_types_are_left() {
        let all = schema(&[(2, "aws_vpc"), (2, "aws_subnet"), (3, "aws_vpc"), (7, "arn_parse"), (8, "x")]);
        let kept = filter(&all, &types(&["aws_vpc"])).unwrap();
        assert_eq!(kept, schema(&[(2, "aws_vpc"), (3, "aws_vpc"), (7, "arn_parse")]));
        assert_eq!(filter(&all, &Wanted::Everything).unwrap(), all);
    }

    #[test]
    fn the_key_may_stand_behind_the_value() {
        let mut turned = Vec::new();
        put_bytes(&mut turned, 2, b"schema");
        put_bytes(&mut turned, 1, b"aws_vpc");
        let mut message = Vec::new();
        put_bytes(&mut message, 2, &turned);
        assert_eq!(filter(&message, &types(&["aws_vpc"])).unwrap(), message);
        assert_eq!(filter(&message, &types(&["other"])).unwrap(), b"");
    }

    #[test]
    fn words_are_found_wherever_a_type_can_stand() {
        let mut found = BTreeSet::new();
        words("resource \"aws_vpc\" \"this\" {}\nmoved { from = module.a[\"x\"].aws_subnet.b }", &mut found);
        words("{\"resource\":{\"aws_eip\":{}},\"1st\":0}", &mut found);
        let expected = [
            "a",
            "aws_eip",
            "aws_subnet",
            "aws_vpc",
            "b",
            "from",
            "module",
            "moved",
            "resource",
            "this",
            "x",
        ];
        assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), expected);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(message in proptest::collection::vec(any::<u8>(), 0..400)) {
            let kept = filter(&message, &types(&["a"])).unwrap_or_default();
            prop_assert!(kept.len() <= message.len());
            let _ = filter_metadata(&message, &types(&["a"]));
        }
    }
}
