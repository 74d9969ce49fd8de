//! Background validation of templates with terraform, one at a time. A reconcile never waits for it.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use capt_engine::{pipeline::validate_configuration, runs::RunManager};
use capt_kinds::api::WorkspaceTemplate;
use capt_model::workspaces::WorkspaceKey;
use futures::{Stream, stream::poll_fn};
use kube::{ResourceExt, core::DeserializeGuard, runtime::reflector::ObjectRef};
use terraform_driver::render::RenderRequest;
use tokio::sync::{Semaphore, mpsc};

use super::{
    object_ref,
    validate::{StaticValidation, TemplateValidity, recorded_validity, validate_statically},
};

/// Validated generation by template; the validity is none while terraform runs.
type ValidationCache = BTreeMap<WorkspaceKey, (i64, Option<TemplateValidity>)>;

type TemplateObjectRef = ObjectRef<DeserializeGuard<WorkspaceTemplate>>;

/// Validates templates and caches the results by generation.
pub struct ValidationWorker {
    runs: RunManager,
    cache: Arc<Mutex<ValidationCache>>,
    semaphore: Arc<Semaphore>,
    notifier: mpsc::UnboundedSender<TemplateObjectRef>,
}

impl ValidationWorker {
    /// Creates an empty cache. The stream yields templates whose validation finished.
    pub fn new(runs: RunManager) -> (Self, impl Stream<Item = TemplateObjectRef> + Send + 'static) {
        let (tell, mut told) = mpsc::unbounded_channel();
        let new =
            Self { runs, cache: Arc::default(), semaphore: Arc::new(Semaphore::new(1)), notifier: tell };
        (new, poll_fn(move |waker| told.poll_recv(waker)))
    }

    /// The cached validity; if there is none, starts a validation and returns none.
    pub fn get_or_start(&self, object: &WorkspaceTemplate) -> Option<TemplateValidity> {
        let key = WorkspaceKey::new(&object.namespace().unwrap_or_default(), &object.name_any());
        let generation = object.metadata.generation.unwrap_or_default();
        if let Some((known, verdict)) = lock(&self.cache).get(&key)
            && *known == generation
        {
            return verdict.clone();
        }
        let judged = recorded_validity(object)
            .map_or_else(|| validate_statically(&key, object), StaticValidation::Complete);
        match judged {
            StaticValidation::Complete(verdict) => {
                lock(&self.cache).insert(key, (generation, Some(verdict.clone())));
                Some(verdict)
            }
            StaticValidation::NeedsTerraform(request) => {
                lock(&self.cache).insert(key.clone(), (generation, None));
                self.spawn_validation(key, generation, (request, object_ref(object)));
                None
            }
        }
    }

    fn spawn_validation(
        &self,
        key: WorkspaceKey,
        generation: i64,
        (request, name): (Box<RenderRequest>, TemplateObjectRef),
    ) {
        let (runs, known, one) = (self.runs.clone(), Arc::clone(&self.cache), Arc::clone(&self.semaphore));
        let tell = self.notifier.clone();
        tokio::spawn(async move {
            // The semaphore is never closed.
            let _turn = one.acquire().await;
            let verdict = match validate_configuration(runs.data_dir(), &request).await {
                Ok(findings) => TemplateValidity::from_findings(&findings),
                Err(error) => TemplateValidity::Valid(format!("terraform could not validate it: {error}")),
            };
            if let Some(entry) = lock(&known).get_mut(&key).filter(|entry| entry.0 == generation) {
                entry.1 = Some(verdict);
            }
            // The receiver is dropped during shutdown.
            let _ended = tell.send(name);
        });
    }
}

fn lock<T>(known: &Mutex<T>) -> MutexGuard<'_, T> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}
