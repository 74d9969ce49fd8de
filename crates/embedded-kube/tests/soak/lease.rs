//! Leader election on a Lease: the writer with the right resourceVersion leads until its term ends.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client, api::PostParams};
use serde_json::json;
use tokio_util::sync::CancellationToken;

const NAME: &str = "soak";
const TERM: Duration = Duration::from_millis(1500);
const RENEW: Duration = Duration::from_millis(300);

/// Periods in which a replica could believe to be leader. It stops believing at the end of its term, even if the
/// machine schedules it late: only overlapping terms mean two leaders.
#[derive(Default)]
pub(crate) struct LeadershipLog(Mutex<Vec<(Instant, Instant)>>);

impl LeadershipLog {
    pub(crate) fn begin(&self, term: &Term) -> LeadershipGuard<'_> {
        let mut terms = self.0.lock().unwrap();
        terms.push((Instant::now(), term.since + TERM));
        LeadershipGuard { leaders: self, at: terms.len() - 1 }
    }

    pub(crate) fn terms(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    pub(crate) fn overlaps(&self) -> usize {
        let mut terms = self.0.lock().unwrap().clone();
        terms.sort();
        terms.windows(2).filter(|pair| pair[1].0 < pair[0].1).count()
    }
}

/// Leadership while this exists, and no longer than its term.
pub(crate) struct LeadershipGuard<'a> {
    leaders: &'a LeadershipLog,
    at: usize,
}

impl LeadershipGuard<'_> {
    fn renewed(&self, term: &Term) {
        self.leaders.0.lock().unwrap()[self.at].1 = term.since + TERM;
    }
}

impl Drop for LeadershipGuard<'_> {
    fn drop(&mut self) {
        let end = &mut self.leaders.0.lock().unwrap()[self.at].1;
        *end = (*end).min(Instant::now());
    }
}

/// A leader's term: the written resourceVersion and the start time.
pub(crate) struct Term {
    version: String,
    since: Instant,
}

/// Each lease differs from the last: a write without a change would renew nothing.
fn lease(holder: &str, version: Option<&str>) -> Lease {
    static BEATS: AtomicU64 = AtomicU64::new(0);
    let beat = BEATS.fetch_add(1, Ordering::Relaxed).to_string();
    let object = json!({
        "metadata": {"name": NAME, "resourceVersion": version, "annotations": {"beat": beat}},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 2},
    });
    serde_json::from_value(object).unwrap()
}

/// Waits until the lease is free or expired by our own clock, and acquires it.
pub(crate) async fn acquire(client: &Client, me: &str, cancel: &CancellationToken) -> Option<Term> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), "default");
    let mut seen: Option<(String, Instant)> = None;
    while !cancel.is_cancelled() {
        let since = Instant::now();
        let written = match leases.get_opt(NAME).await {
            Ok(None) => leases.create(&PostParams::default(), &lease(me, None)).await.ok(),
            Ok(Some(found)) => {
                let version = found.metadata.resource_version.unwrap_or_default();
                let first = match &seen {
                    Some((same, first)) if *same == version => *first,
                    _ => since,
                };
                seen = Some((version.clone(), first));
                // The holder may believe in its term for as long as ours lasts, plus a margin.
                if first.elapsed() > TERM + RENEW {
                    leases.replace(NAME, &PostParams::default(), &lease(me, Some(&version))).await.ok()
                } else {
                    None
                }
            }
            Err(_) => None,
        };
        if let Some(version) = written.and_then(|lease| lease.metadata.resource_version) {
            return Some(Term { version, since });
        }
        tokio::time::sleep(RENEW / 3).await;
    }
    None
}

/// Renews until it fails for a whole term, counted from before the last successful request.
pub(crate) async fn renew_until_lost(
    client: &Client,
    me: &str,
    mut term: Term,
    leading: &LeadershipGuard<'_>,
) {
    let leases: Api<Lease> = Api::namespaced(client.clone(), "default");
    loop {
        let left = TERM.saturating_sub(term.since.elapsed());
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(RENEW.min(left)).await;
        let since = Instant::now();
        let wanted = lease(me, Some(&term.version));
        let params = PostParams::default();
        let renew = leases.replace(NAME, &params, &wanted);
        match tokio::time::timeout(TERM.saturating_sub(term.since.elapsed()), renew).await {
            Ok(Ok(written)) => {
                term = Term { version: written.metadata.resource_version.unwrap_or_default(), since };
                leading.renewed(&term);
            }
            // Another writer, or our own write without a response: check the holder.
            Ok(Err(_)) => match leases.get(NAME).await {
                Ok(found)
                    if found.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()) == Some(me) =>
                {
                    term.version = found.metadata.resource_version.unwrap_or_default();
                }
                Ok(_) => return,
                Err(_) => {}
            },
            Err(_) => return,
        }
    }
}
