//! From the body of a review to its answer.
//!
//! An update is only asked what it makes worse: a problem that the object had before stays, as a warning. So an object that
//! was stored before the webhook knew better can still be changed, and one whose spec does not change is not looked at.
//! Whatever goes wrong in here lets the object pass, with a warning.

use std::sync::Arc;

use kube::core::{
    DynamicObject, Status,
    admission::{AdmissionRequest, AdmissionResponse, AdmissionReview, Operation},
};

use crate::model::{Parse as _, references::DEFAULT_NAMESPACE, text::Namespace};

use super::{
    Settings,
    check::{Context, Findings, change, check},
    subject::Subject,
};

/// What the API server cuts off anyway.
const LONGEST_WARNING: usize = 256;
const MOST_WARNINGS: usize = 12;

/// A body that is no review.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReviewError {
    #[error("the body is no AdmissionReview of admission.k8s.io/v1")]
    Garbage(#[source] serde_json::Error),
    #[error("the AdmissionReview has no request")]
    NoRequest,
}

/// The answer to a review.
pub(super) async fn review(
    settings: &Arc<Settings>,
    body: &[u8],
) -> Result<AdmissionReview<DynamicObject>, ReviewError> {
    let review: AdmissionReview<DynamicObject> =
        serde_json::from_slice(body).map_err(ReviewError::Garbage)?;
    let request: AdmissionRequest<DynamicObject> = review.try_into().map_err(|_| ReviewError::NoRequest)?;
    let response = AdmissionResponse::from(&request);
    let object = describe(&request);
    let findings = look(settings, request).await;
    if !findings.problems.is_empty() {
        tracing::info!(%object, problems = findings.problems.len(), "an object was refused");
    }
    Ok(answer(response, findings).into_review())
}

fn describe(request: &AdmissionRequest<DynamicObject>) -> String {
    let namespace = request.namespace.as_deref().unwrap_or_default();
    format!("{} {namespace}/{}", request.kind.kind, request.name)
}

/// In a task of its own and not for ever, so that a bug in here costs a warning and not somebody's object.
async fn look(settings: &Arc<Settings>, request: AdmissionRequest<DynamicObject>) -> Findings {
    let (settings, deadline) = (Arc::clone(settings), settings.deadline);
    let task = tokio::spawn(async move { verdict(&settings, request).await });
    let stop = task.abort_handle();
    match tokio::time::timeout(deadline, task).await {
        Ok(Ok(findings)) => findings,
        Ok(Err(error)) => {
            tracing::error!(%error, "a review failed");
            unknown("capt could not look at this object because of a bug; it was let pass")
        }
        Err(_) => {
            stop.abort();
            unknown("capt could not look at this object in time; it was let pass")
        }
    }
}

fn unknown(warning: &str) -> Findings {
    Findings { problems: Vec::new(), warnings: vec![warning.to_owned()] }
}

async fn verdict(settings: &Settings, request: AdmissionRequest<DynamicObject>) -> Findings {
    if is_free(&request) {
        return Findings::default();
    }
    let AdmissionRequest { kind, object, old_object, namespace, name, .. } = request;
    let Some(object) = object else { return Findings::default() };
    let namespace = namespace.or_else(|| object.metadata.namespace.clone());
    let namespace = namespace.filter(|it| !it.is_empty()).unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned());
    let name = Some(name).filter(|it| !it.is_empty()).or_else(|| object.metadata.generate_name.clone());
    let name = name.unwrap_or_default();
    let unread = |why: String| unknown(&format!("capt cannot read this object and let it pass: {why}"));
    let home = match Namespace::parse(&namespace) {
        Ok(home) => home,
        Err(error) => return unread(error.to_string()),
    };
    let old = old_object.map(|old| Subject::read(&kind, old)).transpose();
    let (new, old) = match (Subject::read(&kind, object), old) {
        (Ok(Some(new)), Ok(old)) => (new, old.flatten()),
        (Ok(None), _) => return Findings::default(),
        (Err(error), _) | (_, Err(error)) => return unread(error.to_string()),
    };
    let Settings { lookup, limits, deadline: _ } = settings;
    let context = Context { home: &home, name: &name, lookup: lookup.as_ref(), limits };
    let findings = check(&new, context).await;
    match old {
        Some(old) => only_worse(findings, &check(&old, context).await, change(&old, &new)),
        None => findings,
    }
}

/// What is never looked at: everything but creations and changes of a spec.
fn is_free(request: &AdmissionRequest<DynamicObject>) -> bool {
    let AdmissionRequest { operation, sub_resource, object, old_object, .. } = request;
    let spec = |object: &Option<DynamicObject>| object.as_ref().and_then(|it| it.data.get("spec").cloned());
    let going = object.as_ref().is_some_and(|it| it.metadata.deletion_timestamp.is_some());
    match operation {
        Operation::Delete | Operation::Connect => true,
        _ if going || sub_resource.as_ref().is_some_and(|it| !it.is_empty()) => true,
        Operation::Update => spec(object) == spec(old_object),
        Operation::Create => false,
    }
}

fn only_worse(new: Findings, old: &Findings, changes: Vec<crate::model::Problem>) -> Findings {
    let Findings { problems, mut warnings } = new;
    let (before, mut worse): (Vec<_>, Vec<_>) =
        problems.into_iter().partition(|problem| old.problems.contains(problem));
    warnings.extend(before.iter().map(ToString::to_string));
    worse.extend(changes);
    Findings { problems: worse, warnings }
}

fn answer(mut response: AdmissionResponse, findings: Findings) -> AdmissionResponse {
    let Findings { problems, warnings } = findings;
    if !warnings.is_empty() {
        let most = warnings.iter().take(MOST_WARNINGS);
        response.warnings = Some(most.map(|it| cut(it, LONGEST_WARNING)).collect());
    }
    if !problems.is_empty() {
        let mut lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
        lines.dedup();
        response.allowed = false;
        response.result = Status::failure(&lines.join("\n"), "Invalid").with_code(422);
    }
    response
}

/// At most so many bytes, cut between two characters.
fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(most - '…'.len_utf8());
    format!("{}…", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_warning_is_cut_between_two_characters() {
        let long = "é".repeat(200);
        let short = cut(&long, LONGEST_WARNING);
        assert!(short.len() <= LONGEST_WARNING && short.ends_with('…'), "{short}");
        assert_eq!(cut("short", LONGEST_WARNING), "short");
    }
}
