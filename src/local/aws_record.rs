//! The record of a running local AWS.

use serde::{Deserialize, Serialize};
use terraform_driver::exec::ProcessId;

/// The default port, so that directories rendered before the start have the right endpoint.
pub const DEFAULT_PORT: u16 = 4599;

/// Record of a running local AWS: `DATA/local-aws/server.json`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LocalAwsRecord {
    /// The process.
    pub process: ProcessId,
    /// Its endpoint.
    pub endpoint: String,
    /// Id of the instance; changes whenever its resources are lost.
    pub instance: String,
    /// When it was started.
    pub started: jiff::Timestamp,
}
