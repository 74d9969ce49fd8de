//! Controller of `CAPTIdentity`: verifies the credentials with AWS, and protects the identity and its Secret with
//! finalizers while workspaces use it, because their destroy needs the credentials.

use std::{sync::Arc, time::Duration};

use capt_engine::aws::{CallerIdentity, SdkConfigCache, get_caller_identity};
use capt_kinds::api::{
    CaptIdentity, CaptIdentityStatus, WorkspaceTemplateApply,
    conditions::{reasons, types},
    names,
};
use capt_kube::k8s::{
    EventSpec, K8sError,
    conditions::{self, ConditionUpdate},
};
use capt_model::model::identity::{self, CredentialSource, ValidatedIdentity};
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

use crate::common::{self, identity::build_principal, invalid_object::filter_valid, runner};

/// Interval at which an identity is verified with AWS.
const VERIFY_INTERVAL: Duration = Duration::from_mins(10);

/// Dependencies of the reconciler.
pub struct IdentityContext {
    /// Dependencies shared by all controllers.
    pub common: Arc<common::Context>,
    /// AWS SDK configurations by principal.
    pub sessions: Arc<SdkConfigCache>,
    /// Region of the STS requests.
    pub region: String,
}

impl runner::ControllerContext for IdentityContext {
    fn common(&self) -> &common::Context {
        &self.common
    }
}

const KIND: &str = "CAPTIdentity";

/// Runs the controller until `stop`.
pub async fn run(ctx: Arc<IdentityContext>, stop: CancellationToken) {
    let client = ctx.common.kube.client().clone();
    let objects = Api::<DeserializeGuard<CaptIdentity>>::all(client.clone());
    let controller = runner::build_controller(KIND, &ctx.common, objects, watcher::Config::default());
    let users: Api<PartialObjectMeta<WorkspaceTemplateApply>> = match &ctx.common.settings.namespace {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    };
    let all = controller.store();
    let users = watcher(users, watcher::Config::default()).default_backoff().touched_objects();
    // Only deletions wait for workspaces, and identities are few, so every change reconciles all of them.
    let of_user = move |_: PartialObjectMeta<WorkspaceTemplateApply>| {
        let waiting = all.state().into_iter().filter(|it| it.meta().deletion_timestamp.is_some());
        waiting.map(|it| ObjectRef::from_obj(it.as_ref())).collect::<Vec<_>>()
    };
    let controller = controller
        .with_config(Config::default().concurrency(4))
        .watches_stream(users, runner::counted_mapper(KIND, &ctx.common, of_user));
    let reconcile =
        |object: Arc<CaptIdentity>, ctx: Arc<IdentityContext>| async move { reconcile(&object, &ctx).await };
    runner::run(KIND, controller, ctx, stop.cancelled_owned(), reconcile).await;
}

/// Reconciles one identity.
async fn reconcile(object: &CaptIdentity, ctx: &IdentityContext) -> Result<Action, K8sError> {
    let users = list_users(object, ctx).await?;
    let deleting = object.metadata.deletion_timestamp.is_some();
    let meaning = identity::validate(&object.spec);
    let secret = match &meaning {
        Ok(valid) => get_credentials_secret(valid, ctx).await?,
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
        ensure_finalizers(object, secret.as_ref(), ctx).await?;
    }
    let found = match &meaning {
        Err(problems) => Err(problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")),
        Ok(_) => verify_with_aws(object, secret.as_ref(), ctx).await,
    };
    write_status(object, found, &users, ctx).await?;
    Ok(Action::requeue(VERIFY_INTERVAL))
}

/// Adds the finalizers: a destroy needs the identity and its Secret.
async fn ensure_finalizers(
    object: &CaptIdentity,
    secret: Option<&Secret>,
    ctx: &IdentityContext,
) -> Result<(), K8sError> {
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

async fn get_credentials_secret(
    valid: &ValidatedIdentity,
    ctx: &IdentityContext,
) -> Result<Option<Secret>, K8sError> {
    match &valid.source {
        CredentialSource::Secret(key) => {
            ctx.common.kube.get(Some(key.namespace.as_str()), key.name.as_str()).await
        }
        CredentialSource::Default | CredentialSource::WebIdentity { .. } => Ok(None),
    }
}

/// Workspaces that use the identity, or used it in their last run.
async fn list_users(object: &CaptIdentity, ctx: &IdentityContext) -> Result<Vec<String>, K8sError> {
    let name = object.name_any();
    let all = ctx.common.kube.list(ctx.common.settings.namespace.as_deref(), "").await?;
    let all = filter_valid::<WorkspaceTemplateApply>(all);
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

/// Asks AWS STS for the caller identity.
async fn verify_with_aws(
    object: &CaptIdentity,
    secret: Option<&Secret>,
    ctx: &IdentityContext,
) -> Result<CallerIdentity, String> {
    let data = secret.and_then(|secret| secret.data.as_ref());
    let principal = build_principal((&object.name_any(), "capt"), &object.spec, data)
        .map_err(|error| error.full_message())?;
    let sdk = ctx.sessions.sdk_config(&principal, Some(&ctx.region)).await;
    get_caller_identity(&sdk).await.map_err(|error| error.to_string())
}

async fn write_status(
    object: &CaptIdentity,
    found: Result<CallerIdentity, String>,
    users: &[String],
    ctx: &IdentityContext,
) -> Result<(), K8sError> {
    let before = object.status.as_ref();
    let mut status: CaptIdentityStatus = before.cloned().unwrap_or_default();
    let (generation, now) = (object.metadata.generation, clock::now());
    let said = match found {
        Ok(CallerIdentity { id, arn, .. }) => {
            status.account = Some(id);
            let message = format!("authenticated as {arn}");
            status.arn = Some(arn);
            ConditionUpdate::status_true(types::READY, reasons::IDENTITY_VERIFIED, message)
        }
        Err(why) => {
            ctx.common
                .events
                .publish(object, EventSpec::warning("Verify", "IdentityRefused", why.clone()))
                .await;
            ConditionUpdate::status_false(types::READY, reasons::IDENTITY_REFUSED, why)
        }
    };
    let _transition = conditions::set(&mut status.conditions, said, generation, now);
    if object.metadata.deletion_timestamp.is_some() {
        let message = format!("in use by {}", users.join(", "));
        let said = ConditionUpdate::status_true(types::DELETING, reasons::IN_USE, message);
        let _transition = conditions::set(&mut status.conditions, said, generation, now);
    }
    status.observed_generation = generation;
    ctx.common.kube.write_status(object, before, &status).await?;
    Ok(())
}
