//! Condition types and reasons. Every condition is built from these.

/// Types of conditions.
pub mod types {
    /// The object is ready.
    pub const READY: &str = "Ready";
    /// The control plane is usable, also during changes.
    pub const AVAILABLE: &str = "Available";
    /// Reconciliation is paused.
    pub const PAUSED: &str = "Paused";
    /// The object is being deleted.
    pub const DELETING: &str = "Deleting";
    /// The control plane is being changed.
    pub const ROLLING_OUT: &str = "RollingOut";

    /// The VPC exists.
    pub const VPC_READY: &str = "VPCReady";
    /// The VPC could not be created.
    pub const VPC_FAILED: &str = "VPCFailed";

    /// A Cluster's network is ready.
    pub const INFRASTRUCTURE_READY: &str = "InfrastructureReady";
    /// A Cluster's control plane is usable.
    pub const CONTROL_PLANE_AVAILABLE: &str = "ControlPlaneAvailable";
    /// A Cluster's control plane has been reachable once.
    pub const CONTROL_PLANE_INITIALIZED: &str = "ControlPlaneInitialized";

    /// The control plane has been reachable once.
    pub const INITIALIZED: &str = "Initialized";
    /// The control plane is being created.
    pub const CREATING: &str = "Creating";
    /// The control plane could not be created.
    pub const FAILED: &str = "Failed";
    /// The EKS cluster is ACTIVE and healthy.
    pub const EKS_CLUSTER_READY: &str = "EKSClusterReady";
    /// The kubeconfig Secret is current.
    pub const KUBECONFIG_READY: &str = "KubeconfigReady";
    /// All addons are ACTIVE.
    pub const ADDONS_READY: &str = "AddonsReady";
    /// All Fargate profiles are ACTIVE and healthy.
    pub const FARGATE_PROFILES_READY: &str = "FargateProfilesReady";
    /// Upstream's condition for an ACTIVE Fargate profile.
    pub const FARGATE_PROFILE_READY: &str = "FargateProfileReady";
    /// A Fargate profile is being created.
    pub const FARGATE_PROFILE_CREATING: &str = "FargateProfileCreating";
    /// A Fargate profile could not be created.
    pub const FARGATE_PROFILE_FAILED: &str = "FargateProfileFailed";

    /// The last run succeeded.
    pub const SYNCED: &str = "Synced";
    /// A plan exists.
    pub const PLANNED: &str = "Planned";
    /// The resources differ from the state.
    pub const DRIFTED: &str = "Drifted";
    /// The plan would destroy protected resources and is not approved.
    pub const DESTRUCTIVE_CHANGE_BLOCKED: &str = "DestructiveChangeBlocked";
    /// The template renders and validates.
    pub const VALID: &str = "Valid";
}

/// Reasons of conditions.
pub mod reasons {
    /// All desired resources exist.
    pub const READY: &str = "Ready";
    /// Reconciliation is paused.
    pub const PAUSED: &str = "Paused";
    /// Reconciliation is not paused.
    pub const NOT_PAUSED: &str = "NotPaused";
    /// The object is being deleted.
    pub const DELETING: &str = "Deleting";
    /// The object is not being deleted.
    pub const NOT_DELETING: &str = "NotDeleting";
    /// Control planes are deleted first.
    pub const WAITING_FOR_CONTROL_PLANE_DELETION: &str = "WaitingForControlPlaneDeletion";
    /// The infrastructure is deleted first.
    pub const WAITING_FOR_INFRASTRUCTURE_DELETION: &str = "WaitingForInfrastructureDeletion";
    /// Workspaces are deleted first.
    pub const WAITING_FOR_WORKSPACE_DELETION: &str = "WaitingForWorkspaceDeletion";
    /// The deletion is complete.
    pub const DELETION_COMPLETED: &str = "DeletionCompleted";
    /// No Cluster owns the object yet.
    pub const WAITING_FOR_OWNER: &str = "WaitingForOwner";
    /// The spec is invalid.
    pub const INVALID_SPEC: &str = "InvalidSpec";
    /// The identity is missing or not allowed in this namespace.
    pub const IDENTITY_NOT_ALLOWED: &str = "IdentityNotAllowed";
    /// No identity is named, and the operator's own must not be used.
    pub const IDENTITY_REQUIRED: &str = "IdentityRequired";
    /// A destroy waits for its identity.
    pub const WAITING_FOR_IDENTITY: &str = "WaitingForIdentity";

