//! Reattaching terraform to running providers.
//!
//! An implementation of [`ReattachSource`] supplies the value of `TF_REATTACH_PROVIDERS`; the driver only sets it in the command's
//! environment and does not know who runs the providers.

use std::{future::Future, path::Path, pin::Pin};

use super::driver::{StepContext, StepPhase};

/// Environment variable with the addresses of running providers.
pub const REATTACH_VARIABLE: &str = "TF_REATTACH_PROVIDERS";

/// The value of [`REATTACH_VARIABLE`] with the id of another process. Terraform checks with a signal whether the process of a provider is
/// alive; a confined terraform may signal nobody outside, so it watches itself and learns from the connection that the provider is
/// gone. `None` if it is not such a value.
pub fn with_provider_pid(value: &str, pid: u32) -> Option<String> {
    let mut providers: serde_json::Value = serde_json::from_str(value).ok()?;
    for (_, provider) in providers.as_object_mut()? {
        provider.as_object_mut()?.insert("Pid".to_owned(), pid.into());
    }
    Some(providers.to_string())
}

/// Lease of running providers for one command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReattachLease {
    /// Id of the lease.
    pub id: String,
    /// Value of `TF_REATTACH_PROVIDERS`.
    pub reattach: String,
}

/// The provider does not match the lock file; the command must not run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ProviderMismatch(pub String);

/// Future of a [`ReattachSource`] method.
pub type ReattachFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Supplies running providers to terraform commands.
pub trait ReattachSource: Send + Sync {
    /// Acquires a lease for one command; `None` if terraform starts its own providers. The file will name the processes of the
    /// command, see [`super::run_dir::RunProcesses`]; no other process may use the lease.
    fn acquire<'a>(
        &'a self,
        job: &'a StepContext<'_>,
        phase: StepPhase,
        processes: &'a Path,
    ) -> ReattachFuture<'a, Result<Option<ReattachLease>, ProviderMismatch>>;

    /// Releases the lease after the command.
    fn release(&self, lease: ReattachLease) -> ReattachFuture<'_, ()>;

    /// Serves all schemas from now on, because terraform missed one. Returns whether that changes anything.
    fn request_all_schemas(&self) -> bool;
}

/// Whether a message reports a missing schema.
pub(super) fn mentions_missing_schema(text: &str) -> bool {
    ["no schema available", "missing schema for", "Missing schema for"].iter().any(|it| text.contains(it))
}
