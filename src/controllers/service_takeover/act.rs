//! Does what was decided, and tells.

use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt as _;
use sandbox::{api::names, service::is_taken_over};
use serde_json::{Value, json};

use super::{
    Context, SOON,
    build::{self, Reverts},
    decide::{ATTEMPTS, Step, Why},
};
use crate::k8s::{K8sError, News, Removal};

/// Does it. Says when to look again, if nobody else will say so.
pub(super) async fn act(service: &Service, step: Step, ctx: &Context) -> Result<Option<Duration>, K8sError> {
    let (kube, whose) = (&ctx.common.kube, path(service));
    match step {
        Step::Nothing => return Ok(None),
        Step::Wait(why, pause) => {
            tracing::debug!(service = whose, why, "a Service waits");
            return Ok(Some(pause));
        }
        Step::Keep(keeper) => {
            kube.apply(keeper.as_ref()).await?;
        }
        Step::Announce(listeners) => announce(service, &listeners, ctx).await?,
        Step::Take(patch) => {
            kube.merge(service, patch).await?;
            tell(service, ctx, News::normal("Route", "TakenOver", "its traffic goes to the router")).await;
        }
        Step::Restore(patch, why) => restore(service, patch, why, ctx).await?,
        Step::Reverted(keeper, patch) | Step::GiveUp(keeper, patch) => {
            taken_back(service, &keeper, patch, ctx).await?;
        }
        Step::Forget(keeper) => {
            // Nothing refuses this if somebody took the Service over again meanwhile; so it is asked.
            let now: Option<Service> = kube.get(service.namespace().as_deref(), &service.name_any()).await?;
            if !now.is_some_and(|it| is_taken_over(&it)) {
                kube.delete(keeper.as_ref(), Removal::Background).await?;
            }
        }
    }
    Ok(Some(SOON))
}

async fn announce(
    service: &Service,
    listeners: &std::collections::BTreeMap<String, u16>,
    ctx: &Context,
) -> Result<(), K8sError> {
    let value = if listeners.is_empty() { Value::Null } else { json!(json!(listeners).to_string()) };
    let patch = json!({
        "resourceVersion": service.resource_version(),
        "annotations": { names::LISTEN_ANNOTATION: value },
    });
    ctx.common.kube.patch_metadata(service, patch).await?;
    Ok(())
}

/// Gives the Service back that somebody took back, and counts it.
async fn taken_back(
    service: &Service,
    keeper: &Service,
    patch: Value,
    ctx: &Context,
) -> Result<(), K8sError> {
    // The Service first: the patch is refused if it is not what we saw, and then nothing is to be counted.
    ctx.common.kube.merge(service, patch).await?;
    ctx.memory.note_revert(&path(service));
    ctx.common.kube.apply(keeper).await?;
    let Reverts { count, by: who, .. } = build::reverts(Some(keeper));
    let note = if count > ATTEMPTS {
        format!(
            "{who} took it back {count} times, and it is left alone now. Let {who} ignore spec.selector and \
             spec.ports[*].targetPort of this Service (Argo CD: ignoreDifferences), then take the annotation {} \
             away and put it back",
            names::ROUTING_ANNOTATION
        )
    } else {
        format!("{who} took it back; it is taken over again ({count} of {ATTEMPTS})")
    };
    tell(service, ctx, News::warning("Route", "ServiceReverted", note)).await;
    Ok(())
}

async fn restore(service: &Service, patch: Value, why: Why, ctx: &Context) -> Result<(), K8sError> {
    ctx.common.kube.merge(service, patch).await?;
    let news = match why {
        Why::Unwanted => News::normal("Route", "Restored", "its traffic goes to its own pods again"),
        Why::NoRouter => {
            let note = "no router was ready for 5 s: its traffic goes to its own pods until one is";
            News::warning("Route", "RouterBypassed", note)
        }
    };
    tell(service, ctx, news).await;
    Ok(())
}

async fn tell(service: &Service, ctx: &Context, news: News) {
    tracing::info!(service = path(service), reason = news.reason, note = news.note, "a Service changed");
    ctx.common.events.tell(service, news).await;
}

fn path(service: &Service) -> String {
    format!("{}/{}", service.namespace().unwrap_or_default(), service.name_any())
}
