//! State of the EKS model. Plain data: the operations validate and change it, [`super::settle`] advances it in time.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) type Tags = BTreeMap<String, String>;

/// All clusters by region.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct EksState {
    pub(crate) regions: BTreeMap<String, BTreeMap<String, Cluster>>,
    /// Planned outcomes of the next create or delete of a profile.
    #[serde(default)]
    pub(crate) planned: Vec<PlannedOutcome>,
}

/// 'The next create of profile P of cluster C ends in `CREATE_FAILED` with these issues.'
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct PlannedOutcome {
    pub(crate) cluster: String,
    pub(crate) profile: String,
    pub(crate) end: ProfileStatus,
    pub(crate) issues: Vec<HealthIssue>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum ClusterStatus {
    Creating,
    Active,
    Deleting,
    /// The host could not start its API.
    Failed,
}

/// A health issue of a cluster, profile or addon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct HealthIssue {
    pub(crate) code: String,
    pub(crate) message: String,
    #[serde(default)]
    pub(crate) resource_ids: Vec<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Cluster {
    pub(crate) name: String,
    /// 32 hexadecimal digits, part of the endpoint and of the OIDC issuer.
    pub(crate) id: String,
    pub(crate) arn: String,
    pub(crate) token: Option<String>,
    pub(crate) created_at: Timestamp,
    pub(crate) status: ClusterStatus,
    /// When the current CREATING or DELETING ends.
    pub(crate) due: Option<Timestamp>,
    /// State of the API behind its endpoint.
    #[serde(default)]
    pub(crate) api: ClusterApi,
    /// Administrator in `CONFIG_MAP` mode, where no access entry records the creator.
    #[serde(default)]
    pub(crate) creator: Option<String>,
    /// Until then an ACTIVE cluster still rejects Fargate mutations.
    pub(crate) settled_at: Timestamp,
    pub(crate) version: String,
    pub(crate) role_arn: String,
    pub(crate) vpc: VpcConfig,
    pub(crate) network: Value,
    pub(crate) logging: BTreeSet<String>,
    pub(crate) auth_mode: AuthMode,
    pub(crate) encryption: Vec<Value>,
    pub(crate) upgrade_policy: String,
    pub(crate) zonal_shift: bool,
    pub(crate) deletion_protection: bool,
    pub(crate) remote_network: Option<Value>,
    pub(crate) compute: Option<Value>,
    pub(crate) storage: Option<Value>,
    pub(crate) tags: Tags,
    pub(crate) issues: Vec<HealthIssue>,
    pub(crate) profiles: BTreeMap<String, FargateProfile>,
    pub(crate) addons: BTreeMap<String, Addon>,
    pub(crate) access_entries: BTreeMap<String, AccessEntry>,
    pub(crate) associations: BTreeMap<String, PodIdentityAssociation>,
    pub(crate) identity_providers: BTreeMap<String, IdentityProvider>,
    pub(crate) updates: Vec<Update>,
    /// Injected: the next update of the cluster ends as Failed with these errors.
    #[serde(default)]
    pub(crate) fail_next_update: Option<Vec<UpdateError>>,
}

/// State of the API behind a cluster's endpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ClusterApi {
    /// No host is configured.
    #[default]
    Unhosted,
    /// The host is starting it. Until then the cluster stays CREATING.
    Awaited {
        /// The endpoint before a restart.
        before: Option<String>,
    },
    At {
        endpoint: String,
        /// Base64 of a PEM.
        certificate_authority: String,
    },
    /// The host failed to start it.
    Failed,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct VpcConfig {
    pub(crate) vpc_id: String,
    pub(crate) subnet_ids: Vec<String>,
    pub(crate) security_group_ids: Vec<String>,
    pub(crate) cluster_security_group_id: Option<String>,
    pub(crate) public_access: bool,
    pub(crate) private_access: bool,
    pub(crate) public_cidrs: Vec<String>,
}

/// In upgrade order: a cluster only moves to a later mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(crate) enum AuthMode {
    ConfigMap,
    ApiAndConfigMap,
    Api,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(crate) enum ProfileStatus {
    Creating,
    Active,
    Deleting,
    CreateFailed,
    DeleteFailed,
}

impl ProfileStatus {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Creating => "CREATING",
            Self::Active => "ACTIVE",
            Self::Deleting => "DELETING",
            Self::CreateFailed => "CREATE_FAILED",
            Self::DeleteFailed => "DELETE_FAILED",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FargateSelector {
    pub(crate) namespace: Option<String>,
    #[serde(default)]
    pub(crate) labels: Tags,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct FargateProfile {
    pub(crate) name: String,
    pub(crate) arn: String,
    pub(crate) token: Option<String>,
    pub(crate) created_at: Timestamp,
    pub(crate) role_arn: String,
    pub(crate) subnets: Vec<String>,
    pub(crate) selectors: Vec<FargateSelector>,
    pub(crate) status: ProfileStatus,
    pub(crate) due: Option<Timestamp>,
    /// Outcome that replaces the success of the current CREATING or DELETING.
    pub(crate) planned: Option<PlannedOutcome>,
    pub(crate) issues: Vec<HealthIssue>,
    pub(crate) tags: Tags,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum AddonStatus {
    Creating,
    Active,
    Updating,
    Deleting,
    Degraded,
}

impl AddonStatus {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Creating => "CREATING",
            Self::Active => "ACTIVE",
            Self::Updating => "UPDATING",
            Self::Deleting => "DELETING",
            Self::Degraded => "DEGRADED",
        }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Addon {
    pub(crate) name: String,
    pub(crate) arn: String,
    pub(crate) token: Option<String>,
    pub(crate) created_at: Timestamp,
    pub(crate) modified_at: Timestamp,
    pub(crate) status: AddonStatus,
    pub(crate) due: Option<Timestamp>,
    pub(crate) version: String,
    pub(crate) role_arn: Option<String>,
    pub(crate) configuration: Option<String>,
    pub(crate) associations: Vec<String>,
    pub(crate) issues: Vec<HealthIssue>,
    pub(crate) tags: Tags,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct AccessEntry {
    pub(crate) principal: String,
    pub(crate) arn: String,
    pub(crate) token: Option<String>,
    pub(crate) created_at: Timestamp,
    pub(crate) modified_at: Timestamp,
    pub(crate) kind: String,
    pub(crate) username: String,
    pub(crate) groups: Vec<String>,
    pub(crate) policies: BTreeMap<String, PolicyGrant>,
    /// Created by EKS for a pod execution role; deleted with the last profile of that role.
    pub(crate) managed: bool,
    pub(crate) tags: Tags,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct PolicyGrant {
    pub(crate) scope: Value,
    pub(crate) associated_at: Timestamp,
    pub(crate) modified_at: Timestamp,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct PodIdentityAssociation {
    pub(crate) id: String,
    pub(crate) arn: String,
    pub(crate) token: Option<String>,
    pub(crate) created_at: Timestamp,
    pub(crate) modified_at: Timestamp,
    pub(crate) namespace: String,
    pub(crate) service_account: String,
    pub(crate) role_arn: String,
    pub(crate) target_role_arn: Option<String>,
    pub(crate) disable_session_tags: bool,
    /// ARN of the owning addon.
    pub(crate) owner: Option<String>,
    pub(crate) tags: Tags,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct IdentityProvider {
    pub(crate) name: String,
    pub(crate) arn: String,
    pub(crate) status: String,
    pub(crate) config: Value,
    pub(crate) tags: Tags,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Update {
    pub(crate) id: String,
    pub(crate) token: Option<String>,
    pub(crate) kind: String,
    pub(crate) params: Vec<(String, String)>,
    pub(crate) created_at: Timestamp,
    /// None once the update has ended.
    pub(crate) due: Option<Timestamp>,
    pub(crate) change: UpdateChange,
    /// Errors of a failed update; its change is not applied.
    #[serde(default)]
    pub(crate) errors: Vec<UpdateError>,
}

/// Error of a failed update, as `DescribeUpdate` returns it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct UpdateError {
    pub(crate) error_code: String,
    pub(crate) error_message: String,
    #[serde(default)]
    pub(crate) resource_ids: Vec<String>,
}

/// The change that an update applies to its cluster when it ends.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum UpdateChange {
    Version(String),
    Endpoint {
        public: bool,
        private: bool,
        cidrs: Vec<String>,
    },
    Subnets {
        subnets: Vec<String>,
        security_groups: Vec<String>,
    },
    Logging(BTreeSet<String>),
    AuthMode(AuthMode),
    UpgradePolicy(String),
    ZonalShift(bool),
    AutoMode {
        compute: Option<Value>,
        storage: Option<Value>,
        network: Option<Value>,
    },
    RemoteNetwork(Value),
    DeletionProtection(bool),
    Encryption(Vec<Value>),
    IdentityProviderActive(String),
    IdentityProviderGone(String),
    /// Changes an addon, not the cluster.
    Addon(String),
}

impl Cluster {
    /// Any update in progress. Addon updates leave the cluster ACTIVE and still block Fargate mutations.
    pub(crate) fn update_in_progress(&self) -> Option<&Update> {
        self.updates.iter().find(|update| update.due.is_some())
    }

    /// The update that makes the cluster UPDATING, if any.
    pub(crate) fn cluster_update(&self) -> Option<&Update> {
        self.updates
            .iter()
            .find(|update| update.due.is_some() && !matches!(update.change, UpdateChange::Addon(_)))
    }

    pub(crate) fn status_name(&self) -> &'static str {
        match self.status {
            ClusterStatus::Creating => "CREATING",
            ClusterStatus::Deleting => "DELETING",
            ClusterStatus::Failed => "FAILED",
            ClusterStatus::Active if self.cluster_update().is_some() => "UPDATING",
            ClusterStatus::Active => "ACTIVE",
        }
    }
}
