//! The agent of a developer's machine: what it may dial, how it reaches a router, and whose token it shows.
//!
//! | file | does |
//! |---|---|
//! | `mappings` | what the command line and the object together confirm; pure |
//! | `forward` | the way through the API server, to the pod of a router |
//! | `prompt` | the client of that way |
//! | `published` | the way to an address, and whom to trust there |
//! | `token` | the token of the kubeconfig, as fresh as it gets |

mod forward;
mod mappings;
mod prompt;
mod published;
mod token;

pub use self::{
    forward::PortForward,
    mappings::{Unconfirmed, confirm},
    prompt::prompt,
    published::{Published, TrustError, tls},
    token::{FileToken, KubeToken, NoToken},
};
