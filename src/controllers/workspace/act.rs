//! Does what was decided, and says it. Branches on the decision alone.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use kube::{Resource, ResourceExt, runtime::controller::Action};
use terraform_driver::output::Outputs;

use super::{
    Context, Error,
    decide::Decision,
    facts::{Facts, Inputs},
    identity,
    keeper::VaultKeeper,
    read::Reader,
};
use crate::{
    api::{
        BuiltInModule, IdentityRef, RunOperation, RunStatus, SecretRef, WorkspaceTemplateApply,
        WorkspaceTemplateApplyStatus, conditions::types, names,
    },
    blueprint::Key,
    controllers::common::{self, Thing, cluster::label, drive, meter::since},
    k8s::{News, conditions, secrets::Wanted, vault::Home},
    runs::{End, Keeper, Lane, Order, View, What},
};

/// How soon an object is looked at again whose run will tell by itself: a net below the wire.
const NET: Duration = Duration::from_mins(1);

/// What goes into the status beside the run.
pub fn about(status: &mut WorkspaceTemplateApplyStatus, facts: &Facts) {
    if let Inputs::Known(known) = &facts.inputs {
        status.connection_secret_ref.clone_from(&known.connection_secret);
        status.identity_ref = known.identity.as_ref().map(|name| IdentityRef { name: name.clone() });
    }
}

/// Writes the outputs of a good run to the connection Secret; what the outputs are.
pub async fn publish(
    object: &WorkspaceTemplateApply,
    facts: &Facts,
    status: &WorkspaceTemplateApplyStatus,
    ctx: &Context,
) -> Result<Option<Outputs>, Error> {
    let Inputs::Known(known) = &facts.inputs else { return Ok(None) };
    let made = facts.run.as_ref().is_none_or(went_well) && status.applied == Some(true);
    if !made {
        return Ok(None);
    }
    let Some(outputs) = ctx.runs.outputs(&known.assignment.key)? else { return Ok(None) };
    if let Some(SecretRef { name, namespace }) = &known.connection_secret {
        let data: BTreeMap<String, Vec<u8>> = outputs
            .connection_strings()
            .into_iter()
            .map(|(name, value)| (name, value.into_exposed().into_bytes()))
            .collect();
        let wanted = Wanted {
            namespace: namespace.clone(),
            name: name.clone(),
            data,
            owner: owner(object, namespace),
            labels: cluster_label(object),
        };
        ctx.common.kube.apply_connection_secret(&wanted).await?;
    }
    Ok(Some(outputs))
}

const fn went_well(run: &View) -> bool {
    matches!(run.end, Some(End::Applied | End::Unchanged | End::Differs { .. }))
}

/// An owner reference works within a namespace only.
fn owner(
    object: &WorkspaceTemplateApply,
    namespace: &str,
) -> Option<k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference> {
    (object.namespace().as_deref() == Some(namespace)).then(|| object.controller_owner_ref(&())).flatten()
}

fn cluster_label(object: &WorkspaceTemplateApply) -> BTreeMap<String, String> {
    let name = label(&object.metadata).map(str::to_owned);
    name.map(|name| (names::CLUSTER_NAME_LABEL.to_owned(), name)).into_iter().collect()
}

/// Writes the status, and tells what is worth knowing.
pub async fn say(
    object: &WorkspaceTemplateApply,
    status: &WorkspaceTemplateApplyStatus,
    decision: &Decision,
    ctx: &Context,
) -> Result<(), Error> {
    let before = object.status.as_ref();
    for happening in happenings(before, status) {
        ctx.common.events.tell(object, happening).await;
    }
    // The object is about to go; nobody would read it.
    if !matches!(decision, Decision::LetGo) {
        ctx.common.kube.write_status(object, before, status).await?;
    }
    measure(object, status, decision, &ctx.common);
    Ok(())
}

/// Tells whoever measures what is worth a figure.
fn measure(
    object: &WorkspaceTemplateApply,
    status: &WorkspaceTemplateApplyStatus,
    decision: &Decision,
    ctx: &common::Context,
) {
    let (meta, now, meter) = (&object.metadata, (ctx.clock)(), &ctx.meter);
    let goes = matches!(decision, Decision::LetGo);
    meter.drifted(&drive::path(meta), !goes && conditions::is_true(&status.conditions, types::DRIFTED));
    if object.spec.module.as_ref().is_none_or(|module| *module != BuiltInModule::Fargate) {
        return;
    }
    let was_made = object.status.as_ref().is_some_and(|before| before.applied == Some(true));
    let made = !was_made && status.applied == Some(true);
    if let Some(took) = since(meta.creation_timestamp.as_ref(), now).filter(|_| made) {
        meter.made(Thing::FargateProfile, took);
    }
    if let Some(took) = since(meta.deletion_timestamp.as_ref(), now).filter(|_| goes && was_made) {
        meter.removed(Thing::FargateProfile, took);
    }
}

