//! Writes into the status of local workloads who is connected to this router: on every transition, and otherwise at most
//! every thirty seconds.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures::StreamExt as _;
use kube::{
    Api, ResourceExt as _,
    core::DeserializeGuard,
    runtime::{
        WatchStreamExt as _,
        watcher::{self, Event, watcher},
    },
};
use sandbox::api::LocalWorkload;
use sandbox_router::tunnel::{
    Workload,
    gateway::{Gateway, View},
};
use terraform_driver::clock;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::words::{Deed, HEARTBEAT, compare, news};
use crate::k8s::{Events, Kube};

/// Which router this is.
#[derive(Debug, Clone)]
pub struct Router {
    /// The name of its pod.
    pub name: String,
    /// Where the other routers reach it.
    pub address: Option<String>,
}

/// How soon a write that failed is tried again.
const AGAIN: Duration = Duration::from_secs(2);

/// Runs until `stop`. `namespace` is where the router's workloads are; all of them without one.
pub async fn report(
    kube: Kube,
    namespace: Option<String>,
    gateway: Arc<Gateway>,
    me: Router,
    stop: CancellationToken,
) {
    let client = kube.client().clone();
    let objects: Api<DeserializeGuard<LocalWorkload>> = match &namespace {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    };
    let mut events = std::pin::pin!(watcher(objects, watcher::Config::default()).default_backoff());
    let mut changes = gateway.changes();
    let mut beat = interval(HEARTBEAT);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut known = Known::default();
    let mouth = Events::new(kube.clone(), "capt/router", &me.name);
    loop {
        let is_settled = known.speak((&kube, &mouth), &gateway, &me).await;
        tokio::select! {
            event = events.next() => match event {
                Some(Ok(event)) => known.hear(event, &gateway),
                Some(Err(error)) => tracing::debug!(%error, "the watch of local workloads stumbled"),
                None => return,
            },
            moved = changes.changed() => if moved.is_err() { return },
            _ = beat.tick() => {}
            () = tokio::time::sleep(AGAIN), if !is_settled => {}
            () = stop.cancelled() => return,
        }
    }
}

/// The objects, as last seen.
#[derive(Default)]
struct Known {
    objects: HashMap<Workload, LocalWorkload>,
    /// Those that a list has named so far.
    listed: Option<Vec<Workload>>,
}

impl Known {
    fn hear(&mut self, event: Event<DeserializeGuard<LocalWorkload>>, gateway: &Gateway) {
        match event {
            Event::Init => self.listed = Some(Vec::new()),
            Event::InitApply(object) | Event::Apply(object) => {
                // One that cannot be read is the controller's concern.
                let Ok(object) = object.0 else { return };
                let workload = workload(&object);
                if let Some(listed) = &mut self.listed {
                    listed.push(workload.clone());
                }
                self.objects.insert(workload, object);
            }
            Event::Delete(object) => {
                let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
                self.gone(&Workload::new(&namespace, &name), gateway);
            }
            Event::InitDone => {
                let listed = self.listed.take().unwrap_or_default();
                let lost: Vec<Workload> =
                    self.objects.keys().filter(|it| !listed.contains(it)).cloned().collect();
                for it in &lost {
                    self.gone(it, gateway);
                }
            }
        }
    }

    fn gone(&mut self, workload: &Workload, gateway: &Gateway) {
        self.objects.remove(workload);
        gateway.forget(workload, "the LocalWorkload was deleted");
    }

    /// Says what is not said yet; whether all of it could be.
    async fn speak(&mut self, (kube, mouth): (&Kube, &Events), gateway: &Gateway, me: &Router) -> bool {
        let mut is_settled = true;
        for view in gateway.sessions() {
            let Some(object) = self.objects.get(&view.workload) else { continue };
            match compare(object, &view, me, clock::now()) {
                Deed::Nothing => {}
                Deed::Yield(why) => gateway.give_up(&view.workload, view.epoch, &why),
                Deed::Write(new) => {
                    match kube.write_status(object, object.status.as_ref(), new.as_ref()).await {
                        Ok(_) => {
                            let why = view.why.as_deref().unwrap_or_default();
                            if let Some(news) = news(object.status.as_ref(), &new, why) {
                                mouth.tell(object, news).await;
                            }
                            self.wrote(&view, *new);
                        }
                        Err(error) => {
                            // A conflict is solved by the watch, which brings the newer object.
                            tracing::debug!(workload = %view.workload, %error, "its session is not said yet");
                            is_settled = false;
                        }
                    }
                }
            }
        }
        is_settled
    }

    /// Until the watch brings the object as it is now, nothing else may be written over it.
    fn wrote(&mut self, view: &View, status: sandbox::api::LocalWorkloadStatus) {
        if let Some(object) = self.objects.get_mut(&view.workload) {
            object.status = Some(status);
        }
    }
}

fn workload(object: &LocalWorkload) -> Workload {
    Workload::new(&object.namespace().unwrap_or_default(), &object.name_any())
}
