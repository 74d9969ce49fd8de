//! Overlapping Fargate profiles. EKS allows them and uses the profile whose name sorts first, which is rarely intended.

use std::fmt;

use super::{
    Parse as _,
    fargate::{SYSTEM_PROFILE, ValidatedProfile, ValidatedSelector},
    newtypes::{SelectorLabelKey, SelectorLabelValue, SelectorNamespace},
};

/// Two profiles that match the same pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlap {
    /// The profile that EKS uses.
    pub winner: String,
    /// The other profile.
    pub loser: String,
    /// The namespace pattern of the other profile.
    pub namespace: String,
}

impl fmt::Display for Overlap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { winner, loser, namespace } = self;
        write!(
            f,
            "Fargate profiles {winner} and {loser} both match pods in namespace {namespace}; EKS uses {winner}, the first by name"
        )
    }
}

/// Every pair of overlapping profiles, including the system profile if it exists.
pub fn overlaps(profiles: &[ValidatedProfile], system_profile: bool) -> Vec<Overlap> {
    let system = system_selector().filter(|_| system_profile);
    let ordinary = profiles.iter().filter(|profile| !profile.is_for_sandboxes());
    let mut named: Vec<(&str, &[ValidatedSelector])> =
        ordinary.map(|profile| (profile.name.as_str(), profile.selectors.as_slice())).collect();
    named.extend(system.as_ref().map(|selector| (SYSTEM_PROFILE, std::slice::from_ref(selector))));
    named.sort_unstable_by_key(|(name, _)| *name);
    let mut found = Vec::new();
    for (index, (winner, winning)) in named.iter().enumerate() {
        for (loser, losing) in &named[index + 1..] {
            if let Some(selector) = losing.iter().find(|it| winning.iter().any(|other| shadows(other, it))) {
                let (winner, loser) = ((*winner).to_owned(), (*loser).to_owned());
                found.push(Overlap { winner, loser, namespace: selector.namespace.to_string() });
            }
        }
    }
    found
}

/// The selector of the system profile in the built-in module.
fn system_selector() -> Option<ValidatedSelector> {
    let namespace = SelectorNamespace::parse("kube-system").ok()?;
    let label = (SelectorLabelKey::parse("k8s-app").ok()?, SelectorLabelValue::parse("kube-dns").ok()?);
    Some(ValidatedSelector { namespace, labels: [label].into() })
}

/// Whether a pod can match both, and the labels of one selector are a subset of the other's. Selectors with distinct labels
/// could match the same pod too, but such a warning would mostly be wrong.
fn shadows(one: &ValidatedSelector, other: &ValidatedSelector) -> bool {
    let within = |few: &ValidatedSelector, many: &ValidatedSelector| {
        few.labels.iter().all(|(key, value)| {
            many.labels.get(key).is_some_and(|it| patterns_intersect(value.as_str(), it.as_str()))
        })
    };
    patterns_intersect(one.namespace.as_str(), other.namespace.as_str())
        && (within(one, other) || within(other, one))
}

/// Whether some text matches both wildcard patterns (`*`, `?`).
fn patterns_intersect(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    // after[j]: whether `one[i + 1..]` and `other[j..]` can match a common text.
    let mut after: Vec<bool> = vec![false; other.len() + 1];
    for i in (0..=one.len()).rev() {
        let mut here = vec![false; other.len() + 1];
        for j in (0..=other.len()).rev() {
            here[j] = match (one.get(i), other.get(j)) {
                (None, None) => true,
                (Some(b'*'), _) => after[j] || (j < other.len() && here[j + 1]),
                (_, Some(b'*')) => here[j + 1] || (i < one.len() && after[j]),
                (Some(a), Some(b)) => (a == b || *a == b'?' || *b == b'?') && after[j + 1],
                (Some(_), None) | (None, Some(_)) => false,
            };
        }
        after = here;
    }
    after[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_meet_exactly_if_some_text_matches_both() {
        for (one, other, expected) in [
            ("web", "web", true),
            ("web", "api", false),
            ("*", "anything", true),
            ("team-*", "*-blue", true),
            ("team-*", "squad-*", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("a*c", "?b?", true),
            ("*a", "b*", true),
            ("**", "", true),
            ("a", "", false),
        ] {
            assert_eq!(patterns_intersect(one, other), expected, "{one} {other}");
            assert_eq!(patterns_intersect(other, one), expected, "{other} {one}");
        }
    }

    fn profile(name: &str, selectors: &[(&str, &[(&str, &str)])]) -> ValidatedProfile {
        let selector = |(namespace, labels): &(&str, &[(&str, &str)])| ValidatedSelector {
            namespace: SelectorNamespace::parse(namespace).unwrap(),
            labels: labels
                .iter()
                .map(|(key, value)| {
                    (SelectorLabelKey::parse(key).unwrap(), SelectorLabelValue::parse(value).unwrap())
                })
                .collect(),
        };
        ValidatedProfile {
            name: super::super::newtypes::ProfileName::parse(name).unwrap(),
            selectors: selectors.iter().map(selector).collect(),
            template: None,
            subnets: Vec::new(),
            pod_execution_role: None,
            tags: super::super::tags::Tags::new(),
        }
    }

    #[test]
    fn the_first_name_wins_the_pods_that_both_want() {
        let profiles =
            [profile("web", &[("team-*", &[])]), profile("api", &[("team-blue", &[("tier", "api")])])];
        let expected = Overlap { winner: "api".into(), loser: "web".into(), namespace: "team-*".into() };
        assert_eq!(overlaps(&profiles, false), [expected]);
    }

    #[test]
    fn labels_that_differ_keep_profiles_apart() {
        let profiles =
            [profile("a", &[("x", &[("tier", "web")])]), profile("b", &[("x", &[("tier", "api")])])];
        assert!(overlaps(&profiles, true).is_empty());
    }

    #[test]
    fn a_profile_for_all_of_kube_system_meets_the_clusters_own() {
        let found = overlaps(&[profile("all", &[("kube-*", &[])])], true);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].winner.as_str(), found[0].loser.as_str()), ("all", SYSTEM_PROFILE));
        assert!(overlaps(&[profile("all", &[("kube-*", &[])])], false).is_empty());
    }
}
