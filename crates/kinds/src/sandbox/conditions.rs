//! Types and reasons of all conditions.

/// Types of conditions.
pub mod types {
    /// The spec is valid and supported.
    pub const ACCEPTED: &str = "Accepted";
    /// All baselines exist.
    pub const BASELINE_RESOLVED: &str = "BaselineResolved";
    /// The forks' pods can be scheduled.
    pub const COMPUTE_READY: &str = "ComputeReady";
    /// The forks' pods are ready.
    pub const FORKS_READY: &str = "ForksReady";
    /// An agent is connected for each local workload.
    pub const LOCALS_CONNECTED: &str = "LocalsConnected";
    /// All ready routers send requests with the key to the forks.
    pub const ROUTES_PROGRAMMED: &str = "RoutesProgrammed";
    /// All other conditions are True.
    pub const READY: &str = "Ready";
    /// Each baseline of a group is overridden by one sandbox at most.
    pub const RESOLVED: &str = "Resolved";
    /// An agent is connected for this local workload.
    pub const CONNECTED: &str = "Connected";
    /// The process on the developer's machine accepts connections.
    pub const LOCAL_REACHABLE: &str = "LocalReachable";

    /// The conditions of a Sandbox, all always present.
    pub const OF_SANDBOX: [&str; 7] =
        [ACCEPTED, BASELINE_RESOLVED, COMPUTE_READY, FORKS_READY, LOCALS_CONNECTED, ROUTES_PROGRAMMED, READY];
    /// The conditions of a `RouteGroup`, all always present.
    pub const OF_ROUTE_GROUP: [&str; 4] = [ACCEPTED, RESOLVED, ROUTES_PROGRAMMED, READY];
    /// The conditions of a `LocalWorkload`, all always present.
    pub const OF_LOCAL_WORKLOAD: [&str; 5] = [ACCEPTED, CONNECTED, LOCAL_REACHABLE, ROUTES_PROGRAMMED, READY];
}

/// Reasons of conditions.
pub mod reasons {
    /// Not determined yet.
    pub const PENDING: &str = "Pending";
    /// The spec is valid and supported.
    pub const ACCEPTED: &str = "Accepted";
    /// All other conditions are True.
    pub const READY: &str = "Ready";
    /// The spec has no such items.
    pub const NONE: &str = "None";
    /// The object is being deleted.
    pub const TERMINATING: &str = "Terminating";
    /// The object's TTL has expired.
    pub const EXPIRED: &str = "Expired";

    /// The spec breaks a rule of its schema.
    pub const INVALID_SPEC: &str = "InvalidSpec";
    /// A fork of another namespace's workload.
    pub const CROSS_NAMESPACE_FORK: &str = "CrossNamespaceFork";
    /// A fork of a fork.
    pub const BASELINE_IS_FORK: &str = "BaselineIsFork";
    /// The baseline has several containers, and none was named.
    pub const CONTAINER_REQUIRED: &str = "ContainerRequired";
    /// No container of that name.
    pub const CONTAINER_NOT_FOUND: &str = "ContainerNotFound";
    /// The patch cannot be applied, or changes protected fields.
    pub const INVALID_PATCH: &str = "InvalidPatch";
    /// The value of a variable cannot be expanded.
    pub const INVALID_EXPRESSION: &str = "InvalidExpression";
    /// The baseline mounts a volume that only one pod can use.
    pub const SHARED_VOLUME: &str = "SharedVolume";
    /// The baseline uses a host port.
    pub const HOST_PORT: &str = "HostPort";
    /// Fargate does not support the pods.
    pub const NOT_SUPPORTED_ON_FARGATE: &str = "NotSupportedOnFargate";
    /// A preserved label would let a Service send the baseline's traffic to the fork.
    pub const WOULD_RECEIVE_BASELINE_TRAFFIC: &str = "WouldReceiveBaselineTraffic";
    /// An older object holds the routing key.
    pub const ROUTING_KEY_CONFLICT: &str = "RoutingKeyConflict";
    /// The target is not the address of a Service.
    pub const INVALID_TARGET: &str = "InvalidTarget";
    /// Another object has the name of a fork or of its Service.
    pub const NAME_TAKEN: &str = "NameTaken";
    /// The API server rejects the fork or another owned object as invalid.
    pub const REFUSED_BY_SERVER: &str = "RefusedByServer";
    /// A quota, a policy or a missing permission prevents the apply.
    pub const FORBIDDEN: &str = "Forbidden";

