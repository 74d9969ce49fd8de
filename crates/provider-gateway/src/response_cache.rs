//! Cache of responses that are a pure function of their key.
//!
//! Concurrent requests for a key are coalesced: the first one calls the provider, the others wait for its response;
//! different keys never wait for each other. Responses that may not be cached are returned and dropped.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::sync::OnceCell;

use crate::{
    digest::DigestKey,
    wire::grpc::{GrpcResponse, GrpcStatus},
};

/// Size limit; the oldest entries are evicted first.
const MAX_BYTES: usize = 64 << 20;

/// Cached responses.
#[derive(Default)]
pub struct ResponseCache {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    cells: HashMap<DigestKey, Arc<OnceCell<GrpcResponse>>>,
    order: VecDeque<(DigestKey, usize)>,
    bytes: usize,
}

/// A response and whether it came from the cache.
pub struct CacheLookup {
    /// The response.
    pub response: GrpcResponse,
    /// Whether the provider was not called.
    pub hit: bool,
}

impl ResponseCache {
    /// Returns the cached response for a key, or obtains it through `ask`. `keep` decides whether it may be cached.
    pub async fn get(
        &self,
        key: DigestKey,
        ask: impl Future<Output = Result<GrpcResponse, GrpcStatus>>,
        keep: impl FnOnce(&GrpcResponse) -> bool,
    ) -> Result<CacheLookup, GrpcStatus> {
        let cell = Arc::clone(self.inner.lock().cells.entry(key).or_default());
        let mut asked = false;
        let outcome = cell
            .get_or_try_init(|| async {
                asked = true;
                let answer = ask.await.map_err(CacheMiss::Failed)?;
                if keep(&answer) { Ok(answer) } else { Err(CacheMiss::Uncacheable(answer)) }
            })
            .await;
        match outcome {
            Ok(answer) => {
                if asked {
                    self.record_size(key, answer.body.len());
                }
                Ok(CacheLookup { response: answer.clone(), hit: !asked })
            }
            Err(missed) => {
                self.remove_if_empty(key, &cell);
                match missed {
                    CacheMiss::Uncacheable(answer) => Ok(CacheLookup { response: answer, hit: false }),
                    CacheMiss::Failed(status) => Err(status),
                }
            }
        }
    }

    fn record_size(&self, key: DigestKey, bytes: usize) {
        let mut inner = self.inner.lock();
        // Plus the overhead of key and cell.
        let cost = bytes + 256;
        inner.bytes += cost;
        inner.order.push_back((key, cost));
        while inner.bytes > MAX_BYTES
            && let Some((oldest, cost)) = inner.order.pop_front()
        {
            inner.cells.remove(&oldest);
            inner.bytes = inner.bytes.saturating_sub(cost);
        }
    }

    /// Removes a cell that is empty and that no other request waits for.
    fn remove_if_empty(&self, key: DigestKey, cell: &Arc<OnceCell<GrpcResponse>>) {
        let mut inner = self.inner.lock();
        if !cell.initialized() && Arc::strong_count(cell) <= 2 {
            inner.cells.remove(&key);
        }
    }
}

enum CacheMiss {
    Uncacheable(GrpcResponse),
    Failed(GrpcStatus),
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn many_who_ask_at_once_ask_once() {
        let (cache, asked) = (ResponseCache::default(), AtomicUsize::new(0));
        let ask = || {
            cache.get(
                [1; 32],
                async {
                    asked.fetch_add(1, Ordering::Relaxed);
                    // The others arrive while this one has no response yet.
                    tokio::task::yield_now().await;
                    Ok(GrpcResponse::ok(b"x"))
                },
                |_| true,
            )
        };
        let all = futures::future::join_all((0..8).map(|_| ask())).await;
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        assert_eq!(all.iter().filter(|kept| kept.as_ref().is_ok_and(|kept| kept.hit)).count(), 7);
    }

    #[tokio::test]
    async fn what_may_not_be_kept_is_asked_for_again() {
        let cache = ResponseCache::default();
        for _ in 0..2 {
            let kept = cache.get([1; 32], async { Ok(GrpcResponse::ok(b"x")) }, |_| false).await.unwrap();
            assert!(!kept.hit);
        }
        let failed =
            cache.get([1; 32], async { Err(GrpcStatus::provider_unavailable("gone")) }, |_| true).await;
        assert!(failed.is_err());
        assert!(cache.inner.lock().cells.is_empty());
    }

    #[tokio::test]
    async fn old_answers_make_room() {
        let cache = ResponseCache::default();
        let big = GrpcResponse::ok(&vec![0; MAX_BYTES / 4]);
        for at in 0..8 {
            cache.get([at; 32], async { Ok(big.clone()) }, |_| true).await.unwrap();
        }
        assert!(cache.inner.lock().cells.len() < 4);
        assert!(cache.get([0; 32], async { Ok(big.clone()) }, |_| true).await.is_ok_and(|kept| !kept.hit));
    }
}
