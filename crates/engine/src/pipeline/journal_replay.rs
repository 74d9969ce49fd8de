//! Replay before a plan: what the gateway's journal has and the state lacks is written into the state.
//!
//! Everything that the last apply began is settled here, with the configuration of that apply: finished changes by the
//! journal alone, changes of unknown outcome by a lookup. What cannot be settled is an error; nothing is guessed.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use capt_model::workspaces::WorkspaceKey;
use provider_gateway::replay::{
    Assignment, ChangeOutcome, InstanceAddress, PlannedCreate, RecordedChange, Replay, ResourceValue,
    StateDocument, assign, recorded_changes, replay_known,
};
use serde_json::{Value, json};
use terraform_driver::{
    clock,
    command::PlanMode,
    planfile::PlannedObjects,
    render::LOCK_FILE,
    run::{Driver, StepContext, StepError, StepPhase},
    workspace::{
        FileToWrite,
        files::{read_optional, remove_optional, write_atomic},
    },
};
use tokio_util::sync::CancellationToken;

use super::{
    data_directory::DataDirectory,
    error::PipelineError,
    hooks::RunHooks,
    lost_creates::{self, Found, Lookup},
    orphaned_creates, sealed_configuration,
    workspace_record::WorkspaceRecord,
};
use crate::{
    aws::{EksClient, EksHealth, Principal},
    gateway::{drop_workspace_entries, workspace_entries},
};

/// Configuration file of the lookups; exists during a plan only.
const LOOKUP_FILE: &str = "capt_lookup.tf.json";
/// The provider block that capt renders, unless the source has one.
const PROVIDER_FILE: &str = "capt_provider.tf.json";
/// AWS may still be working on a request whose sender was killed.
const SETTLE_TIME: Duration = Duration::from_secs(10);
/// What `terraform import` says of an object that does not exist: terraform itself, and the provider for an association of a route
/// table, which it has to search.
const ABSENT_OBJECT: [&str; 2] = ["Cannot import non-existent", "No association found between"];
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// The replay of one workspace.
pub(super) struct JournalReplay<'a> {
    pub(super) data_dir: &'a DataDirectory,
    pub(super) hooks: &'a dyn RunHooks,
    pub(super) key: &'a WorkspaceKey,
    pub(super) job: &'a StepContext<'a>,
    pub(super) record: &'a WorkspaceRecord,
    pub(super) principal: Option<&'a Principal>,
    pub(super) stop: &'a CancellationToken,
}

