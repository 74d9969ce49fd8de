//! Types and reasons of conditions, and nothing else. Every condition is built from these.

/// Types of conditions.
pub mod types {
    /// The spec can be followed.
    pub const ACCEPTED: &str = "Accepted";
    /// All baselines exist.
    pub const BASELINE_RESOLVED: &str = "BaselineResolved";
    /// The forks' pods have a place to run.
    pub const COMPUTE_READY: &str = "ComputeReady";
    /// The forks' pods are ready.
    pub const FORKS_READY: &str = "ForksReady";
    /// Somebody is connected for each local workload.
    pub const LOCALS_CONNECTED: &str = "LocalsConnected";
    /// All ready routers send requests with the key to the forks.
    pub const ROUTES_PROGRAMMED: &str = "RoutesProgrammed";
    /// Everything asked for is there.
    pub const READY: &str = "Ready";
    /// Each baseline of a group is overridden by one sandbox at most.
    pub const RESOLVED: &str = "Resolved";
    /// Somebody is connected for this local workload.
    pub const CONNECTED: &str = "Connected";
    /// The process on the developer's machine answers.
    pub const LOCAL_REACHABLE: &str = "LocalReachable";

    /// The conditions of a Sandbox, all of them always there.
    pub const OF_SANDBOX: [&str; 7] =
        [ACCEPTED, BASELINE_RESOLVED, COMPUTE_READY, FORKS_READY, LOCALS_CONNECTED, ROUTES_PROGRAMMED, READY];
    /// The conditions of a `RouteGroup`, all of them always there.
    pub const OF_ROUTE_GROUP: [&str; 4] = [ACCEPTED, RESOLVED, ROUTES_PROGRAMMED, READY];
    /// The conditions of a `LocalWorkload`, all of them always there.
    pub const OF_LOCAL_WORKLOAD: [&str; 5] = [ACCEPTED, CONNECTED, LOCAL_REACHABLE, ROUTES_PROGRAMMED, READY];
}

/// Reasons of conditions.
pub mod reasons {
    /// Nobody has looked yet.
    pub const PENDING: &str = "Pending";
    /// The spec can be followed.
    pub const ACCEPTED: &str = "Accepted";
    /// Everything asked for is there.
    pub const READY: &str = "Ready";
    /// The spec asks for no such thing.
    pub const NONE: &str = "None";
    /// The object is being deleted.
    pub const TERMINATING: &str = "Terminating";
    /// The object's time is over.
    pub const EXPIRED: &str = "Expired";

    /// The spec breaks a rule of its schema.
    pub const INVALID_SPEC: &str = "InvalidSpec";
    /// A fork of another namespace's workload.
    pub const CROSS_NAMESPACE_FORK: &str = "CrossNamespaceFork";
    /// A fork of a fork.
    pub const BASELINE_IS_FORK: &str = "BaselineIsFork";
    /// Several containers, and none was named.
    pub const CONTAINER_REQUIRED: &str = "ContainerRequired";
    /// No container of that name.
    pub const CONTAINER_NOT_FOUND: &str = "ContainerNotFound";
    /// The patch cannot be applied, or touches what it must not.
    pub const INVALID_PATCH: &str = "InvalidPatch";
    /// A value of a variable cannot be made.
    pub const INVALID_EXPRESSION: &str = "InvalidExpression";
    /// The baseline mounts a volume that only one pod may have.
    pub const SHARED_VOLUME: &str = "SharedVolume";
    /// The baseline takes a port of its host.
    pub const HOST_PORT: &str = "HostPort";
    /// Fargate would refuse the pods.
    pub const NOT_SUPPORTED_ON_FARGATE: &str = "NotSupportedOnFargate";
    /// A kept label would bring the baseline's traffic to the fork.
    pub const WOULD_RECEIVE_BASELINE_TRAFFIC: &str = "WouldReceiveBaselineTraffic";
    /// An older object has the key.
    pub const ROUTING_KEY_CONFLICT: &str = "RoutingKeyConflict";
    /// The address is not one of a Service.
    pub const INVALID_TARGET: &str = "InvalidTarget";
    /// The name of a fork or of its Service is another object's.
    pub const NAME_TAKEN: &str = "NameTaken";
    /// The API server finds the fork, or something else that is made, invalid.
    pub const REFUSED_BY_SERVER: &str = "RefusedByServer";
    /// A quota, a policy or a permission is in the way of what is to be made.
    pub const FORBIDDEN: &str = "Forbidden";

