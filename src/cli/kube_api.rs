//! Kubernetes API calls of the command line.

use std::collections::BTreeSet;

use anyhow::{Context, anyhow};
use capt_kinds::api::{WorkspaceTemplateApply, crds, names};
use capt_model::model::names::kubeconfig_secret;
use k8s_openapi::api::{
    authentication::v1::SelfSubjectReview,
    core::v1::{ObjectReference, Secret},
};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
    core::PartialObjectMeta,
    discovery::{self, Scope},
    runtime::events::{Event, EventType, Recorder, Reporter},
};
use serde_json::{Value, json};

use super::manifest_objects::ManifestObject;

/// Field manager of the command line, distinct from the operator's.
pub(super) const FIELD_MANAGER: &str = "capt-cli";

/// The first line of the innermost cause.
pub(super) fn root_cause(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(cause) = innermost.source() {
        innermost = cause;
    }
    innermost.to_string().lines().next().unwrap_or_default().to_owned()
}

/// An API error as one line with a remedy.
pub(super) fn describe_api_error(error: &kube::Error) -> anyhow::Error {
    match error {
        kube::Error::Api(status) if status.message.is_empty() => {
            anyhow!("the Kubernetes API returned {} {}", status.code, status.reason)
        }
        kube::Error::Api(status) => anyhow!("the Kubernetes API rejected the request: {}", status.message),
        other => {
            let why = root_cause(other);
            anyhow!(
                "cannot reach the Kubernetes API: {why}; check that it is running and that the kubeconfig is correct"
            )
        }
    }
}

/// Whether the error means that the object or its kind does not exist.
pub(super) fn is_not_found(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.code == 404,
        kube::Error::Discovery(_) => true,
        _ => false,
    }
}

/// The kinds that commands show: Cluster if it is served, then capt's own.
pub(super) async fn discover_kinds(client: &Client) -> anyhow::Result<Vec<ApiResource>> {
    let mut found = Vec::new();
    let wanted = [
        (names::CLUSTER_API_GROUP, &["Cluster"][..]),
        (
            names::INFRASTRUCTURE_GROUP,
            &["CAPTCluster", "WorkspaceTemplateApply", "WorkspaceTemplate", "CAPTIdentity"],
        ),
        (names::CONTROL_PLANE_GROUP, &["CAPTControlPlane"]),
    ];
    for (group, kinds) in wanted {
        let known = match discovery::group(client, group).await {
            Ok(known) => Some(known),
            Err(error) if is_not_found(&error) => None,
            Err(error) => return Err(describe_api_error(&error)),
        };
        for kind in kinds {
            match known.as_ref().and_then(|known| known.recommended_kind(kind)) {
                Some((resource, _)) => found.push(resource),
                None if *kind == "Cluster" => {}
                None => return Err(anyhow!("the Kubernetes API does not serve {kind}; {INSTALL_HINT}")),
            }
        }
    }
    Ok(found)
}

const INSTALL_HINT: &str = "install the CRDs first: `capt crds | kubectl apply --server-side -f -`";

/// All objects of the kinds, in one namespace or in all.
pub(super) async fn list_objects(
    client: &Client,
    kinds: &[ApiResource],
    namespace: Option<&str>,
) -> anyhow::Result<Vec<DynamicObject>> {
    let mut found = Vec::new();
    for kind in kinds {
        let listed = dynamic_api(client, kind, namespace).list(&ListParams::default()).await;
        for mut object in listed.map_err(|error| describe_api_error(&error))? {
            object.types.get_or_insert_with(|| kube::core::TypeMeta {
                api_version: kind.api_version.clone(),
                kind: kind.kind.clone(),
            });
            found.push(object);
        }
    }
    Ok(found)
}

/// The API of a kind, in one namespace or in all.
pub(super) fn dynamic_api(
    client: &Client,
    kind: &ApiResource,
    namespace: Option<&str>,
) -> Api<DynamicObject> {
    match namespace {
        // CAPTIdentity is cluster-scoped.
        Some(_) if kind.kind == "CAPTIdentity" => Api::all_with(client.clone(), kind),
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, kind),
        None => Api::all_with(client.clone(), kind),
    }
}

/// Installs the CRDs and waits until they are established.
pub(super) async fn install_crds(client: &Client) -> anyhow::Result<()> {
    use kube::runtime::wait::{await_condition, conditions::is_crd_established};
    let api = Api::all(client.clone());
    for crd in crds() {
        let name = crd.name_any();
        let params = PatchParams::apply(names::FIELD_MANAGER).force();
        api.patch(&name, &params, &Patch::Apply(&crd)).await.map_err(|error| describe_api_error(&error))?;
        let served = await_condition(api.clone(), &name, is_crd_established());
        tokio::time::timeout(std::time::Duration::from_secs(30), served)
            .await
            .map_err(|_| anyhow!("the CRD {name} was not established within 30 s of its installation"))?
            .map_err(|error| anyhow!("cannot watch the CRD {name}: {error}"))?;
    }
    Ok(())
}

