//! The loop around every reconcile: broken objects stop nobody, errors set the pace, everything is measured.

use std::{fmt::Debug, hash::Hash, sync::Arc};

use futures::StreamExt;
use kube::{
    Resource, ResourceExt,
    core::DeserializeGuard,
    runtime::{Controller, controller::Action},
};
use serde::de::DeserializeOwned;

use super::pace::Pace;
use crate::{
    error::Class,
    k8s::{Events, News},
    telemetry::metrics::ControllerMetrics,
};

/// An error whose class sets the pace.
pub trait Classed: std::error::Error + Send + Sync + 'static {
    /// What kind of trouble it is.
    fn class(&self) -> Class;
}

/// What every loop needs.
#[derive(Clone)]
pub struct Tools {
    /// What people are told.
    pub events: Events,
    /// What is measured.
    pub metrics: ControllerMetrics,
}

/// Runs a controller until its streams end.
pub async fn tend<K, E, F, W>(controller: Controller<DeserializeGuard<K>>, tools: Tools, reconcile: F)
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    K::DynamicType: Eq + Hash + Clone + Default + Unpin,
    E: Classed,
    F: Fn(Arc<K>) -> W + Send + Sync + Clone + 'static,
    W: Future<Output = Result<Action, E>> + Send + 'static,
{
    let pace = Arc::new(Pace::default());
    let calm = Arc::clone(&pace);
    controller
        .run(
            move |object: Arc<DeserializeGuard<K>>, tools: Arc<Tools>| {
                let (pace, reconcile) = (Arc::clone(&calm), reconcile.clone());
                async move { one(&object, &tools, &pace, reconcile).await }
            },
            move |object, error: &E, _| {
                let name = name(&object);
                let kind = K::kind(&());
                match error.class() {
                    Class::Conflict | Class::Waiting => {
                        tracing::info!(%kind, object = name, error = chain(error), "will try again");
                    }
                    Class::Invalid | Class::Transient | Class::Terminal => {
                        tracing::warn!(%kind, object = name, error = chain(error), "could not be looked after");
                    }
                }
                Action::requeue(pace.after(&name, error.class()))
            },
            Arc::new(tools),
        )
        .for_each(|_| std::future::ready(()))
        .await;
}

async fn one<K, E, F, W>(
    object: &DeserializeGuard<K>,
    tools: &Tools,
    pace: &Pace,
    reconcile: F,
) -> Result<Action, E>
where
    K: Resource<DynamicType = ()> + Clone + Debug + Send + Sync,
    E: Classed,
    F: Fn(Arc<K>) -> W,
    W: Future<Output = Result<Action, E>>,
{
    let timer = tools.metrics.reconcile();
    let outcome = match &object.0 {
        Ok(object) => reconcile(Arc::new(object.clone())).await,
        Err(invalid) => {
            let note = format!("the object cannot be read, so nothing is done with it: {}", invalid.error);
            tools.events.tell(object, News::warning("Reconcile", "InvalidObject", note)).await;
            Ok(Action::await_change())
        }
    };
    match &outcome {
        Ok(_) => {
            pace.went_well(&name(object));
            timer.completed();
        }
        Err(error) => timer.failed(error.class().as_str()),
    }
    outcome
}

fn name<K: Resource<DynamicType = ()>>(object: &DeserializeGuard<K>) -> String {
    match object.namespace() {
        Some(namespace) => format!("{namespace}/{}", object.name_any()),
        None => object.name_any(),
    }
}

/// An error with its causes, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let said = cause.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        next = cause.source();
    }
    text
}
