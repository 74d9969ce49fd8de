//! What the world says of an EKS cluster: EKS itself, its API server, and tokens that open it.
//!
//! The world is slow and moody, so that a reconcile never waits for it: it says what it wants to know, takes what is known,
//! and is woken up when there is an answer. What was known stays known while there is no other answer.

mod ask;
mod cloud;
mod known;
mod when;

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use jiff::Timestamp;

pub use self::{
    cloud::{Aws, Cloud},
    known::{Access, Answer, Found, Known, Look, Made},
    when::{Needs, When, next},
};
use crate::aws::Principal;

/// What a reconcile wants to know.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// The name of the cluster in EKS.
    pub cluster: String,
    /// Its region.
    pub region: String,
    /// Who asks.
    pub principal: Principal,
    /// Profiles to ask for, by their names in EKS.
    pub profiles: BTreeSet<String>,
    /// Changes whenever something happened after which the world is another one.
    pub stamp: String,
    /// Whether a new token is needed.
    pub token: bool,
    /// Whether the API server is to be called, and how it is reached if EKS does not tell.
    pub call: Option<Access>,
}

/// What is known of each control plane, by its uid.
#[derive(Debug, Default)]
pub struct Looks(Mutex<HashMap<String, Entry>>);

#[derive(Debug, Default)]
struct Entry {
    look: Look,
    is_asking: bool,
}

impl Looks {
    /// What is known.
    pub fn known(&self, uid: &str) -> Look {
        self.lock().get(uid).map(|entry| entry.look.clone()).unwrap_or_default()
    }

    /// Forgets an object that is gone.
    pub fn forget(&self, uid: &str) {
        self.lock().remove(uid);
    }

    /// Notes that a profile's workspace was asked to run again, or that it need not be any more.
    pub fn poked(&self, uid: &str, workspace: &str, at: Option<Timestamp>) {
        let mut all = self.lock();
        let pokes = &mut all.entry(uid.to_owned()).or_default().look.pokes;
        match at {
            Some(at) => {
                let poke = pokes.entry(workspace.to_owned()).or_default();
                poke.times = poke.times.saturating_add(1);
                poke.last = Some(at);
            }
            None => {
                pokes.remove(workspace);
            }
        }
    }

    /// Asks in the background, unless somebody does already; then wakes up whoever wants to know.
    pub fn ask(
        self: &Arc<Self>,
        uid: &str,
        question: Question,
        cloud: Arc<dyn Cloud>,
        (clock, wake): (fn() -> Timestamp, impl FnOnce() + Send + 'static),
    ) {
        let held = {
            let mut all = self.lock();
            let entry = all.entry(uid.to_owned()).or_default();
            if std::mem::replace(&mut entry.is_asking, true) {
                return;
            }
            entry.look.token.clone()
        };
        let (looks, uid) = (Arc::clone(self), uid.to_owned());
        tokio::spawn(async move {
            let answer = ask::ask(&*cloud, &question, held, clock()).await;
            looks.take(&uid, &question, answer, clock());
            wake();
        });
    }

    fn take(&self, uid: &str, question: &Question, answer: Answer, now: Timestamp) {
        let mut all = self.lock();
        // An object that was forgotten meanwhile stays so.
        let Some(entry) = all.get_mut(uid) else { return };
        entry.is_asking = false;
        entry.look.take(&question.stamp, answer, now);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
