//! What a `WorkspaceTemplateApply` says of itself, in the words that its maker needs. Pure.
//!
//! `clusterctl describe` does not show workspaces, so that their trouble has to stand in the conditions of their makers:
//! with the address of the resource, AWS's code and the time of the next attempt.

use terraform_driver::classify::Class;

use crate::{
    api::{
        LastError, RunOperation, RunPhase, RunStatus, WorkspaceTemplateApply, WorkspaceTemplateApplyStatus,
        conditions::{reasons, types},
    },
    k8s::conditions::{find, is_true, whole_seconds},
};

/// Failures that pass without anybody's help. They are told, and never called a failure.
const PASSING: [Class; 9] = [
    Class::Wait,
    Class::Throttle,
    Class::Propagation,
    Class::Dependency,
    Class::Lock,
    Class::Expired,
    Class::StalePlan,
    Class::Interrupted,
    Class::Network,
];

/// Reasons of a workspace that is not in order for which only a person can do something.
const FOR_PEOPLE: [&str; 4] = [
    reasons::INVALID_SPEC,
    reasons::IDENTITY_NOT_ALLOWED,
    reasons::WORKSPACE_TEMPLATE_NOT_FOUND,
    reasons::APPROVAL_REQUIRED,
];

/// What a workspace says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What it makes exists, all of it.
    pub usable: bool,
    /// What was asked of it last is done.
    pub settled: bool,
    /// It is being deleted.
    pub deleting: bool,
    /// What it does at present.
    pub doing: String,
    /// What hinders it.
    pub trouble: Option<Trouble>,
}

/// What hinders a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// Only a person can do something about it.
    pub is_failure: bool,
    /// Everything that is known of it.
    pub text: String,
}

impl Finding {
    /// The trouble, if only a person can do something about it.
    pub fn failure(&self) -> Option<&Trouble> {
        self.trouble.as_ref().filter(|trouble| trouble.is_failure)
    }

    /// What people should know of a workspace that is not done.
    pub fn text(&self) -> &str {
        self.trouble.as_ref().map_or(&self.doing, |trouble| &trouble.text)
    }
}

/// Reads a workspace.
pub fn look(apply: &WorkspaceTemplateApply) -> Finding {
    let name = apply.metadata.name.as_deref().unwrap_or_default();
    let nothing = WorkspaceTemplateApplyStatus::default();
    let status = apply.status.as_ref().unwrap_or(&nothing);
    // A status without a generation is not ours: upstream's controllers left it, and what it says of another engine's
    // resources is not proof of anything here.
    let seen = status.observed_generation.is_some();
    let running = status.run.as_ref().filter(|run| is_active(run));
    let current = seen && status.observed_generation == apply.metadata.generation;
    let synced = is_true(&status.conditions, types::SYNCED);
    let changing = running.is_some_and(|run| run.operation != RunOperation::Check);
    Finding {
        usable: seen && is_true(&status.conditions, types::READY),
        settled: current && synced && !changing,
        deleting: apply.metadata.deletion_timestamp.is_some(),
        doing: doing(name, apply, running),
        trouble: trouble(name, apply),
    }
}

/// An output that is text.
pub fn text_output<'a>(apply: &'a WorkspaceTemplateApply, name: &str) -> Option<&'a str> {
    apply.status.as_ref()?.outputs.get(name)?.as_str().filter(|text| !text.is_empty())
}

/// An output that is a list of texts; what is no text in it is left out.
pub fn list_output<'a>(apply: &'a WorkspaceTemplateApply, name: &str) -> Vec<&'a str> {
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

fn doing(name: &str, apply: &WorkspaceTemplateApply, run: Option<&RunStatus>) -> String {
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
    format!("WorkspaceTemplateApply {name} is {}{far}{wait}", word(run.phase))
}

const fn word(phase: RunPhase) -> &'static str {
    match phase {
        RunPhase::Pending => "queued",
        RunPhase::Initializing => "initializing",
        RunPhase::Planning => "planning",
        RunPhase::AwaitingApproval => "awaiting approval",
        RunPhase::Applying => "applying",
        RunPhase::Destroying => "destroying",
        RunPhase::Collecting => "reading its outputs",
        RunPhase::Succeeded => "done",
        RunPhase::Failed => "failed",
        RunPhase::Interrupted => "interrupted",
    }
}

