//! Summarizes the status of a `WorkspaceTemplateApply` for the controller that owns it. Pure.
//!
//! `clusterctl describe` does not show workspaces, so that the conditions of their owners repeat their problems: with the
//! resource address, the AWS error code and the time of the next attempt.

use capt_kinds::api::{
    LastError, RunOperation, RunPhase, RunStatus, WorkspaceTemplateApply, WorkspaceTemplateApplyStatus,
    conditions::{reasons, types},
};
use capt_kube::k8s::conditions::{find, is_true, whole_seconds};

/// Reasons of `Synced=False` that need user action.
const USER_ACTION_REASONS: [&str; 4] = [
    reasons::INVALID_SPEC,
    reasons::IDENTITY_NOT_ALLOWED,
    reasons::WORKSPACE_TEMPLATE_NOT_FOUND,
    reasons::APPROVAL_REQUIRED,
];

/// Summary of the status of a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkspaceSummary {
    /// All its resources exist.
    pub available: bool,
    /// The current generation is applied and no apply or destroy is running.
    pub up_to_date: bool,
    /// It is being deleted.
    pub deleting: bool,
    /// Current activity.
    pub activity: String,
    /// Its problem, if any.
    pub problem: Option<WorkspaceProblem>,
}

/// A problem of a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkspaceProblem {
    /// It needs user action.
    pub is_failure: bool,
    /// Message for a condition.
    pub message: String,
}

impl WorkspaceSummary {
    /// The problem, if it needs user action.
    pub fn failure(&self) -> Option<&WorkspaceProblem> {
        self.problem.as_ref().filter(|trouble| trouble.is_failure)
    }

    /// Condition message of a workspace that is not up to date: its problem, else its activity.
    pub fn message(&self) -> &str {
        self.problem.as_ref().map_or(&self.activity, |trouble| &trouble.message)
    }
}

/// Summarizes the status of a workspace.
pub fn summarize(apply: &WorkspaceTemplateApply) -> WorkspaceSummary {
    let name = apply.metadata.name.as_deref().unwrap_or_default();
    let nothing = WorkspaceTemplateApplyStatus::default();
    let status = apply.status.as_ref().unwrap_or(&nothing);
    // A status without an observed generation was written by upstream's controllers. It describes resources of another engine
    // and is not evidence here.
    let seen = status.observed_generation.is_some();
    let running = status.run.as_ref().filter(|run| is_active(run));
    let current = seen && status.observed_generation == apply.metadata.generation;
    let synced = is_true(&status.conditions, types::SYNCED);
    let changing = running.is_some_and(|run| run.operation != RunOperation::Check);
    WorkspaceSummary {
        available: seen && is_true(&status.conditions, types::READY),
        up_to_date: current && synced && !changing,
        deleting: apply.metadata.deletion_timestamp.is_some(),
        activity: describe_activity(name, apply, running),
        problem: find_problem(name, apply),
    }
}

/// A non-empty string output.
pub fn string_output<'a>(apply: &'a WorkspaceTemplateApply, name: &str) -> Option<&'a str> {
    apply.status.as_ref()?.outputs.get(name)?.as_str().filter(|text| !text.is_empty())
}

/// An output that is a list of strings; other items are skipped.
pub fn string_list_output<'a>(apply: &'a WorkspaceTemplateApply, name: &str) -> Vec<&'a str> {
    let list = apply.status.as_ref().and_then(|status| status.outputs.get(name)?.as_array());
    list.into_iter().flatten().filter_map(serde_json::Value::as_str).collect()
}

const fn is_active(run: &RunStatus) -> bool {
    let over = matches!(
        run.phase,
        RunPhase::Succeeded | RunPhase::Failed | RunPhase::Interrupted | RunPhase::AwaitingApproval
    );
    run.finished_at.is_none() && !over
}

