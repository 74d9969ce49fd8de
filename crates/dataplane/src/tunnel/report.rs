//! Writes the sessions of this router to the status of their local workloads: on every transition, otherwise at most every 30 s.

use std::{collections::HashMap, sync::Arc, time::Duration};

use capt_kinds::sandbox::LocalWorkload;
use capt_kube::k8s::{EventPublisher, KubeClient};
use futures::StreamExt as _;
use kube::{
    Api, ResourceExt as _,
    core::DeserializeGuard,
    runtime::{
        WatchStreamExt as _,
        watcher::{self, Event, watcher},
    },
};
use sandbox_router::tunnel::{
    WorkloadName,
    gateway::{Gateway, SessionStatus},
};
use terraform_driver::clock;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::session_status::{HEARTBEAT, SessionAction, decide_action, session_event};

/// The identity of a router.
#[derive(Debug, Clone)]
pub struct RouterIdentity {
    /// The name of its pod.
    pub name: String,
    /// Address at which the other routers reach it.
    pub address: Option<String>,
}

/// Retry delay after a failed write.
const WRITE_RETRY: Duration = Duration::from_secs(2);

/// Runs until `stop`. Covers the local workloads of `namespace`, or of all namespaces if `None`.
pub async fn report_sessions(
    kube: KubeClient,
    namespace: Option<String>,
    gateway: Arc<Gateway>,
    me: RouterIdentity,
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
    let mut known = WorkloadCache::default();
    let mouth = EventPublisher::new(kube.clone(), "capt/router", &me.name);
    loop {
        let is_settled = known.write_statuses((&kube, &mouth), &gateway, &me).await;
        tokio::select! {
            event = events.next() => match event {
                Some(Ok(event)) => known.apply_event(event, &gateway),
                Some(Err(error)) => tracing::debug!(%error, "watch error, restarting"),
                None => return,
            },
            moved = changes.changed() => if moved.is_err() { return },
            _ = beat.tick() => {}
            () = tokio::time::sleep(WRITE_RETRY), if !is_settled => {}
            () = stop.cancelled() => return,
        }
    }
}

/// Cache of the local workloads.
#[derive(Default)]
struct WorkloadCache {
    objects: HashMap<WorkloadName, LocalWorkload>,
    /// Objects returned so far by the list in progress.
    listed: Option<Vec<WorkloadName>>,
}

impl WorkloadCache {
    fn apply_event(&mut self, event: Event<DeserializeGuard<LocalWorkload>>, gateway: &Gateway) {
        match event {
            Event::Init => self.listed = Some(Vec::new()),
            Event::InitApply(object) | Event::Apply(object) => {
                // The controller reports undecodable objects.
                let Ok(object) = object.0 else { return };
                let workload = workload_key(&object);
                if let Some(listed) = &mut self.listed {
                    listed.push(workload.clone());
                }
                self.objects.insert(workload, object);
            }
            Event::Delete(object) => {
                let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
                self.remove(&WorkloadName::new(&namespace, &name), gateway);
            }
            Event::InitDone => {
                let listed = self.listed.take().unwrap_or_default();
                let lost: Vec<WorkloadName> =
                    self.objects.keys().filter(|it| !listed.contains(it)).cloned().collect();
                for it in &lost {
                    self.remove(it, gateway);
                }
            }
        }
    }

    fn remove(&mut self, workload: &WorkloadName, gateway: &Gateway) {
        self.objects.remove(workload);
        gateway.remove_workload(workload, "the LocalWorkload was deleted");
    }

    /// Writes outdated statuses; returns whether all writes succeeded.
    async fn write_statuses(
        &mut self,
        (kube, mouth): (&KubeClient, &EventPublisher),
        gateway: &Gateway,
        me: &RouterIdentity,
    ) -> bool {
        let mut is_settled = true;
        for view in gateway.sessions() {
            let Some(object) = self.objects.get(&view.workload) else { continue };
            match decide_action(object, &view, me, clock::now()) {
                SessionAction::Unchanged => {}
                SessionAction::Yield(why) => gateway.fence_session(&view.workload, view.epoch, &why),
                SessionAction::WriteStatus(new) => {
                    match kube.write_status(object, object.status.as_ref(), new.as_ref()).await {
                        Ok(_) => {
                            let why = view.why.as_deref().unwrap_or_default();
                            if let Some(news) = session_event(object.status.as_ref(), &new, why) {
                                mouth.publish(object, news).await;
                            }
                            self.record_status(&view, *new);
                        }
                        Err(error) => {
                            // After a conflict, the watch delivers the newer object.
                            tracing::debug!(workload = %view.workload, %error, "failed to write the session status, retrying");
                            is_settled = false;
                        }
                    }
                }
            }
        }
        is_settled
    }

    /// Records a written status, so that it is not written again before the watch delivers it.
    fn record_status(&mut self, view: &SessionStatus, status: capt_kinds::sandbox::LocalWorkloadStatus) {
        if let Some(object) = self.objects.get_mut(&view.workload) {
            object.status = Some(status);
        }
    }
}

fn workload_key(object: &LocalWorkload) -> WorkloadName {
    WorkloadName::new(&object.namespace().unwrap_or_default(), &object.name_any())
}