/// What changed between two statuses that somebody may want to know.
fn happenings(
    before: Option<&WorkspaceTemplateApplyStatus>,
    now: &WorkspaceTemplateApplyStatus,
) -> Vec<News> {
    let mut all = Vec::new();
    let was = |kind: &str| before.is_some_and(|it| conditions::is_true(&it.conditions, kind));
    let is = |kind: &str| conditions::is_true(&now.conditions, kind);
    let message =
        |kind: &str| conditions::find(&now.conditions, kind).map(|it| it.message.clone()).unwrap_or_default();
    if is(types::READY) && !was(types::READY) {
        all.push(News::normal("Run", "WorkspaceReady", "terraform applied it, and its outputs are there"));
    }
    if is(types::DRIFTED) && !was(types::DRIFTED) {
        all.push(News::warning("Run", "DriftDetected", message(types::DRIFTED)));
    }
    if is(types::DESTRUCTIVE_CHANGE_BLOCKED) && !was(types::DESTRUCTIVE_CHANGE_BLOCKED) {
        all.push(News::warning(
            "Run",
            "DestructiveChangeBlocked",
            message(types::DESTRUCTIVE_CHANGE_BLOCKED),
        ));
    }
    let error = now.last_error.as_ref().filter(|error| error.class != "Wait");
    let known = before.and_then(|it| it.last_error.as_ref()).map(|it| (&it.message, it.attempts));
    if let Some(error) = error.filter(|error| Some((&error.message, error.attempts)) != known) {
        all.push(News::warning("Run", "RunFailed", super::status::full(error)));
    }
    let run = now.run.as_ref().filter(|run| run.finished_at.is_none());
    let begun = before.and_then(|it| it.run.as_ref()).map(|it| it.id.as_str());
    if let Some(run) =
        run.filter(|run| Some(run.id.as_str()) != begun && run.operation != RunOperation::Check)
    {
        all.push(News::normal("Run", "RunStarted", format!("{:?} {}", run.operation, run.id)));
    }
    all.extend(words(before.and_then(|it| it.run.as_ref()), now.run.as_ref()));
    all
}

/// What a run says beside how it goes.
fn words(before: Option<&RunStatus>, now: Option<&RunStatus>) -> Vec<News> {
    let Some(now) = now else { return Vec::new() };
    let plain = now.without_gateway.as_ref();
    let is_news = plain.is_some() && before.and_then(|it| it.without_gateway.as_ref()) != plain;
    let plain = plain.filter(|_| is_news).map(|why| News::warning("Run", "WithoutGateway", why));
    let told: &[String] = before.filter(|it| it.id == now.id).map_or(&[], |it| &it.notes);
    let notes = now.notes.iter().filter(|note| !told.contains(note));
    plain.into_iter().chain(notes.map(|note| News::normal("Run", "RunNote", note))).collect()
}

/// Does it, and says when to look again.
pub async fn act(
    object: &WorkspaceTemplateApply,
    key: &Key,
    facts: Facts,
    (decision, status): (Decision, &WorkspaceTemplateApplyStatus),
    ctx: &Context,
) -> Result<Action, Error> {
    match decision {
        Decision::Pause | Decision::Refuse(_) => Ok(Action::await_change()),
        Decision::Hold => {
            ctx.common.kube.add_finalizer(object, names::APPLY_FINALIZER).await?;
            Ok(Action::await_change())
        }
        Decision::Observe => Ok(Action::requeue(NET)),
        Decision::Withdraw => {
            ctx.runs.withdraw(key);
            Ok(Action::requeue(NET))
        }
        Decision::Wait(_, after) => Ok(Action::requeue(after.unwrap_or(NET))),
        Decision::Settle(after) => Ok(after.map_or_else(Action::await_change, Action::requeue)),
        Decision::Bring { goal, lane } => {
            if let Inputs::Known(known) = facts.inputs {
                let what = What::Bring { assignment: Box::new(known.assignment), goal };
                start(object, key, (what, lane, known.hash), ctx);
            }
            Ok(Action::requeue(NET))
        }
        Decision::Destroy => {
            let what = destruction(object, status, ctx).await?;
            start(object, key, (what, Lane::Delete, "destroy".to_owned()), ctx);
            Ok(Action::requeue(NET))
        }
        Decision::LetGo => {
            let_go(object, key, facts.retained, ctx).await?;
            Ok(Action::await_change())
        }
    }
}

