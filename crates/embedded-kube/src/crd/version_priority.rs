//! Priority of API versions.

/// Sorts versions by priority: GA before beta before alpha, then by number; names that are not versions come last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct VersionPriority {
    stage: u8,
    major: u64,
    minor: u64,
}

/// Priority of a version such as `v1beta2`; higher is better.
pub fn version_priority(version: &str) -> VersionPriority {
    parse_version(version).unwrap_or(VersionPriority { stage: 0, major: 0, minor: 0 })
}

fn parse_version(version: &str) -> Option<VersionPriority> {
    let rest = version.strip_prefix('v')?;
    let (stage, major, minor) = if let Some((major, minor)) = rest.split_once("alpha") {
        (1, major, minor)
    } else if let Some((major, minor)) = rest.split_once("beta") {
        (2, major, minor)
    } else {
        (3, rest, "0")
    };
    Some(VersionPriority { stage, major: major.parse().ok()?, minor: minor.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn released_versions_come_before_beta_and_alpha() {
        let mut versions = ["v1alpha1", "v2", "v1beta2", "v1", "foo", "v10", "v1beta10"];
        versions.sort_by_key(|version| version_priority(version));
        assert_eq!(versions, ["foo", "v1alpha1", "v1beta2", "v1beta10", "v1", "v2", "v10"]);
    }
}