impl JournalReplay<'_> {
    /// Settles all changes that the journal has of this workspace, and drops their entries.
    pub(super) async fn run(&self) -> Result<(), PipelineError> {
        // A kill during a lookup leaves it behind.
        remove_optional(&self.lookup_path())?;
        let workspace = self.key.to_string();
        let entries = workspace_entries(&self.data_dir.path, &workspace)?;
        if entries.is_empty() {
            return Ok(());
        }
        self.settle(recorded_changes(&entries, &workspace)).await?;
        self.hooks.back_up_state(self.key, self.job.workspace, self.record).await?;
        forget_journal(&self.data_dir.path, self.key).await;
        Ok(())
    }

    async fn settle(&self, mut changes: Vec<RecordedChange>) -> Result<(), PipelineError> {
        let mut ready = false;
        loop {
            if self.job.workspace.has_remote_state() && !ready {
                self.make_ready(&mut ready).await?;
            }
            let mut state = self.state()?;
            let replay = replay_known(changes.clone(), &mut state)?;
            if replay.changed {
                self.write(&state).await?;
            }
            changes.retain(|change| !replay.settled.contains(&change.call));
            if replay.missing.is_empty() && replay.unknown.is_empty() {
                return Ok(());
            }
            self.make_ready(&mut ready).await?;
            let (creates, plan) = self.plan(&replay).await?;
            let wanted: Vec<_> = replay.missing.iter().chain(&replay.unknown).cloned().collect();
            let assignments = assign(&wanted, &creates);
            if self.insert(&replay.missing, &assignments, state).await? {
                continue;
            }
            if let Some(change) = replay.missing.first() {
                return Err(unplaced(change));
            }
            // Those without an address may get one when the others are in the state.
            let has_address = |change: &RecordedChange| assignments.iter().any(|it| it.call == change.call);
            let any_has = replay.unknown.iter().any(has_address);
            for change in replay.unknown.iter().filter(|change| !any_has || has_address(change)) {
                let assignment = assignments.iter().find(|it| it.call == change.call);
                self.settle_unknown(change, assignment, &plan).await?;
                changes.retain(|other| other.call != change.call);
            }
        }
    }

    /// Restores the configuration that the changes belong to.
    async fn make_ready(&self, ready: &mut bool) -> Result<(), PipelineError> {
        if !*ready {
            (self.job.on_progress)(
                StepPhase::Settling,
                &terraform_driver::events::TerraformProgress::default(),
            );
            sealed_configuration::unseal(self.job.workspace, &self.data_dir.cloud)?;
            // The sealed configuration may need other providers than the one that was initialised last.
            Driver::invalidate_init(self.job.workspace)?;
            self.data_dir.driver.init(self.job, &self.record.digests()).await?;
            self.data_dir.driver.pull_state(self.job).await?;
            *ready = true;
        }
        Ok(())
    }

    fn state(&self) -> Result<StateDocument, PipelineError> {
        let path = self.job.workspace.state_path();
        let bytes = self.job.workspace.state_bytes()?;
        let version = self.data_dir.driver.engine().version.to_string();
        let state = match bytes {
            Some(bytes) => StateDocument::parse(&bytes),
            None => StateDocument::empty(&version, &uuid::Uuid::new_v4().to_string()),
        };
        state.ok_or(PipelineError::StateUnreadable { path })
    }

    async fn write(&self, state: &StateDocument) -> Result<(), PipelineError> {
        Ok(self.data_dir.driver.replace_state(self.job, &state.next_version()?).await?)
    }

    /// Plans with the lookups of the changes of unknown outcome.
    async fn plan(&self, replay: &Replay) -> Result<(Vec<PlannedCreate>, PlannedObjects), PipelineError> {
        let lookups = lost_creates::lookup_file(replay.unknown.iter());
        if let Some(file) = &lookups {
            self.wait_until_settled(&replay.unknown).await?;
            write_atomic(&self.lookup_path(), &file.bytes, true)?;
        }
        let planned = self.data_dir.driver.plan(self.job, PlanMode::Change, &self.record.digests()).await;
        remove_optional(&self.lookup_path())?;
        planned?;
        let objects = Driver::planned_objects(self.job.workspace)?;
        Driver::discard_plan(self.job.workspace)?;
        let creates = objects.creates.iter().filter_map(|object| {
            Some(PlannedCreate {
                address: InstanceAddress::parse(&object.address)?,
                text: object.address.clone(),
                provider: object.provider.clone(),
                value: ResourceValue::decode_msgpack(&object.value)?,
            })
        });
        Ok((creates.collect(), objects))
    }

    /// Inserts finished creations at their addresses; returns whether there were any.
    async fn insert(
        &self,
        missing: &[RecordedChange],
        assignments: &[Assignment],
        mut state: StateDocument,
    ) -> Result<bool, PipelineError> {
        let mut inserted = Vec::new();
        for change in missing {
            let Some(assignment) = assignments.iter().find(|it| it.call == change.call) else { continue };
            let Some(object) = change.new_object(assignment) else { return Err(unplaced(change)) };
            state.insert(&object)?;
            inserted.push((assignment.text.clone(), change.label()));
        }
        if inserted.is_empty() {
            return Ok(false);
        }
        self.write(&state).await?;
        for (address, label) in inserted {
            let text =
                format!("{address} ({label}) was created by an earlier run that was killed; it is kept");
            self.hooks.add_note(self.key, &text);
        }
        Ok(true)
    }

    /// Looks an object up whose creation may or may not have happened, and imports it if it exists.
    async fn settle_unknown(
        &self,
        change: &RecordedChange,
        assignment: Option<&Assignment>,
        plan: &PlannedObjects,
    ) -> Result<(), PipelineError> {
        let Some(assignment) = assignment else {
            // Imported already, by a person or by an earlier attempt.
            let fits = |value: &ResourceValue| change.planned.is_compatible_with(value);
            let known = self.state()?.objects().any(|it| it.address.kind == change.kind && fits(&it.value));
            return if known { Ok(()) } else { Err(undetermined(change, &change.kind, &[])) };
        };
        if self.is_occupied(&assignment.address)? {
            // A replacement that is created first. Import blocks can displace what it replaces, `terraform import` cannot.
            let is_recorded = orphaned_creates::is_recorded(self.job.workspace, &assignment.text)?;
            return if is_recorded { Ok(()) } else { Err(undetermined(change, &assignment.text, &[])) };
        }
        let workspace = self.key.to_string();
        let found = match Lookup::of(&change.kind, &change.planned) {
            Lookup::Impossible => None,
            Lookup::Id(id) => Some(Found::One(id)),
            Lookup::Tags(_) => {
                let known: Vec<String> =
                    self.state()?.objects().filter_map(|it| it.value.text("id").map(str::to_owned)).collect();
                lost_creates::found_by_tags(change, &plan.data, (&known, &workspace))
            }
        };
        match found {
            Some(Found::Nothing) => Ok(()),
            Some(Found::One(id)) => self.import_if_ours(change, assignment, &id).await,
            Some(Found::Unclear(ids)) => Err(undetermined(change, &assignment.text, &ids)),
            None => Err(undetermined(change, &assignment.text, &[])),
        }
    }

    /// Whether the state has an object at this address.
    fn is_occupied(&self, address: &InstanceAddress) -> Result<bool, PipelineError> {
        Ok(self.state()?.objects().any(|it| it.address == *address && it.deposed.is_none()))
    }

    /// Imports an object. One that does not exist was not created; one that has other tags is not ours.
    async fn import_if_ours(
        &self,
        change: &RecordedChange,
        assignment: &Assignment,
        id: &str,
    ) -> Result<(), PipelineError> {
        self.wait_until_settled(std::slice::from_ref(change)).await?;
        if !self.is_usable(change, id).await? {
            return Ok(());
        }
        self.narrow_configuration(&assignment.address)?;
        let imported = self.data_dir.driver.import(self.job, &assignment.text, id).await;
        sealed_configuration::unseal(self.job.workspace, &self.data_dir.cloud)?;
        match imported {
            Err(StepError::Failed { diagnostics, tail, .. })
                if ABSENT_OBJECT.iter().any(|text| {
                    tail.contains(text) || diagnostics.iter().any(|it| it.summary.contains(text))
                }) =>
            {
                return Ok(());
            }
            imported => imported?,
        }
        self.data_dir.driver.pull_state(self.job).await?;
        let mut state = self.state()?;
        let imported = state.objects().find(|it| it.address == assignment.address && it.deposed.is_none());
        let Some(imported) = imported else { return Ok(()) };
        if !lost_creates::is_same(&change.planned, &imported.value) {
            // Terraform reports that the name is taken.
            state.remove(&change.kind, &imported.value);
            return self.write(&state).await;
        }
        let text = format!(
            "{} ({id}) was being created when an earlier run was killed; imported it",
            assignment.text
        );
        self.hooks.add_note(self.key, &text);
        Ok(())
    }

    /// Reduces the configuration to the resource that is imported. `terraform import` evaluates all of it, and refuses a
    /// `for_each` over instances of which some are missing in the state. Not possible with a provider block of the user's.
    fn narrow_configuration(&self, address: &InstanceAddress) -> Result<(), PipelineError> {
        let workspace = self.job.workspace;
        let below = workspace.root().strip_prefix(workspace.dir()).unwrap_or_else(|_| Path::new(""));
        if address.module.is_some() || !workspace.root().join(PROVIDER_FILE).exists() {
            return Ok(());
        }
        let mut files = Vec::new();
        for name in [PROVIDER_FILE, "capt_provider_override.tf.json", "capt_backend.tf.json", LOCK_FILE] {
            if let Some(bytes) = read_optional(&workspace.root().join(name))? {
                files.push((below.join(name).display().to_string(), bytes));
            }
        }
        let body = match &address.index {
            Some(Value::Number(number)) => json!({ "count": number.as_u64().unwrap_or_default() + 1 }),
            Some(Value::String(key)) => json!({ "for_each": { lost_creates::escape(key): 1 } }),
            _ => json!({}),
        };
        let resource = json!({ "resource": { &address.kind: { &address.name: body } } });
        files.push((
            below.join("capt_import.tf.json").display().to_string(),
            resource.to_string().into_bytes(),
        ));
        let files = files.iter().map(|(path, bytes)| FileToWrite { path, bytes, secret: true });
        Ok(workspace.sync_files(files)?)
    }

    /// Waits for an EKS object to become active. One that failed, or is older than the creation, is not imported.
    async fn is_usable(&self, change: &RecordedChange, id: &str) -> Result<bool, PipelineError> {
        let waits = ["aws_eks_addon", "aws_eks_cluster", "aws_eks_fargate_profile"];
        if !waits.contains(&change.kind.as_str()) {
            return Ok(true);
        }
        let sdk = self.data_dir.sdk_config(self.record.region.as_deref(), self.principal).await;
        let eks = EksClient::new(&sdk);
        let in_eks = super::untaint::InterruptedResourceError::from;
        let made = eks.created_at(&change.kind, id).await.map_err(in_eks)?;
        if made.is_none_or(|at| at < change.since.as_second() - orphaned_creates::CLOCK_SKEW_SECONDS) {
            return Ok(false);
        }
        let health = eks.wait_until_settled(&change.kind, id, self.stop).await.map_err(in_eks)?;
        Ok(health == Some(EksHealth::Active))
    }

    /// Waits until AWS has finished every request of these changes, so that a lookup tells the truth.
    async fn wait_until_settled(&self, changes: &[RecordedChange]) -> Result<(), PipelineError> {
        let settled = |change: &RecordedChange| {
            change.outcome != ChangeOutcome::Unknown
                || clock::now().duration_since(change.since).unsigned_abs() >= SETTLE_TIME
        };
        while !changes.iter().all(settled) {
            tokio::select! {
                () = tokio::time::sleep(POLL_INTERVAL) => {}
                () = self.stop.cancelled() => return Err(PipelineError::Interrupted),
            }
        }
        Ok(())
    }

    fn lookup_path(&self) -> PathBuf {
        self.job.workspace.root().join(LOOKUP_FILE)
    }
}

/// Drops all entries of a workspace: its state has everything that its last run made, or it holds nothing any more. If that
/// fails they stay until the next run, which finds their changes in the state.
pub(super) async fn forget_journal(data: &Path, key: &WorkspaceKey) {
    if let Err(error) = drop_workspace_entries(data, &key.to_string()).await {
        tracing::warn!(%key, %error, "journal entries stay until the next run");
    }
}

fn unplaced(change: &RecordedChange) -> PipelineError {
    PipelineError::CreatedObjectUnplaced { object: change.label() }
}

fn undetermined(change: &RecordedChange, address: &str, candidates: &[String]) -> PipelineError {
    let candidates = if candidates.is_empty() {
        String::new()
    } else {
        format!("; it may be one of {}", candidates.join(", "))
    };
    PipelineError::OutcomeUnknown { object: change.label(), address: address.to_owned(), candidates }
}