fn describe_activity(name: &str, apply: &WorkspaceTemplateApply, run: Option<&RunStatus>) -> String {
    let status = apply.status.as_ref();
    let Some(run) = run else {
        let said = status.and_then(|status| find(&status.conditions, types::SYNCED));
        let said = said.filter(|one| one.status != "True" && !one.message.is_empty());
        return match said {
            Some(one) => format!("WorkspaceTemplateApply {name}: {}", one.message),
            None => format!("waiting for WorkspaceTemplateApply {name}"),
        };
    };
    let progress = status.and_then(|status| status.progress.as_ref()).filter(|it| it.total > 0);
    let far = progress.map(|it| format!(", {} of {} done", it.done, it.total)).unwrap_or_default();
    let wait = run.waiting_for.as_ref().map(|it| format!(", waiting for {it}")).unwrap_or_default();
    format!("WorkspaceTemplateApply {name} is {}{far}{wait}", phase_name(run.phase))
}

const fn phase_name(phase: RunPhase) -> &'static str {
    match phase {
        RunPhase::Pending => "queued",
        RunPhase::Initializing => "initializing",
        RunPhase::Planning => "planning",
        RunPhase::AwaitingApproval => "awaiting approval",
        RunPhase::Applying => "applying",
        RunPhase::Destroying => "destroying",
        RunPhase::Collecting => "reading outputs",
        RunPhase::Succeeded => "done",
        RunPhase::Failed => "failed",
        RunPhase::Interrupted => "interrupted",
    }
}

fn find_problem(name: &str, apply: &WorkspaceTemplateApply) -> Option<WorkspaceProblem> {
    let status = apply.status.as_ref()?;
    let blocked = find(&status.conditions, types::DESTRUCTIVE_CHANGE_BLOCKED);
    if let Some(blocked) = blocked.filter(|one| one.status == "True") {
        let text = format!("WorkspaceTemplateApply {name}: {}", blocked.message);
        return Some(WorkspaceProblem { is_failure: true, message: text });
    }
    if let Some(error) = &status.last_error {
        let is_failure = !error.class.is_self_resolving();
        return Some(WorkspaceProblem { is_failure, message: format_error(name, error) });
    }
    let synced = find(&status.conditions, types::SYNCED).filter(|one| one.status == "False")?;
    USER_ACTION_REASONS.contains(&synced.reason.as_str()).then(|| {
        let why = if synced.message.is_empty() { &synced.reason } else { &synced.message };
        WorkspaceProblem { is_failure: true, message: format!("WorkspaceTemplateApply {name}: {why}") }
    })
}

