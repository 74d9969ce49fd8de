//! Events of a workspace from the difference of two statuses. Pure: no I/O.

use capt_kinds::api::{RunOperation, RunStatus, WorkspaceTemplateApplyStatus, conditions::types};
use capt_kube::k8s::{EventSpec, conditions};

use super::status::format_last_error;

/// Events for the transitions between two statuses.
pub fn status_events(
    before: Option<&WorkspaceTemplateApplyStatus>,
    now: &WorkspaceTemplateApplyStatus,
) -> Vec<EventSpec> {
    let mut all = Vec::new();
    let was = |kind: &str| before.is_some_and(|it| conditions::is_true(&it.conditions, kind));
    let is = |kind: &str| conditions::is_true(&now.conditions, kind);
    let message =
        |kind: &str| conditions::find(&now.conditions, kind).map(|it| it.message.clone()).unwrap_or_default();
    if is(types::READY) && !was(types::READY) {
        all.push(EventSpec::normal(
            "Run",
            "WorkspaceReady",
            "terraform apply succeeded, and the outputs are available",
        ));
    }
    if is(types::DRIFTED) && !was(types::DRIFTED) {
        all.push(EventSpec::warning("Run", "DriftDetected", message(types::DRIFTED)));
    }
    if is(types::DESTRUCTIVE_CHANGE_BLOCKED) && !was(types::DESTRUCTIVE_CHANGE_BLOCKED) {
        all.push(EventSpec::warning(
            "Run",
            "DestructiveChangeBlocked",
            message(types::DESTRUCTIVE_CHANGE_BLOCKED),
        ));
    }
    let error = now.last_error.as_ref().filter(|error| !error.class.is_wait());
    let inputs = before.and_then(|it| it.last_error.as_ref()).map(|it| (&it.message, it.attempts));
    if let Some(error) = error.filter(|error| Some((&error.message, error.attempts)) != inputs) {
        all.push(EventSpec::warning("Run", "RunFailed", format_last_error(error)));
    }
    let run = now.run.as_ref().filter(|run| run.finished_at.is_none());
    let begun = before.and_then(|it| it.run.as_ref()).map(|it| it.id.as_str());
    if let Some(run) =
        run.filter(|run| Some(run.id.as_str()) != begun && run.operation != RunOperation::Check)
    {
        all.push(EventSpec::normal("Run", "RunStarted", format!("{:?} {}", run.operation, run.id)));
    }
    all.extend(run_note_events(before.and_then(|it| it.run.as_ref()), now.run.as_ref()));
    all
}

/// Events for new notes of a run and for a bypassed provider gateway.
fn run_note_events(before: Option<&RunStatus>, now: Option<&RunStatus>) -> Vec<EventSpec> {
    let Some(now) = now else { return Vec::new() };
    let plain = now.without_gateway.as_ref();
    let is_news = plain.is_some() && before.and_then(|it| it.without_gateway.as_ref()) != plain;
    let plain = plain.filter(|_| is_news).map(|why| EventSpec::warning("Run", "WithoutGateway", why));
    let told: &[String] = before.filter(|it| it.id == now.id).map_or(&[], |it| &it.notes);
    let notes = now.notes.iter().filter(|note| !told.contains(note));
    plain.into_iter().chain(notes.map(|note| EventSpec::normal("Run", "RunNote", note))).collect()
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

    fn event_reasons(before: Option<&RunStatus>, now: &RunStatus) -> Vec<&'static str> {
        run_note_events(before, Some(now)).into_iter().map(|it| it.reason).collect()
    }

    #[test]
    fn a_run_without_the_gateway_is_told_once_for_each_reason() {
        let (shares, plain) = (run("1", None, &[]), run("2", Some("no version is locked"), &[]));
        assert_eq!(event_reasons(Some(&shares), &plain), ["WithoutGateway"]);
        assert_eq!(event_reasons(None, &plain), ["WithoutGateway"]);
        assert_eq!(event_reasons(Some(&plain), &plain), [""; 0]);
        assert_eq!(event_reasons(Some(&plain), &run("3", Some("another"), &[])), ["WithoutGateway"]);
        assert_eq!(event_reasons(Some(&plain), &shares), [""; 0]);
    }

    #[test]
    fn a_note_is_told_when_it_is_new() {
        let (one, two) = (run("1", None, &["a"]), run("1", None, &["a", "b"]));
        assert_eq!(event_reasons(Some(&run("1", None, &[])), &one), ["RunNote"]);
        assert_eq!(event_reasons(Some(&one), &two), ["RunNote"]);
        assert_eq!(event_reasons(Some(&two), &two), [""; 0]);
        assert_eq!(
            event_reasons(Some(&two), &run("2", None, &["a"])),
            ["RunNote"],
            "another run reports it again"
        );
    }
}
