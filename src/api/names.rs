//! Groups, labels, annotations and finalizers, exactly as they stand in objects.

/// Group of the infrastructure kinds.
pub const INFRASTRUCTURE_GROUP: &str = "infrastructure.cluster.x-k8s.io";
/// Group of the control plane kinds.
pub const CONTROL_PLANE_GROUP: &str = "controlplane.cluster.x-k8s.io";
/// Version of our kinds.
pub const VERSION: &str = "v1beta1";

/// Label that names the Cluster an object belongs to.
pub const CLUSTER_NAME_LABEL: &str = "cluster.x-k8s.io/cluster-name";
/// Label of a CRD that names its provider.
pub const PROVIDER_LABEL: &str = "cluster.x-k8s.io/provider";
/// Label of a CRD that names the versions of contract v1beta2. Only this one: a version under two contracts is ambiguous.
pub const CONTRACT_LABEL: &str = "cluster.x-k8s.io/v1beta2";
/// Label that chooses the operator for an object.
pub const WATCH_FILTER_LABEL: &str = "cluster.x-k8s.io/watch-filter";

/// Annotation of an object that is left alone.
pub const PAUSED_ANNOTATION: &str = "cluster.x-k8s.io/paused";
/// Annotation of an infrastructure cluster that somebody else manages.
pub const MANAGED_BY_ANNOTATION: &str = "cluster.x-k8s.io/managed-by";
/// Annotation of a Cluster with its region, which upstream reads.
pub const REGION_ANNOTATION: &str = "cluster.x-k8s.io/region";
/// Annotation that approves the plan with this hash.
pub const APPROVE_PLAN_ANNOTATION: &str = "capt.x-k8s.io/approve-plan";

/// Finalizer of a `CAPTCluster`.
pub const CLUSTER_FINALIZER: &str = "infrastructure.cluster.x-k8s.io/captcluster";
/// Finalizer of a `CAPTControlPlane`.
pub const CONTROL_PLANE_FINALIZER: &str = "controlplane.cluster.x-k8s.io/captcontrolplane";
/// Finalizer of a `WorkspaceTemplate`.
pub const TEMPLATE_FINALIZER: &str = "workspacetemplate.v2.infrastructure.cluster.x-k8s.io";
/// Finalizer of a `WorkspaceTemplateApply`; older releases of upstream put it on a `CAPTCluster` too.
pub const APPLY_FINALIZER: &str = "infrastructure.cluster.x-k8s.io/finalizer";
