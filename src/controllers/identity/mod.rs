//! `CAPTIdentity`: whether AWS knows it, and held, with its Secret, while a workspace needs it for its destroy.

use std::{sync::Arc, time::Duration};

use futures::{FutureExt as _, StreamExt as _};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, Resource, ResourceExt,
    api::PartialObjectMeta,
    core::DeserializeGuard,
    runtime::{
        WatchStreamExt,
        controller::{Action, Config},
        reflector::ObjectRef,
        watcher,
    },
};
use terraform_driver::clock;
use tokio_util::sync::CancellationToken;

use crate::{
    api::{
        CaptIdentity, CaptIdentityStatus, WorkspaceTemplateApply,
        conditions::{reasons, types},
        names,
    },
    aws::{Account, Sessions, account},
    controllers::common::{self, drive, identity::principal, unreadable::readable},
    k8s::{
        K8sError, News,
        conditions::{self, Said},
    },
    model::identity::{self, CredentialSource, ValidatedIdentity},
};

/// How often AWS is asked whether it still knows an identity.
const AGAIN: Duration = Duration::from_mins(10);

/// What every reconcile needs.
pub struct Context {
    /// What all controllers need.
    pub common: Arc<common::Context>,
    /// Who we are to AWS.
    pub sessions: Arc<Sessions>,
    /// The region to ask in.
    pub region: String,
}

const KIND: &str = "CAPTIdentity";

/// Runs until `stop`.
pub async fn run(ctx: Arc<Context>, stop: CancellationToken) {
    let client = ctx.common.kube.client().clone();
    let log = drive::log(KIND, &ctx.common);
    let objects = Api::<DeserializeGuard<CaptIdentity>>::all(client.clone());
    let controller = drive::controller(KIND, &ctx.common, objects, watcher::Config::default());
    let (seen, stop) = (controller.store(), stop.cancelled_owned().shared());
    let users: Api<PartialObjectMeta<WorkspaceTemplateApply>> = match &ctx.common.settings.namespace {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    };
    let all = controller.store();
    let users = watcher(users, watcher::Config::default()).default_backoff().touched_objects();
    // There are few identities, and only a deletion waits for a workspace to go.
    let of_user = move |_: PartialObjectMeta<WorkspaceTemplateApply>| {
        let waiting = all.state().into_iter().filter(|it| it.meta().deletion_timestamp.is_some());
        waiting.map(|it| ObjectRef::from_obj(it.as_ref())).collect::<Vec<_>>()
    };
    let work =
        controller
            .with_config(Config::default().concurrency(4))
            .watches_stream(users, drive::concerning(KIND, &ctx.common, of_user))
            .graceful_shutdown_on(stop.clone())
            .run(
                |object, ctx: Arc<Context>| {
                    let common = Arc::clone(&ctx.common);
                    drive::drive(KIND, object, common, move |object, _| async move {
                        reconcile(&object, &ctx).await
                    })
                },
                |object, error, ctx| drive::policy(KIND, &object, error, &ctx.common),
                ctx,
            )
            .for_each(log);
    drive::finish(work, seen, stop).await;
}

