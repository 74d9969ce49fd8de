//! Lenient view of an object: a status that does not match the schema is still shown.

use capt_kinds::api::{LastError, PlanStatus, Progress, RunStatus};
use jiff::Timestamp;
use kube::api::DynamicObject;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A borrowed view of an object.
#[derive(Clone, Copy)]
pub(in crate::cli) struct ObjectView<'a>(pub(in crate::cli) &'a DynamicObject);

/// The readable parts of a condition.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConditionView<'a> {
    pub(super) status: &'a str,
    pub(super) reason: &'a str,
    pub(super) message: &'a str,
    generation: Option<i64>,
}

impl ConditionView<'_> {
    pub(super) fn is_true(&self) -> bool {
        self.status == "True"
    }

    pub(super) fn is_false(&self) -> bool {
        self.status == "False"
    }

    /// The first line of its message, or its reason.
    pub(super) fn summary(&self) -> String {
        let text = if self.message.is_empty() { self.reason } else { self.message };
        // Cluster API aggregates conditions into a bullet list.
        text.lines().next().unwrap_or_default().trim_start_matches("* ").to_owned()
    }
}

impl<'a> ObjectView<'a> {
    pub(in crate::cli) fn kind(self) -> &'a str {
        self.0.types.as_ref().map(|types| types.kind.as_str()).unwrap_or_default()
    }

    pub(in crate::cli) fn name(self) -> &'a str {
        self.0.metadata.name.as_deref().unwrap_or_default()
    }

    pub(in crate::cli) fn namespace(self) -> Option<&'a str> {
        self.0.metadata.namespace.as_deref()
    }

    pub(super) fn label(self, name: &str) -> Option<&'a str> {
        self.0.metadata.labels.as_ref()?.get(name).map(String::as_str)
    }

    pub(in crate::cli) fn is_deleting(self) -> bool {
        self.0.metadata.deletion_timestamp.is_some()
    }

    pub(in crate::cli) fn is_owned(self) -> bool {
        self.owners().next().is_some()
    }

    /// The deletion timestamp, or else the creation timestamp.
    pub(super) fn since(self) -> Option<Timestamp> {
        let metadata = &self.0.metadata;
        metadata.deletion_timestamp.as_ref().or(metadata.creation_timestamp.as_ref()).map(|time| time.0)
    }

    /// Kinds and names of its owners.
    pub(super) fn owners(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let owners = self.0.metadata.owner_references.as_deref().unwrap_or_default();
        owners.iter().map(|owner| (owner.kind.as_str(), owner.name.as_str()))
    }

    /// Kinds and names of a Cluster's infrastructure and control plane.
    pub(super) fn references(self) -> impl Iterator<Item = (&'a str, &'a str)> {
        ["/spec/infrastructureRef", "/spec/controlPlaneRef"].into_iter().filter_map(move |path| {
            let reference = self.0.data.pointer(path)?;
            Some((reference.get("kind")?.as_str()?, reference.get("name")?.as_str()?))
        })
    }

    pub(super) fn text_at(self, path: &str) -> Option<&'a str> {
        self.0.data.pointer(path)?.as_str().filter(|text| !text.is_empty())
    }

    /// A condition by type; stale ones (older observedGeneration) are ignored.
    pub(super) fn condition(self, name: &str) -> Option<ConditionView<'a>> {
        self.find_condition(name).filter(|condition| {
            let (seen, now) = (condition.generation, self.0.metadata.generation);
            seen.zip(now).is_none_or(|(seen, now)| seen >= now)
        })
    }

    fn find_condition(self, name: &str) -> Option<ConditionView<'a>> {
        let all = self.0.data.pointer("/status/conditions")?.as_array()?;
        let found = all.iter().find(|it| it.get("type").and_then(Value::as_str) == Some(name))?;
        let text = |field: &str| found.get(field).and_then(Value::as_str).unwrap_or_default();
        Some(ConditionView {
            status: text("status"),
            reason: text("reason"),
            message: text("message"),
            generation: found.get("observedGeneration").and_then(Value::as_i64),
        })
    }

    /// Whether the current generation has not been reconciled yet.
    pub(super) fn is_stale(self) -> bool {
        let seen = self.0.data.pointer("/status/observedGeneration").and_then(Value::as_i64);
        seen.zip(self.0.metadata.generation).is_some_and(|(seen, now)| seen < now)
    }

    /// Whether it was ever reconciled.
    pub(super) fn has_status(self) -> bool {
        self.0.data.get("status").and_then(Value::as_object).is_some_and(|status| !status.is_empty())
    }

    /// The run status of a workspace. An unreadable part does not hide the others.
    pub(super) fn run_status(self) -> WorkspaceRunStatus {
        WorkspaceRunStatus {
            run: self.parse_at("/status/run"),
            plan: self.parse_at("/status/plan"),
            progress: self.parse_at("/status/progress"),
            last_error: self.parse_at("/status/lastError"),
        }
    }

    fn parse_at<T: DeserializeOwned>(self, path: &str) -> Option<T> {
        serde_json::from_value(self.0.data.pointer(path)?.clone()).ok()
    }
}

/// The run status of a workspace.
pub(super) struct WorkspaceRunStatus {
    pub(super) run: Option<RunStatus>,
    pub(super) plan: Option<PlanStatus>,
    pub(super) progress: Option<Progress>,
    pub(super) last_error: Option<LastError>,
}
