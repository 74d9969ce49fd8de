//! The log of recent calls: bounded, in memory, for tests and for people who wonder what terraform did.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use jiff::Timestamp;
use serde::Serialize;

const KEPT: usize = 5000;

/// One call that was answered, or dropped (status 0).
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Call {
    pub(crate) seq: u64,
    pub(crate) at: Timestamp,
    pub(crate) service: String,
    pub(crate) operation: String,
    pub(crate) region: String,
    pub(crate) access_key: String,
    pub(crate) status: u16,
    /// The exception, when EKS or a fault answered with one.
    pub(crate) error: Option<String>,
    pub(crate) millis: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Calls(Mutex<Ring>);

#[derive(Debug, Default)]
struct Ring {
    total: u64,
    recent: VecDeque<Call>,
}

impl Calls {
    /// Numbers a call and keeps it.
    pub(crate) fn push(&self, mut call: Call) {
        let mut ring = self.lock();
        ring.total += 1;
        call.seq = ring.total;
        if ring.recent.len() == KEPT {
            ring.recent.pop_front();
        }
        ring.recent.push_back(call);
    }

    pub(crate) fn total(&self) -> u64 {
        self.lock().total
    }

    /// The kept calls after `seq`, oldest first.
    pub(crate) fn after(&self, seq: u64) -> Vec<Call> {
        self.lock().recent.iter().filter(|call| call.seq > seq).cloned().collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Ring> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_forgets_the_oldest_and_keeps_counting() {
        let calls = Calls::default();
        for _ in 0..KEPT + 3 {
            calls.push(Call {
                seq: 0,
                at: Timestamp::UNIX_EPOCH,
                service: "eks".into(),
                operation: "ListClusters".into(),
                region: "eu-west-1".into(),
                access_key: "test".into(),
                status: 200,
                error: None,
                millis: 0,
            });
        }
        assert_eq!(calls.total(), KEPT as u64 + 3);
        assert_eq!(calls.after(0).len(), KEPT);
        assert_eq!(
            calls.after(KEPT as u64 + 2).iter().map(|call| call.seq).collect::<Vec<_>>(),
            [KEPT as u64 + 3]
        );
    }
}
