//! Versions: which one the workspace is asked for, and which one is told to Cluster API. Pure.
//!
//! EKS goes up one minor version at a time and never down.

use crate::model::{KubernetesVersion, Parse as _};

/// What to ask the workspace for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// The version of the spec.
    Wanted(KubernetesVersion),
    /// One on the way to it.
    Towards {
        /// The next one.
        next: KubernetesVersion,
        /// The one that the spec wants.
        goal: KubernetesVersion,
    },
    /// The spec wants an older one than EKS runs, which stays.
    Refused {
        /// What EKS runs.
        running: KubernetesVersion,
        /// What the spec wants.
        wanted: KubernetesVersion,
    },
}

impl Step {
    /// The version to ask for.
    pub(crate) const fn target(&self) -> &KubernetesVersion {
        match self {
            Self::Wanted(version) | Self::Towards { next: version, .. } => version,
            Self::Refused { running, .. } => running,
        }
    }
}

/// The next step from the running version, if there is one, to the wanted one.
pub(crate) fn step(wanted: &KubernetesVersion, running: Option<&KubernetesVersion>) -> Step {
    match running {
        Some(running) if wanted.minor() < running.minor() => {
            Step::Refused { running: running.clone(), wanted: wanted.clone() }
        }
        Some(running) if running.next().minor() < wanted.minor() => {
            Step::Towards { next: running.next(), goal: wanted.clone() }
        }
        _ => Step::Wanted(wanted.clone()),
    }
}

/// The version in the status. Cluster API compares it with the spec's by semver, and EKS does not tell its patch: while
/// the minor versions are equal it is the spec's own patch, or every object of a topology would be upgrading for ever.
pub(crate) fn reported(wanted: &str, running: Option<&KubernetesVersion>) -> Option<String> {
    let running = running?;
    let same = KubernetesVersion::parse(wanted).ok().filter(|wanted| wanted == running);
    Some(same.map_or_else(|| format!("v{running}.0"), |wanted| full(&wanted)))
}

/// With a `v` and a patch.
fn full(version: &KubernetesVersion) -> String {
    let plain = version.as_written().trim_start_matches('v');
    match plain.matches('.').count() {
        0 | 1 => format!("v{plain}.0"),
        _ => format!("v{plain}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> KubernetesVersion {
        KubernetesVersion::parse(text).unwrap()
    }

    /// Major, minor, patch and whether something follows, as Cluster API's tolerant parser reads a version.
    fn semver(text: &str) -> (u32, u32, u32, bool) {
        let plain = text.trim_start_matches('v');
        let (core, rest) = plain.find(['-', '+']).map_or((plain, ""), |at| plain.split_at(at));
        let mut numbers = core.split('.').map(|it| it.parse().unwrap());
        let mut next = || numbers.next().unwrap_or(0);
        // What comes before a release sorts before it.
        (next(), next(), next(), !rest.starts_with('-'))
    }

    #[test]
    fn every_pair_of_spec_and_eks_is_judged_rightly_by_cluster_apis_rules() {
        let spellings = |minor: u8| {
            [
                format!("v1.{minor}.0"),
                format!("1.{minor}"),
                format!("1.{minor}.7"),
                format!("v1.{minor}.3-eks-4096722"),
            ]
        };
        for spec_minor in 28..36_u8 {
            for spec in spellings(spec_minor) {
                assert_eq!(reported(&spec, None), None, "provisioning until EKS tells a version");
                for eks_minor in 28..36_u8 {
                    let told = reported(&spec, Some(&version(&format!("1.{eks_minor}")))).unwrap();
                    let is_upgrading = semver(&told) < semver(&spec);
                    assert_eq!(is_upgrading, eks_minor < spec_minor, "{spec} on 1.{eks_minor}: {told}");
                    assert!(told.starts_with('v') && told.matches('.').count() >= 2, "{told}");
                }
            }
        }
    }

    #[test]
    fn an_upgrade_goes_one_minor_version_at_a_time_and_ends() {
        let wanted = version("v1.33.2");
        let mut running = version("1.29");
        let mut path = Vec::new();
        while running != wanted {
            let step = step(&wanted, Some(&running));
            assert_eq!(step.target().minor(), running.minor() + 1);
            path.push(step.target().to_string());
            running = step.target().clone();
        }
        assert_eq!(path, ["1.30", "1.31", "1.32", "1.33"]);
        assert_eq!(step(&wanted, Some(&running)), Step::Wanted(wanted.clone()));
    }

    #[test]
    fn a_cluster_that_does_not_exist_is_made_with_the_wanted_version_at_once() {
        assert_eq!(step(&version("1.33"), None).target().to_string(), "1.33");
    }

    #[test]
    fn an_older_version_is_refused_and_the_running_one_stays() {
        let step = step(&version("1.31"), Some(&version("1.33")));
        assert_eq!(step.target().to_string(), "1.33");
        assert!(matches!(step, Step::Refused { .. }));
    }
}
