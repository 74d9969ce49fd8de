//! The admission webhook, where somebody wants it: its certificate, its registration, and its view of other objects.
//!
//! Replicas behind one Service answer for each other, so they share their certificates in a Secret; whoever is first makes
//! it. A process that is registered by its own address is alone, and keeps them in its data directory.

mod eyes;

use std::{net::SocketAddr, path::Path, sync::Arc, time::Duration};

use anyhow::Context as _;
use futures::FutureExt as _;
use k8s_openapi::api::admissionregistration::v1::{ValidatingWebhook, ValidatingWebhookConfiguration};
use tokio::net::TcpListener;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::eyes::Eyes;
use super::settings::Settings;
use crate::{
    api::names,
    certificate::{Certificates, Directory, Publish, SharedSecret, Store},
    k8s::{K8sError, Kube},
    server::webhook::{NAME, Target, Webhook, configuration},
};

/// The Service of `deploy/webhook`.
const SERVICE: &str = "capt-webhook";
/// Where replicas keep their certificates, also in `deploy/webhook`.
const SECRET: &str = "capt-webhook-certificates";
/// How the names of service accounts begin.
const ACCOUNTS: &str = "system:serviceaccount:";
/// How soon after a failure certificates are asked for again.
const AGAIN: Duration = Duration::from_secs(10);

/// Serves it, if it is asked for.
pub(super) async fn serve(
    kube: &Kube,
    data: &Path,
    settings: &Settings,
    (stop, tasks): (&CancellationToken, &TaskTracker),
) -> anyhow::Result<()> {
    let Some(address) = settings.webhook_listen else { return Ok(()) };
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen at {address}; choose --webhook-listen"))?;
    let target = target(settings.leader_election.as_deref(), listener.local_addr()?);
    let store: Arc<dyn Store> = match &target {
        Target::Service { namespace, .. } => Arc::new(secret(kube.clone(), namespace)),
        Target::Url(_) => Arc::new(Directory::new(data.join("webhook"))),
    };
    let webhook = Webhook::new(Arc::new(Eyes(kube.clone())), settings.limits);
    tasks.spawn(work(
        webhook,
        listener,
        (store, publisher(kube.clone(), target.clone())),
        target,
        stop.clone(),
    ));
    Ok(())
}

fn secret(kube: Kube, namespace: &str) -> SharedSecret {
    SharedSecret::new(kube, (namespace, SECRET), (names::PROVIDER_LABEL, "infrastructure-capt"))
}

/// Answers, and keeps the certificates and the registration current, until it is told to stop.
async fn work(
    webhook: Webhook,
    listener: TcpListener,
    (store, publish): (Arc<dyn Store>, Publish),
    target: Target,
    stop: CancellationToken,
) {
    let Some(certificates) = certificates(&store, &target, &stop).await else { return };
    let keep = certificates.keep(publish, stop.clone());
    let (served, ()) = tokio::join!(webhook.serve(listener, &certificates, stop.clone()), keep);
    if let Err(error) = served {
        // Objects are admitted without it; the same rules are checked again when they are worked on.
        tracing::error!(%error, "the admission webhook does not serve");
    }
}

/// The certificates, as soon as they can be had. The webhook is a convenience, so the operator does not wait for it.
async fn certificates(
    store: &Arc<dyn Store>,
    target: &Target,
    stop: &CancellationToken,
) -> Option<Certificates> {
    loop {
        match Certificates::open(Arc::clone(store), target.names()).await {
            Ok(certificates) => return Some(certificates),
            Err(error) => {
                let source = std::error::Error::source(&error);
                tracing::warn!(%error, source, "the admission webhook waits for its certificates");
            }
        }
        tokio::select! {
            () = stop.cancelled() => return None,
            () = tokio::time::sleep(AGAIN) => {}
        }
    }
}

/// Tells the API server, where it does not know yet.
fn publisher(kube: Kube, target: Target) -> Publish {
    Box::new(move |bundle: String| {
        let (kube, target) = (kube.clone(), target.clone());
        async move { Ok(register(&kube, &target, &bundle).await?) }.boxed()
    })
}

async fn register(kube: &Kube, target: &Target, bundle: &str) -> Result<(), K8sError> {
    // Our own writes are not reviewed: we have to take care of objects that are as they are. A person who runs us from a desk
    // writes as the same user, and wants to hear what is wrong.
    let operator = kube.whoami().await?.filter(|user| user.starts_with(ACCOUNTS));
    let wanted = configuration(target, bundle, operator.as_deref());
    let found: Option<ValidatingWebhookConfiguration> = kube.get(None, NAME).await?;
    if !found.is_some_and(|found| says(&found, &wanted)) {
        kube.apply(&wanted).await?;
    }
    Ok(())
}

/// Whether the API server was told this already. What it fills in by itself does not count.
fn says(found: &ValidatingWebhookConfiguration, wanted: &ValidatingWebhookConfiguration) -> bool {
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

/// In a cluster it is behind its Service; elsewhere it is where it listens.
fn target(namespace: Option<&str>, address: SocketAddr) -> Target {
    match namespace {
        Some(namespace) => {
            Target::Service { namespace: namespace.to_owned(), name: SERVICE.to_owned(), port: 443 }
        }
        None => Target::Url(format!("https://{address}")),
    }
}

#[cfg(test)]
mod tests;
