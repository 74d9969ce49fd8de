//! Runs the optional admission webhook: certificates, registration and object lookups.
//!
//! Replicas behind one Service share their certificates in a Secret, created by the first one. A process registered by its
//! own URL keeps them in its data directory.

mod api_lookup;

use std::{net::SocketAddr, path::Path, sync::Arc, time::Duration};

use anyhow::Context as _;
use capt_kinds::api::names;
use capt_kube::{
    certificate::{CertificateDirectory, CertificateSecret, CertificateStore, Certificates, PublishBundle},
    k8s::{K8sError, KubeClient},
};
use futures::FutureExt as _;
use k8s_openapi::api::admissionregistration::v1::{ValidatingWebhook, ValidatingWebhookConfiguration};
use tokio::net::TcpListener;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::api_lookup::ApiLookup;
use super::settings::OperatorSettings;
use crate::server::webhook::{WEBHOOK_NAME, Webhook, WebhookTarget, webhook_configuration};

/// The Service of `deploy/webhook`.
const SERVICE_NAME: &str = "capt-webhook";
/// The Secret with the replicas' certificates, also in `deploy/webhook`.
const CERTIFICATE_SECRET: &str = "capt-webhook-certificates";
/// Prefix of service account user names.
const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";
/// Delay before the certificates are loaded again after a failure.
const RETRY_DELAY: Duration = Duration::from_secs(10);

/// Starts the webhook if it is enabled.
pub(super) async fn serve(
    kube: &KubeClient,
    data: &Path,
    settings: &OperatorSettings,
    (stop, tasks): (&CancellationToken, &TaskTracker),
) -> anyhow::Result<()> {
    let Some(address) = settings.webhook_listen else { return Ok(()) };
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen at {address}; choose --webhook-listen"))?;
    let target = webhook_target(settings.leader_election.as_deref(), listener.local_addr()?);
    let store: Arc<dyn CertificateStore> = match &target {
        WebhookTarget::Service { namespace, .. } => Arc::new(certificate_secret(kube.clone(), namespace)),
        WebhookTarget::Url(_) => Arc::new(CertificateDirectory::new(data.join("webhook"))),
    };
    let webhook = Webhook::new(Arc::new(ApiLookup(kube.clone())), settings.limits);
    tasks.spawn(run_webhook(
        webhook,
        listener,
        (store, publisher(kube.clone(), target.clone())),
        target,
        stop.clone(),
    ));
    Ok(())
}

fn certificate_secret(kube: KubeClient, namespace: &str) -> CertificateSecret {
    CertificateSecret::new(
        kube,
        (namespace, CERTIFICATE_SECRET),
        (names::PROVIDER_LABEL, "infrastructure-capt"),
    )
}

/// Serves, and renews certificates and registration, until `stop` is cancelled.
async fn run_webhook(
    webhook: Webhook,
    listener: TcpListener,
    (store, publish): (Arc<dyn CertificateStore>, PublishBundle),
    target: WebhookTarget,
    stop: CancellationToken,
) {
    let Some(certificates) = open_certificates(&store, &target, &stop).await else { return };
    let keep = certificates.renew_until_stopped(publish, stop.clone());
    let (served, ()) = tokio::join!(webhook.serve(listener, &certificates, stop.clone()), keep);
    if let Err(error) = served {
        // The webhook fails open; the controllers validate again.
        tracing::error!(%error, "cannot serve the admission webhook");
    }
}

/// Loads the certificates, retrying until it succeeds. The operator does not wait for the webhook.
async fn open_certificates(
    store: &Arc<dyn CertificateStore>,
    target: &WebhookTarget,
    stop: &CancellationToken,
) -> Option<Certificates> {
    loop {
        match Certificates::open(Arc::clone(store), target.certificate_names()).await {
            Ok(certificates) => return Some(certificates),
            Err(error) => {
                let source = std::error::Error::source(&error);
                tracing::warn!(%error, source, "cannot load the certificates of the admission webhook, retrying");
            }
        }
        tokio::select! {
            () = stop.cancelled() => return None,
            () = tokio::time::sleep(RETRY_DELAY) => {}
        }
    }
}

/// Registers the webhook with the CA bundle if the registration differs.
fn publisher(kube: KubeClient, target: WebhookTarget) -> PublishBundle {
    Box::new(move |bundle: String| {
        let (kube, target) = (kube.clone(), target.clone());
        async move { Ok(register(&kube, &target, &bundle).await?) }.boxed()
    })
}

async fn register(kube: &KubeClient, target: &WebhookTarget, bundle: &str) -> Result<(), K8sError> {
    // The operator's own writes are exempt, because it must handle objects as they are. Only service accounts are exempt: a
    // developer who runs the operator locally writes as the same user and wants validation.
    let operator = kube.whoami().await?.filter(|user| user.starts_with(SERVICE_ACCOUNT_PREFIX));
    let wanted = webhook_configuration(target, bundle, operator.as_deref());
    let found: Option<ValidatingWebhookConfiguration> = kube.get(None, WEBHOOK_NAME).await?;
    if !found.is_some_and(|found| is_registered_as(&found, &wanted)) {
        kube.apply(&wanted).await?;
    }
    Ok(())
}

/// Whether the registration is up to date, ignoring defaulted fields.
fn is_registered_as(found: &ValidatingWebhookConfiguration, wanted: &ValidatingWebhookConfiguration) -> bool {
    let plain = |one: &ValidatingWebhook| ValidatingWebhook {
        namespace_selector: None,
        object_selector: None,
        ..one.clone()
    };
    let all = |it: &ValidatingWebhookConfiguration| -> Vec<ValidatingWebhook> {
        it.webhooks.iter().flatten().map(plain).collect()
    };
    all(found) == all(wanted)
}

/// The Service in a cluster; otherwise the listen address.
fn webhook_target(namespace: Option<&str>, address: SocketAddr) -> WebhookTarget {
    match namespace {
        Some(namespace) => WebhookTarget::Service {
            namespace: namespace.to_owned(),
            name: SERVICE_NAME.to_owned(),
            port: 443,
        },
        None => WebhookTarget::Url(format!("https://{address}")),
    }
}

#[cfg(test)]
mod tests;
