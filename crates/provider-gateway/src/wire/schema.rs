//! Filters the schema response down to the types that a run can use.
//!
//! The response of hashicorp/aws is 4.9 MB, and decoding it is the first thing Terraform does in every run; a workspace
//! uses a dozen of its 1 500 types. Entries are dropped by key; no schema is decoded.

use std::collections::{BTreeMap, BTreeSet};

use super::protobuf::{MalformedMessage, Value, bytes_field, fields, put_bytes, string_field};

/// Fields of `GetProviderSchema.Response` that are maps from the name of a type to its schema: resources, data
/// sources, ephemeral resources, list resources, state stores and actions. Both protocols use the same numbers.
/// Everything else (the provider's own schema, diagnostics, capabilities, functions) is kept.
const TYPE_MAP_FIELDS: &[u64] = &[2, 3, 8, 9, 10, 11];

/// The types that a run may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TypeFilter {
    /// Unknown, so all types.
    All,
    /// These types; words that are not types are harmless.
    Types(BTreeSet<String>),
}

impl TypeFilter {
    /// Whether a type is included.
    pub fn includes(&self, kind: &str) -> bool {
        match self {
            Self::All => true,
            Self::Types(types) => types.contains(kind),
        }
    }
}

/// Drops the entries that the filter excludes.
pub fn filter_schema(schema: &[u8], wanted: &TypeFilter) -> Result<Vec<u8>, MalformedMessage> {
    if *wanted == TypeFilter::All {
        return Ok(schema.to_vec());
    }
    let mut kept = Vec::with_capacity(64 * 1024);
    for field in fields(schema) {
        let field = field?;
        let drop = match field.value {
            Value::Bytes(entry) if TYPE_MAP_FIELDS.contains(&field.number) => {
                // The key need not be the first field of an entry; a missing key is the empty string.
                !wanted.includes(string_field(entry, 1)?.unwrap_or_default())
            }
            _ => false,
        };
        if !drop {
            kept.extend_from_slice(field.raw);
        }
    }
    Ok(kept)
}

/// Versions of the schemas of all resource types in a schema response.
pub fn resource_versions(schema: &[u8]) -> Result<BTreeMap<String, u64>, MalformedMessage> {
    const RESOURCES: u64 = 2;
    let mut versions = BTreeMap::new();
    for field in fields(schema) {
        let field = field?;
        if let (RESOURCES, Value::Bytes(entry)) = (field.number, field.value) {
            let kind = string_field(entry, 1)?.unwrap_or_default().to_owned();
            let mut version = 0;
            for part in fields(bytes_field(entry, 2)?.unwrap_or_default()) {
                let part = part?;
                if let (1, Value::Varint(number)) = (part.number, part.value) {
                    version = number;
                }
            }
            versions.insert(kind, version);
        }
    }
    Ok(versions)
}

/// Filters `GetMetadata.Response`, whose lists contain `{type_name = 1}`: data sources, resources and so on. Terraform
/// uses it to decide whether it may skip schemas, so it must not list dropped types.
pub fn filter_metadata(metadata: &[u8], wanted: &TypeFilter) -> Result<Vec<u8>, MalformedMessage> {
    /// Capabilities, diagnostics and functions stay.
    const STAYS: &[u64] = &[1, 2, 5];
    let mut kept = Vec::new();
    for field in fields(metadata) {
        let field = field?;
        let drop = match field.value {
            Value::Bytes(entry) if !STAYS.contains(&field.number) => {
                !wanted.includes(string_field(entry, 1)?.unwrap_or_default())
            }
            _ => false,
        };
        if !drop {
            kept.extend_from_slice(field.raw);
        }
    }
    Ok(kept)
}

/// Collects all words of a text that could be type names. A scan, not a parse: every mention of a type (a block, an
/// address in `moved`, `removed` or `import`, JSON, a state) is a word.
pub fn collect_identifiers(text: &str, into: &mut BTreeSet<String>) {
    let part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
    for word in text.split(|letter| !part(letter)) {
        if word.starts_with(|first: char| first.is_ascii_alphabetic()) && !into.contains(word) {
            into.insert(word.to_owned());
        }
    }
}

/// A map entry, mainly for tests.
pub fn map_entry(key: &str, value: &[u8]) -> Vec<u8> {
    let mut entry = Vec::new();
    put_bytes(&mut entry, 1, key.as_bytes());
    put_bytes(&mut entry, 2, value);
    entry
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn types(names: &[&str]) -> TypeFilter {
        TypeFilter::Types(names.iter().map(|name| (*name).to_owned()).collect())
    }

    fn schema(entries: &[(u64, &str)]) -> Vec<u8> {
        let mut message = Vec::new();
        put_bytes(&mut message, 1, b"provider");
        for (number, key) in entries {
            put_bytes(&mut message, *number, &map_entry(key, b"schema"));
        }
        put_bytes(&mut message, 6, b"capabilities");
        message
    }

    #[test]
    fn only_wanted_types_are_left() {
        let all = schema(&[(2, "aws_vpc"), (2, "aws_subnet"), (3, "aws_vpc"), (7, "arn_parse"), (8, "x")]);
        let kept = filter_schema(&all, &types(&["aws_vpc"])).unwrap();
        assert_eq!(kept, schema(&[(2, "aws_vpc"), (3, "aws_vpc"), (7, "arn_parse")]));
        assert_eq!(filter_schema(&all, &TypeFilter::All).unwrap(), all);
    }

    #[test]
    fn the_key_may_stand_behind_the_value() {
        let mut turned = Vec::new();
        put_bytes(&mut turned, 2, b"schema");
        put_bytes(&mut turned, 1, b"aws_vpc");
        let mut message = Vec::new();
        put_bytes(&mut message, 2, &turned);
        assert_eq!(filter_schema(&message, &types(&["aws_vpc"])).unwrap(), message);
        assert_eq!(filter_schema(&message, &types(&["other"])).unwrap(), b"");
    }

    #[test]
    fn versions_of_resource_types_are_read_and_zero_is_omitted_by_protobuf() {
        let mut versioned = Vec::new();
        crate::wire::protobuf::put_number(&mut versioned, 1, 2);
        put_bytes(&mut versioned, 2, b"block");
        let mut message = Vec::new();
        put_bytes(&mut message, 2, &map_entry("aws_eks_cluster", &versioned));
        put_bytes(&mut message, 2, &map_entry("aws_vpc", b""));
        put_bytes(&mut message, 3, &map_entry("aws_region", &versioned));
        let versions = resource_versions(&message).unwrap();
        let expected = [("aws_eks_cluster".to_owned(), 2), ("aws_vpc".to_owned(), 0)];
        assert_eq!(versions, BTreeMap::from(expected));
    }

    #[test]
    fn words_are_found_wherever_a_type_can_stand() {
        let mut found = BTreeSet::new();
        collect_identifiers(
            "resource \"aws_vpc\" \"this\" {}\nmoved { from = module.a[\"x\"].aws_subnet.b }",
            &mut found,
        );
        collect_identifiers("{\"resource\":{\"aws_eip\":{}},\"1st\":0}", &mut found);
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
            let kept = filter_schema(&message, &types(&["a"])).unwrap_or_default();
            prop_assert!(kept.len() <= message.len());
            let _ = filter_metadata(&message, &types(&["a"]));
        }
    }
}
