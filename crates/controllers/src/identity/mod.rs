//! Controller of `CAPTIdentity`: verifies the credentials with AWS, and protects the identity and its Secret with
//! finalizers while workspaces use it, because their destroy needs the credentials.

mod act;
mod decide;
mod dereference;
mod events;
mod status;
#[cfg(test)]
mod tests;
mod validate;
mod watch;

use std::{sync::Arc, time::Duration};

use capt_engine::aws::SdkConfigCache;
use capt_kinds::api::CaptIdentity;
use kube::runtime::controller::Action;
use terraform_driver::clock;

use self::act::Verification;
pub use self::watch::run;
use crate::common::{
    self,
    reconcile_error::{ReconcileError, ReconcileStep},
    runner,
};

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

/// Reconciles one identity.
async fn reconcile(object: &CaptIdentity, ctx: &IdentityContext) -> Result<Action, ReconcileError> {
    // validate (no client required): the spec names the Secret to read
    let valid = validate::validate(object);
    // dereference (client required, read only)
    let references = dereference::dereference(object, valid.as_ref().ok(), ctx)
        .await
        .map_err(ReconcileStep::Dereference.wrap_error())?;
    // decide (no client required)
    let decision = decide::decide(object, valid.as_ref(), &references);
    // act (client required)
    let acted = act::act(object, decision, &references, ctx).await;
    let Some(verification) = acted.map_err(ReconcileStep::Act.wrap_error())? else {
        return Ok(Action::await_change());
    };
    // status, events (client required only to write them)
    write_status(object, &verification, &references.users, ctx).await?;
    Ok(Action::requeue(VERIFY_INTERVAL))
}

/// Publishes the events and writes the status if it changed.
async fn write_status(
    object: &CaptIdentity,
    verification: &Verification,
    users: &[String],
    ctx: &IdentityContext,
) -> Result<(), ReconcileError> {
    if let Some(event) = events::verification_event(verification) {
        ctx.common.events.publish(object, event).await;
    }
    let new = status::observed(object, verification, users, clock::now());
    let written = ctx.common.kube.write_status(object, object.status.as_ref(), &new).await;
    written.map(drop).map_err(ReconcileStep::Status.wrap_error())
}
