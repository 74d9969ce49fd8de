//! Names of groups, labels, annotations and finalizers.

/// Group of the infrastructure kinds.
pub const INFRASTRUCTURE_GROUP: &str = "infrastructure.cluster.x-k8s.io";
/// Group of the control plane kinds.
pub const CONTROL_PLANE_GROUP: &str = "controlplane.cluster.x-k8s.io";
/// Version of capt's kinds.
pub const VERSION: &str = "v1beta1";

/// Label that names the Cluster an object belongs to.
pub const CLUSTER_NAME_LABEL: &str = "cluster.x-k8s.io/cluster-name";
/// Label of a CRD that names its provider.
pub const PROVIDER_LABEL: &str = "cluster.x-k8s.io/provider";
/// Label of a CRD that lists its versions for contract v1beta2. Only this contract: two would be ambiguous.
pub const CONTRACT_LABEL: &str = "cluster.x-k8s.io/v1beta2";
/// Label that selects the operator of an object.
pub const WATCH_FILTER_LABEL: &str = "cluster.x-k8s.io/watch-filter";

/// Annotation that pauses the reconciliation of an object.
pub const PAUSED_ANNOTATION: &str = "cluster.x-k8s.io/paused";
/// Annotation of an externally managed infrastructure cluster.
pub const MANAGED_BY_ANNOTATION: &str = "cluster.x-k8s.io/managed-by";
/// Annotation of a Cluster with its region, used by upstream.
pub const REGION_ANNOTATION: &str = "cluster.x-k8s.io/region";
/// Annotation that approves the plan with this full hash.
pub const APPROVE_PLAN_ANNOTATION: &str = "capt.x-k8s.io/approve-plan";
/// Annotation with the user name of who approved the plan.
pub const APPROVED_BY_ANNOTATION: &str = "capt.x-k8s.io/approved-by";

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
/// Annotation that `clusterctl move` sets on objects before deleting them.
pub const DELETE_FOR_MOVE_ANNOTATION: &str = "clusterctl.cluster.x-k8s.io/delete-for-move";
/// Label of capt's standalone Cluster CRD, for installations without Cluster API.
pub const STANDALONE_LABEL: &str = "capt.x-k8s.io/standalone";
/// Annotation of a workspace with the EKS cluster that it changes; EKS allows one change at a time.
pub const EKS_CLUSTER_ANNOTATION: &str = "capt.x-k8s.io/eks-cluster";
/// Annotation of a namespace with the ARNs of EKS clusters that its control planes may use although the cluster has no owner
/// tag, separated by commas. On the namespace, because only administrators may change that.
pub const ADOPT_EKS_CLUSTERS_ANNOTATION: &str = "capt.x-k8s.io/adopt-eks-clusters";
/// Annotation of a workspace with the `CAPTIdentity` that destroys it, in place of the one that created its resources.
pub const DESTROY_IDENTITY_ANNOTATION: &str = "capt.x-k8s.io/destroy-identity";
/// Label of a workspace with its Fargate profile.
pub const FARGATE_PROFILE_LABEL: &str = "capt.x-k8s.io/fargate-profile";
/// Annotation of a workspace or its owner with the drift mode: `off`, `detect` or `correct`.
pub const DRIFT_ANNOTATION: &str = "capt.x-k8s.io/drift";
/// Annotation of a workspace or its owner with the drift detection interval, such as `10m`.
pub const DRIFT_INTERVAL_ANNOTATION: &str = "capt.x-k8s.io/drift-interval";
/// Annotation of an object or its namespace with the namespaces that may refer to it, separated by commas, or `*`.
pub const ALLOW_REFERENCES_ANNOTATION: &str = "capt.x-k8s.io/allow-references-from";
/// Annotation of a Secret with the `WorkspaceTemplateApply` objects of its namespace that may write their outputs to it although they did
/// not make it: names separated by commas, or `*`.
pub const ALLOW_WRITE_ANNOTATION: &str = "capt.x-k8s.io/allow-write-from";
/// Label of a Namespace with the templates that its objects may use: `none`, `trusted` or `all`. Set by administrators.
pub const TEMPLATES_LABEL: &str = "capt.x-k8s.io/templates";
/// Annotation of a workspace that requests a rerun, with the time of the request.
pub const REQUESTED_ANNOTATION: &str = "capt.x-k8s.io/requested-at";
/// Finalizer of objects that a destroy needs: states, credentials, identities, templates in use.
pub const IN_USE_FINALIZER: &str = "capt.x-k8s.io/in-use";
/// Label of the Secrets with a workspace's state.
pub const STATE_LABEL: &str = "capt.x-k8s.io/state-of";
/// Annotation of such a Secret with the fencing token of its last writer.
pub const FENCE_ANNOTATION: &str = "capt.x-k8s.io/fence";
/// Annotation of an applied object with a digest of its desired state.
pub const APPLIED_ANNOTATION: &str = "capt.x-k8s.io/applied";
/// Annotation of a Secret with digests of its inputs and of its content.
pub const MADE_FROM_ANNOTATION: &str = "capt.x-k8s.io/made-from";
/// Annotation of a Secret with a token: issue and expiry time, as `made/expires`.
pub const TOKEN_ANNOTATION: &str = "capt.x-k8s.io/token-valid";
/// Type of Secrets that Cluster API reads.
pub const CLUSTER_SECRET_TYPE: &str = "cluster.x-k8s.io/secret";
/// Field manager of the operator.
pub const FIELD_MANAGER: &str = "capt";
