//! Tags of AWS resources.

use std::collections::BTreeMap;

use capt_kinds::api::schema::MAX_TAGS;

use super::problem::{FieldPath, Problems};

/// Validated tags.
pub type Tags = BTreeMap<String, String>;

pub(super) fn check_tags(
    path: &FieldPath<'_>,
    tags: &BTreeMap<String, String>,
    problems: &mut Problems,
) -> Tags {
    if tags.len() > MAX_TAGS {
        problems.add(
            path,
            format!("has {} tags, but at most {MAX_TAGS} are allowed", tags.len()),
            "remove some; AWS allows 50 on a resource and capt adds its own",
        );
    }
    for (key, value) in tags {
        let path = path.key(key);
        if !(1..=128).contains(&key.chars().count()) {
            problems.add(&path, "a tag key must have 1 to 128 characters", "shorten it");
        }
        // AWS reserves the prefix case-insensitively; the CEL rule checks lower case only, because of its cost.
        if key.get(..4).is_some_and(|prefix| prefix.eq_ignore_ascii_case("aws:")) {
            problems.add(
                &path,
                "a tag key must not start with aws:",
                "choose another key; AWS reserves those",
            );
        }
        if value.chars().count() > 256 {
            problems.add(&path, "a tag value must have at most 256 characters", "shorten it");
        }
    }
    tags.clone()
}
