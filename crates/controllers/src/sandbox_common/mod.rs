//! Code that the Sandbox controllers share, and no other controller uses: the route snapshot and workload clusters.

pub mod http_routes;
pub mod propagation;
pub mod remote_target;
pub mod route_snapshot;