    /// An existing VPC is used.
    pub const EXISTING_VPC_USED: &str = "ExistingVPCUsed";
    /// The VPC was created.
    pub const VPC_CREATED: &str = "VPCCreated";
    /// The VPC is being created.
    pub const VPC_CREATING: &str = "VPCCreating";
    /// The VPC could not be created.
    pub const VPC_CREATION_FAILED: &str = "VPCCreationFailed";
    /// The VPC configuration is invalid.
    pub const INVALID_VPC_CONFIG: &str = "InvalidVPCConfig";
    /// Reconciling the VPC failed.
    pub const VPC_RECONCILIATION_FAILED: &str = "VPCReconciliationFailed";
    /// The VPC is not ready within the timeout of the spec.
    pub const VPC_READY_TIMEOUT: &str = "VPCReadyTimeout";

    /// Not all desired resources exist.
    pub const NOT_READY: &str = "NotReady";
    /// Not usable.
    pub const NOT_AVAILABLE: &str = "NotAvailable";
    /// The control plane has been reachable once.
    pub const INITIALIZED: &str = "Initialized";
    /// The control plane has not been reachable yet.
    pub const NOT_INITIALIZED: &str = "NotInitialized";
    /// A referenced object does not exist.
    pub const OBJECT_DOES_NOT_EXIST: &str = "ObjectDoesNotExist";
    /// A referenced object was deleted.
    pub const OBJECT_DELETED: &str = "ObjectDeleted";
    /// A referenced object has an invalid condition.
    pub const INVALID_CONDITION_REPORTED: &str = "InvalidConditionReported";
    /// An internal error.
    pub const INTERNAL_ERROR: &str = "InternalError";

    /// The control plane is being created.
    pub const CREATING: &str = "Creating";
    /// The control plane waits for the VPC.
    pub const WAITING_FOR_VPC: &str = "WaitingForVPC";
    /// The control plane is not ready within the timeout of the spec.
    pub const CONTROL_PLANE_TIMEOUT: &str = "ControlPlaneTimeout";
    /// The workspace failed.
    pub const WORKSPACE_ERROR: &str = "WorkspaceError";
    /// The workspace is not ready yet.
    pub const WORKSPACE_NOT_READY: &str = "WorkspaceNotReady";
    /// The template does not exist.
    pub const WORKSPACE_TEMPLATE_NOT_FOUND: &str = "WorkspaceTemplateNotFound";
    /// The endpoint is not known yet.
    pub const ENDPOINT_NOT_READY: &str = "EndpointNotReady";
    /// The endpoint could not be written.
    pub const ENDPOINT_UPDATE_FAILED: &str = "EndpointUpdateFailed";
    /// Another control plane has the EKS cluster of this account, region and name.
    pub const NAME_TAKEN: &str = "NameTaken";
    /// The EKS cluster is not proven to belong to this control plane.
    pub const EKS_CLUSTER_NOT_OWNED: &str = "EKSClusterNotOwned";
    /// The kubeconfig could not be generated.
    pub const KUBECONFIG_GENERATION_FAILED: &str = "KubeconfigGenerationFailed";
    /// A Secret could not be written.
    pub const SECRET_RECONCILIATION_FAILED: &str = "SecretReconciliationFailed";
    /// A profile cannot be rotated because the cluster has no free slot.
    pub const ROTATION_NEEDS_SLOT: &str = "RotationNeedsSlot";

