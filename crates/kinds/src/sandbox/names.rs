//! API group, labels, annotations and finalizers.

/// The group of the kinds.
pub const GROUP: &str = "sandbox.capt.x-k8s.io";
/// The version of the kinds.
pub const VERSION: &str = "v1alpha1";
/// Field manager of the controllers.
pub const FIELD_MANAGER: &str = "sandbox-operator";
/// Finalizer of a Sandbox, until its routes, forks and Services are deleted.
pub const FINALIZER: &str = "sandbox.capt.x-k8s.io/cleanup";

/// Label of everything that belongs to a fork, and the selector of its pods: the name of the forked workload.
pub const FORK_LABEL: &str = "sandbox.capt.x-k8s.io/fork";
/// Label of everything that belongs to a sandbox: the sandbox's name.
pub const SANDBOX_LABEL: &str = "sandbox.capt.x-k8s.io/sandbox";
/// Label of a fork: its baseline.
pub const BASELINE_LABEL: &str = "sandbox.capt.x-k8s.io/baseline";
/// Label of a fork's Service: the Service of the baseline that it replaces.
pub const SERVICE_LABEL: &str = "sandbox.capt.x-k8s.io/service";
/// Label of a base Service, which has the original selector of a Service that is taken over: that Service's name.
pub const BASE_OF_LABEL: &str = "sandbox.capt.x-k8s.io/base-of";
/// Label of a mirror Sandbox in a workload cluster: the uid of the original in the management cluster.
pub const ORIGIN_LABEL: &str = "sandbox.capt.x-k8s.io/origin";
/// Annotation of a fork or an `HTTPRoute`: hash of its inputs.
pub const SOURCE_HASH_ANNOTATION: &str = "sandbox.capt.x-k8s.io/source-hash";
/// Annotation of a Service or a namespace: `enabled` takes the Service over; `while-active`, on a Service only, takes it over
/// while a Sandbox or a local workload overrides it.
pub const ROUTING_ANNOTATION: &str = "sandbox.capt.x-k8s.io/routing";
/// Annotation of a Service that is taken over: its original selector and ports, as JSON ([`crate::service::OriginalService`]).
pub const ORIGINAL_ANNOTATION: &str = "sandbox.capt.x-k8s.io/original";
/// Annotation of a Service: the router's listener port for each of its ports, as JSON: `{"80": 20001}`. Written before the
/// takeover, so that the routers already listen.
pub const LISTEN_ANNOTATION: &str = "sandbox.capt.x-k8s.io/listen";
/// Annotation of a base Service: the field manager that last reverted its Service.
pub const REVERTED_BY_ANNOTATION: &str = "sandbox.capt.x-k8s.io/reverted-by";
/// Annotation of a base Service: time of the last revert.
pub const REVERTED_AT_ANNOTATION: &str = "sandbox.capt.x-k8s.io/reverted-at";
/// Label of the routers' Leases and pods.
pub const ROUTER_LABEL: &str = "sandbox.capt.x-k8s.io/router";
/// Annotation of a router's Lease: revision of the applied table.
pub const REVISION_ANNOTATION: &str = "sandbox.capt.x-k8s.io/table-revision";
/// Label by which a pod chooses a Fargate profile.
pub const FARGATE_PROFILE_LABEL: &str = "eks.amazonaws.com/fargate-profile";
