//! The custom resources: fields, schemas, CEL rules, condition types and reasons.
//!
//! Data only: no client, clock, I/O or decisions. Validation is in [`capt_model::model`]. The kinds are `CAPTCluster` etc. in
//! objects, and `CaptCluster` etc. in Rust. Doc comments become the descriptions in the CRDs.
//!
//! Rules about a single object are in the schema or in CEL, and the validator in `model` gives the same result without an API
//! server. Fields of upstream's CRDs get no stricter rules than upstream, because every object that upstream admits must be
//! admitted; such rules only reject *changing* a value to an invalid one, and the validator reports the rest.

#![expect(
    unreachable_pub,
    reason = "KubeSchema copies every struct, with its visibility, into a function body"
)]
#![allow(dead_code, reason = "the fields of those copies are never read; `expect` does not see them")]
#![expect(clippy::duplicated_attributes, reason = "two printer columns of one type are not a duplicate")]

mod absent_spec;
mod cluster;
mod cluster_template;
mod common;
pub mod conditions;
mod control_plane;
mod control_plane_config;
mod control_plane_status;
mod control_plane_template;
mod crd;
mod fargate;
mod identity;
pub mod names;
pub mod schema;
mod workspace_apply;
mod workspace_apply_status;
mod workspace_template;

pub use cluster::{
    CaptCluster, CaptClusterSpec, CaptClusterStatus, ClusterInitialization, FailureDomain, FlowLogs,
    NatGateways, VpcConfig, VpcWorkspaceStatus,
};
pub use cluster_template::{CaptClusterTemplate, CaptClusterTemplateResource, CaptClusterTemplateSpec};
pub use common::{
    ApiEndpoint, ContractEndpoint, IdentityRef, KeyRef, Phase, SecretRef, TemplateMeta, TemplateRef,
    WorkspaceRef,
};
pub use control_plane::{CaptControlPlane, CaptControlPlaneSpec};
pub use control_plane_config::{
    AccessEntry, AccessEntryType, AccessPolicy, AccessScope, AccessScopeType, Addon, ControlPlaneConfig,
    Encryption, EndpointAccess, LogType, Logging, Sandboxes, Timeouts, UpgradePolicy,
};
pub use control_plane_status::{
    CaptControlPlaneStatus, ControlPlaneInitialization, StatusVersion, WorkspaceStatus,
    WorkspaceTemplateStatus,
};
pub use control_plane_template::{
    CaptControlPlaneTemplate, CaptControlPlaneTemplateResource, CaptControlPlaneTemplateSpec,
};
pub use crd::{CrdYamlError, cluster_crds, crd_file_name, crd_yaml, crds};
pub use fargate::{FargateProfile, FargateProfileStatus, FargateSelector, HealthIssue};
pub use identity::{
    AllowedNamespaces, AssumeRole, CaptIdentity, CaptIdentitySpec, CaptIdentityStatus, CredentialFile,
    IdentitySource, WebIdentity,
};
pub use workspace_apply::{
    BuiltInModule, InputFormat, InputFrom, WorkspaceTemplateApply, WorkspaceTemplateApplySpec,
};
pub use workspace_apply_status::{
    FailureClass, LastError, PlanApproval, PlanStatus, Progress, RunOperation, RunPhase, RunRecord,
    RunStatus, WorkspaceTemplateApplyStatus,
};
pub use workspace_template::{
    DeletionPolicy, EnvVar, FileFormat, ManagementPolicy, ModuleSource, ProviderConfigRef,
    PublishConnectionDetailsTo, PublishMeta, ReferencePolicy, Resolution, Resolve, Var, VarFile,
    VarFileSource, WorkspaceParameters, WorkspaceSpec, WorkspaceTemplate, WorkspaceTemplateDefinition,
    WorkspaceTemplateMeta, WorkspaceTemplateObjectStatus, WorkspaceTemplateSpec,
};

#[cfg(test)]
mod tests;