    /// A later change is being applied.
    pub const UPDATING: &str = "Updating";
    /// Not failed.
    pub const NOT_FAILED: &str = "NotFailed";
    /// The control plane was created.
    pub const CREATED: &str = "Created";
    /// The API server is not reachable yet.
    pub const API_SERVER_NOT_REACHABLE: &str = "APIServerNotReachable";
    /// Nothing is being changed.
    pub const NOT_ROLLING_OUT: &str = "NotRollingOut";
    /// The version is raised, one minor version at a time.
    pub const UPGRADING: &str = "Upgrading";
    /// EKS does not support downgrades.
    pub const DOWNGRADE_REFUSED: &str = "DowngradeRefused";
    /// The EKS state is unknown, because EKS calls fail.
    pub const EKS_UNKNOWN: &str = "EKSUnknown";
    /// EKS reports health issues.
    pub const EKS_UNHEALTHY: &str = "EKSUnhealthy";
    /// Terraform created it, but EKS does not find it.
    pub const EKS_NOT_FOUND: &str = "EKSNotFound";
    /// An addon is not ACTIVE.
    pub const ADDON_NOT_READY: &str = "AddonNotReady";
    /// All Fargate profiles are ACTIVE and healthy.
    pub const FARGATE_PROFILE_READY: &str = "FargateProfileReady";
    /// A Fargate profile is being created.
    pub const FARGATE_PROFILE_CREATING: &str = "FargateProfileCreating";
    /// A Fargate profile could not be created, or is unhealthy.
    pub const FARGATE_PROFILE_FAILED: &str = "FargateProfileFailed";
    /// A Fargate profile is being removed.
    pub const FARGATE_PROFILE_REMOVING: &str = "FargateProfileRemoving";
    /// The spec lists no Fargate profiles.
    pub const NO_FARGATE_PROFILES: &str = "NoFargateProfiles";
    /// Sandboxes in the cluster are deleted first.
    pub const WAITING_FOR_SANDBOXES_DELETION: &str = "WaitingForSandboxesDeletion";
    /// Load balancers of sandbox routers are deleted before the network.
    pub const WAITING_FOR_LOAD_BALANCERS_DELETION: &str = "WaitingForLoadBalancersDeletion";
    /// The workspaces of the Fargate profiles are destroyed first.
    pub const WAITING_FOR_FARGATE_PROFILES_DELETION: &str = "WaitingForFargateProfilesDeletion";
    /// The workspace of the EKS cluster is being destroyed.
    pub const WAITING_FOR_EKS_CLUSTER_DELETION: &str = "WaitingForEKSClusterDeletion";
    /// The Secrets of the cluster are deleted last.
    pub const WAITING_FOR_SECRETS_DELETION: &str = "WaitingForSecretsDeletion";

    /// The last run succeeded.
    pub const RECONCILE_SUCCESS: &str = "ReconcileSuccess";
    /// The last run failed.
    pub const RECONCILE_ERROR: &str = "ReconcileError";
    /// Runs are paused.
    pub const RECONCILE_PAUSED: &str = "ReconcilePaused";
    /// The resources exist.
    pub const AVAILABLE: &str = "Available";
    /// The resources do not exist, or not all.
    pub const UNAVAILABLE: &str = "Unavailable";
    /// A required Secret does not exist yet.
    pub const WAITING_FOR_SECRETS: &str = "WaitingForSecrets";
    /// A required workspace is not ready.
    pub const WAITING_FOR_WORKSPACE: &str = "WaitingForWorkspace";
    /// The plan needs an approval.
    pub const APPROVAL_REQUIRED: &str = "ApprovalRequired";
    /// No plan needs an approval.
    pub const NOTHING_TO_APPROVE: &str = "NothingToApprove";
    /// All inputs are known.
    pub const PLANNED: &str = "Planned";
    /// A run is in progress or queued.
    pub const RUNNING: &str = "Running";
    /// EKS is executing another change of the cluster.
    pub const WAITING_FOR_EKS: &str = "WaitingForEKSMutation";
    /// The resources match the state.
    pub const IN_SYNC: &str = "InSync";
    /// The resources differ from the state.
    pub const DRIFT_DETECTED: &str = "DriftDetected";
    /// Drift detection is off.
    pub const NOT_CHECKED: &str = "NotChecked";
    /// The target of a reference does not exist.
    pub const REFERENCE_NOT_FOUND: &str = "ReferenceNotFound";
    /// The target of a cross-namespace reference does not grant it.
    pub const REFERENCE_NOT_GRANTED: &str = "ReferenceNotGranted";
    /// The namespace may not use the template.
    pub const TEMPLATE_NOT_ALLOWED: &str = "TemplateNotAllowed";
    /// A value from a Secret is missing or invalid.
    pub const INVALID_INPUT: &str = "InvalidInput";
    /// Another workspace depends on this one.
    pub const WAITING_FOR_DEPENDENTS: &str = "WaitingForDependents";
    /// The state is lost, and its resources are unknown.
    pub const STATE_LOST: &str = "StateLost";
    /// The configuration renders and is valid.
    pub const TEMPLATE_VALID: &str = "TemplateValid";
    /// The configuration does not render or is invalid.
    pub const TEMPLATE_INVALID: &str = "TemplateInvalid";
    /// AWS accepts the credentials.
    pub const IDENTITY_VERIFIED: &str = "IdentityVerified";
    /// AWS rejects the credentials.
    pub const IDENTITY_REFUSED: &str = "IdentityRefused";
    /// Other objects still use it.
    pub const IN_USE: &str = "InUse";
}
