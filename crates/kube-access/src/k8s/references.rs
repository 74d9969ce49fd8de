//! Permission of cross-namespace references. Pure; callers supply the annotations.

use std::collections::BTreeMap;

use capt_kinds::api::names::ALLOW_REFERENCES_ANNOTATION;

/// The target of a reference and its namespace.
#[derive(Debug, Clone, Copy)]
pub struct CrossNamespaceTarget<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// Its annotations.
    pub annotations: Option<&'a BTreeMap<String, String>>,
    /// The annotations of its namespace.
    pub namespace_annotations: Option<&'a BTreeMap<String, String>>,
}

/// Whether an object in namespace `from` may refer to the target: both are in one namespace, or the target or its namespace
/// grants it by annotation. Denied by default.
pub fn may_refer(from: &str, target: &CrossNamespaceTarget<'_>) -> bool {
    from == target.namespace
        || [target.annotations, target.namespace_annotations]
            .into_iter()
            .flatten()
            .filter_map(|annotations| annotations.get(ALLOW_REFERENCES_ANNOTATION))
            .any(|list| {
                list.split(',').map(str::trim).any(|one| one == "*" || (one == from && !from.is_empty()))
            })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saying(list: &str) -> BTreeMap<String, String> {
        BTreeMap::from([(ALLOW_REFERENCES_ANNOTATION.to_owned(), list.to_owned())])
    }

    fn verdict(from: &str, own: Option<&str>, of_namespace: Option<&str>) -> bool {
        let (own, of_namespace) = (own.map(saying), of_namespace.map(saying));
        may_refer(
            from,
            &CrossNamespaceTarget {
                namespace: "network",
                annotations: own.as_ref(),
                namespace_annotations: of_namespace.as_ref(),
            },
        )
    }

    #[test]
    fn the_same_namespace_may_and_others_only_if_told() {
        assert!(verdict("network", None, None));
        assert!(!verdict("shop", None, None));
        assert!(!verdict("shop", Some(""), Some("")));
        assert!(!verdict("", Some(""), None), "nobody is not somebody");
        assert!(verdict("shop", Some("bank, shop"), None));
        assert!(verdict("shop", None, Some("*")));
        assert!(!verdict("shop", Some("shops,sho"), Some("bank")));
    }
}
