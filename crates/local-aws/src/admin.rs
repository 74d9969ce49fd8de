//! The admin path `/_capt/…`: JSON, unsigned, for tests and for `capt aws`.

use std::sync::PoisonError;

use http_body_util::{BodyExt as _, Limited};
use hyper::{Method, Request, Response, StatusCode, body::Incoming, header};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{
    config::{Limits, Timing},
    eks::state::{Issue, Planned, ProfileStatus, State, UpdateError},
    faults::Fault,
    front::Front,
    inventory,
    text::query_value,
    wire::{Body, json_response},
};

const MAX_ORDER: usize = 1024 * 1024;

/// Why an order was refused.
struct Refusal(StatusCode, String);

impl Refusal {
    fn bad(why: impl Into<String>) -> Self {
        Self(StatusCode::BAD_REQUEST, why.into())
    }
}

type Outcome = Result<Value, Refusal>;

pub(crate) async fn serve(front: &Front, request: Request<Incoming>) -> Response<Body> {
    match dispatch(front, request).await {
        Ok(value) => json_response(StatusCode::OK, &value),
        Err(Refusal(status, why)) => json_response(status, &json!({ "error": why })),
    }
}

async fn dispatch(front: &Front, request: Request<Incoming>) -> Outcome {
    // A web page in a browser on this machine can reach us, too. None has business here.
    if request.headers().contains_key(header::ORIGIN) {
        return Err(Refusal(
            StatusCode::FORBIDDEN,
            "the admin path takes no requests from web pages".to_owned(),
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
        (&Method::POST, "faults") => add_faults(front, read(body).await?),
        (&Method::DELETE, "faults") => {
            front.faults.clear();
            Ok(json!({}))
        }
        (&Method::GET, "timing") => Ok(timing(front)),
        (&Method::POST, "timing") => set_timing(front, &read(body).await?),
        (&Method::POST, "eks/profile-state") => profile_state(front, read(body).await?),
        (&Method::POST, "eks/cluster-health") => cluster_health(front, read(body).await?),
        (&Method::POST, "eks/update-failure") => update_failure(front, read(body).await?),
        (&Method::POST, "shutdown") => {
            front.stop.send_replace(true);
            Ok(json!({ "stopping": true }))
        }
        (method, _) => {
            Err(Refusal(StatusCode::NOT_FOUND, format!("no such admin call: {method} /_capt/{path}")))
        }
    }
}

async fn read<T: DeserializeOwned>(body: Incoming) -> Result<T, Refusal> {
    let bytes = Limited::new(body, MAX_ORDER).collect().await;
    let bytes = bytes.map_err(|_| Refusal::bad("the body is larger than 1 MiB, or ended early"))?.to_bytes();
    serde_json::from_slice(&bytes)
        .map_err(|error| Refusal::bad(format!("the body is not understood: {error}")))
}

fn health(front: &Front) -> Value {
    let lost = front.lost.borrow().clone();
    json!({
        "status": if lost.is_some() { "lost_memory" } else { "ok" },
        "lost_memory": lost,
        "instance": front.instance,
        "restored_from": front.restored_from,
        "pid": std::process::id(),
        "uptime_seconds": front.started.elapsed().as_secs_f64(),
        "idle_seconds": front.activity.idle().as_secs_f64(),
        "requests": front.calls.total(),
        "moto": { "pid": front.moto.0, "port": front.moto.1 },
    })
}

async fn inventory(front: &Front) -> Outcome {
    if let Some(how) = front.lost.borrow().clone() {
        let why = format!("the local AWS has lost its memory, because moto ended by itself ({how})");
        return Err(Refusal(StatusCode::CONFLICT, why));
    }
    let mut items = front.eks.with_state(|state| inventory::of_eks(state));
    let regions = front.regions.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let rest = inventory::of_moto(&front.cloud, &regions).await;
    items.extend(rest.map_err(|error| Refusal(StatusCode::BAD_GATEWAY, error.to_string()))?);
    items.sort();
    Ok(json!({ "instance": front.instance, "items": items }))
}

fn calls(front: &Front, query: &str) -> Value {
    let since = query_value(query, "since").and_then(|text| text.parse().ok()).unwrap_or(0);
    let service = query_value(query, "service");
    let operation = query_value(query, "operation");
    let mut calls = front.calls.after(since);
    calls.retain(|call| service.as_ref().is_none_or(|wanted| *wanted == call.service));
    calls.retain(|call| operation.as_ref().is_none_or(|wanted| *wanted == call.operation));
    json!({ "total": front.calls.total(), "calls": calls })
}

fn add_faults(front: &Front, order: Value) -> Outcome {
    let orders = match order {
        Value::Array(all) => all,
        one => vec![one],
    };
    let parsed: Result<Vec<Fault>, _> = orders.into_iter().map(serde_json::from_value).collect();
    let faults = parsed.map_err(|error| Refusal::bad(format!("the fault is not understood: {error}")))?;
    for fault in faults {
        front.faults.add(fault).map_err(Refusal::bad)?;
    }
    Ok(json!({ "faults": front.faults.list() }))
}

fn timing(front: &Front) -> Value {
    json!({ "timing": front.eks.timing(), "limits": front.eks.limits() })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TimingOrder {
    timing: Option<Value>,
    limits: Option<Value>,
}

/// Changes the named members and keeps the others.
fn set_timing(front: &Front, order: &Value) -> Outcome {
    // A bare object of durations is the common case.
    let nested = order.get("timing").is_some() || order.get("limits").is_some();
    let order = if nested {
        TimingOrder::deserialize(order).map_err(|error| Refusal::bad(error.to_string()))?
    } else {
        TimingOrder { timing: Some(order.clone()), limits: None }
    };
    if let Some(changes) = order.timing {
        front.eks.set_timing(merged::<Timing>(json!(front.eks.timing()), changes)?);
    }
    if let Some(changes) = order.limits {
        front.eks.set_limits(merged::<Limits>(json!(front.eks.limits()), changes)?);
    }
    Ok(timing(front))
}

fn merged<T: DeserializeOwned>(mut now: Value, changes: Value) -> Result<T, Refusal> {
    let (Some(now_members), Value::Object(changes)) = (now.as_object_mut(), changes) else {
        return Err(Refusal::bad("an object is expected"));
    };
    now_members.extend(changes);
    serde_json::from_value(now).map_err(|error| Refusal::bad(error.to_string()))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProfileOrder {
    cluster: String,
    profile: String,
    status: ProfileStatus,
    #[serde(default)]
    issues: Vec<Issue>,
    /// Not now, but at the end of its next create or delete.
    #[serde(default)]
    next: bool,
}

/// Puts an existing profile into a state, or orders the end of its next create or delete.
fn profile_state(front: &Front, order: ProfileOrder) -> Outcome {
    let done = front.eks.with_state(|state| {
        if order.next {
            return plan(state, order);
        }
        let mut clusters = state.regions.values_mut().filter_map(|clusters| clusters.get_mut(&order.cluster));
        let Some(profile) = clusters.find_map(|cluster| cluster.profiles.get_mut(&order.profile)) else {
            let why = format!("there is no profile {} in a cluster {}", order.profile, order.cluster);
            return Err(Refusal(StatusCode::NOT_FOUND, why));
        };
        profile.status = order.status;
        profile.issues = order.issues;
        profile.due = None;
        profile.planned = None;
        Ok(json!({ "profile": order.profile, "status": profile.status.name() }))
    })?;
    saved(front, done)
}

fn plan(state: &mut State, order: ProfileOrder) -> Outcome {
    if !matches!(order.status, ProfileStatus::CreateFailed | ProfileStatus::DeleteFailed) {
        return Err(Refusal::bad(
            "only CREATE_FAILED and DELETE_FAILED can be ordered for the next create or delete",
        ));
    }
    let answer = json!({ "profile": order.profile, "next": order.status.name() });
    state.planned.push(Planned {
        cluster: order.cluster,
        profile: order.profile,
        end: order.status,
        issues: order.issues,
    });
    Ok(answer)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HealthOrder {
    cluster: String,
    issues: Vec<Issue>,
}

fn cluster_health(front: &Front, order: HealthOrder) -> Outcome {
    let done = front.eks.with_state(|state| {
        let cluster = state.regions.values_mut().find_map(|clusters| clusters.get_mut(&order.cluster));
        let Some(cluster) = cluster else {
            return Err(Refusal(StatusCode::NOT_FOUND, format!("there is no cluster {}", order.cluster)));
        };
        cluster.issues = order.issues;
        Ok(json!({ "cluster": order.cluster, "issues": cluster.issues }))
    })?;
    saved(front, done)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UpdateOrder {
    cluster: String,
    errors: Vec<UpdateError>,
}

/// Orders that the next update of a cluster fails. The cluster is ACTIVE again afterwards, and unchanged.
fn update_failure(front: &Front, order: UpdateOrder) -> Outcome {
    if order.errors.is_empty() {
        return Err(Refusal::bad("an update fails with at least one error"));
    }
    let done = front.eks.with_state(|state| {
        let cluster = state.regions.values_mut().find_map(|clusters| clusters.get_mut(&order.cluster));
        let Some(cluster) = cluster else {
            return Err(Refusal(StatusCode::NOT_FOUND, format!("there is no cluster {}", order.cluster)));
        };
        cluster.fail_next_update = Some(order.errors);
        Ok(json!({ "cluster": order.cluster }))
    })?;
    saved(front, done)
}

fn saved(front: &Front, answer: Value) -> Outcome {
    front.eks.save_now().map_err(|error| Refusal(StatusCode::INTERNAL_SERVER_ERROR, error.message))?;
    Ok(answer)
}