    /// The Service behind an endpoint does not exist yet.
    pub const TARGET_NOT_FOUND: &str = "TargetNotFound";
    /// All baselines exist.
    pub const BASELINE_FOUND: &str = "BaselineFound";
    /// A baseline does not exist yet.
    pub const BASELINE_NOT_FOUND: &str = "BaselineNotFound";
    /// A baseline does not exist any more.
    pub const BASELINE_DELETED: &str = "BaselineDeleted";
    /// The workload cluster cannot be reached yet.
    pub const CLUSTER_NOT_READY: &str = "ClusterNotReady";

    /// A Fargate profile takes the pods.
    pub const FARGATE_PROFILE: &str = "FargateProfile";
    /// The pods run on nodes.
    pub const NODES: &str = "Nodes";
    /// No Fargate profile takes the pods.
    pub const NO_FARGATE_PROFILE: &str = "NoFargateProfile";
    /// The pods wait for Fargate, which takes a minute.
    pub const WAITING_FOR_FARGATE: &str = "WaitingForFargate";

    /// The pods of a fork are being started.
    pub const PROGRESSING: &str = "Progressing";
    /// The pods of a fork do not become ready.
    pub const POD_FAILING: &str = "PodFailing";
    /// The pods of a fork did not become ready in time.
    pub const PROGRESS_DEADLINE_EXCEEDED: &str = "ProgressDeadlineExceeded";

    /// Somebody is connected.
    pub const CONNECTED: &str = "Connected";
    /// Nobody is connected.
    pub const NOT_CONNECTED: &str = "NotConnected";
    /// The connection was lost a moment ago.
    pub const RECONNECTING: &str = "Reconnecting";
    /// The process on the developer's machine answers.
    pub const REACHABLE: &str = "Reachable";
    /// The process on the developer's machine does not answer.
    pub const UNREACHABLE: &str = "Unreachable";
    /// An older local workload of the sandbox stands for the same baseline.
    pub const BASELINE_TAKEN: &str = "BaselineTaken";
    /// The sandbox lives in another cluster, and so must this object.
    pub const OTHER_CLUSTER: &str = "OtherCluster";
    /// The sandbox does not exist.
    pub const SANDBOX_NOT_FOUND: &str = "SandboxNotFound";

    /// All ready routers have the routes.
    pub const PROGRAMMED: &str = "Programmed";
    /// Not all ready routers have the routes yet.
    pub const ROUTERS_BEHIND: &str = "RoutersBehind";
    /// No router is ready.
    pub const NO_ROUTERS: &str = "NoRouters";
    /// Somebody else changed a Service back.
    pub const SERVICE_REVERTED: &str = "ServiceReverted";
    /// Traffic goes past the routers, because none was ready.
    pub const ROUTER_BYPASSED: &str = "RouterBypassed";
    /// Nobody asked for the traffic of a Service to go to the routers, or it cannot.
    pub const NOT_ROUTED: &str = "NotRouted";
    /// Nothing is looked into at a Service's ports, and so no key is found there.
    pub const L7_UNAVAILABLE: &str = "L7Unavailable";
    /// A foreign `HTTPRoute` is there already.
    pub const ROUTE_CONFLICT: &str = "RouteConflict";
    /// The Gateway API is not installed.
    pub const GATEWAY_API_NOT_SERVED: &str = "GatewayAPINotServed";
    /// No mesh has taken the routes yet.
    pub const ROUTES_NOT_ACCEPTED: &str = "RoutesNotAccepted";

    /// Each baseline is overridden by one sandbox at most.
    pub const RESOLVED: &str = "Resolved";
    /// Sandboxes of the group override the same baseline.
    pub const CONFLICT: &str = "Conflict";
    /// No sandbox belongs to the group.
    pub const NO_MATCHED_SANDBOXES: &str = "NoMatchedSandboxes";
    /// Some sandboxes of the group are not ready.
    pub const SANDBOXES_NOT_READY: &str = "SandboxesNotReady";
}
