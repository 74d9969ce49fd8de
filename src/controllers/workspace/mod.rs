//! `WorkspaceTemplateApply`: the unit of Terraform work. The only controller that starts runs.

mod act;
mod decide;
mod digest;
mod facts;
mod halt;
mod identity;
mod index;
mod inputs;
mod keeper;
mod observe;
mod read;
mod status;
mod wire;

use std::{sync::Arc, time::Duration};

use kube::{ResourceExt, runtime::controller::Action};
use terraform_driver::{
    clock,
    workspace::{WorkspaceError, files::FileError},
};
use thiserror::Error;

pub use self::{
    index::{Index, Target, TargetKind},
    wire::run,
};
use crate::{
    api::WorkspaceTemplateApply,
    blueprint::{Key, Place},
    controllers::common::{self, policy::Classed},
    error::Class,
    k8s::{
        Fence, K8sError,
        vault::{Vault, VaultError},
    },
    model::names,
    runs::Runs,
};

/// What every reconcile needs.
pub struct Context {
    /// What all controllers need.
    pub common: Arc<common::Context>,
    /// The runs of this process.
    pub runs: Runs,
    /// Where states are kept.
    pub vault: Vault,
    /// Who reads what.
    pub index: Index,
    /// Which AWS, for the provider block.
    pub place: Place,
    /// How often drift is looked for, unless an object says otherwise.
    pub drift_interval: Duration,
    /// Grows with every change of leadership.
    pub fence: Fence,
}

/// Why a reconcile did not end well.
#[derive(Debug, Error)]
pub enum Error {
    /// The API server.
    #[error(transparent)]
    Api(#[from] K8sError),
    /// The directory of the workspace.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// A file of it.
    #[error(transparent)]
    File(#[from] FileError),
    /// The kept state.
    #[error(transparent)]
    Vault(#[from] VaultError),
}

impl Classed for Error {
    fn class(&self) -> Class {
        match self {
            Self::Api(error) => error.class(),
            Self::Workspace(_) | Self::File(_) => Class::Terminal,
            Self::Vault(error) => error.class(),
        }
    }

    fn category(&self) -> &'static str {
        match self {
            Self::Api(error) => error.category(),
            Self::Workspace(_) | Self::File(_) => "workspace",
            Self::Vault(_) => "vault",
        }
    }
}

/// Brings one object a step further, and says when to look again.
pub async fn reconcile(object: &WorkspaceTemplateApply, ctx: &Context) -> Result<Action, Error> {
    let key = workspace_key(object);
    // What is there (reads only).
    let Some(facts) = observe::observe(object, &key, ctx).await? else { return Ok(Action::await_change()) };
    // What that means (pure).
    let now = clock::now();
    let before = object.status.clone().unwrap_or_default();
    let seed = object.uid().unwrap_or_default();
    let mut status = match &facts.run {
        Some(run) => status::take_in(before, run, &seed),
        None => before,
    };
    let decision = decide::decide(&facts, &status, now);
    // Do it, then say it.
    let outputs = act::publish(object, &facts, &status, ctx).await?;
    if let Some(outputs) = &outputs {
        status::set_outputs(&mut status, outputs);
    }
    status.workspace_name = Some(key.name.clone());
    act::about(&mut status, &facts);
    status::conditions(&mut status, facts.run.as_ref(), &decision, object.metadata.generation, now);
    act::say(object, &status, &decision, ctx).await?;
    act::act(object, &key, facts, (decision, &status), ctx).await
}

/// The workspace of an object.
pub fn workspace_key(object: &WorkspaceTemplateApply) -> Key {
    Key::new(&object.namespace().unwrap_or_default(), names::workspace(&object.name_any()))
}
