//! Settings of an EKS cluster: endpoint, access, encryption, logs, addons.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{cluster::thirty_days, schema};

/// Support for Sandboxes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Sandboxes {
    /// Creates the Fargate profile `sandboxes` for the pods of forks and routers in every namespace. Creating a profile takes
    /// minutes, so one is created with the cluster for all Sandboxes.
    #[serde(default)]
    pub enabled: bool,
}

/// Variables of the EKS cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(oldSelf.serviceIpv4Cidr) || (has(self.serviceIpv4Cidr) && self.serviceIpv4Cidr == oldSelf.serviceIpv4Cidr)")
        .message("serviceIpv4Cidr cannot be changed: EKS would make a new cluster").field_path(".serviceIpv4Cidr"),
    validation = Rule::new("self.bootstrapClusterCreatorAdmin == oldSelf.bootstrapClusterCreatorAdmin")
        .message("bootstrapClusterCreatorAdmin cannot be changed: EKS would make a new cluster").field_path(".bootstrapClusterCreatorAdmin"),
    validation = Rule::new("(has(oldSelf.encryption) && !oldSelf.encryption.enabled) || !has(self.encryption) || self.encryption.enabled")
        .message("encryption cannot be switched off once it is on").field_path(".encryption"),
    validation = Rule::new("(has(oldSelf.encryption) && !oldSelf.encryption.enabled) || (has(oldSelf.encryption) && has(oldSelf.encryption.kmsKeyArn) ? has(self.encryption) && has(self.encryption.kmsKeyArn) && self.encryption.kmsKeyArn == oldSelf.encryption.kmsKeyArn : !has(self.encryption) || !has(self.encryption.kmsKeyArn))")
        .message("the key of a cluster cannot be changed").field_path(".encryption"),
)]
pub struct ControlPlaneConfig {
    /// The AWS region; defaults to that of the `CAPTCluster`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = schema::REGION))]
    pub region: Option<String>,
    /// Network access to the Kubernetes API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint_access: Option<EndpointAccess>,
    /// EKS addons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub addons: Vec<Addon>,
    /// Minutes after which an unfinished run is reported. The run continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeouts: Option<Timeouts>,
    /// IAM principals that may use the Kubernetes API.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["principalArn".into()]))]
    pub access_entries: Vec<AccessEntry>,
    /// Whether the identity that creates the cluster becomes its administrator.
    #[serde(default = "yes")]
    pub bootstrap_cluster_creator_admin: bool,
    /// Envelope encryption of Secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encryption: Option<Encryption>,
    /// Control plane logging.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logging: Option<Logging>,
    /// Upgrade policy at the end of standard support.
    #[serde(default)]
    pub upgrade_policy: UpgradePolicy,
    /// IPv4 CIDR of Services, /12 to /24 inside a private range; chosen by EKS if omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 18))]
    #[x_kube(validation = Rule::new("isCIDR(self) && cidr(self).ip().family() == 4 && cidr(self).prefixLength() >= 12 && cidr(self).prefixLength() <= 24 && cidr(self) == cidr(self).masked() && (cidr('10.0.0.0/8').containsCIDR(self) || cidr('172.16.0.0/12').containsCIDR(self) || cidr('192.168.0.0/16').containsCIDR(self))")
        .message("must be an IPv4 network from /12 to /24 inside 10.0.0.0/8, 172.16.0.0/12 or 192.168.0.0/16"))]
    pub service_ipv4_cidr: Option<String>,
    /// Pod execution role of Fargate profiles; created with the cluster if omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048), regex(pattern = schema::POD_ROLE_ARN))]
    pub pod_execution_role_arn: Option<String>,
    /// Whether to create the system profile for cluster DNS.
    #[serde(default = "yes")]
    pub system_fargate_profile: bool,
}

impl Default for ControlPlaneConfig {
    fn default() -> Self {
        Self {
            region: None,
            endpoint_access: None,
            addons: Vec::new(),
            timeouts: None,
            access_entries: Vec::new(),
            bootstrap_cluster_creator_admin: true,
            encryption: None,
            logging: None,
            upgrade_policy: UpgradePolicy::default(),
            service_ipv4_cidr: None,
            pod_execution_role_arn: None,
            system_fargate_profile: true,
        }
    }
}

fn yes() -> bool {
    true
}

/// Network access to the Kubernetes API.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EndpointAccess {
    /// Reachable from the internet; defaults to true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public: Option<bool>,
    /// Reachable from the VPC; defaults to true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub private: Option<bool>,
    /// CIDRs that may access the public endpoint; all if omitted.
    #[serde(default, rename = "publicCIDRs", skip_serializing_if = "Vec::is_empty")]
    pub public_cidrs: Vec<String>,
}

/// An EKS addon.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Addon {
    /// Name of the addon.
    pub name: String,
    /// Version of the addon; the EKS default at creation if omitted, not upgraded afterwards.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Configuration values of the addon, as JSON text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub configuration_values: Option<String>,
    /// IAM role of the addon's service account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048), regex(pattern = schema::ROLE_ARN))]
    pub service_account_role_arn: Option<String>,
}

