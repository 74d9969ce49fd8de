//! The admin API under `/_capt/…`: unsigned JSON, used by tests and by `capt aws`.

use std::sync::PoisonError;

use http_body_util::{BodyExt as _, Limited};
use hyper::{Method, Request, Response, StatusCode, body::Incoming, header};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{
    config::{Limits, Timing},
    eks::state::{EksState, HealthIssue, PlannedOutcome, ProfileStatus, UpdateError},
    fault_injection::Fault,
    frontend::Frontend,
    inventory,
    protocol::{Body, json_response},
    query_string::query_value,
};

const MAX_BODY_BYTES: usize = 1024 * 1024;

/// An admin request that is answered with an error.
struct AdminError(StatusCode, String);

impl AdminError {
    fn bad_request(why: impl Into<String>) -> Self {
        Self(StatusCode::BAD_REQUEST, why.into())
    }
}

type AdminResult = Result<Value, AdminError>;

pub(crate) async fn serve(front: &Frontend, request: Request<Incoming>) -> Response<Body> {
    match dispatch(front, request).await {
        Ok(value) => json_response(StatusCode::OK, &value),
        Err(AdminError(status, why)) => json_response(status, &json!({ "error": why })),
    }
}

async fn dispatch(front: &Frontend, request: Request<Incoming>) -> AdminResult {
    // Browsers on this machine can reach the loopback port too: reject every cross-origin request.
    if request.headers().contains_key(header::ORIGIN) {
        return Err(AdminError(
            StatusCode::FORBIDDEN,
            "the admin API rejects requests from web pages".to_owned(),
        ));
    }
    let (parts, body) = request.into_parts();
    let path = parts.uri.path().strip_prefix("/_capt/").unwrap_or_default();
    let query = parts.uri.query().unwrap_or_default();
    match (&parts.method, path) {
        (&Method::GET, "health") => Ok(health(front)),
        (&Method::GET, "inventory") => inventory(front).await,
        (&Method::GET, "calls") => Ok(calls(front, query)),
        (&Method::GET, "faults") => Ok(json!({ "faults": front.faults.list() })),
        (&Method::POST, "faults") => add_faults(front, read_json(body).await?),
        (&Method::DELETE, "faults") => {
            front.faults.clear();
            Ok(json!({}))
        }
        (&Method::GET, "timing") => Ok(timing(front)),
        (&Method::POST, "timing") => set_timing(front, &read_json(body).await?),
        (&Method::POST, "eks/profile-state") => set_profile_state(front, read_json(body).await?),
        (&Method::POST, "eks/cluster-health") => set_cluster_health(front, read_json(body).await?),
        (&Method::POST, "eks/update-failure") => fail_next_update(front, read_json(body).await?),
        (&Method::POST, "shutdown") => {
            front.stop.send_replace(true);
            Ok(json!({ "stopping": true }))
        }
        (method, _) => {
            Err(AdminError(StatusCode::NOT_FOUND, format!("unknown admin endpoint: {method} /_capt/{path}")))
        }
    }
}

async fn read_json<T: DeserializeOwned>(body: Incoming) -> Result<T, AdminError> {
    let bytes = Limited::new(body, MAX_BODY_BYTES).collect().await;
    let bytes = bytes
        .map_err(|_| AdminError::bad_request("the request body is larger than 1 MiB or was truncated"))?
        .to_bytes();
    serde_json::from_slice(&bytes)
        .map_err(|error| AdminError::bad_request(format!("invalid request body: {error}")))
}

fn health(front: &Frontend) -> Value {
    let lost = front.moto_exit.borrow().clone();
    json!({
        "status": if lost.is_some() { "lost_memory" } else { "ok" },
        "lost_memory": lost,
        "instance": front.instance,
        "restored_from": front.restored_from,
        "pid": std::process::id(),
        "uptime_seconds": front.started.elapsed().as_secs_f64(),
        "idle_seconds": front.activity.idle().as_secs_f64(),
        "requests": front.call_log.total(),
        "moto": { "pid": front.moto.0, "port": front.moto.1 },
    })
}

async fn inventory(front: &Frontend) -> AdminResult {
    if let Some(how) = front.moto_exit.borrow().clone() {
        let why = format!("the local AWS lost its state because moto exited ({how})");
        return Err(AdminError(StatusCode::CONFLICT, why));
    }
    let mut items = front.eks.with_state(|state| inventory::eks_items(state));
    let regions = front.seen_regions.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let rest = inventory::moto_items(&front.moto_client, &regions).await;
    items.extend(rest.map_err(|error| AdminError(StatusCode::BAD_GATEWAY, error.to_string()))?);
    items.sort();
    Ok(json!({ "instance": front.instance, "items": items }))
}

fn calls(front: &Frontend, query: &str) -> Value {
    let since = query_value(query, "since").and_then(|text| text.parse().ok()).unwrap_or(0);
    let service = query_value(query, "service");
    let operation = query_value(query, "operation");
    let mut calls = front.call_log.after(since);
    calls.retain(|call| service.as_ref().is_none_or(|wanted| *wanted == call.service));
    calls.retain(|call| operation.as_ref().is_none_or(|wanted| *wanted == call.operation));
    json!({ "total": front.call_log.total(), "calls": calls })
}

