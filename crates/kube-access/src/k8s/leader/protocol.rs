//! Acquiring, renewing and releasing the Lease, with the protocol of client-go.
//!
//! A write names the resourceVersion that was read, so of two candidates one succeeds. Times are measured from before a
//! request is sent: other candidates may see the renewal before its response is here.

use std::time::Duration;

use k8s_openapi::{api::coordination::v1::Lease, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use lease_deadline::{
    LeaseRecord,
    clock::{boot_id, since_boot},
};
use terraform_driver::clock;
use tokio::time::{sleep, timeout};

use super::{
    FencingToken, LeaderCandidate,
    spec::{LeaseClaim, ObservedLease, claim, held, released, token_from_lease},
};
use crate::k8s::{error::K8sError, kube_client::KubeClient};

/// A successful write of the Lease.
#[derive(Debug, Clone, Copy)]
pub(super) struct Renewal {
    /// When it was sent, in time since boot.
    pub(super) sent: Duration,
    /// Token of the leadership.
    pub(super) fence: FencingToken,
}

/// The requests of one candidate.
pub(super) struct LeaseProtocol<'a> {
    pub(super) kube: &'a KubeClient,
    pub(super) candidate: &'a LeaderCandidate,
}

impl LeaseProtocol<'_> {
    /// Waits until the Lease is held, and records its first deadline.
    pub(super) async fn acquire(&self) -> Renewal {
        let candidate = self.candidate;
        tracing::info!(
            lease = candidate.name,
            identity = candidate.identity,
            "waiting for the leader election Lease"
        );
        let mut observed = ObservedLease::default();
        loop {
            let sent = since_boot();
            match timeout(candidate.renew_deadline(), self.try_acquire(&mut observed)).await {
                Ok(Ok(Some(lease))) => {
                    let renewal = Renewal { sent, fence: token_from_lease(&lease) };
                    self.record(renewal).await;
                    tracing::info!(lease = candidate.name, fence = %renewal.fence, "leading");
                    return renewal;
                }
                Ok(Ok(None) | Err(K8sError::Conflict { .. })) => {}
                Ok(Err(error)) => log_error("cannot acquire the leader election Lease", &error),
                Err(_) => tracing::warn!("no response while acquiring the leader election Lease"),
            }
            sleep(candidate.retry_period()).await;
        }
    }

    /// Renews the Lease until it is lost.
    pub(super) async fn hold(&self, mut last: Renewal) {
        let candidate = self.candidate;
        loop {
            let left = || candidate.renew_deadline().saturating_sub(since_boot().saturating_sub(last.sent));
            sleep(candidate.retry_period().min(left())).await;
            // After a freeze it is too late to ask: another candidate may have been elected meanwhile.
            let remaining = left();
            if remaining.is_zero() {
                tracing::warn!("the leader election Lease was not renewed in time");
                break;
            }
            let sent = since_boot();
            match timeout(remaining, self.renew()).await {
                Ok(Ok(true)) => {
                    last.sent = sent;
                    self.record(last).await;
                }
                Ok(Ok(false)) => {
                    tracing::warn!(
                        "another candidate has taken the leader election Lease, or it was deleted"
                    );
                    break;
                }
                Ok(Err(error)) => log_error("cannot renew the leader election Lease", &error),
                Err(_) => tracing::warn!("no response while renewing the leader election Lease"),
            }
        }
        self.revoke();
    }

    /// Gives the Lease up if it is held. If that fails, it expires.
    pub(super) async fn release(&self) {
        self.revoke();
        match timeout(self.candidate.renew_deadline(), self.try_release()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => log_error("cannot release the leader election Lease", &error),
            Err(_) => tracing::warn!("no response while releasing the leader election Lease"),
        }
    }

    async fn read(&self) -> Result<Option<Lease>, K8sError> {
        self.kube.get(Some(&self.candidate.namespace), &self.candidate.name).await
    }

    /// The Lease, if it is held now.
    async fn try_acquire(&self, observed: &mut ObservedLease) -> Result<Option<Lease>, K8sError> {
        let Some(mut lease) = self.read().await? else {
            return self.kube.create(&self.new_lease()).await.map(Some);
        };
        let spec = lease.spec.take().unwrap_or_default();
        let claim = match claim(&spec, self.candidate) {
            LeaseClaim::Wait if observed.has_expired(&spec, self.candidate.duration, since_boot()) => {
                LeaseClaim::Take
            }
            LeaseClaim::Wait => return Ok(None),
            claim => claim,
        };
        lease.spec = Some(held(Some(&spec), self.candidate, claim, clock::now()));
        self.kube.replace(&lease).await.map(Some)
    }

    /// Whether the Lease is still held, and renewed.
    async fn renew(&self) -> Result<bool, K8sError> {
        let Some(mut lease) = self.read().await? else { return Ok(false) };
        let spec = lease.spec.take().unwrap_or_default();
        let renews = claim(&spec, self.candidate) == LeaseClaim::Renew;
        if renews {
            lease.spec = Some(held(Some(&spec), self.candidate, LeaseClaim::Renew, clock::now()));
            self.kube.replace(&lease).await?;
        }
        Ok(renews)
    }

    async fn try_release(&self) -> Result<(), K8sError> {
        let Some(mut lease) = self.read().await? else { return Ok(()) };
        let spec = lease.spec.take().unwrap_or_default();
        if claim(&spec, self.candidate) == LeaseClaim::Renew {
            lease.spec = Some(released(&spec));
            self.kube.replace(&lease).await?;
        }
        Ok(())
    }

    fn new_lease(&self) -> Lease {
        let metadata = ObjectMeta {
            namespace: Some(self.candidate.namespace.clone()),
            name: Some(self.candidate.name.clone()),
            ..ObjectMeta::default()
        };
        Lease { metadata, spec: Some(held(None, self.candidate, LeaseClaim::Take, clock::now())) }
    }

    /// Records the deadline that follows from a renewal. A failure is logged: gateway and shims stop their changes at the last
    /// recorded deadline, and go on after the next record.
    async fn record(&self, renewal: Renewal) {
        let Some(file) = self.candidate.file.clone() else { return };
        let deadline = renewal.sent + self.candidate.renew_deadline();
        let (holder, fence) = (self.candidate.identity.clone(), renewal.fence.0);
        let written = tokio::task::spawn_blocking(move || {
            let deadline_ms = u64::try_from(deadline.as_millis()).unwrap_or_default();
            file.write(&LeaseRecord { holder, fence, boot_id: boot_id()?, deadline_ms })
        });
        // A slow disk must not keep the leader from noticing that it has lost the Lease.
        match timeout(self.candidate.retry_period(), written).await {
            Ok(Ok(Ok(()))) => {}
            Ok(Ok(Err(error))) => self.log_unrecorded(&error.to_string()),
            Ok(Err(error)) => self.log_unrecorded(&error.to_string()),
            Err(_) => self.log_unrecorded("the disk does not respond"),
        }
    }

    fn log_unrecorded(&self, error: &str) {
        let path = self.candidate.file.as_ref().map(|file| file.path().display().to_string());
        tracing::error!(
            path,
            error,
            "cannot record the deadline of the leader election Lease; changes stop at the last one"
        );
    }

    /// Ends the deadline at once.
    fn revoke(&self) {
        let Some(Err(error)) = self.candidate.file.as_ref().map(lease_deadline::LeaseFile::remove) else {
            return;
        };
        tracing::warn!(%error, "cannot remove the record of the leader election Lease; its deadline passes soon");
    }
}

fn log_error(message: &'static str, error: &K8sError) {
    tracing::warn!(error = error as &dyn std::error::Error, "{message}");
}