    /// The Service behind an endpoint does not exist yet.
    pub const TARGET_NOT_FOUND: &str = "TargetNotFound";
    /// All baselines exist.
    pub const BASELINE_FOUND: &str = "BaselineFound";
    /// A baseline does not exist yet.
    pub const BASELINE_NOT_FOUND: &str = "BaselineNotFound";
    /// A baseline was deleted.
    pub const BASELINE_DELETED: &str = "BaselineDeleted";
    /// The workload cluster cannot be reached yet.
    pub const CLUSTER_NOT_READY: &str = "ClusterNotReady";

    /// A Fargate profile selects the pods.
    pub const FARGATE_PROFILE: &str = "FargateProfile";
    /// The pods run on nodes.
    pub const NODES: &str = "Nodes";
    /// No Fargate profile selects the pods.
    pub const NO_FARGATE_PROFILE: &str = "NoFargateProfile";
    /// The pods wait to be scheduled on Fargate, which takes a minute.
    pub const WAITING_FOR_FARGATE: &str = "WaitingForFargate";

    /// The pods of a fork are being started.
    pub const PROGRESSING: &str = "Progressing";
    /// The pods of a fork do not become ready.
    pub const POD_FAILING: &str = "PodFailing";
    /// The pods of a fork did not become ready in time.
    pub const PROGRESS_DEADLINE_EXCEEDED: &str = "ProgressDeadlineExceeded";

    /// An agent is connected.
    pub const CONNECTED: &str = "Connected";
    /// No agent is connected.
    pub const NOT_CONNECTED: &str = "NotConnected";
    /// The connection was lost; the grace period is running.
    pub const RECONNECTING: &str = "Reconnecting";
    /// The process on the developer's machine accepts connections.
    pub const REACHABLE: &str = "Reachable";
    /// The process on the developer's machine does not accept connections.
    pub const UNREACHABLE: &str = "Unreachable";
    /// An older local workload of the Sandbox replaces the same baseline.
    pub const BASELINE_TAKEN: &str = "BaselineTaken";
    /// The Sandbox runs in another cluster, where this object has to be created.
    pub const OTHER_CLUSTER: &str = "OtherCluster";
    /// The sandbox does not exist.
    pub const SANDBOX_NOT_FOUND: &str = "SandboxNotFound";

    /// All ready routers have the routes.
    pub const PROGRAMMED: &str = "Programmed";
    /// Not all ready routers have the routes yet.
    pub const ROUTERS_BEHIND: &str = "RoutersBehind";
    /// No router is ready.
    pub const NO_ROUTERS: &str = "NoRouters";
    /// Another client reverted the takeover of a Service.
    pub const SERVICE_REVERTED: &str = "ServiceReverted";
    /// Traffic bypasses the routers, because none is ready.
    pub const ROUTER_BYPASSED: &str = "RouterBypassed";
    /// Routing is not enabled for a Service, or not possible.
    pub const NOT_ROUTED: &str = "NotRouted";
    /// The ports of a Service are not inspected, so that no key is found there.
    pub const L7_UNAVAILABLE: &str = "L7Unavailable";
    /// The Service already has an unmanaged `HTTPRoute`.
    pub const ROUTE_CONFLICT: &str = "RouteConflict";
    /// The Gateway API is not installed.
    pub const GATEWAY_API_NOT_SERVED: &str = "GatewayAPINotServed";
    /// No mesh has accepted the routes yet.
    pub const ROUTES_NOT_ACCEPTED: &str = "RoutesNotAccepted";

    /// Each baseline is overridden by one sandbox at most.
    pub const RESOLVED: &str = "Resolved";
    /// Sandboxes of the group override the same baseline.
    pub const CONFLICT: &str = "Conflict";
    /// No Sandbox matches the group.
    pub const NO_MATCHED_SANDBOXES: &str = "NoMatchedSandboxes";
    /// Some sandboxes of the group are not ready.
    pub const SANDBOXES_NOT_READY: &str = "SandboxesNotReady";
}
