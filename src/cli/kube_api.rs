//! The calls of the command line to a Kubernetes API: what is read there, and the few things that are written.

use std::collections::BTreeSet;

use anyhow::{Context, anyhow};
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

use super::objects::Wanted;
use crate::{
    api::{WorkspaceTemplateApply, crds, names},
    model::names::kubeconfig_secret,
};

/// Name under which the command line writes fields: what the operator owns stays the operator's.
const FIELD_MANAGER: &str = "capt-cli";

/// The innermost cause, in one line.
pub(super) fn brief(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(cause) = innermost.source() {
        innermost = cause;
    }
    innermost.to_string().lines().next().unwrap_or_default().to_owned()
}

/// An error of the API in one line.
pub(super) fn explain(error: &kube::Error) -> anyhow::Error {
    match error {
        kube::Error::Api(status) if status.message.is_empty() => {
            anyhow!("the Kubernetes API answers {} {}", status.code, status.reason)
        }
        kube::Error::Api(status) => anyhow!("the Kubernetes API says no: {}", status.message),
        other => {
            let why = brief(other);
            anyhow!(
                "cannot reach the Kubernetes API: {why}; see that it runs and that the kubeconfig is right"
            )
        }
    }
}

/// Whether an error says that something is not there.
pub(super) fn is_absent(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.code == 404,
        kube::Error::Discovery(_) => true,
        _ => false,
    }
}

/// The kinds that commands look at: Cluster where there is one, then ours.
pub(super) async fn kinds(client: &Client) -> anyhow::Result<Vec<ApiResource>> {
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
            Err(error) if is_absent(&error) => None,
            Err(error) => return Err(explain(&error)),
        };
        for kind in kinds {
            match known.as_ref().and_then(|known| known.recommended_kind(kind)) {
                Some((resource, _)) => found.push(resource),
                None if *kind == "Cluster" => {}
                None => return Err(anyhow!("the Kubernetes API does not know {kind}; {INSTALL}")),
            }
        }
    }
    Ok(found)
}

const INSTALL: &str = "install the kinds of capt first: `capt crds | kubectl apply --server-side -f -`";

