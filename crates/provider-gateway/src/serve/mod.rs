//! The sockets that Terraform connects to.

mod clients;
mod connection;
pub mod run;

use std::{path::PathBuf, sync::Arc};

use bytes::Bytes;
pub use clients::RunClients;
pub use run::{DataSourceRead, Run, RunActivity, RunSpec};

use crate::{
    counters::Counters,
    digest::{self, DigestKey},
    journal::Journal,
    plugin::ProviderProcess,
    pool::ProviderGroup,
    private_fs,
    response_cache::ResponseCache,
    wire::{
        grpc::{GrpcResponse, GrpcStatus, frame},
        messages::read_diagnostics,
        method::Method,
    },
};

/// State shared by all runs.
pub struct SharedState {
    /// Response cache.
    pub cache: ResponseCache,
    /// Journal of applied changes.
    pub journal: Journal,
    /// Counters.
    pub counters: Arc<Counters>,
    /// Directory of schemas that persist across restarts, keyed by the checksum of their program.
    pub schema_dir: PathBuf,
}

impl SharedState {
    /// A call about the program itself: from memory, from disk, or from a process.
    pub(crate) async fn provider_info(
        &self,
        herd: &ProviderGroup,
        path: &str,
        body: Bytes,
    ) -> Result<(GrpcResponse, bool), GrpcStatus> {
        let method = Method::parse(path);
        let key = digest::hash_parts([herd.spec.checksum.as_bytes(), path.as_bytes(), &body]);
        let file = self.schema_dir.join(format!("{}.answer", digest::to_hex(key)));
        let ask = async {
            if let Ok(message) = tokio::fs::read(&file).await {
                return Ok(GrpcResponse::ok(&message));
            }
            let answer = herd.any_process().await?.call(path, body).await?;
            if let Some(message) = answer.message().filter(|it| has_no_diagnostics(it, &method)) {
                // Best effort: without the file the provider is asked again.
                let _next_time = private_fs::write_atomic(&file, message);
            }
            Ok(answer)
        };
        let keep = |answer: &GrpcResponse| answer.message().is_some_and(|it| has_no_diagnostics(it, &method));
        let kept = self.cache.get(key, ask, keep).await?;
        Ok((kept.response, kept.hit))
    }

    /// A call whose response is a function of program, environment and request bytes.
    pub(crate) async fn cached_call(
        &self,
        herd: &ProviderGroup,
        path: &str,
        body: Bytes,
        bound: Option<Arc<ProviderProcess>>,
    ) -> Result<(GrpcResponse, bool), GrpcStatus> {
        let method = Method::parse(path);
        let key: DigestKey = digest::hash_parts([&herd.key[..], path.as_bytes(), &body]);
        let ask = async {
            match bound {
                Some(process) => process.call(path, body).await,
                None => herd.any_process().await?.call(path, body).await,
            }
        };
        let kept = self
            .cache
            .get(key, ask, |answer| answer.message().is_some_and(|it| has_no_diagnostics(it, &method)))
            .await?;
        Ok((kept.response, kept.hit))
    }
}

/// Whether a response has no diagnostics. Others are not cached: the diagnostic may refer to a transient condition.
fn has_no_diagnostics(message: &[u8], method: &Method<'_>) -> bool {
    read_diagnostics(message, method.diagnostics_field()).is_ok_and(|verdict| !verdict.any)
}

/// A message with its gRPC prefix.
pub(crate) fn framed(message: &[u8]) -> Bytes {
    frame(message)
}
