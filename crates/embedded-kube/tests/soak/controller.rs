//! The controller under test: a child for every parent, cleaned up behind a finalizer.

use std::{sync::Arc, time::Duration};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, Resource as _, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams},
    runtime::{
        Controller,
        controller::Action,
        finalizer::{Event, finalizer},
        watcher,
    },
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::lease::{self, LeadershipLog};

const FINALIZER: &str = "soak.example.com/child";

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct ReconcileError(String);

/// Competes for leadership and reconciles only as leader.
pub(crate) async fn replica(
    client: Client,
    name: &'static str,
    leaders: Arc<LeadershipLog>,
    cancel: CancellationToken,
) {
    while !cancel.is_cancelled() {
        let Some(term) = lease::acquire(&client, name, &cancel).await else { return };
        let leading = leaders.begin(&term);
        tokio::select! {
            () = lease::renew_until_lost(&client, name, term, &leading) => {}
            () = work(client.clone(), cancel.clone()) => {}
        }
    }
}

async fn work(client: Client, cancel: CancellationToken) {
    let parents: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let children = parents.clone();
    Controller::new(parents, watcher::Config::default().labels("soak=parent"))
        .owns(children, watcher::Config::default().labels("soak=child"))
        .graceful_shutdown_on(cancel.cancelled_owned())
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_millis(200)), Arc::new(client))
        .for_each(|_| async {})
        .await;
}

async fn reconcile(parent: Arc<ConfigMap>, client: Arc<Client>) -> Result<Action, ReconcileError> {
    let maps: Api<ConfigMap> = Api::namespaced((*client).clone(), "default");
    finalizer(&maps, FINALIZER, parent, |event| async {
        match event {
            Event::Apply(parent) => make(&maps, &parent).await,
            Event::Cleanup(parent) => clean(&maps, &parent).await,
        }
    })
    .await
    .map_err(|why| ReconcileError(why.to_string()))
}

async fn make(maps: &Api<ConfigMap>, parent: &ConfigMap) -> Result<Action, ReconcileError> {
    let name = format!("{}-child", parent.name_any());
    let owner =
        parent.controller_owner_ref(&()).ok_or_else(|| ReconcileError("a parent without uid".into()))?;
    let child = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"soak": "child"}, "ownerReferences": [owner]},
        "data": parent.data,
    });
    let params = PatchParams::apply("soak").force();
    maps.patch(&name, &params, &Patch::Apply(&child)).await.map_err(|why| ReconcileError(why.to_string()))?;
    Ok(Action::requeue(Duration::from_secs(5)))
}

async fn clean(maps: &Api<ConfigMap>, parent: &ConfigMap) -> Result<Action, ReconcileError> {
    let name = format!("{}-child", parent.name_any());
    match maps.delete(&name, &DeleteParams::default()).await {
        Ok(_) => Ok(Action::await_change()),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(Action::await_change()),
        Err(why) => Err(ReconcileError(why.to_string())),
    }
}