fn trouble(name: &str, apply: &WorkspaceTemplateApply) -> Option<Trouble> {
    let status = apply.status.as_ref()?;
    let blocked = find(&status.conditions, types::DESTRUCTIVE_CHANGE_BLOCKED);
    if let Some(blocked) = blocked.filter(|one| one.status == "True") {
        let text = format!("WorkspaceTemplateApply {name}: {}", blocked.message);
        return Some(Trouble { is_failure: true, text });
    }
    if let Some(error) = &status.last_error {
        let is_failure = PASSING.iter().all(|class| class.name() != error.class);
        return Some(Trouble { is_failure, text: told(name, error) });
    }
    let synced = find(&status.conditions, types::SYNCED).filter(|one| one.status == "False")?;
    FOR_PEOPLE.contains(&synced.reason.as_str()).then(|| {
        let why = if synced.message.is_empty() { &synced.reason } else { &synced.message };
        Trouble { is_failure: true, text: format!("WorkspaceTemplateApply {name}: {why}") }
    })
}

/// An error with everything that helps to find it, each said once.
fn told(name: &str, error: &LastError) -> String {
    let LastError { class: _, code, address, message, retry_at, attempts: _ } = error;
    let mut text = format!("WorkspaceTemplateApply {name}: ");
    for part in [address, code].into_iter().flatten().filter(|part| !message.contains(part.as_str())) {
        text.push_str(part);
        text.push_str(": ");
    }
    text.push_str(message.trim_end_matches('.'));
    let next = retry_at.as_ref().map(|at| format!("; tried again at {}", whole_seconds(at.0)));
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
        let found = look(&apply(&good()));
        assert!(found.usable && found.settled && found.trouble.is_none(), "{found:?}");
    }

    #[test]
    fn an_older_generation_is_usable_and_not_settled() {
        let found = look(&apply(&with(good(), "observedGeneration", json!(1))));
        assert!(found.usable && !found.settled);
    }

    #[test]
    fn what_upstream_left_proves_nothing() {
        let mut status = good();
        status.as_object_mut().unwrap().remove("observedGeneration");
        let found = look(&apply(&status));
        assert!(!found.usable && !found.settled);
    }

    #[test]
    fn a_check_does_not_unsettle_and_an_apply_does() {
        for (operation, settled) in [("Check", true), ("Apply", false)] {
            let run = json!({"id": "1", "operation": operation, "phase": "Planning"});
            assert_eq!(look(&apply(&with(good(), "run", run))).settled, settled, "{operation}");
        }
    }

    #[test]
    fn an_error_is_told_with_address_code_and_next_attempt() {
        let error = json!({"class": "Quota", "code": "VpcLimitExceeded", "address": "aws_vpc.this[0]",
            "message": "The maximum number of VPCs has been reached.", "retryAt": "2026-11-01T10:10:00.123Z"});
        let found = look(&apply(&json!({"observedGeneration": 2, "lastError": error})));
        let trouble = found.failure().unwrap();
        assert_eq!(
            trouble.text,
            "WorkspaceTemplateApply demo-vpc: aws_vpc.this[0]: VpcLimitExceeded: The maximum number of VPCs has been \
             reached; tried again at 2026-11-01T10:10:00Z"
        );
    }

    #[test]
    fn only_what_a_person_must_mend_is_a_failure() {
        let is_failure = |class: &str| {
            let error = json!({"class": class, "message": "no"});
            look(&apply(&json!({"observedGeneration": 2, "lastError": error}))).failure().is_some()
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
            look(&apply(&json!({"observedGeneration": 2, "conditions": conditions})))
        };
        let waiting = of(reasons::WAITING_FOR_SECRETS);
        assert_eq!((waiting.failure(), waiting.text()), (None, "WorkspaceTemplateApply demo-vpc: why"));
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
        let found = look(&apply(&json!({"observedGeneration": 2, "conditions": conditions})));
        assert!(found.failure().is_some_and(|trouble| trouble.text.ends_with("would replace aws_vpc.this")));
    }

    #[test]
    fn progress_is_told_without_what_changes_every_second() {
        let run = json!({"id": "1", "operation": "Apply", "phase": "Applying"});
        let progress =
            json!({"done": 3, "total": 20, "slowest": "aws_nat_gateway.this", "slowestSeconds": 81});
        let status = json!({"observedGeneration": 2, "run": run, "progress": progress});
        assert_eq!(look(&apply(&status)).doing, "WorkspaceTemplateApply demo-vpc is applying, 3 of 20 done");
    }

    #[test]
    fn outputs_of_the_wrong_type_are_none() {
        let status = with(good(), "outputs", json!({"vpc_id": 7, "azs": "a"}));
        assert_eq!(text_output(&apply(&status), "vpc_id"), None);
        assert!(list_output(&apply(&status), "azs").is_empty());
        assert_eq!(text_output(&apply(&good()), "vpc_id"), Some("vpc-1"));
        assert_eq!(list_output(&apply(&good()), "azs"), ["b", "a"]);
    }
}
