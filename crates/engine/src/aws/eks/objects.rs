//! EKS objects without the SDK's types, reduced to the fields in use.

use std::collections::{BTreeMap, HashMap};

use aws_sdk_eks::types;

/// Tag of a cluster with the uid of the `CAPTControlPlane` that it belongs to.
pub const OWNER_TAG: &str = "capt.x-k8s.io/owner";

/// A health issue that EKS reports.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EksIssue {
    /// Issue code, such as `PodExecutionRoleAlreadyInUse`.
    pub code: String,
    /// Message of EKS.
    pub message: String,
    /// Affected resources.
    pub resource_ids: Vec<String>,
}

/// A cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EksCluster {
    /// Name.
    pub name: String,
    /// ARN.
    pub arn: String,
    /// `CREATING`, `ACTIVE`, `UPDATING`, `DELETING`, `FAILED`, `PENDING`, or a newer value.
    pub status: String,
    /// Kubernetes version, as `1.33`.
    pub version: Option<String>,
    /// Platform version, as `eks.7`.
    pub platform_version: Option<String>,
    /// URL of its Kubernetes API.
    pub endpoint: Option<String>,
    /// Base64 of the CA certificate in PEM form.
    pub certificate_authority: Option<String>,
    /// URL of its `OpenID` Connect issuer.
    pub oidc_issuer: Option<String>,
    /// `API`, `API_AND_CONFIG_MAP` or `CONFIG_MAP`.
    pub authentication_mode: Option<String>,
    /// Its VPC.
    pub vpc_id: Option<String>,
    /// Health issues.
    pub issues: Vec<EksIssue>,
    /// Tags.
    pub tags: BTreeMap<String, String>,
}

/// A Fargate profile.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EksFargateProfile {
    /// Name.
    pub name: String,
    /// ARN.
    pub arn: String,
    /// `CREATING`, `ACTIVE`, `DELETING`, `CREATE_FAILED`, `DELETE_FAILED`, or a newer value.
    pub status: String,
    /// Health issues.
    pub issues: Vec<EksIssue>,
    /// Tags.
    pub tags: BTreeMap<String, String>,
}

/// An addon.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EksAddon {
    /// Name.
    pub name: String,
    /// `CREATING`, `ACTIVE`, `DEGRADED`, `UPDATING`, …
    pub status: String,
    /// Version.
    pub version: Option<String>,
    /// Health issues.
    pub issues: Vec<EksIssue>,
}

/// An access entry.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EksAccessEntry {
    /// Type of the entry: `STANDARD`, `FARGATE_LINUX`, `EC2_LINUX`, …
    pub kind: String,
}

/// The SDK has three identical types for health issues.
macro_rules! issues {
    ($health:expr) => {
        $health
            .and_then(|health| health.issues)
            .unwrap_or_default()
            .into_iter()
            .map(|issue| EksIssue {
                code: issue.code.map(|code| code.as_str().to_owned()).unwrap_or_default(),
                message: issue.message.unwrap_or_default(),
                resource_ids: issue.resource_ids.unwrap_or_default(),
            })
            .collect()
    };
}

fn sort_tags(tags: Option<HashMap<String, String>>) -> BTreeMap<String, String> {
    tags.unwrap_or_default().into_iter().collect()
}

impl From<types::Cluster> for EksCluster {
    fn from(cluster: types::Cluster) -> Self {
        let access = cluster.access_config.and_then(|access| access.authentication_mode);
        Self {
            name: cluster.name.unwrap_or_default(),
            arn: cluster.arn.unwrap_or_default(),
            status: cluster.status.map(|status| status.as_str().to_owned()).unwrap_or_default(),
            version: cluster.version,
            platform_version: cluster.platform_version,
            endpoint: cluster.endpoint.filter(|endpoint| !endpoint.is_empty()),
            certificate_authority: cluster.certificate_authority.and_then(|authority| authority.data),
            oidc_issuer: cluster.identity.and_then(|identity| identity.oidc?.issuer),
            authentication_mode: access.map(|mode| mode.as_str().to_owned()),
            vpc_id: cluster.resources_vpc_config.and_then(|config| config.vpc_id),
            issues: issues!(cluster.health),
            tags: sort_tags(cluster.tags),
        }
    }
}

impl From<types::FargateProfile> for EksFargateProfile {
    fn from(profile: types::FargateProfile) -> Self {
        Self {
            name: profile.fargate_profile_name.unwrap_or_default(),
            arn: profile.fargate_profile_arn.unwrap_or_default(),
            status: profile.status.map(|status| status.as_str().to_owned()).unwrap_or_default(),
            issues: issues!(profile.health),
            tags: sort_tags(profile.tags),
        }
    }
}

impl From<types::Addon> for EksAddon {
    fn from(addon: types::Addon) -> Self {
        Self {
            name: addon.addon_name.unwrap_or_default(),
            status: addon.status.map(|status| status.as_str().to_owned()).unwrap_or_default(),
            version: addon.addon_version,
            issues: issues!(addon.health),
        }
    }
}

impl From<types::AccessEntry> for EksAccessEntry {
    fn from(entry: types::AccessEntry) -> Self {
        Self { kind: entry.r#type.unwrap_or_default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_that_is_being_made_has_no_endpoint_and_no_authority() {
        let cluster = types::Cluster::builder().name("shop").status(types::ClusterStatus::Creating);
        let view = EksCluster::from(cluster.endpoint("").build());
        let expected =
            EksCluster { name: "shop".to_owned(), status: "CREATING".to_owned(), ..EksCluster::default() };
        assert_eq!(view, expected);
    }

    #[test]
    fn a_word_that_is_newer_than_the_sdk_is_kept() {
        let issue = types::FargateProfileIssue::builder()
            .code("BrandNew".into())
            .message("see the news")
            .resource_ids("arn:aws:iam::1:role/pods")
            .build();
        let profile = types::FargateProfile::builder()
            .fargate_profile_name("one")
            .status("ASLEEP".into())
            .health(types::FargateProfileHealth::builder().issues(issue).build())
            .tags("b", "2")
            .tags("a", "1")
            .build();
        let view = EksFargateProfile::from(profile);
        assert_eq!(view.status, "ASLEEP");
        let issue = EksIssue {
            code: "BrandNew".to_owned(),
            message: "see the news".to_owned(),
            resource_ids: vec!["arn:aws:iam::1:role/pods".to_owned()],
        };
        assert_eq!(view.issues, [issue]);
        assert_eq!(
            view.tags.into_iter().collect::<Vec<_>>(),
            [("a".to_owned(), "1".to_owned()), ("b".to_owned(), "2".to_owned())]
        );
    }
}