/// Server-side applies the object as written.
pub(super) async fn apply_object(client: &Client, wanted: &ManifestObject) -> Result<(), kube::Error> {
    let (api, namespace) = resolve_api(client, wanted).await?;
    let mut object = wanted.document.value.clone();
    if let (Some(namespace), Some(metadata)) = (namespace, object.get_mut("metadata")) {
        metadata["namespace"] = Value::String(namespace);
    }
    let params = PatchParams::apply(FIELD_MANAGER).force().validation_strict();
    api.patch(&wanted.name, &params, &Patch::Apply(&object)).await?;
    Ok(())
}

/// Deletes an object; returns whether it existed.
pub(super) async fn delete_object(client: &Client, wanted: &ManifestObject) -> Result<bool, kube::Error> {
    let (api, _) = match resolve_api(client, wanted).await {
        Err(error) if is_not_found(&error) => return Ok(false),
        other => other?,
    };
    delete_named(&api, &wanted.name).await
}

/// Deletes an object that was listed; returns whether it existed.
pub(super) async fn delete_listed(client: &Client, object: &DynamicObject) -> Result<bool, kube::Error> {
    let types = object.types.clone().unwrap_or_default();
    let Ok(gvk) = types.try_into() else { return Ok(false) };
    let (resource, _) = discovery::pinned_kind(client, &gvk).await?;
    delete_named(&dynamic_api(client, &resource, object.namespace().as_deref()), &object.name_any()).await
}

