//! Adjustable AWS quotas. They are settings of the operator, so the CRDs do not contain them.

/// Quotas of the account. The defaults are those of AWS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Selectors of one Fargate profile.
    pub selectors_per_profile: usize,
    /// Label pairs of one selector.
    pub labels_per_selector: usize,
    /// Fargate profiles of one cluster, including the system profile.
    pub profiles_per_cluster: usize,
}

impl Limits {
    /// The setting behind [`Self::selectors_per_profile`].
    pub const SELECTORS_SETTING: &str = "--limit-selectors-per-profile";
    /// The setting behind [`Self::labels_per_selector`].
    pub const LABELS_SETTING: &str = "--limit-labels-per-selector";
    /// The setting behind [`Self::profiles_per_cluster`].
    pub const PROFILES_SETTING: &str = "--limit-profiles-per-cluster";
}

impl Default for Limits {
    fn default() -> Self {
        Self { selectors_per_profile: 5, labels_per_selector: 5, profiles_per_cluster: 10 }
    }
}
