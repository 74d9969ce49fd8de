//! Types and reasons of conditions, and nothing else. Every condition is built from these.

/// Types of conditions.
pub mod types {
    /// The object does what it should.
    pub const READY: &str = "Ready";
    /// The control plane can be used, also while it is being changed.
    pub const AVAILABLE: &str = "Available";
    /// The object is left alone.
    pub const PAUSED: &str = "Paused";
    /// The object is being deleted.
    pub const DELETING: &str = "Deleting";
    /// The control plane is being changed.
    pub const ROLLING_OUT: &str = "RollingOut";

    /// The VPC exists.
    pub const VPC_READY: &str = "VPCReady";
    /// The VPC could not be made.
    pub const VPC_FAILED: &str = "VPCFailed";

    /// A Cluster's network is ready.
    pub const INFRASTRUCTURE_READY: &str = "InfrastructureReady";
    /// A Cluster's control plane can be used.
    pub const CONTROL_PLANE_AVAILABLE: &str = "ControlPlaneAvailable";
    /// A Cluster's control plane answered once.
    pub const CONTROL_PLANE_INITIALIZED: &str = "ControlPlaneInitialized";

    /// The control plane answered once.
    pub const INITIALIZED: &str = "Initialized";
    /// The control plane is being made.
    pub const CREATING: &str = "Creating";
    /// The control plane could not be made.
    pub const FAILED: &str = "Failed";
    /// The EKS cluster is ACTIVE and healthy.
    pub const EKS_CLUSTER_READY: &str = "EKSClusterReady";
    /// The kubeconfig Secret is current.
    pub const KUBECONFIG_READY: &str = "KubeconfigReady";
    /// All addons are ACTIVE.
    pub const ADDONS_READY: &str = "AddonsReady";
    /// All Fargate profiles are ACTIVE and healthy.
    pub const FARGATE_PROFILES_READY: &str = "FargateProfilesReady";
    /// Upstream's word for a Fargate profile that is ACTIVE.
    pub const FARGATE_PROFILE_READY: &str = "FargateProfileReady";
    /// A Fargate profile is being made.
    pub const FARGATE_PROFILE_CREATING: &str = "FargateProfileCreating";
    /// A Fargate profile could not be made.
    pub const FARGATE_PROFILE_FAILED: &str = "FargateProfileFailed";

    /// The last run went well.
    pub const SYNCED: &str = "Synced";
    /// There is a plan.
    pub const PLANNED: &str = "Planned";
    /// Reality differs from the state.
    pub const DRIFTED: &str = "Drifted";
    /// The plan would destroy something protected and nobody approved it.
    pub const DESTRUCTIVE_CHANGE_BLOCKED: &str = "DestructiveChangeBlocked";
    /// The template renders and validates.
    pub const VALID: &str = "Valid";
}

/// Reasons of conditions.
pub mod reasons {
    /// Everything asked for exists.
    pub const READY: &str = "Ready";
    /// The object is left alone.
    pub const PAUSED: &str = "Paused";
    /// The object is worked on.
    pub const NOT_PAUSED: &str = "NotPaused";
    /// The object is being deleted.
    pub const DELETING: &str = "Deleting";
    /// The object is not being deleted.
    pub const NOT_DELETING: &str = "NotDeleting";
    /// Control planes have to go first.
    pub const WAITING_FOR_CONTROL_PLANE_DELETION: &str = "WaitingForControlPlaneDeletion";
    /// The infrastructure has to go first.
    pub const WAITING_FOR_INFRASTRUCTURE_DELETION: &str = "WaitingForInfrastructureDeletion";
    /// Workspaces have to go first.
    pub const WAITING_FOR_WORKSPACE_DELETION: &str = "WaitingForWorkspaceDeletion";
    /// Nothing is left.
    pub const DELETION_COMPLETED: &str = "DeletionCompleted";
    /// No Cluster owns the object yet.
    pub const WAITING_FOR_OWNER: &str = "WaitingForOwner";
    /// The spec says something that cannot be.
    pub const INVALID_SPEC: &str = "InvalidSpec";
    /// The identity is missing or may not be used here.
    pub const IDENTITY_NOT_ALLOWED: &str = "IdentityNotAllowed";