fn add_faults(front: &Frontend, order: Value) -> AdminResult {
    let orders = match order {
        Value::Array(all) => all,
        one => vec![one],
    };
    let parsed: Result<Vec<Fault>, _> = orders.into_iter().map(serde_json::from_value).collect();
    let faults = parsed.map_err(|error| AdminError::bad_request(format!("invalid fault: {error}")))?;
    for fault in faults {
        front.faults.add(fault).map_err(AdminError::bad_request)?;
    }
    Ok(json!({ "faults": front.faults.list() }))
}

fn timing(front: &Frontend) -> Value {
    json!({ "timing": front.eks.timing(), "limits": front.eks.limits() })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TimingRequest {
    timing: Option<Value>,
    limits: Option<Value>,
}

/// Merges the given members into the current timing and limits.
fn set_timing(front: &Frontend, order: &Value) -> AdminResult {
    // Shorthand: a bare object is taken as `timing`.
    let nested = order.get("timing").is_some() || order.get("limits").is_some();
    let order = if nested {
        TimingRequest::deserialize(order).map_err(|error| AdminError::bad_request(error.to_string()))?
    } else {
        TimingRequest { timing: Some(order.clone()), limits: None }
    };
    if let Some(changes) = order.timing {
        front.eks.set_timing(merge_settings::<Timing>(json!(front.eks.timing()), changes)?);
    }
    if let Some(changes) = order.limits {
        front.eks.set_limits(merge_settings::<Limits>(json!(front.eks.limits()), changes)?);
    }
    Ok(timing(front))
}

fn merge_settings<T: DeserializeOwned>(mut now: Value, changes: Value) -> Result<T, AdminError> {
    let (Some(now_members), Value::Object(changes)) = (now.as_object_mut(), changes) else {
        return Err(AdminError::bad_request("expected a JSON object"));
    };
    now_members.extend(changes);
    serde_json::from_value(now).map_err(|error| AdminError::bad_request(error.to_string()))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProfileStateRequest {
    cluster: String,
    profile: String,
    status: ProfileStatus,
    #[serde(default)]
    issues: Vec<HealthIssue>,
    /// Applies to the next create or delete instead of the current state.
    #[serde(default)]
    next: bool,
}

/// Sets the state of an existing profile, or plans the outcome of its next create or delete.
fn set_profile_state(front: &Frontend, order: ProfileStateRequest) -> AdminResult {
    let done = front.eks.with_state(|state| {
        if order.next {
            return plan_outcome(state, order);
        }
        let mut clusters = state.regions.values_mut().filter_map(|clusters| clusters.get_mut(&order.cluster));
        let Some(profile) = clusters.find_map(|cluster| cluster.profiles.get_mut(&order.profile)) else {
            let why = format!("no Fargate profile {} in cluster {}", order.profile, order.cluster);
            return Err(AdminError(StatusCode::NOT_FOUND, why));
        };
        profile.status = order.status;
        profile.issues = order.issues;
        profile.due = None;
        profile.planned = None;
        Ok(json!({ "profile": order.profile, "status": profile.status.name() }))
    })?;
    persist_and_respond(front, done)
}

fn plan_outcome(state: &mut EksState, order: ProfileStateRequest) -> AdminResult {
    if !matches!(order.status, ProfileStatus::CreateFailed | ProfileStatus::DeleteFailed) {
        return Err(AdminError::bad_request("with `next`, status must be CREATE_FAILED or DELETE_FAILED"));
    }
    let answer = json!({ "profile": order.profile, "next": order.status.name() });
    state.planned.push(PlannedOutcome {
        cluster: order.cluster,
        profile: order.profile,
        end: order.status,
        issues: order.issues,
    });
    Ok(answer)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClusterHealthRequest {
    cluster: String,
    issues: Vec<HealthIssue>,
}

fn set_cluster_health(front: &Frontend, order: ClusterHealthRequest) -> AdminResult {
    let done = front.eks.with_state(|state| {
        let cluster = state.regions.values_mut().find_map(|clusters| clusters.get_mut(&order.cluster));
        let Some(cluster) = cluster else {
            return Err(AdminError(StatusCode::NOT_FOUND, format!("no cluster {}", order.cluster)));
        };
        cluster.issues = order.issues;
        Ok(json!({ "cluster": order.cluster, "issues": cluster.issues }))
    })?;
    persist_and_respond(front, done)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UpdateFailureRequest {
    cluster: String,
    errors: Vec<UpdateError>,
}

/// Makes the next update of a cluster fail. The cluster returns to ACTIVE unchanged.
fn fail_next_update(front: &Frontend, order: UpdateFailureRequest) -> AdminResult {
    if order.errors.is_empty() {
        return Err(AdminError::bad_request("`errors` must not be empty"));
    }
    let done = front.eks.with_state(|state| {
        let cluster = state.regions.values_mut().find_map(|clusters| clusters.get_mut(&order.cluster));
        let Some(cluster) = cluster else {
            return Err(AdminError(StatusCode::NOT_FOUND, format!("no cluster {}", order.cluster)));
        };
        cluster.fail_next_update = Some(order.errors);
        Ok(json!({ "cluster": order.cluster }))
    })?;
    persist_and_respond(front, done)
}

fn persist_and_respond(front: &Frontend, answer: Value) -> AdminResult {
    front.eks.persist().map_err(|error| AdminError(StatusCode::INTERNAL_SERVER_ERROR, error.message))?;
    Ok(answer)
}
