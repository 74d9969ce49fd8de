//! Does what was decided, and tells.

use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt as _;
use sandbox::api::names;
use serde_json::{Value, json};

use super::{
    AT_ONCE, Context, build,
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
        Step::Reverted(keeper, patch, culprit) => {
            ctx.memory.note_revert(&whose);
            kube.apply(keeper.as_ref()).await?;
            kube.merge(service, patch).await?;
            let who = culprit.unwrap_or_else(|| "somebody".to_owned());
            let note = format!(
                "{who} took it back; it is taken over again ({} of {ATTEMPTS})",
                build::reverts(Some(&keeper))
            );
            tell(service, ctx, News::warning("Route", "ServiceReverted", note)).await;
        }
        Step::GiveUp(patch, culprit) => {
            kube.apply(&build::keeper(service, ATTEMPTS + 1)).await?;
            kube.merge(service, patch).await?;
            let who = culprit.unwrap_or_else(|| "somebody".to_owned());
            let note = format!(
                "{who} took it back {} times, and it is left alone now. Let {who} ignore spec.selector and \
                 spec.ports[*].targetPort of this Service (Argo CD: ignoreDifferences), then take the annotation {} \
                 away and put it back",
                ATTEMPTS + 1,
                names::ROUTING_ANNOTATION
            );
            tell(service, ctx, News::warning("Route", "ServiceReverted", note)).await;
        }
        Step::Forget(keeper) => {
            kube.delete(keeper.as_ref(), Removal::Background).await?;
        }
    }
    Ok(Some(AT_ONCE))
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
