//! The states in the Secrets of an operator.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use capt_engine::pipeline::{WorkspaceRecord, workspace_dir};
use capt_kinds::api::{RunPhase, RunStatus, WorkspaceTemplateApply, names as api_names};
use capt_kube::k8s::{
    FencingToken, KubeClient,
    state_store::{KubeStateStore, StateOwner, StoredWorkspace},
};
use capt_model::{model::names, workspaces::WorkspaceKey};
use k8s_openapi::api::core::v1::{ObjectReference, Secret};
use kube::{
    Api, Client, Resource as _, ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};
use terraform_driver::{clock, state::list_kept_states, workspace::WorkspaceBackup};

use super::{
    super::kube_api::{FIELD_MANAGER, acting_user, describe_api_error, find_workspace, record_event},
    dead_operator,
    edit::StateEdit,
    version::{OpenWorkspace, StateVersionRow, VersionContents, WorkspaceRow},
};

/// The states in the Secrets of an operator.
pub(super) struct ApiStates {
    client: Client,
    store: KubeStateStore,
    /// Data directory of the operator, if that runs on this machine.
    local_data: Option<PathBuf>,
    /// Who runs this command, as far as known.
    person: Option<String>,
}

impl ApiStates {
    pub(super) fn new(client: Client, local_data: Option<PathBuf>, person: Option<String>) -> Self {
        let store = KubeStateStore::new(KubeClient::new(client.clone()));
        Self { client, store, local_data, person }
    }

    pub(super) async fn list(&self, namespace: Option<&str>) -> anyhow::Result<Vec<WorkspaceRow>> {
        let stored = self.store.list(namespace).await?;
        Ok(stored.iter().map(workspace_row).collect())
    }

    pub(super) async fn inspect(&self, key: &WorkspaceKey) -> anyhow::Result<OpenWorkspace> {
        let own_name = WorkspaceKey::new(&key.namespace, names::workspace_name(&key.name));
        for key in [key, &own_name] {
            if let Some(stored) = self.store.inspect(&key.namespace, &key.name).await? {
                return self.with_snapshots(key, Some(stored));
            }
        }
        if self.object(key).await?.is_some() {
            return self.with_snapshots(&own_name, None);
        }
        bail!(
            "no state of {key} is stored; `capt state list` shows all of them, -n selects another namespace"
        )
    }

    /// Adds what the directory of an operator on this machine keeps beyond the store.
    fn with_snapshots(
        &self,
        key: &WorkspaceKey,
        stored: Option<StoredWorkspace>,
    ) -> anyhow::Result<OpenWorkspace> {
        let all = stored.iter().flat_map(|it| &it.versions);
        let mut versions: Vec<StateVersionRow> = all.map(StateVersionRow::of_store).collect();
        if let Some(data) = &self.local_data
            && let Some(record) = WorkspaceRecord::read(&workspace_dir(data, key))?
        {
            let kept = list_kept_states(&record.workspace_dir(data, key))?;
            for version in kept.into_iter().map(|it| StateVersionRow::of_file(it, "directory")) {
                if !versions.iter().any(|other| other.id == version.id) {
                    versions.push(version);
                }
            }
        }
        Ok(OpenWorkspace { key: key.clone(), versions, stored })
    }

    pub(super) async fn read(
        &self,
        workspace: &OpenWorkspace,
        version: &StateVersionRow,
    ) -> anyhow::Result<Vec<u8>> {
        match (&version.contents, &workspace.stored) {
            (VersionContents::Stored(stored), Some(all)) => Ok(self.store.read(all, stored).await?),
            _ => version.read_file(),
        }
    }

    async fn object(&self, key: &WorkspaceKey) -> anyhow::Result<Option<WorkspaceTemplateApply>> {
        find_workspace(&self.client, &key.namespace, &key.name).await
    }

    /// Refuses while a run is active. A run that starts nevertheless before the state is replaced cannot save over it.
    pub(super) async fn require_idle(&self, key: &WorkspaceKey) -> anyhow::Result<()> {
        let Some(object) = self.object(key).await? else { return Ok(()) };
        let Some(run) = active_run(&object) else { return Ok(()) };
        let name = object.name_any();
        bail!(
            "a run of {key} is active ({:?} {}, phase {:?}); wait until it is finished (`capt status {name} -w`). If its operator is \
             gone for good, `capt state unlock {key}` ends it. To keep runs from starting: kubectl annotate -n {} wtapply {name} {}=true",
            run.operation,
            run.id,
            run.phase,
            key.namespace,
            api_names::PAUSED_ANNOTATION
        )
    }

