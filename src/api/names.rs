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

/// Group of Cluster API.
pub const CLUSTER_API_GROUP: &str = "cluster.x-k8s.io";
/// Annotation that `clusterctl move` leaves on what it is about to delete.
pub const DELETE_FOR_MOVE_ANNOTATION: &str = "clusterctl.cluster.x-k8s.io/delete-for-move";
/// Label of the Cluster kind that we bring where Cluster API is absent.
pub const STANDALONE_LABEL: &str = "capt.x-k8s.io/standalone";
/// Annotation of a workspace with the EKS cluster that it changes: EKS allows one change at a time.
pub const EKS_CLUSTER_ANNOTATION: &str = "capt.x-k8s.io/eks-cluster";
/// Label of a workspace with the Fargate profile of the spec that it makes.
pub const FARGATE_PROFILE_LABEL: &str = "capt.x-k8s.io/fargate-profile";
/// Annotation of a workspace, or of the object that it belongs to: `off`, `detect` or `correct`.
pub const DRIFT_ANNOTATION: &str = "capt.x-k8s.io/drift";
/// Annotation of a workspace, or of the object that it belongs to: how often drift is looked for, such as `10m`.
pub const DRIFT_INTERVAL_ANNOTATION: &str = "capt.x-k8s.io/drift-interval";
/// Annotation of an object, or of its namespace: the namespaces that may refer to it, separated by commas, or `*`.
pub const ALLOW_REFERENCES_ANNOTATION: &str = "capt.x-k8s.io/allow-references-from";
/// Finalizer of what a destroy needs: states, credentials, identities, templates that are in use.
pub const IN_USE_FINALIZER: &str = "capt.x-k8s.io/in-use";
/// Label of the Secrets that hold a workspace's state.
pub const STATE_LABEL: &str = "capt.x-k8s.io/state-of";
/// Annotation of a workspace: somebody wants it looked after once more, since this moment.
pub const REQUESTED_ANNOTATION: &str = "capt.x-k8s.io/requested-at";
/// Annotation of a Secret: a digest of what its content was made from, and of the content.
pub const MADE_FROM_ANNOTATION: &str = "capt.x-k8s.io/made-from";
/// Annotation of a Secret with a token: when it was made and when it expires, as `made/expires`.
pub const TOKEN_ANNOTATION: &str = "capt.x-k8s.io/token-valid";
/// Annotation of such a Secret: which leader wrote it last.
pub const FENCE_ANNOTATION: &str = "capt.x-k8s.io/fence";
/// Name under which we write fields.
pub const FIELD_MANAGER: &str = "capt";