/// Holds an identity while it is used, and asks AWS about it.
async fn reconcile(object: &CaptIdentity, ctx: &Context) -> Result<Action, K8sError> {
    let users = users(object, ctx).await?;
    let deleting = object.metadata.deletion_timestamp.is_some();
    let meaning = identity::validate(&object.spec);
    let secret = match &meaning {
        Ok(valid) => secret(valid, ctx).await?,
        Err(_) => None,
    };
    if deleting && users.is_empty() {
        if let Some(secret) = &secret {
            ctx.common.kube.remove_finalizers(secret, &[names::IN_USE_FINALIZER]).await?;
        }
        ctx.common.kube.remove_finalizers(object, &[names::IN_USE_FINALIZER]).await?;
        return Ok(Action::await_change());
    }
    if !deleting {
        hold(object, secret.as_ref(), ctx).await?;
    }
    let found = match &meaning {
        Err(problems) => Err(problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")),
        Ok(_) => ask(object, secret.as_ref(), ctx).await,
    };
    say(object, found, &users, ctx).await?;
    Ok(Action::requeue(AGAIN))
}

/// What a destroy needs must not go before it.
async fn hold(object: &CaptIdentity, secret: Option<&Secret>, ctx: &Context) -> Result<(), K8sError> {
    if !object.finalizers().iter().any(|it| it == names::IN_USE_FINALIZER) {
        ctx.common.kube.add_finalizer(object, names::IN_USE_FINALIZER).await?;
    }
    match secret {
        Some(secret)
            if secret.metadata.deletion_timestamp.is_none()
                && !secret.finalizers().iter().any(|it| it == names::IN_USE_FINALIZER) =>
        {
            ctx.common.kube.add_finalizer(secret, names::IN_USE_FINALIZER).await.map(drop)
        }
        _ => Ok(()),
    }
}

async fn secret(valid: &ValidatedIdentity, ctx: &Context) -> Result<Option<Secret>, K8sError> {
    match &valid.source {
        CredentialSource::Secret(key) => {
            ctx.common.kube.get(Some(key.namespace.as_str()), key.name.as_str()).await
        }
        CredentialSource::Default | CredentialSource::WebIdentity { .. } => Ok(None),
    }
}

/// Names of the workspaces that act as an identity, or did in their last run.
async fn users(object: &CaptIdentity, ctx: &Context) -> Result<Vec<String>, K8sError> {
    let name = object.name_any();
    let all = ctx.common.kube.list(ctx.common.settings.namespace.as_deref(), "").await?;
    let all = readable::<WorkspaceTemplateApply>(all);
    let uses = |it: &&WorkspaceTemplateApply| {
        let asked = it.spec.identity_ref.as_ref();
        let used = it.status.as_ref().and_then(|status| status.identity_ref.as_ref());
        asked.into_iter().chain(used).any(|reference| reference.name == name)
    };
    let mut names: Vec<String> = all
        .iter()
        .filter(uses)
        .map(|it| format!("{}/{}", it.namespace().unwrap_or_default(), it.name_any()))
        .collect();
    names.sort();
    Ok(names)
}

/// Who AWS says that we are.
async fn ask(object: &CaptIdentity, secret: Option<&Secret>, ctx: &Context) -> Result<Account, String> {
    let data = secret.and_then(|secret| secret.data.as_ref());
    let principal =
        principal((&object.name_any(), "capt"), &object.spec, data).map_err(|error| error.whole())?;
    let sdk = ctx.sessions.sdk(&principal, Some(&ctx.region)).await;
    account(&sdk).await.map_err(|error| error.to_string())
}

async fn say(
    object: &CaptIdentity,
    found: Result<Account, String>,
    users: &[String],
    ctx: &Context,
) -> Result<(), K8sError> {
    let before = object.status.as_ref();
    let mut status: CaptIdentityStatus = before.cloned().unwrap_or_default();
    let (generation, now) = (object.metadata.generation, clock::now());
    let said = match found {
        Ok(Account { id, arn, .. }) => {
            status.account = Some(id);
            let message = format!("AWS knows it as {arn}");
            status.arn = Some(arn);
            Said::yes(types::READY, reasons::IDENTITY_VERIFIED, message)
        }
        Err(why) => {
            ctx.common.events.tell(object, News::warning("Verify", "IdentityRefused", why.clone())).await;
            Said::no(types::READY, reasons::IDENTITY_REFUSED, why)
        }
    };
    let _transition = conditions::set(&mut status.conditions, said, generation, now);
    if object.metadata.deletion_timestamp.is_some() {
        let message = format!("is used by {}", users.join(", "));
        let said = Said::yes(types::DELETING, reasons::IN_USE, message);
        let _transition = conditions::set(&mut status.conditions, said, generation, now);
    }
    status.observed_generation = generation;
    ctx.common.kube.write_status(object, before, &status).await?;
    Ok(())
}
