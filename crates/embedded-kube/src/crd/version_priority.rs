//! Which of two versions is the better one.

/// Sorts versions as clients prefer them: released before beta before alpha, then by number; what does not look like a
/// version comes last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    stage: u8,
    major: u64,
    minor: u64,
}

/// The rank of a version such as `v1beta2`; higher is better.
pub fn rank(version: &str) -> Rank {
    read(version).unwrap_or(Rank { stage: 0, major: 0, minor: 0 })
}

fn read(version: &str) -> Option<Rank> {
    let rest = version.strip_prefix('v')?;
    let (stage, major, minor) = if let Some((major, minor)) = rest.split_once("alpha") {
        (1, major, minor)
    } else if let Some((major, minor)) = rest.split_once("beta") {
        (2, major, minor)
    } else {
        (3, rest, "0")
    };
    Some(Rank { stage, major: major.parse().ok()?, minor: minor.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn released_versions_come_before_beta_and_alpha() {
        let mut versions = ["v1alpha1", "v2", "v1beta2", "v1", "foo", "v10", "v1beta10"];
        versions.sort_by_key(|version| rank(version));
        assert_eq!(versions, ["foo", "v1alpha1", "v1beta2", "v1beta10", "v1", "v2", "v10"]);
    }
}
