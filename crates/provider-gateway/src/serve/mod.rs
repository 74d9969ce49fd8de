//! What terraform talks to.

mod connection;
pub mod run;

use std::{path::PathBuf, sync::Arc};

use bytes::Bytes;
pub use run::{DataRead, Make, Run, Seen};

use crate::{
    cache::Cache,
    counters::Counters,
    digest::{self, Key},
    disk,
    journal::Journal,
    plugin::Process,
    pool::Herd,
    wire::{
        grpc::{Answer, Status, frame},
        messages::verdict,
        method::Method,
    },
};

/// What all runs share.
pub struct Shared {
    /// Answers that cannot differ.
    pub cache: Cache,
    /// What was applied.
    pub journal: Journal,
    /// Numbers.
    pub counters: Arc<Counters>,
    /// Where schemas are kept between two lives of the gateway, by the checksum of their program.
    pub schemas: PathBuf,
}

impl Shared {
    /// What a program says about itself: from memory, from the disk, or from a process.
    pub(crate) async fn about(&self, herd: &Herd, path: &str, body: Bytes) -> Result<(Answer, bool), Status> {
        let method = Method::parse(path);
        let key = digest::of([herd.origin.checksum.as_bytes(), path.as_bytes(), &body]);
        let file = self.schemas.join(format!("{}.answer", digest::hex(&key)));
        let ask = async {
            if let Ok(message) = tokio::fs::read(&file).await {
                return Ok(Answer::of(&message));
            }
            let answer = herd.any().await?.call(path, body).await?;
            if let Some(message) = answer.message().filter(|it| is_clean(it, &method)) {
                // Not kept is asked for again, and nothing worse.
                let _next_time = disk::replace(&file, message);
            }
            Ok(answer)
        };
        let keep = |answer: &Answer| answer.message().is_some_and(|it| is_clean(it, &method));
        let kept = self.cache.get(key, ask, keep).await?;
        Ok((kept.answer, kept.hit))
    }

    /// A call whose answer is a function of the program, its environment and the bytes.
    pub(crate) async fn pure(
        &self,
        herd: &Herd,
        path: &str,
        body: Bytes,
        bound: Option<Arc<Process>>,
    ) -> Result<(Answer, bool), Status> {
        let method = Method::parse(path);
        let key: Key = digest::of([&herd.key[..], path.as_bytes(), &body]);
        let ask = async {
            match bound {
                Some(process) => process.call(path, body).await,
                None => herd.any().await?.call(path, body).await,
            }
        };
        let kept = self
            .cache
            .get(key, ask, |answer| answer.message().is_some_and(|it| is_clean(it, &method)))
            .await?;
        Ok((kept.answer, kept.hit))
    }
}

/// An answer without any diagnostic. What has one is asked for again each time: the first answer may have been about
/// something that is over.
fn is_clean(message: &[u8], method: &Method<'_>) -> bool {
    verdict(message, method.diagnostics()).is_ok_and(|verdict| !verdict.any)
}

/// A message in its frame.
pub(crate) fn framed(message: &[u8]) -> Bytes {
    frame(message)
}
