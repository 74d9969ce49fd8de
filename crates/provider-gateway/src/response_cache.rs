//! Answers that cannot differ, kept.
//!
//! Each key is asked for once at a time: who comes second waits for the first one's answer, and nobody waits for
//! another key. What may not be kept is handed out and forgotten.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::sync::OnceCell;

use crate::{
    digest::Key,
    wire::grpc::{Answer, Status},
};

/// How many bytes of answers are kept before the oldest go.
const MOST: usize = 64 << 20;

/// Kept answers.
#[derive(Default)]
pub struct Cache {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    cells: HashMap<Key, Arc<OnceCell<Answer>>>,
    order: VecDeque<(Key, usize)>,
    bytes: usize,
}

/// An answer, and where it comes from.
pub struct Kept {
    /// The answer.
    pub answer: Answer,
    /// Whether nobody had to be asked.
    pub hit: bool,
}

impl Cache {
    /// The answer for a key: kept, or asked for. `keep` says whether it may be kept.
    pub async fn get(
        &self,
        key: Key,
        ask: impl Future<Output = Result<Answer, Status>>,
        keep: impl FnOnce(&Answer) -> bool,
    ) -> Result<Kept, Status> {
        let cell = Arc::clone(self.inner.lock().cells.entry(key).or_default());
        let mut asked = false;
        let outcome = cell
            .get_or_try_init(|| async {
                asked = true;
                let answer = ask.await.map_err(Missed::Failed)?;
                if keep(&answer) { Ok(answer) } else { Err(Missed::NotKept(answer)) }
            })
            .await;
        match outcome {
            Ok(answer) => {
                if asked {
                    self.note(key, answer.body.len());
                }
                Ok(Kept { answer: answer.clone(), hit: !asked })
            }
            Err(missed) => {
                self.forget(key, &cell);
                match missed {
                    Missed::NotKept(answer) => Ok(Kept { answer, hit: false }),
                    Missed::Failed(status) => Err(status),
                }
            }
        }
    }

    fn note(&self, key: Key, bytes: usize) {
        let mut inner = self.inner.lock();
        // A little more than its bytes: the key and the cell.
        let cost = bytes + 256;
        inner.bytes += cost;
        inner.order.push_back((key, cost));
        while inner.bytes > MOST
            && let Some((oldest, cost)) = inner.order.pop_front()
        {
            inner.cells.remove(&oldest);
            inner.bytes = inner.bytes.saturating_sub(cost);
        }
    }

    /// A cell that holds nothing and that nobody else waits for need not stay.
    fn forget(&self, key: Key, cell: &Arc<OnceCell<Answer>>) {
        let mut inner = self.inner.lock();
        if !cell.initialized() && Arc::strong_count(cell) <= 2 {
            inner.cells.remove(&key);
        }
    }
}

enum Missed {
    NotKept(Answer),
    Failed(Status),
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn many_who_ask_at_once_ask_once() {
        let (cache, asked) = (Cache::default(), AtomicUsize::new(0));
        let ask = || {
            cache.get(
                [1; 32],
                async {
                    asked.fetch_add(1, Ordering::Relaxed);
                    // The others ask while this one has no answer yet.
                    tokio::task::yield_now().await;
                    Ok(Answer::of(b"x"))
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
        let cache = Cache::default();
        for _ in 0..2 {
            let kept = cache.get([1; 32], async { Ok(Answer::of(b"x")) }, |_| false).await.unwrap();
            assert!(!kept.hit);
        }
        let failed = cache.get([1; 32], async { Err(Status::unavailable("gone")) }, |_| true).await;
        assert!(failed.is_err());
        assert!(cache.inner.lock().cells.is_empty());
    }

    #[tokio::test]
    async fn old_answers_make_room() {
        let cache = Cache::default();
        let big = Answer::of(&vec![0; MOST / 4]);
        for at in 0..8 {
            cache.get([at; 32], async { Ok(big.clone()) }, |_| true).await.unwrap();
        }
        assert!(cache.inner.lock().cells.len() < 4);
        assert!(cache.get([0; 32], async { Ok(big.clone()) }, |_| true).await.is_ok_and(|kept| !kept.hit));
    }
}
