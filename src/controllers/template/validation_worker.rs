//! Terraform looks templates over in the background, one at a time: nobody waits for it in a reconcile.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures::{Stream, stream::poll_fn};
use kube::{ResourceExt, core::DeserializeGuard, runtime::reflector::ObjectRef};
use terraform_driver::render::Request;
use tokio::sync::{Semaphore, mpsc};

use super::{
    judge::{Judged, Verdict, judge, remembered},
    reference,
};
use crate::{api::WorkspaceTemplate, blueprint::Key, runs::Runs, work::validate};

/// The generation that was looked at, and what is said of it once it is.
type Known = BTreeMap<Key, (i64, Option<Verdict>)>;

type Ref = ObjectRef<DeserializeGuard<WorkspaceTemplate>>;

/// What is known of templates, by name and generation.
pub struct Background {
    runs: Runs,
    known: Arc<Mutex<Known>>,
    one: Arc<Semaphore>,
    tell: mpsc::UnboundedSender<Ref>,
}

impl Background {
    /// Nothing is known yet. The stream names templates of which something is.
    pub fn new(runs: Runs) -> (Self, impl Stream<Item = Ref> + Send + 'static) {
        let (tell, mut told) = mpsc::unbounded_channel();
        let new = Self { runs, known: Arc::default(), one: Arc::new(Semaphore::new(1)), tell };
        (new, poll_fn(move |waker| told.poll_recv(waker)))
    }

    /// What is known of a template; if nothing is, somebody begins to find out.
    pub fn verdict(&self, object: &WorkspaceTemplate) -> Option<Verdict> {
        let key = Key::new(&object.namespace().unwrap_or_default(), &object.name_any());
        let generation = object.metadata.generation.unwrap_or_default();
        if let Some((known, verdict)) = lock(&self.known).get(&key)
            && *known == generation
        {
            return verdict.clone();
        }
        let judged = remembered(object).map_or_else(|| judge(&key, object), Judged::Settled);
        match judged {
            Judged::Settled(verdict) => {
                lock(&self.known).insert(key, (generation, Some(verdict.clone())));
                Some(verdict)
            }
            Judged::Ask(request) => {
                lock(&self.known).insert(key.clone(), (generation, None));
                self.ask(key, generation, (request, reference(object)));
                None
            }
        }
    }

    fn ask(&self, key: Key, generation: i64, (request, name): (Box<Request>, Ref)) {
        let (runs, known, one) = (self.runs.clone(), Arc::clone(&self.known), Arc::clone(&self.one));
        let tell = self.tell.clone();
        tokio::spawn(async move {
            // Nobody closes it.
            let _turn = one.acquire().await;
            let verdict = match validate(runs.site(), &request).await {
                Ok(findings) => Verdict::of_findings(&findings),
                Err(error) => Verdict::Valid(format!("terraform could not look at it: {error}")),
            };
            if let Some(entry) = lock(&known).get_mut(&key).filter(|entry| entry.0 == generation) {
                entry.1 = Some(verdict);
            }
            // Nobody listens while the process ends.
            let _ended = tell.send(name);
        });
    }
}

fn lock<T>(known: &Mutex<T>) -> MutexGuard<'_, T> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}
