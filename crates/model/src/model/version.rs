//! Kubernetes versions as EKS uses them: minor versions; the patch version is ignored.

use std::fmt;

use serde::{Serialize, Serializer};

use super::newtypes::{MalformedText, Parse};

/// A Kubernetes minor version. `v1.33.0`, `1.33.2` and `1.33` are all 1.33.
#[derive(Clone, Debug)]
pub struct KubernetesVersion {
    minor: u8,
    text: String,
}

impl KubernetesVersion {
    /// The minor version: 33 for 1.33.
    pub fn minor(&self) -> u8 {
        self.minor
    }

    /// The minor version after this one.
    #[must_use]
    pub fn next(&self) -> Self {
        let minor = self.minor.saturating_add(1);
        Self { minor, text: format!("1.{minor}") }
    }

    /// The version as written in the spec.
    pub fn as_written(&self) -> &str {
        &self.text
    }
}

impl Parse for KubernetesVersion {
    fn parse(text: &str) -> Result<Self, MalformedText> {
        let minor = parse_minor(text).ok_or_else(|| MalformedText {
            text: text.to_owned(),
            expected: "a Kubernetes version",
            remedy: "write one such as v1.33.0 or \"1.33\"; EKS does not support \"latest\"",
        })?;
        Ok(Self { minor, text: text.to_owned() })
    }
}

fn parse_minor(text: &str) -> Option<u8> {
    let rest = text.strip_prefix('v').unwrap_or(text).strip_prefix("1.")?;
    let (core, build) = match rest.find(['-', '+']) {
        Some(at) => (&rest[..at], Some(&rest[at + 1..])),
        None => (rest, None),
    };
    let (minor, patch) = match core.split_once('.') {
        Some((minor, patch)) => (minor, Some(patch)),
        None => (core, None),
    };
    let digits = |text: &str| text.bytes().all(|it| it.is_ascii_digit());
    let good_patch = patch.is_none_or(|it| (1..=5).contains(&it.len()) && digits(it));
    let good_build = build.is_none_or(|it| {
        patch.is_some()
            && (1..=64).contains(&it.len())
            && it.bytes().all(|it| it.is_ascii_alphanumeric() || matches!(it, b'.' | b'+' | b'-'))
    });
    let good_minor = minor.len() == 2 && digits(minor) && !minor.starts_with('0');
    if good_minor && good_patch && good_build { minor.parse().ok() } else { None }
}

impl PartialEq for KubernetesVersion {
    fn eq(&self, other: &Self) -> bool {
        self.minor == other.minor
    }
}

impl Eq for KubernetesVersion {}

impl fmt::Display for KubernetesVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1.{}", self.minor)
    }
}

impl Serialize for KubernetesVersion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_spellings_of_a_minor_version_mean_the_same() {
        for text in ["v1.33.0", "1.33", "1.33.2", "v1.33", "v1.33.1-eks-4096722", "1.33.0+build.7"] {
            let version = KubernetesVersion::parse(text).unwrap();
            assert_eq!((version.to_string().as_str(), version.as_written()), ("1.33", text));
        }
    }

    #[test]
    fn what_is_no_version_of_eks_is_refused_and_the_message_shows_one_that_is() {
        for text in [
            "latest",
            "",
            "v",
            "1",
            "1.",
            "1.3",
            "2.33",
            "1.033",
            "1.33.",
            "1.33.x",
            "1.33-alpha",
            "vv1.33",
            " 1.33",
        ] {
            let malformed = KubernetesVersion::parse(text).unwrap_err();
            assert!(malformed.remedy.contains("1.33"), "{text:?}: {malformed}");
        }
    }
}
