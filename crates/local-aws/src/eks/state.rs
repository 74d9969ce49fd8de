//! What EKS remembers. Plain data: the rules that change it live beside their operations, time moves it in
//! [`super::settle`].

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) type Tags = BTreeMap<String, String>;

/// Everything, by region.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct State {
    pub(crate) regions: BTreeMap<String, BTreeMap<String, Cluster>>,
    /// Ends that were ordered for the next create or delete of a profile.
    #[serde(default)]
    pub(crate) planned: Vec<Planned>,
}

/// 'The next create of profile P of cluster C ends in `CREATE_FAILED` with these issues.'
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Planned {
    pub(crate) cluster: String,
    pub(crate) profile: String,
    pub(crate) end: ProfileStatus,
    pub(crate) issues: Vec<Issue>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum ClusterStatus {
    Creating,
    Active,
    Deleting,
    /// No API could be started for it.
    Failed,
}

/// A health issue of a cluster, profile or addon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Issue {
    pub(crate) code: String,
    pub(crate) message: String,
    #[serde(default)]
    pub(crate) resource_ids: Vec<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Cluster {
    pub(crate) name: String,
    /// 32 hexadecimal digits: names the endpoint and the OIDC issuer.
    pub(crate) id: String,
    pub(crate) arn: String,
    pub(crate) token: Option<String>,
    pub(crate) created_at: Timestamp,
    pub(crate) status: ClusterStatus,
    /// When the present CREATING or DELETING is over.
    pub(crate) due: Option<Timestamp>,
    /// What answers at its endpoint.
    #[serde(default)]
    pub(crate) api: Api,
    /// Its administrator, if no access entry says so: a creator in the mode that knows no entries.
    #[serde(default)]
    pub(crate) creator: Option<String>,
    /// Until then an ACTIVE cluster still refuses Fargate mutations.
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
    pub(crate) issues: Vec<Issue>,
    pub(crate) profiles: BTreeMap<String, Profile>,
    pub(crate) addons: BTreeMap<String, Addon>,
    pub(crate) access_entries: BTreeMap<String, AccessEntry>,
    pub(crate) associations: BTreeMap<String, Association>,
    pub(crate) identity_providers: BTreeMap<String, IdentityProvider>,
    pub(crate) updates: Vec<Update>,
    /// Ordered: the next update of the cluster ends as Failed with these errors.
    #[serde(default)]
    pub(crate) fail_next_update: Option<Vec<UpdateError>>,
}

/// What answers at the endpoint of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Api {
    /// Nothing: there is no host.
    #[default]
    Unhosted,
    /// The host is at it. Until it is done the cluster stays CREATING.
    Awaited {
        /// The endpoint before a restart.
        before: Option<String>,
    },
    At {
        endpoint: String,
        /// Base64 of a PEM.
        certificate_authority: String,
    },
    /// The host could not.
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

/// Ordered: a cluster only ever moves to a later one.
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
pub(crate) struct Selector {
    pub(crate) namespace: Option<String>,
    #[serde(default)]
    pub(crate) labels: Tags,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Profile {
    pub(crate) name: String,
    pub(crate) arn: String,
    pub(crate) token: Option<String>,
    pub(crate) created_at: Timestamp,
    pub(crate) role_arn: String,
    pub(crate) subnets: Vec<String>,
    pub(crate) selectors: Vec<Selector>,
    pub(crate) status: ProfileStatus,
    pub(crate) due: Option<Timestamp>,
    /// How the present CREATING or DELETING ends if not well.
    pub(crate) planned: Option<Planned>,
    pub(crate) issues: Vec<Issue>,
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
    pub(crate) issues: Vec<Issue>,
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
    /// EKS made it for a pod execution role, and takes it away with the last profile of that role.
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
pub(crate) struct Association {
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
    /// ARN of the addon that owns it.
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
    /// None once it is over.
    pub(crate) due: Option<Timestamp>,
    pub(crate) change: Change,
    /// Why it fails, or has failed; the change is then not made.
    #[serde(default)]
    pub(crate) errors: Vec<UpdateError>,
}

/// Why an update failed, as `DescribeUpdate` shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct UpdateError {
    pub(crate) error_code: String,
    pub(crate) error_message: String,
    #[serde(default)]
    pub(crate) resource_ids: Vec<String>,
}

/// What an update does to its cluster when it is over.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Change {
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
    /// Moves an addon, not the cluster.
    Addon(String),
}

impl Cluster {
    /// The update that holds the cluster, if any. Addon updates leave its status ACTIVE, and still exclude
    /// Fargate mutations.
    pub(crate) fn update_in_progress(&self) -> Option<&Update> {
        self.updates.iter().find(|update| update.due.is_some())
    }

    /// The update that makes the cluster UPDATING, if any.
    pub(crate) fn cluster_update(&self) -> Option<&Update> {
        self.updates.iter().find(|update| update.due.is_some() && !matches!(update.change, Change::Addon(_)))
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
