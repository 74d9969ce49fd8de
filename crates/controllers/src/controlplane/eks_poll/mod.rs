//! Background polling of EKS and of the cluster's API server, and issuing of tokens.
//!
//! AWS calls are slow and may fail, so that a reconcile never waits for them: it starts a query, uses the last observation, and
//! is triggered again by the response. A failed query keeps the last observation.

mod backend;
mod observation;
mod query;
mod schedule;

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use capt_engine::aws::Principal;
use jiff::Timestamp;

pub use self::{
    backend::{AwsBackend, EksBackend},
    observation::{ApiServerAccess, EksFacts, EksLookup, EksObservation, EksResponse, IssuedToken},
    schedule::{NextPoll, PollInputs, next_poll},
};

/// A query of a reconcile.
#[derive(Debug, Clone, PartialEq)]
pub struct EksQuery {
    /// The name of the cluster in EKS.
    pub cluster: String,
    /// Its region.
    pub region: String,
    /// The principal that sends the requests.
    pub principal: Principal,
    /// Profiles to describe, by their names in EKS.
    pub profiles: BTreeSet<String>,
    /// Fingerprint of the finished runs; a change makes earlier observations obsolete.
    pub run_fingerprint: String,
    /// ARN of the cluster that is proven to belong to the control plane. Nothing is issued for another one, or sent to it.
    pub proven_arn: Option<String>,
    /// Whether to issue a new token.
    pub needs_token: bool,
    /// Whether to probe the API server.
    pub probes_api: bool,
}

/// The last observation of each control plane, by UID; runs the queries.
#[derive(Debug, Default)]
pub struct EksPoller(Mutex<HashMap<String, PollerEntry>>);

#[derive(Debug, Default)]
struct PollerEntry {
    observation: EksObservation,
    in_flight: bool,
}

impl EksPoller {
    /// The last observation.
    pub fn observation(&self, uid: &str) -> EksObservation {
        self.lock().get(uid).map(|entry| entry.observation.clone()).unwrap_or_default()
    }

    /// Removes a deleted object.
    pub fn forget(&self, uid: &str) {
        self.lock().remove(uid);
    }

    /// Records a requested rerun of a profile's workspace, or with `None` resets its history.
    pub fn record_rerun(&self, uid: &str, workspace: &str, at: Option<Timestamp>) {
        let mut all = self.lock();
        let reruns = &mut all.entry(uid.to_owned()).or_default().observation.reruns;
        match at {
            Some(at) => {
                let rerun = reruns.entry(workspace.to_owned()).or_default();
                rerun.count = rerun.count.saturating_add(1);
                rerun.last_requested = Some(at);
            }
            None => {
                reruns.remove(workspace);
            }
        }
    }

    /// Starts a query in the background, unless one is in flight. Calls `wake` after the response is recorded.
    pub fn start_query(
        self: &Arc<Self>,
        uid: &str,
        question: EksQuery,
        cloud: Arc<dyn EksBackend>,
        (clock, wake): (fn() -> Timestamp, impl FnOnce() + Send + 'static),
    ) {
        let held = {
            let mut all = self.lock();
            let entry = all.entry(uid.to_owned()).or_default();
            if std::mem::replace(&mut entry.in_flight, true) {
                return;
            }
            entry.observation.token.clone()
        };
        let (poller, uid) = (Arc::clone(self), uid.to_owned());
        tokio::spawn(async move {
            let answer = query::run_query(&*cloud, &question, held, clock()).await;
            poller.record_response(&uid, &question, answer, clock());
            wake();
        });
    }

    fn record_response(&self, uid: &str, question: &EksQuery, answer: EksResponse, now: Timestamp) {
        let mut all = self.lock();
        // The object was removed while the query was in flight.
        let Some(entry) = all.get_mut(uid) else { return };
        entry.in_flight = false;
        entry.observation.merge_response(&question.run_fingerprint, answer, now);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, PollerEntry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
