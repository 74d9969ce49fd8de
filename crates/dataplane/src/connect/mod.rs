//! The agent on a developer's machine: what it may dial, how it reaches a router, and which token it presents.
//!
//! | file | does |
//! |---|---|
//! | `mappings` | confirms the object's mappings against the command line; pure |
//! | `port_forward` | dials a router pod through the API server |
//! | `nodelay` | Kubernetes client with `TCP_NODELAY` for port-forwards |
//! | `direct` | TLS with a router, at its address or behind a port-forward |
//! | `token` | the bearer token of the kubeconfig |

mod direct;
mod mappings;
mod nodelay;
mod port_forward;
mod token;

pub use self::{
    direct::{DirectDialer, PinnedDialer, TrustError, direct_tls},
    mappings::{UnconfirmedMapping, confirm_mappings},
    nodelay::nodelay_client,
    port_forward::PortForward,
    token::{FileToken, KubeToken, NoToken},
};