/// Minutes after which an unfinished run is reported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Timeouts {
    /// For the EKS cluster.
    #[serde(default = "control_plane_timeout")]
    #[schemars(range(min = 1))]
    pub control_plane_timeout: i64,
    /// For the VPC.
    #[serde(default = "vpc_ready_timeout")]
    #[schemars(range(min = 1))]
    pub vpc_ready_timeout: i64,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { control_plane_timeout: control_plane_timeout(), vpc_ready_timeout: vpc_ready_timeout() }
    }
}

fn control_plane_timeout() -> i64 {
    30
}

fn vpc_ready_timeout() -> i64 {
    15
}

/// An IAM principal that may use the Kubernetes API.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("self.type == 'STANDARD' || ((!has(self.kubernetesGroups) || size(self.kubernetesGroups) == 0) && (!has(self.policies) || size(self.policies) == 0))")
        .message("kubernetesGroups and policies are for entries of type STANDARD; remove them or the type"),
    validation = Rule::new("!has(self.kubernetesGroups) || self.kubernetesGroups.all(group, !group.startsWith('system:') && !group.startsWith('eks:') && !group.startsWith('aws:') && !group.startsWith('amazon:') && !group.startsWith('iam:'))")
        .message("a group must not start with system:, eks:, aws:, amazon: or iam:; EKS refuses those").field_path(".kubernetesGroups"),
)]
pub struct AccessEntry {
    /// ARN of the IAM role or user.
    #[schemars(length(max = 2048), regex(pattern = schema::PRINCIPAL_ARN))]
    pub principal_arn: String,
    /// Type of the entry.
    #[serde(default, rename = "type")]
    pub entry_type: AccessEntryType,
    /// Kubernetes groups of the principal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 50), inner(length(min = 1, max = 253)))]
    pub kubernetes_groups: Vec<String>,
    /// EKS access policies of the principal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 20))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["policyArn".into()]))]
    pub policies: Vec<AccessPolicy>,
}

/// Type of an access entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum AccessEntryType {
    /// A user or an application.
    #[default]
    Standard,
    /// The role of Linux nodes.
    #[serde(rename = "EC2_LINUX")]
    Ec2Linux,
    /// The role of Windows nodes.
    #[serde(rename = "EC2_WINDOWS")]
    Ec2Windows,
    /// A pod execution role of Fargate.
    FargateLinux,
}

/// An EKS access policy and its scope.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AccessPolicy {
    /// ARN of the policy.
    #[schemars(length(max = 2048), regex(pattern = schema::ACCESS_POLICY_ARN))]
    pub policy_arn: String,
    /// Scope of the policy; defaults to the whole cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<AccessScope>,
}

/// Scope of an access policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self.type == 'namespace' ? (has(self.namespaces) && size(self.namespaces) > 0) : (!has(self.namespaces) || size(self.namespaces) == 0)")
    .message("a scope of type namespace names at least one namespace; one of type cluster names none"))]
pub struct AccessScope {
    /// The whole cluster, or some namespaces.
    #[serde(default, rename = "type")]
    pub scope_type: AccessScopeType,
    /// The namespaces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), inner(length(min = 1, max = 63)))]
    pub namespaces: Vec<String>,
}

/// Type of an access policy's scope.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum AccessScopeType {
    /// The whole cluster.
    #[default]
    Cluster,
    /// Some namespaces.
    Namespace,
}

/// Envelope encryption of Secrets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("self.enabled || !has(self.kmsKeyArn)")
    .message("kmsKeyArn has no effect while encryption is off; remove it or enable encryption").field_path(".kmsKeyArn"))]
pub struct Encryption {
    /// Whether Secrets are encrypted with a KMS key.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// ARN of the KMS key; created with the cluster if omitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048), regex(pattern = schema::KEY_ARN))]
    pub kms_key_arn: Option<String>,
}

impl Default for Encryption {
    fn default() -> Self {
        Self { enabled: true, kms_key_arn: None }
    }
}

/// Control plane logging.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct Logging {
    /// Log types.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 5))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub types: Vec<LogType>,
    /// Retention in days.
    #[serde(default = "thirty_days")]
    #[schemars(schema_with = "schema::retention_days")]
    pub retention_days: i32,
}

impl Default for Logging {
    fn default() -> Self {
        Self { types: Vec::new(), retention_days: thirty_days() }
    }
}

/// A control plane log type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum LogType {
    /// API server log.
    Api,
    /// Audit log.
    Audit,
    /// IAM authenticator log.
    Authenticator,
    /// Controller manager log.
    ControllerManager,
    /// Scheduler log.
    Scheduler,
}

/// Upgrade policy at the end of standard support.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum UpgradePolicy {
    /// EKS upgrades the cluster.
    Standard,
    /// The version stays in paid extended support. The AWS default.
    #[default]
    Extended,
}