    pub(super) async fn replace(
        &self,
        workspace: &OpenWorkspace,
        edit: &StateEdit,
    ) -> anyhow::Result<String> {
        let key = &workspace.key;
        let object = self.object(key).await?;
        match &workspace.stored {
            Some(stored) => self.store.replace(stored, &edit.bytes).await?,
            None => self.store_first(key, object.as_ref(), edit).await?,
        }
        let who = acting_user(&self.client, self.person.as_deref()).await;
        let reason = if edit.verb == "restored" { "StateRestored" } else { "StatePushed" };
        let note = format!("{} by {who}", edit.summary());
        let reference = self.event_object(key, object.as_ref()).await?;
        let recorded = record_event(&self.client, &reference, ("ReplaceState", reason), note).await;
        recorded.context("the state is replaced, but the Event that records it could not be written")?;
        match object {
            Some(object) if object.metadata.deletion_timestamp.is_none() => {
                let requested = json!({ api_names::REQUESTED_ANNOTATION: clock::now().to_string() });
                self.patch(&object, json!({"metadata": {"annotations": requested}})).await.context(
                    "the state is replaced, but no run could be requested; the next one starts from the new state",
                )?;
                Ok("the operator was asked for a run, which starts from it".to_owned())
            }
            _ => Ok("the next run of the operator starts from it".to_owned()),
        }
    }

    /// Stores the first state of a workspace.
    async fn store_first(
        &self,
        key: &WorkspaceKey,
        object: Option<&WorkspaceTemplateApply>,
        edit: &StateEdit,
    ) -> anyhow::Result<()> {
        let labels = object.map(ResourceExt::labels);
        let home = StateOwner {
            namespace: key.namespace.clone(),
            workspace: key.name.clone(),
            owner: object.and_then(|it| it.controller_owner_ref(&())),
            cluster: labels.and_then(|all| all.get(api_names::CLUSTER_NAME_LABEL).cloned()),
        };
        let backup = WorkspaceBackup { state: Some(edit.bytes.clone()), bundle: None, edits: 1 };
        self.store.save(&home, &backup, FencingToken(0)).await?;
        Ok(())
    }

    /// The object that an Event is about: the workspace's, or the Secret of a state without an object.
    async fn event_object(
        &self,
        key: &WorkspaceKey,
        object: Option<&WorkspaceTemplateApply>,
    ) -> anyhow::Result<ObjectReference> {
        if let Some(object) = object {
            return Ok(object.object_ref(&()));
        }
        let stored = self.store.inspect(&key.namespace, &key.name).await?;
        let metadata = stored.map(|it| it.commit).unwrap_or_default();
        Ok(Secret { metadata, ..Secret::default() }.object_ref(&()))
    }

    async fn patch(&self, object: &WorkspaceTemplateApply, patch: Value) -> anyhow::Result<()> {
        let namespace = object.namespace().unwrap_or_default();
        let api: Api<WorkspaceTemplateApply> = Api::namespaced(self.client.clone(), &namespace);
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let patched = api.patch(&object.name_any(), &params, &Patch::Merge(&patch)).await;
        patched.map(drop).map_err(|error| describe_api_error(&error))
    }

    /// Ends a run whose operator is provably dead. The store itself has no locks.
    pub(super) async fn unlock(&self, key: &WorkspaceKey) -> anyhow::Result<String> {
        let Some(object) = self.object(key).await? else {
            bail!(
                "no WorkspaceTemplateApply of {key} found, so nothing can lock it; `capt status` lists them"
            );
        };
        let Some(run) = active_run(&object) else {
            return Ok(format!("{key} is not locked: no run of it is active"));
        };
        if self.local_data.is_some() {
            bail!("the operator of {key} runs on this machine; it ends the run {} itself", run.id);
        }
        let proof = dead_operator::prove(&self.client)
            .await
            .with_context(|| format!("the run {} of {key} was not ended", run.id))?;
        let namespace = object.namespace().unwrap_or_default();
        let api: Api<WorkspaceTemplateApply> = Api::namespaced(self.client.clone(), &namespace);
        let ended = json!({
            "metadata": {"resourceVersion": object.resource_version()},
            "status": {"run": {"phase": RunPhase::Interrupted, "finishedAt": clock::now().to_string()}},
        });
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let patched = api.patch_status(&object.name_any(), &params, &Patch::Merge(&ended)).await;
        patched.map_err(|error| describe_api_error(&error))?;
        let who = acting_user(&self.client, self.person.as_deref()).await;
        let note = format!("the run {} was ended by {who}: {proof}", run.id);
        record_event(&self.client, &object.object_ref(&()), ("Unlock", "RunEnded"), note).await?;
        Ok(format!("{key}: ended the run {}, because {proof}", run.id))
    }
}

/// The run of a workspace that is not finished.
fn active_run(object: &WorkspaceTemplateApply) -> Option<&RunStatus> {
    object.status.as_ref()?.run.as_ref().filter(|run| run.finished_at.is_none())
}

fn workspace_row(stored: &StoredWorkspace) -> WorkspaceRow {
    let current = stored.current();
    WorkspaceRow {
        workspace: format!("{}/{}", stored.namespace, stored.workspace),
        serial: current.map(|it| it.version.serial),
        lineage: current.map(|it| it.version.lineage.clone()),
        resources: current.and_then(|it| it.resources),
        stored_at: current.and_then(|it| it.written),
        place: "Secrets",
        location: format!("{}/{}", stored.namespace, stored.commit.name.clone().unwrap_or_default()),
    }
}