fn start(
    object: &WorkspaceTemplateApply,
    key: &Key,
    (what, lane, inputs_hash): (What, Lane, String),
    ctx: &Context,
) {
    let keeper: Arc<dyn Keeper> = Arc::new(VaultKeeper {
        vault: ctx.vault.clone(),
        home: home(object, key),
        fence: ctx.fence,
        meter: Arc::clone(&ctx.common.meter),
    });
    let me = Key::new(&key.namespace, &object.name_any());
    let started = ctx.runs.start(Order { key: key.clone(), object: me, lane, what, inputs_hash, keeper });
    tracing::debug!(%key, started, "a run was asked for");
}

/// Whose state is kept.
fn home(object: &WorkspaceTemplateApply, key: &Key) -> Home {
    Home {
        namespace: key.namespace.clone(),
        workspace: key.name.clone(),
        owner: object.controller_owner_ref(&()),
        cluster: label(&object.metadata).map(str::to_owned),
    }
}

/// With the credentials of the identity that the last run used.
async fn destruction(
    object: &WorkspaceTemplateApply,
    status: &WorkspaceTemplateApplyStatus,
    ctx: &Context,
) -> Result<What, Error> {
    let named = object.spec.identity_ref.as_ref().or(status.identity_ref.as_ref());
    let namespace = object.namespace().unwrap_or_default();
    let mut reader = Reader::new(&ctx.common.kube, &namespace);
    let principal = match identity::acting(named.map(|it| it.name.as_str()), ctx, &mut reader).await {
        Ok(acting) => acting.principal,
        Err(super::halt::Halt::Api(error)) => return Err(error.into()),
        // The sealed provider block still names its roles; what is missing shows as AWS's refusal, and is tried again.
        Err(super::halt::Halt::Waiting(reason) | super::halt::Halt::Invalid(reason)) => {
            tracing::warn!(
                reason = reason.message,
                "an identity is gone; the operator's own credentials are used"
            );
            None
        }
    };
    Ok(What::Destroy { principal, expected: status.applied == Some(true) })
}

/// Gives up everything that held the object, last its own finalizer.
async fn let_go(
    object: &WorkspaceTemplateApply,
    key: &Key,
    retained: bool,
    ctx: &Context,
) -> Result<(), Error> {
    if retained {
        ctx.vault.leave(&key.namespace, &key.name).await?;
    } else {
        ctx.vault.release(&key.namespace, &key.name).await?;
    }
    ctx.common.kube.remove_finalizers(object, &[names::APPLY_FINALIZER]).await?;
    ctx.index.remove(&Key::new(&key.namespace, &object.name_any()));
    if let Err(error) = ctx.runs.forget(key) {
        // It is in the way of nobody.
        tracing::warn!(%key, %error, "the directory of a workspace that is gone stays");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(id: &str, without_gateway: Option<&str>, notes: &[&str]) -> RunStatus {
        serde_json::from_value(serde_json::json!({
            "id": id, "operation": "Check", "phase": "Planning", "withoutGateway": without_gateway, "notes": notes,
        }))
        .unwrap()
    }

    fn reasons(before: Option<&RunStatus>, now: &RunStatus) -> Vec<&'static str> {
        words(before, Some(now)).into_iter().map(|it| it.reason).collect()
    }

    #[test]
    fn a_run_without_the_gateway_is_told_once_for_each_reason() {
        let (shares, plain) = (run("1", None, &[]), run("2", Some("no version is locked"), &[]));
        assert_eq!(reasons(Some(&shares), &plain), ["WithoutGateway"]);
        assert_eq!(reasons(None, &plain), ["WithoutGateway"]);
        assert_eq!(reasons(Some(&plain), &plain), [""; 0]);
        assert_eq!(reasons(Some(&plain), &run("3", Some("another"), &[])), ["WithoutGateway"]);
        assert_eq!(reasons(Some(&plain), &shares), [""; 0]);
    }

    #[test]
    fn a_note_is_told_when_it_is_new() {
        let (one, two) = (run("1", None, &["a"]), run("1", None, &["a", "b"]));
        assert_eq!(reasons(Some(&run("1", None, &[])), &one), ["RunNote"]);
        assert_eq!(reasons(Some(&one), &two), ["RunNote"]);
        assert_eq!(reasons(Some(&two), &two), [""; 0]);
        assert_eq!(reasons(Some(&two), &run("2", None, &["a"])), ["RunNote"], "another run says it anew");
    }
}
