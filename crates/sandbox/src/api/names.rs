//! Names that stand in objects: the group, labels, annotations, finalizers.

/// The group of the kinds.
pub const GROUP: &str = "sandbox.capt.x-k8s.io";
/// The version of the kinds.
pub const VERSION: &str = "v1alpha1";
/// Name under which the controllers write fields.
pub const FIELD_MANAGER: &str = "sandbox-operator";
/// Holds a Sandbox until its routes, forks and Services are gone.
pub const FINALIZER: &str = "sandbox.capt.x-k8s.io/cleanup";

/// Label of everything that belongs to a fork, and the selector of its pods: the name of the forked workload.
pub const FORK_LABEL: &str = "sandbox.capt.x-k8s.io/fork";
/// Label of everything that belongs to a sandbox: the sandbox's name.
pub const SANDBOX_LABEL: &str = "sandbox.capt.x-k8s.io/sandbox";
/// Label of a fork: the workload it was made from.
pub const BASELINE_LABEL: &str = "sandbox.capt.x-k8s.io/baseline";
/// Label of a fork's Service: the Service it stands for.
pub const SERVICE_LABEL: &str = "sandbox.capt.x-k8s.io/service";
/// Label of the Service that keeps the selector of a Service whose traffic goes to the router: that Service's name.
pub const BASE_OF_LABEL: &str = "sandbox.capt.x-k8s.io/base-of";
/// Label of a Sandbox that stands for one in another cluster: the uid of that one.
pub const ORIGIN_LABEL: &str = "sandbox.capt.x-k8s.io/origin";
/// Annotation of a fork: a digest of what it was made from.
pub const SOURCE_HASH_ANNOTATION: &str = "sandbox.capt.x-k8s.io/source-hash";
/// Annotation of a Service or a namespace: `enabled` lets the router take over; `while-active`, of a Service, as long as a
/// sandbox stands in for what is behind it.
pub const ROUTING_ANNOTATION: &str = "sandbox.capt.x-k8s.io/routing";
/// Annotation of a Service whose traffic goes to the router: what it was before, as JSON (`crate::service::Original`).
pub const ORIGINAL_ANNOTATION: &str = "sandbox.capt.x-k8s.io/original";
/// Annotation of a Service: the router's port for each of its ports, as JSON: `{"80": 20001}`. Written before the traffic goes
/// there, so that the routers listen by then.
pub const LISTEN_ANNOTATION: &str = "sandbox.capt.x-k8s.io/listen";
/// Annotation of the Service that keeps another's selector: who took the other one back last.
pub const REVERTED_BY_ANNOTATION: &str = "sandbox.capt.x-k8s.io/reverted-by";
/// Annotation of the same Service: when that was.
pub const REVERTED_AT_ANNOTATION: &str = "sandbox.capt.x-k8s.io/reverted-at";
/// Label of the routers' Leases and pods.
pub const ROUTER_LABEL: &str = "sandbox.capt.x-k8s.io/router";
/// Annotation of a router's Lease: the revision of the table that it applied.
pub const REVISION_ANNOTATION: &str = "sandbox.capt.x-k8s.io/table-revision";
/// The label by which a pod chooses between Fargate profiles.
pub const FARGATE_PROFILE_LABEL: &str = "eks.amazonaws.com/fargate-profile";