/// An error message with address, code and next attempt, without repetition.
fn format_error(name: &str, error: &LastError) -> String {
    let LastError { class: _, code, address, message, retry_at, attempts: _ } = error;
    let mut text = format!("WorkspaceTemplateApply {name}: ");
    for part in [address, code].into_iter().flatten().filter(|part| !message.contains(part.as_str())) {
        text.push_str(part);
        text.push_str(": ");
    }
    text.push_str(message.trim_end_matches('.'));
    let next = retry_at.as_ref().map(|at| format!("; next attempt at {}", whole_seconds(at.0)));
    text.push_str(&next.unwrap_or_default());
    text
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn apply(status: &Value) -> WorkspaceTemplateApply {
        serde_json::from_value(json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "WorkspaceTemplateApply",
            "metadata": {"name": "demo-vpc", "namespace": "team", "generation": 2},
            "spec": {"module": "vpc", "region": "eu-central-1"}, "status": status,
        }))
        .unwrap()
    }

    fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
        json!({"type": type_, "status": status, "reason": reason, "message": message,
               "lastTransitionTime": "2026-11-01T10:00:00Z"})
    }

    fn good() -> Value {
        json!({
            "observedGeneration": 2, "outputs": {"vpc_id": "vpc-1", "azs": ["b", "a", 3]},
            "conditions": [condition("Ready", "True", "Available", ""), condition("Synced", "True", "ReconcileSuccess", "")],
        })
    }

    fn with(mut status: Value, field: &str, value: Value) -> Value {
        status[field] = value;
        status
    }

    #[test]
    fn a_workspace_that_is_done_is_usable_and_settled() {
        let found = summarize(&apply(&good()));
        assert!(found.available && found.up_to_date && found.problem.is_none(), "{found:?}");
    }

    #[test]
    fn an_older_generation_is_usable_and_not_settled() {
        let found = summarize(&apply(&with(good(), "observedGeneration", json!(1))));
        assert!(found.available && !found.up_to_date);
    }

    #[test]
    fn what_upstream_left_proves_nothing() {
        let mut status = good();
        status.as_object_mut().unwrap().remove("observedGeneration");
        let found = summarize(&apply(&status));
        assert!(!found.available && !found.up_to_date);
    }

    #[test]
    fn a_check_does_not_unsettle_and_an_apply_does() {
        for (operation, settled) in [("Check", true), ("Apply", false)] {
            let run = json!({"id": "1", "operation": operation, "phase": "Planning"});
            assert_eq!(summarize(&apply(&with(good(), "run", run))).up_to_date, settled, "{operation}");
        }
    }

    #[test]
    fn an_error_is_told_with_address_code_and_next_attempt() {
        let error = json!({"class": "Quota", "code": "VpcLimitExceeded", "address": "aws_vpc.this[0]",
            "message": "The maximum number of VPCs has been reached.", "retryAt": "2026-11-01T10:10:00.123Z"});
        let found = summarize(&apply(&json!({"observedGeneration": 2, "lastError": error})));
        let trouble = found.failure().unwrap();
        assert_eq!(
            trouble.message,
            "WorkspaceTemplateApply demo-vpc: aws_vpc.this[0]: VpcLimitExceeded: The maximum number of VPCs has been \
             reached; next attempt at 2026-11-01T10:10:00Z"
        );
    }

    #[test]
    fn only_what_a_person_must_mend_is_a_failure() {
        let is_failure = |class: &str| {
            let error = json!({"class": class, "message": "no"});
            summarize(&apply(&json!({"observedGeneration": 2, "lastError": error}))).failure().is_some()
        };
        for class in ["Wait", "Throttle", "Propagation", "Network", "Lock", "Expired"] {
            assert!(!is_failure(class), "{class}");
        }
        for class in ["UserFix", "Quota", "Credentials", "Protected", "Unknown", "something new"] {
            assert!(is_failure(class), "{class}");
        }
    }

    #[test]
    fn a_wait_is_no_failure_and_a_missing_template_is() {
        let of = |reason: &str| {
            let conditions = json!([condition("Synced", "False", reason, "why")]);
            summarize(&apply(&json!({"observedGeneration": 2, "conditions": conditions})))
        };
        let waiting = of(reasons::WAITING_FOR_SECRETS);
        assert_eq!((waiting.failure(), waiting.message()), (None, "WorkspaceTemplateApply demo-vpc: why"));
        assert!(of(reasons::WORKSPACE_TEMPLATE_NOT_FOUND).failure().is_some());
    }

    #[test]
    fn a_blocked_plan_needs_a_person() {
        let conditions = json!([condition(
            "DestructiveChangeBlocked",
            "True",
            "ApprovalRequired",
            "would replace aws_vpc.this"
        )]);
        let found = summarize(&apply(&json!({"observedGeneration": 2, "conditions": conditions})));
        assert!(
            found.failure().is_some_and(|trouble| trouble.message.ends_with("would replace aws_vpc.this"))
        );
    }

    #[test]
    fn progress_is_told_without_what_changes_every_second() {
        let run = json!({"id": "1", "operation": "Apply", "phase": "Applying"});
        let progress =
            json!({"done": 3, "total": 20, "slowest": "aws_nat_gateway.this", "slowestSeconds": 81});
        let status = json!({"observedGeneration": 2, "run": run, "progress": progress});
        assert_eq!(
            summarize(&apply(&status)).activity,
            "WorkspaceTemplateApply demo-vpc is applying, 3 of 20 done"
        );
    }

    #[test]
    fn outputs_of_the_wrong_type_are_none() {
        let status = with(good(), "outputs", json!({"vpc_id": 7, "azs": "a"}));
        assert_eq!(string_output(&apply(&status), "vpc_id"), None);
        assert!(string_list_output(&apply(&status), "azs").is_empty());
        assert_eq!(string_output(&apply(&good()), "vpc_id"), Some("vpc-1"));
        assert_eq!(string_list_output(&apply(&good()), "azs"), ["b", "a"]);
    }
}
