//! Kubernetes versions: which one the workspace requests, and which one the status reports to Cluster API. Pure.
//!
//! EKS upgrades one minor version at a time and does not downgrade.

use capt_model::model::{KubernetesVersion, Parse as _};

/// The version to request from the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum UpgradeStep {
    /// The version of the spec.
    Target(KubernetesVersion),
    /// An intermediate version.
    Intermediate {
        /// The version to request now.
        next: KubernetesVersion,
        /// The version of the spec.
        goal: KubernetesVersion,
    },
    /// The spec requests an older version than EKS runs; the running version is kept.
    DowngradeRefused {
        /// The running version.
        running: KubernetesVersion,
        /// The version of the spec.
        wanted: KubernetesVersion,
    },
}

impl UpgradeStep {
    /// The version to request.
    pub(crate) const fn target(&self) -> &KubernetesVersion {
        match self {
            Self::Target(version) | Self::Intermediate { next: version, .. } => version,
            Self::DowngradeRefused { running, .. } => running,
        }
    }
}

/// The next step from the running version, if there is one, to the wanted one.
pub(crate) fn next_upgrade_step(
    wanted: &KubernetesVersion,
    running: Option<&KubernetesVersion>,
) -> UpgradeStep {
    match running {
        Some(running) if wanted.minor() < running.minor() => {
            UpgradeStep::DowngradeRefused { running: running.clone(), wanted: wanted.clone() }
        }
        Some(running) if running.next().minor() < wanted.minor() => {
            UpgradeStep::Intermediate { next: running.next(), goal: wanted.clone() }
        }
        _ => UpgradeStep::Target(wanted.clone()),
    }
}

/// The version in the status. Cluster API compares it with the spec by semver, and EKS does not report a patch version: while
/// the minor versions are equal, the patch version of the spec is reported. Otherwise a topology would be upgrading forever.
pub(crate) fn reported_version(wanted: &str, running: Option<&KubernetesVersion>) -> Option<String> {
    let running = running?;
    let same = KubernetesVersion::parse(wanted).ok().filter(|wanted| wanted == running);
    Some(same.map_or_else(|| format!("v{running}.0"), |wanted| full_version(&wanted)))
}

/// Adds the `v` prefix and a patch version.
fn full_version(version: &KubernetesVersion) -> String {
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
                assert_eq!(reported_version(&spec, None), None, "provisioning until EKS tells a version");
                for eks_minor in 28..36_u8 {
                    let told = reported_version(&spec, Some(&version(&format!("1.{eks_minor}")))).unwrap();
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
            let step = next_upgrade_step(&wanted, Some(&running));
            assert_eq!(step.target().minor(), running.minor() + 1);
            path.push(step.target().to_string());
            running = step.target().clone();
        }
        assert_eq!(path, ["1.30", "1.31", "1.32", "1.33"]);
        assert_eq!(next_upgrade_step(&wanted, Some(&running)), UpgradeStep::Target(wanted.clone()));
    }

    #[test]
    fn a_cluster_that_does_not_exist_is_made_with_the_wanted_version_at_once() {
        assert_eq!(next_upgrade_step(&version("1.33"), None).target().to_string(), "1.33");
    }

    #[test]
    fn an_older_version_is_refused_and_the_running_one_stays() {
        let step = next_upgrade_step(&version("1.31"), Some(&version("1.33")));
        assert_eq!(step.target().to_string(), "1.33");
        assert!(matches!(step, UpgradeStep::DowngradeRefused { .. }));
    }
}