    /// The VPC was there before.
    pub const EXISTING_VPC_USED: &str = "ExistingVPCUsed";
    /// The VPC was made.
    pub const VPC_CREATED: &str = "VPCCreated";
    /// The VPC is being made.
    pub const VPC_CREATING: &str = "VPCCreating";
    /// The VPC could not be made.
    pub const VPC_CREATION_FAILED: &str = "VPCCreationFailed";
    /// The spec asks for an impossible VPC.
    pub const INVALID_VPC_CONFIG: &str = "InvalidVPCConfig";
    /// The VPC could not be looked after.
    pub const VPC_RECONCILIATION_FAILED: &str = "VPCReconciliationFailed";
    /// The VPC takes longer than the spec expects.
    pub const VPC_READY_TIMEOUT: &str = "VPCReadyTimeout";

    /// Not everything asked for exists.
    pub const NOT_READY: &str = "NotReady";
    /// It cannot be used.
    pub const NOT_AVAILABLE: &str = "NotAvailable";
    /// The control plane answered once.
    pub const INITIALIZED: &str = "Initialized";
    /// The control plane never answered yet.
    pub const NOT_INITIALIZED: &str = "NotInitialized";
    /// An object that is referred to does not exist.
    pub const OBJECT_DOES_NOT_EXIST: &str = "ObjectDoesNotExist";
    /// An object that is referred to was deleted.
    pub const OBJECT_DELETED: &str = "ObjectDeleted";
    /// An object that is referred to has a condition that makes no sense.
    pub const INVALID_CONDITION_REPORTED: &str = "InvalidConditionReported";
    /// Something is wrong that no object tells.
    pub const INTERNAL_ERROR: &str = "InternalError";

    /// The control plane is being made.
    pub const CREATING: &str = "Creating";
    /// The control plane waits for the VPC.
    pub const WAITING_FOR_VPC: &str = "WaitingForVPC";
    /// The control plane takes longer than the spec expects.
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
    /// The kubeconfig could not be made.
    pub const KUBECONFIG_GENERATION_FAILED: &str = "KubeconfigGenerationFailed";
    /// A Secret could not be written.
    pub const SECRET_RECONCILIATION_FAILED: &str = "SecretReconciliationFailed";
    /// A profile cannot be rotated because the cluster has no free slot.
    pub const ROTATION_NEEDS_SLOT: &str = "RotationNeedsSlot";

    /// A later change is being applied.
    pub const UPDATING: &str = "Updating";
    /// There is no such trouble.
    pub const NOT_FAILED: &str = "NotFailed";
    /// The control plane was made.
    pub const CREATED: &str = "Created";
    /// The API server did not answer yet.
    pub const API_SERVER_NOT_REACHABLE: &str = "APIServerNotReachable";
    /// Nothing is being changed.
    pub const NOT_ROLLING_OUT: &str = "NotRollingOut";
    /// The version is raised, one minor version at a time.
    pub const UPGRADING: &str = "Upgrading";
    /// EKS cannot go back to an older version.
    pub const DOWNGRADE_REFUSED: &str = "DowngradeRefused";
    /// EKS does not answer, so nobody knows.
    pub const EKS_UNKNOWN: &str = "EKSUnknown";
    /// EKS finds something wrong.
    pub const EKS_UNHEALTHY: &str = "EKSUnhealthy";
    /// Terraform made it, and EKS does not know it.
    pub const EKS_NOT_FOUND: &str = "EKSNotFound";
    /// An addon is not ACTIVE.
    pub const ADDON_NOT_READY: &str = "AddonNotReady";
    /// All Fargate profiles are ACTIVE and healthy.
    pub const FARGATE_PROFILE_READY: &str = "FargateProfileReady";
    /// A Fargate profile is being made.
    pub const FARGATE_PROFILE_CREATING: &str = "FargateProfileCreating";
    /// A Fargate profile could not be made, or is not healthy.
    pub const FARGATE_PROFILE_FAILED: &str = "FargateProfileFailed";
    /// A Fargate profile is being removed.
    pub const FARGATE_PROFILE_REMOVING: &str = "FargateProfileRemoving";
    /// The spec names no Fargate profiles.
    pub const NO_FARGATE_PROFILES: &str = "NoFargateProfiles";
    /// Sandboxes have to leave the cluster first.
    pub const WAITING_FOR_SANDBOXES_DELETION: &str = "WaitingForSandboxesDeletion";
    /// What AWS made for the routers of sandboxes goes before the network that it is in.
    pub const WAITING_FOR_LOAD_BALANCERS_DELETION: &str = "WaitingForLoadBalancersDeletion";
    /// The workspaces of the Fargate profiles go first.
    pub const WAITING_FOR_FARGATE_PROFILES_DELETION: &str = "WaitingForFargateProfilesDeletion";
    /// The workspace of the EKS cluster is being destroyed.
    pub const WAITING_FOR_EKS_CLUSTER_DELETION: &str = "WaitingForEKSClusterDeletion";
    /// The Secrets of the cluster go last.
    pub const WAITING_FOR_SECRETS_DELETION: &str = "WaitingForSecretsDeletion";

