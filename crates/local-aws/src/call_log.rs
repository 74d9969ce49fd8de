//! Bounded in-memory log of recent calls, for tests and for debugging what Terraform did.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use jiff::Timestamp;
use serde::Serialize;

const CAPACITY: usize = 5000;

/// One call: answered, or with status 0 if the connection was dropped.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct CallRecord {
    pub(crate) seq: u64,
    pub(crate) at: Timestamp,
    pub(crate) service: String,
    pub(crate) operation: String,
    pub(crate) region: String,
    pub(crate) access_key: String,
    pub(crate) status: u16,
    /// The error code, when EKS or an injected fault returned one.
    pub(crate) error: Option<String>,
    pub(crate) millis: u64,
}

#[derive(Debug, Default)]
pub(crate) struct CallLog(Mutex<Ring>);

#[derive(Debug, Default)]
struct Ring {
    total: u64,
    recent: VecDeque<CallRecord>,
}

impl CallLog {
    /// Assigns a sequence number and appends.
    pub(crate) fn push(&self, mut call: CallRecord) {
        let mut ring = self.lock();
        ring.total += 1;
        call.seq = ring.total;
        if ring.recent.len() == CAPACITY {
            ring.recent.pop_front();
        }
        ring.recent.push_back(call);
    }

    pub(crate) fn total(&self) -> u64 {
        self.lock().total
    }

    /// Retained calls after `seq`, oldest first.
    pub(crate) fn after(&self, seq: u64) -> Vec<CallRecord> {
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
        let calls = CallLog::default();
        for _ in 0..CAPACITY + 3 {
            calls.push(CallRecord {
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
        assert_eq!(calls.total(), CAPACITY as u64 + 3);
        assert_eq!(calls.after(0).len(), CAPACITY);
        assert_eq!(
            calls.after(CAPACITY as u64 + 2).iter().map(|call| call.seq).collect::<Vec<_>>(),
            [CAPACITY as u64 + 3]
        );
    }
}
