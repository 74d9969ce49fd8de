//! The admin interface of a gateway in another process: JSON lines over a unix socket, one per request and response.

mod client;
mod journal_feed;
mod protocol;
mod server;

pub use client::{GatewayClient, GatewayClientError};
pub use journal_feed::JournalFollower;
pub use protocol::{AdminRequest, AdminResponse, GatewayReport, ProcessReport};
pub use server::AdminServer;
