//! Grants of cross-namespace references.
//!
//! References within a namespace are always allowed. Other namespaces must be listed in an annotation of the object or of its
//! namespace: names separated by commas, or `*` for all.

use std::collections::BTreeMap;

use capt_kinds::api::names::ALLOW_REFERENCES_ANNOTATION;

use super::newtypes::Namespace;

/// Whether these annotations, of an object or of its namespace, grant references from namespace `from`.
pub fn allows_reference(annotations: &BTreeMap<String, String>, from: &Namespace) -> bool {
    annotations
        .get(ALLOW_REFERENCES_ANNOTATION)
        .is_some_and(|list| list.split(',').map(str::trim).any(|name| name == "*" || name == from.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Parse as _;

    #[test]
    fn a_namespace_is_allowed_by_its_name_or_by_a_star() {
        let from = Namespace::parse("team-a").unwrap();
        for (list, expected) in [
            ("team-a", true),
            ("team-b, team-a ,team-c", true),
            ("*", true),
            ("team-b,*", true),
            ("", false),
            ("team-b", false),
            ("team-ab", false),
            ("team-*", false),
            (",", false),
        ] {
            let annotations = BTreeMap::from([(ALLOW_REFERENCES_ANNOTATION.to_owned(), list.to_owned())]);
            assert_eq!(allows_reference(&annotations, &from), expected, "{list:?}");
        }
        assert!(!allows_reference(&BTreeMap::new(), &from));
    }
}