async fn delete_named(api: &Api<DynamicObject>, name: &str) -> Result<bool, kube::Error> {
    match api.delete(name, &DeleteParams::background()).await {
        Ok(_) => Ok(true),
        Err(error) if is_not_found(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

async fn resolve_api(
    client: &Client,
    wanted: &ManifestObject,
) -> Result<(Api<DynamicObject>, Option<String>), kube::Error> {
    let (resource, capabilities) = discovery::pinned_kind(client, &wanted.gvk).await?;
    Ok(match capabilities.scope {
        Scope::Cluster => (Api::all_with(client.clone(), &resource), None),
        Scope::Namespaced => {
            let api = Api::namespaced_with(client.clone(), &wanted.namespace, &resource);
            (api, Some(wanted.namespace.clone()))
        }
    })
}

/// The `WorkspaceTemplateApply` of a workspace.
pub(super) async fn get_workspace(
    client: &Client,
    namespace: &str,
    name: &str,
) -> anyhow::Result<WorkspaceTemplateApply> {
    find_workspace(client, namespace, name).await?.ok_or_else(|| {
        anyhow!(
            "no WorkspaceTemplateApply {namespace}/{name} found; `capt status` lists them, -n selects another namespace"
        )
    })
}

/// The `WorkspaceTemplateApply` of a workspace, if there is one.
pub(super) async fn find_workspace(
    client: &Client,
    namespace: &str,
    name: &str,
) -> anyhow::Result<Option<WorkspaceTemplateApply>> {
    let api: Api<WorkspaceTemplateApply> = Api::namespaced(client.clone(), namespace);
    // Users pass the name of the object or the name of its directory.
    for name in [name.to_owned(), format!("{name}-apply")] {
        if let Some(found) = api.get_opt(&name).await.map_err(|error| describe_api_error(&error))? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Approves a plan if the object is unchanged since it was read, and records the approver in an Event.
pub(super) async fn approve_plan(
    client: &Client,
    seen: &WorkspaceTemplateApply,
    hash: &str,
    person: Option<&str>,
) -> anyhow::Result<String> {
    let namespace = seen.namespace().unwrap_or_default();
    let api: Api<WorkspaceTemplateApply> = Api::namespaced(client.clone(), &namespace);
    let user = api_user(client).await;
    let patch = json!({"metadata": {
        "resourceVersion": seen.resource_version(),
        "annotations": {names::APPROVE_PLAN_ANNOTATION: hash, names::APPROVED_BY_ANNOTATION: user},
    }});
    let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    match api.patch(&seen.name_any(), &params, &Patch::Merge(&patch)).await {
        Err(kube::Error::Api(status)) if status.code == 409 => {
            return Err(anyhow!("{} changed in the meantime; review its plan again", seen.name_any()));
        }
        other => other.map_err(|error| describe_api_error(&error))?,
    };
    let who = describe_user(user, person);
    let reference: ObjectReference = kube::Resource::object_ref(seen, &());
    let note = format!("plan {hash} was approved by {who}");
    record_event(client, &reference, ("Approve", "PlanApproved"), note).await.map_err(|error| {
        error.context("the plan is approved, but the Event that records it could not be written")
    })?;
    Ok(who)
}

/// Records what a person did to an object in an Event.
pub(super) async fn record_event(
    client: &Client,
    object: &ObjectReference,
    (action, reason): (&str, &str),
    note: String,
) -> anyhow::Result<()> {
    let event = Event {
        type_: EventType::Normal,
        reason: reason.to_owned(),
        note: Some(note),
        action: action.to_owned(),
        secondary: None,
    };
    let reporter = Reporter { controller: FIELD_MANAGER.to_owned(), instance: None };
    let published = Recorder::new(client.clone(), reporter).publish(&event, object).await;
    published.map_err(|error| describe_api_error(&error))
}

/// The user of the Kubernetes API, and the person at the command line as far as known.
pub(super) async fn acting_user(client: &Client, person: Option<&str>) -> String {
    describe_user(api_user(client).await, person)
}

/// The user of the Kubernetes API.
async fn api_user(client: &Client) -> Option<String> {
    let api: Api<SelfSubjectReview> = Api::all(client.clone());
    let answer = api.create(&PostParams::default(), &SelfSubjectReview::default()).await;
    answer.ok().and_then(|review| review.status?.user_info?.username)
}

fn describe_user(user: Option<String>, person: Option<&str>) -> String {
    let user = user.unwrap_or_else(|| "a user that the Kubernetes API does not name".to_owned());
    person.map_or_else(|| user.clone(), |person| format!("{user} ({person} at a command line)"))
}

/// The kubeconfig of a workload cluster.
pub(super) async fn read_kubeconfig(
    client: &Client,
    namespace: &str,
    cluster: &str,
) -> anyhow::Result<String> {
    let name = kubeconfig_secret(cluster);
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let secret = api.get_opt(&name).await.map_err(|error| describe_api_error(&error))?.ok_or_else(|| {
        anyhow!(
            "no Secret {namespace}/{name} found: either the cluster has no control plane yet (see `capt status \
            {cluster}`), or it has another name or namespace (-n)"
        )
    })?;
    let value = secret.data.unwrap_or_default().remove("value");
    let bytes = value.ok_or_else(|| anyhow!("the Secret {namespace}/{name} has no key `value`"))?;
    String::from_utf8(bytes.0)
        .map_err(|_| anyhow!("key `value` of the Secret {namespace}/{name} is not UTF-8"))
}

/// Deletes the states, connection Secrets and statuses of all workspaces after the local AWS lost its resources. The
/// operator then creates everything from scratch.
pub(super) async fn reset_workspaces(client: &Client) -> anyhow::Result<()> {
    let kind = ApiResource::erase::<WorkspaceTemplateApply>(&());
    let secrets: Api<Secret> = Api::all(client.clone());
    let refused = |error: kube::Error| describe_api_error(&error);
    for workspace in dynamic_api(client, &kind, None).list(&ListParams::default()).await.map_err(refused)? {
        let namespace = workspace.namespace().unwrap_or_default();
        let text =
            |path: &str| workspace.data.pointer(path).and_then(Value::as_str).filter(|it| !it.is_empty());
        if let Some(name) = text("/status/connectionSecretRef/name") {
            let within = text("/status/connectionSecretRef/namespace").unwrap_or(&namespace);
            force_delete_secret(client, within, name).await.map_err(refused)?;
        }
        let api = dynamic_api(client, &kind, Some(&namespace));
        let empty = json!([{"op": "add", "path": "/status", "value": {}}]);
        let patch = serde_json::from_value(empty).context("internal error: invalid status patch")?;
        match api
            .patch_status(&workspace.name_any(), &PatchParams::default(), &Patch::<()>::Json(patch))
            .await
        {
            Err(error) if !is_not_found(&error) => return Err(describe_api_error(&error)),
            _ => {}
        }
    }
    let states = ListParams::default().labels(names::STATE_LABEL);
    for secret in secrets.list(&states).await.map_err(refused)? {
        let namespace = secret.namespace().unwrap_or_default();
        force_delete_secret(client, &namespace, &secret.name_any()).await.map_err(refused)?;
    }
    Ok(())
}

/// Number of workspaces whose state is stored in Secrets.
pub(super) async fn count_states(client: &Client) -> anyhow::Result<usize> {
    let secrets: Api<Secret> = Api::all(client.clone());
    let found = secrets.list_metadata(&ListParams::default().labels(names::STATE_LABEL)).await;
    let of = |secret: PartialObjectMeta<Secret>| {
        (secret.namespace(), secret.labels().get(names::STATE_LABEL).cloned())
    };
    Ok(found.map_err(|error| describe_api_error(&error))?.into_iter().map(of).collect::<BTreeSet<_>>().len())
}

/// Removes the finalizers that protect a state from deletion, then deletes the Secret.
async fn force_delete_secret(client: &Client, namespace: &str, name: &str) -> Result<(), kube::Error> {
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let release = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    for outcome in [
        api.patch(name, &PatchParams::default(), &release).await.map(drop),
        api.delete(name, &DeleteParams::default()).await.map(drop),
    ] {
        match outcome {
            Err(error) if !is_not_found(&error) => return Err(error),
            _ => {}
        }
    }
    Ok(())
}
