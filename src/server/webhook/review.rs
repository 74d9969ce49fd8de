//! From the request body of a review to its response.
//!
//! An update is rejected only for new problems; problems that the stored object already has become warnings, so that old
//! objects can still be changed. An unchanged spec is not validated. Internal errors admit the object with a warning.

use std::sync::Arc;

use capt_model::model::{Parse as _, newtypes::Namespace, references::DEFAULT_NAMESPACE};
use kube::core::{
    DynamicObject, Status,
    admission::{AdmissionRequest, AdmissionResponse, AdmissionReview, Operation},
};

use super::{
    ReviewSettings,
    reviewed_object::ReviewedObject,
    validate::{ReviewContext, ReviewFindings, validate_object, validate_update},
};

/// The API server's limits for warnings.
const MAX_WARNING_BYTES: usize = 256;
const MAX_WARNINGS: usize = 12;

/// A body that is not a review.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReviewError {
    #[error("the request body is not an AdmissionReview of admission.k8s.io/v1")]
    NotAReview(#[source] serde_json::Error),
    #[error("the AdmissionReview has no request")]
    NoRequest,
}

/// The response to a review.
pub(super) async fn review(
    settings: &Arc<ReviewSettings>,
    body: &[u8],
) -> Result<AdmissionReview<DynamicObject>, ReviewError> {
    let review: AdmissionReview<DynamicObject> =
        serde_json::from_slice(body).map_err(ReviewError::NotAReview)?;
    let request: AdmissionRequest<DynamicObject> = review.try_into().map_err(|_| ReviewError::NoRequest)?;
    let response = AdmissionResponse::from(&request);
    let object = describe_request(&request);
    let findings = review_with_deadline(settings, request).await;
    if !findings.problems.is_empty() {
        tracing::info!(%object, problems = findings.problems.len(), "rejected an object");
    }
    Ok(build_response(response, findings).into_review())
}

fn describe_request(request: &AdmissionRequest<DynamicObject>) -> String {
    let namespace = request.namespace.as_deref().unwrap_or_default();
    format!("{} {namespace}/{}", request.kind.kind, request.name)
}

/// Runs in its own task with a deadline, so that a panic or a hang admits the object with a warning.
async fn review_with_deadline(
    settings: &Arc<ReviewSettings>,
    request: AdmissionRequest<DynamicObject>,
) -> ReviewFindings {
    let (settings, deadline) = (Arc::clone(settings), settings.deadline);
    let task = tokio::spawn(async move { review_object(&settings, request).await });
    let stop = task.abort_handle();
    match tokio::time::timeout(deadline, task).await {
        Ok(Ok(findings)) => findings,
        Ok(Err(error)) => {
            tracing::error!(%error, "admission review panicked");
            warning_only("capt could not validate this object because of an internal error; it was admitted")
        }
        Err(_) => {
            stop.abort();
            warning_only("capt could not validate this object in time; it was admitted")
        }
    }
}

fn warning_only(warning: &str) -> ReviewFindings {
    ReviewFindings { problems: Vec::new(), warnings: vec![warning.to_owned()] }
}

async fn review_object(
    settings: &ReviewSettings,
    request: AdmissionRequest<DynamicObject>,
) -> ReviewFindings {
    if is_exempt(&request) {
        return ReviewFindings::default();
    }
    let AdmissionRequest { kind, object, old_object, namespace, name, .. } = request;
    let Some(object) = object else { return ReviewFindings::default() };
    let namespace = namespace.or_else(|| object.metadata.namespace.clone());
    let namespace = namespace.filter(|it| !it.is_empty()).unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned());
    let name = Some(name).filter(|it| !it.is_empty()).or_else(|| object.metadata.generate_name.clone());
    let name = name.unwrap_or_default();
    let unread =
        |why: String| warning_only(&format!("capt could not decode this object and admitted it: {why}"));
    let home = match Namespace::parse(&namespace) {
        Ok(home) => home,
        Err(error) => return unread(error.to_string()),
    };
    let old = old_object.map(|old| ReviewedObject::parse(&kind, old)).transpose();
    let (new, old) = match (ReviewedObject::parse(&kind, object), old) {
        (Ok(Some(new)), Ok(old)) => (new, old.flatten()),
        (Ok(None), _) => return ReviewFindings::default(),
        (Err(error), _) | (_, Err(error)) => return unread(error.to_string()),
    };
    let ReviewSettings { lookup, limits, deadline: _ } = settings;
    let context = ReviewContext { home: &home, name: &name, lookup: lookup.as_ref(), limits };
    let findings = validate_object(&new, context).await;
    match old {
        Some(old) => {
            keep_regressions(findings, &validate_object(&old, context).await, validate_update(&old, &new))
        }
        None => findings,
    }
}

/// Whether the request is exempt: everything except creations and spec changes.
fn is_exempt(request: &AdmissionRequest<DynamicObject>) -> bool {
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

fn keep_regressions(
    new: ReviewFindings,
    old: &ReviewFindings,
    changes: Vec<capt_model::model::Problem>,
) -> ReviewFindings {
    let ReviewFindings { problems, mut warnings } = new;
    let (before, mut worse): (Vec<_>, Vec<_>) =
        problems.into_iter().partition(|problem| old.problems.contains(problem));
    warnings.extend(before.iter().map(ToString::to_string));
    worse.extend(changes);
    ReviewFindings { problems: worse, warnings }
}

fn build_response(mut response: AdmissionResponse, findings: ReviewFindings) -> AdmissionResponse {
    let ReviewFindings { problems, warnings } = findings;
    if !warnings.is_empty() {
        let most = warnings.iter().take(MAX_WARNINGS);
        response.warnings = Some(most.map(|it| truncate(it, MAX_WARNING_BYTES)).collect());
    }
    if !problems.is_empty() {
        let mut lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
        lines.dedup();
        response.allowed = false;
        response.result = Status::failure(&lines.join("\n"), "Invalid").with_code(422);
    }
    response
}

/// Truncates to at most `most` bytes at a character boundary.
fn truncate(text: &str, most: usize) -> String {
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
        let short = truncate(&long, MAX_WARNING_BYTES);
        assert!(short.len() <= MAX_WARNING_BYTES && short.ends_with('…'), "{short}");
        assert_eq!(truncate("short", MAX_WARNING_BYTES), "short");
    }
}
