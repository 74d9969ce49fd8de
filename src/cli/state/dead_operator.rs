//! Proves that the operator of a cluster is dead, with every terraform that it started: its Lease is not renewed, and its pod is
//! gone.

use std::time::Duration;

use anyhow::{anyhow, bail};
use capt_kube::k8s::leader::LEASE_NAME;
use k8s_openapi::api::{apps::v1::ReplicaSet, coordination::v1::Lease, core::v1::Pod};
use kube::{Api, Client, ResourceExt, api::ListParams};

use super::super::kube_api::describe_api_error;

/// Returns what proves it.
pub(super) async fn prove(client: &Client) -> anyhow::Result<String> {
    let leases: Api<Lease> = Api::all(client.clone());
    let params = ListParams::default().fields(&format!("metadata.name={LEASE_NAME}"));
    let found = leases.list(&params).await.map_err(|error| describe_api_error(&error))?.items;
    let [lease] = found.as_slice() else {
        bail!(
            "{} Leases {LEASE_NAME} exist, so it cannot be proved that the operator is dead; make sure that it runs, and it ends the \
             run itself",
            found.len()
        );
    };
    let host = holder_host(lease)?;
    let namespace = lease.namespace().unwrap_or_default();
    require_gone(client, &namespace, &host).await?;
    // The clocks of this machine and of the operator may differ, so the Lease is observed.
    tokio::time::sleep(lease_duration(lease)).await;
    let api: Api<Lease> = Api::namespaced(client.clone(), &namespace);
    let later = api.get_opt(LEASE_NAME).await.map_err(|error| describe_api_error(&error))?;
    if later.as_ref().map(ResourceExt::resource_version) != Some(lease.resource_version()) {
        bail!(
            "the Lease {namespace}/{LEASE_NAME} was renewed, so an operator is alive; it ends the run itself"
        );
    }
    Ok(format!(
        "the pod {namespace}/{host} of its operator is gone, and the Lease {LEASE_NAME} is not renewed any more"
    ))
}

/// The pod of the holder: its identity is `POD_PID_TIME`.
fn holder_host(lease: &Lease) -> anyhow::Result<String> {
    let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default();
    let host = holder.rsplitn(3, '_').nth(2).filter(|host| !host.is_empty());
    host.map(str::to_owned).ok_or_else(|| {
        anyhow!(
            "no operator holds the Lease {LEASE_NAME}, so it cannot be proved that the one of this run is dead; start an operator, and it \
             continues the run"
        )
    })
}

/// A pod that was deleted from the API has no process any more, and a finished one neither.
async fn require_gone(client: &Client, namespace: &str, host: &str) -> anyhow::Result<()> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let pod = pods.get_opt(host).await.map_err(|error| describe_api_error(&error))?;
    let phase = pod.as_ref().map(|pod| pod.status.as_ref().and_then(|it| it.phase.as_deref()));
    match phase {
        None => require_was_pod(client, namespace, host).await,
        Some(Some("Succeeded" | "Failed")) => Ok(()),
        Some(phase) => bail!(
            "the pod {namespace}/{host} of its operator exists (phase {}), and a terraform may still run in it; delete the pod, then \
             repeat this command",
            phase.unwrap_or("unknown")
        ),
    }
}

/// An operator outside of the cluster never had a pod, so a missing one proves nothing: the `ReplicaSet` of the pod is needed too.
async fn require_was_pod(client: &Client, namespace: &str, host: &str) -> anyhow::Result<()> {
    let sets: Api<ReplicaSet> = Api::namespaced(client.clone(), namespace);
    let owner = host.rsplit_once('-').map(|(owner, _)| owner);
    let found = match owner {
        Some(owner) => sets.get_opt(owner).await.map_err(|error| describe_api_error(&error))?,
        None => None,
    };
    if found.is_none() {
        bail!(
            "the Lease was held by {host}, which is not known to have been a pod, so it cannot be proved that no terraform of it \
             runs; start an operator there, and it continues the run"
        );
    }
    Ok(())
}

fn lease_duration(lease: &Lease) -> Duration {
    let seconds = lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds).unwrap_or(15);
    Duration::from_secs(u64::try_from(seconds).unwrap_or(15) + 1)
}