/// Everything of some kinds, in one namespace or in all.
pub(super) async fn list(
    client: &Client,
    kinds: &[ApiResource],
    namespace: Option<&str>,
) -> anyhow::Result<Vec<DynamicObject>> {
    let mut found = Vec::new();
    for kind in kinds {
        let listed = api(client, kind, namespace).list(&ListParams::default()).await;
        for mut object in listed.map_err(|error| explain(&error))? {
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
pub(super) fn api(client: &Client, kind: &ApiResource, namespace: Option<&str>) -> Api<DynamicObject> {
    match namespace {
        // It has no namespaces.
        Some(_) if kind.kind == "CAPTIdentity" => Api::all_with(client.clone(), kind),
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, kind),
        None => Api::all_with(client.clone(), kind),
    }
}

/// Installs our kinds and waits until they are served.
pub(super) async fn install_kinds(client: &Client) -> anyhow::Result<()> {
    use kube::runtime::wait::{await_condition, conditions::is_crd_established};
    let api = Api::all(client.clone());
    for crd in crds() {
        let name = crd.name_any();
        let params = PatchParams::apply(names::FIELD_MANAGER).force();
        api.patch(&name, &params, &Patch::Apply(&crd)).await.map_err(|error| explain(&error))?;
        let served = await_condition(api.clone(), &name, is_crd_established());
        tokio::time::timeout(std::time::Duration::from_secs(30), served)
            .await
            .map_err(|_| anyhow!("the kind {name} was installed and is not served"))?
            .map_err(|error| anyhow!("cannot see whether the kind {name} is served: {error}"))?;
    }
    Ok(())
}

/// Makes an object as it was written, or changes it to that.
pub(super) async fn apply(client: &Client, wanted: &Wanted) -> Result<(), kube::Error> {
    let (api, namespace) = target(client, wanted).await?;
    let mut object = wanted.document.value.clone();
    if let (Some(namespace), Some(metadata)) = (namespace, object.get_mut("metadata")) {
        metadata["namespace"] = Value::String(namespace);
    }
    let params = PatchParams::apply(FIELD_MANAGER).force().validation_strict();
    api.patch(&wanted.name, &params, &Patch::Apply(&object)).await?;
    Ok(())
}

/// Asks for the end of an object; whether there was one.
pub(super) async fn delete(client: &Client, wanted: &Wanted) -> Result<bool, kube::Error> {
    let (api, _) = match target(client, wanted).await {
        Err(error) if is_absent(&error) => return Ok(false),
        other => other?,
    };
    delete_named(&api, &wanted.name).await
}

/// The same, of an object that was seen.
pub(super) async fn delete_seen(client: &Client, object: &DynamicObject) -> Result<bool, kube::Error> {
    let types = object.types.clone().unwrap_or_default();
    let Ok(gvk) = types.try_into() else { return Ok(false) };
    let (resource, _) = discovery::pinned_kind(client, &gvk).await?;
    delete_named(&api(client, &resource, object.namespace().as_deref()), &object.name_any()).await
}

async fn delete_named(api: &Api<DynamicObject>, name: &str) -> Result<bool, kube::Error> {
    match api.delete(name, &DeleteParams::background()).await {
        Ok(_) => Ok(true),
        Err(error) if is_absent(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

async fn target(
    client: &Client,
    wanted: &Wanted,
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

/// A workspace's object.
pub(super) async fn workspace(
    client: &Client,
    namespace: &str,
    name: &str,
) -> anyhow::Result<WorkspaceTemplateApply> {
    let api: Api<WorkspaceTemplateApply> = Api::namespaced(client.clone(), namespace);
    // Both names of one thing are in use: that of the object, and that of its directory.
    for name in [name.to_owned(), format!("{name}-apply")] {
        if let Some(found) = api.get_opt(&name).await.map_err(|error| explain(&error))? {
            return Ok(found);
        }
    }
    Err(anyhow!(
        "there is no WorkspaceTemplateApply {namespace}/{name}; `capt status` lists them, -n names another namespace"
    ))
}

/// Approves a plan, if the object is still the one that was looked at, and writes down who did it.
pub(super) async fn approve(
    client: &Client,
    seen: &WorkspaceTemplateApply,
    hash: &str,
    person: Option<&str>,
) -> anyhow::Result<String> {
    let namespace = seen.namespace().unwrap_or_default();
    let api: Api<WorkspaceTemplateApply> = Api::namespaced(client.clone(), &namespace);
    let patch = json!({"metadata": {
        "resourceVersion": seen.resource_version(),
        "annotations": {names::APPROVE_PLAN_ANNOTATION: hash},
    }});
    let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    match api.patch(&seen.name_any(), &params, &Patch::Merge(&patch)).await {
        Err(kube::Error::Api(status)) if status.code == 409 => {
            return Err(anyhow!("{} has changed meanwhile; look at its plan again", seen.name_any()));
        }
        other => other.map_err(|error| explain(&error))?,
    };
    let who = who_am_i(client).await;
    let who = person.map_or_else(|| who.clone(), |person| format!("{who} ({person} at a command line)"));
    let event = Event {
        type_: EventType::Normal,
        reason: "PlanApproved".to_owned(),
        note: Some(format!("plan {hash} was approved by {who}")),
        action: "Approve".to_owned(),
        secondary: None,
    };
    let reporter = Reporter { controller: FIELD_MANAGER.to_owned(), instance: None };
    let reference: ObjectReference = kube::Resource::object_ref(seen, &());
    Recorder::new(client.clone(), reporter).publish(&event, &reference).await.map_err(|error| {
        explain(&error).context("the plan is approved, but the Event that says so could not be written")
    })?;
    Ok(who)
}

async fn who_am_i(client: &Client) -> String {
    let api: Api<SelfSubjectReview> = Api::all(client.clone());
    let answer = api.create(&PostParams::default(), &SelfSubjectReview::default()).await;
    let user = answer.ok().and_then(|review| review.status?.user_info?.username);
    user.unwrap_or_else(|| "somebody whom the Kubernetes API does not name".to_owned())
}

/// The kubeconfig of a cluster.
pub(super) async fn kubeconfig(client: &Client, namespace: &str, cluster: &str) -> anyhow::Result<String> {
    let name = kubeconfig_secret(cluster);
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let secret = api.get_opt(&name).await.map_err(|error| explain(&error))?.ok_or_else(|| {
        anyhow!(
            "there is no Secret {namespace}/{name}: either the cluster has no control plane yet (`capt status \
             {cluster}` tells), or it has another name or namespace (-n)"
        )
    })?;
    let value = secret.data.unwrap_or_default().remove("value");
    let bytes = value.ok_or_else(|| anyhow!("the Secret {namespace}/{name} has no key `value`"))?;
    String::from_utf8(bytes.0).map_err(|_| anyhow!("the Secret {namespace}/{name} does not hold text"))
}

/// Forgets what was made in a local AWS whose memory is gone: the states, the outputs, and what the workspaces say of
/// themselves. The operator then makes everything anew, as if it had never been there.
pub(super) async fn forget_made(client: &Client) -> anyhow::Result<()> {
    let kind = ApiResource::erase::<WorkspaceTemplateApply>(&());
    let secrets: Api<Secret> = Api::all(client.clone());
    let refused = |error: kube::Error| explain(&error);
    for workspace in api(client, &kind, None).list(&ListParams::default()).await.map_err(refused)? {
        let namespace = workspace.namespace().unwrap_or_default();
        let text =
            |path: &str| workspace.data.pointer(path).and_then(Value::as_str).filter(|it| !it.is_empty());
        if let Some(name) = text("/status/connectionSecretRef/name") {
            let within = text("/status/connectionSecretRef/namespace").unwrap_or(&namespace);
            remove_secret(client, within, name).await.map_err(refused)?;
        }
        let api = api(client, &kind, Some(&namespace));
        let empty = json!([{"op": "add", "path": "/status", "value": {}}]);
        let patch = serde_json::from_value(empty).context("our own patch")?;
        match api
            .patch_status(&workspace.name_any(), &PatchParams::default(), &Patch::<()>::Json(patch))
            .await
        {
            Err(error) if !is_absent(&error) => return Err(explain(&error)),
            _ => {}
        }
    }
    let states = ListParams::default().labels(names::STATE_LABEL);
    for secret in secrets.list(&states).await.map_err(refused)? {
        let namespace = secret.namespace().unwrap_or_default();
        remove_secret(client, &namespace, &secret.name_any()).await.map_err(refused)?;
    }
    Ok(())
}

/// How many workspaces have a state in Secrets.
pub(super) async fn states(client: &Client) -> anyhow::Result<usize> {
    let secrets: Api<Secret> = Api::all(client.clone());
    let found = secrets.list_metadata(&ListParams::default().labels(names::STATE_LABEL)).await;
    let of = |secret: PartialObjectMeta<Secret>| {
        (secret.namespace(), secret.labels().get(names::STATE_LABEL).cloned())
    };
    Ok(found.map_err(|error| explain(&error))?.into_iter().map(of).collect::<BTreeSet<_>>().len())
}

/// Finalizers protect a state from every deletion but this one.
async fn remove_secret(client: &Client, namespace: &str, name: &str) -> Result<(), kube::Error> {
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let release = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    for outcome in [
        api.patch(name, &PatchParams::default(), &release).await.map(drop),
        api.delete(name, &DeleteParams::default()).await.map(drop),
    ] {
        match outcome {
            Err(error) if !is_absent(&error) => return Err(error),
            _ => {}
        }
    }
    Ok(())
}