    /// The last run went well.
    pub const RECONCILE_SUCCESS: &str = "ReconcileSuccess";
    /// The last run failed.
    pub const RECONCILE_ERROR: &str = "ReconcileError";
    /// Runs are paused.
    pub const RECONCILE_PAUSED: &str = "ReconcilePaused";
    /// The resources exist.
    pub const AVAILABLE: &str = "Available";
    /// The resources do not exist, or not all.
    pub const UNAVAILABLE: &str = "Unavailable";
    /// A Secret that was waited for is missing.
    pub const WAITING_FOR_SECRETS: &str = "WaitingForSecrets";
    /// A workspace that was waited for is not ready.
    pub const WAITING_FOR_WORKSPACE: &str = "WaitingForWorkspace";
    /// The plan waits for a person's consent.
    pub const APPROVAL_REQUIRED: &str = "ApprovalRequired";
    /// Nothing needs a person's consent.
    pub const NOTHING_TO_APPROVE: &str = "NothingToApprove";
    /// Everything that goes in is known.
    pub const PLANNED: &str = "Planned";
    /// A run is under way or about to begin.
    pub const RUNNING: &str = "Running";
    /// EKS does something else just now.
    pub const WAITING_FOR_EKS: &str = "WaitingForEKSMutation";
    /// Reality is as the state tells.
    pub const IN_SYNC: &str = "InSync";
    /// Reality differs from the state.
    pub const DRIFT_DETECTED: &str = "DriftDetected";
    /// Nobody looks for drift.
    pub const NOT_CHECKED: &str = "NotChecked";
    /// What a reference names does not exist.
    pub const REFERENCE_NOT_FOUND: &str = "ReferenceNotFound";
    /// What a reference names is in another namespace, which does not allow it.
    pub const REFERENCE_NOT_GRANTED: &str = "ReferenceNotGranted";
    /// A value that comes from a Secret is missing or makes no sense.
    pub const INVALID_INPUT: &str = "InvalidInput";
    /// Another workspace stands on this one.
    pub const WAITING_FOR_DEPENDENTS: &str = "WaitingForDependents";
    /// The state is gone, and nobody knows what it held.
    pub const STATE_LOST: &str = "StateLost";
    /// The configuration can be rendered and is valid.
    pub const TEMPLATE_VALID: &str = "TemplateValid";
    /// The configuration cannot be rendered or is not valid.
    pub const TEMPLATE_INVALID: &str = "TemplateInvalid";
    /// AWS knows the identity.
    pub const IDENTITY_VERIFIED: &str = "IdentityVerified";
    /// AWS does not know the identity.
    pub const IDENTITY_REFUSED: &str = "IdentityRefused";
    /// Others still use it.
    pub const IN_USE: &str = "InUse";
}
