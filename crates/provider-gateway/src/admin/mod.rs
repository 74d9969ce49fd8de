//! The admin interface of a gateway in another process: JSON lines over a unix socket, one per request and response, after
//! one that authenticates the client.

mod client;
mod journal_feed;
mod protocol;
mod secret;
mod server;

pub use client::{GatewayClient, GatewayClientError};
pub use journal_feed::JournalFollower;
pub use protocol::{AdminRequest, AdminResponse, GatewayReport, ProcessReport};
pub use secret::AdminSecret;
pub use server::AdminServer;
