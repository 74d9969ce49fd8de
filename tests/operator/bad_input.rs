//! Objects, Secrets and clouds that are not as they should be: each is told in a condition, and nothing is lost. What a
//! workspace reads (garbage, what is missing, what is not granted) is in `workspaces`.

use capt_engine::aws::Cloud;
use capt_kinds::api::{CaptCluster, WorkspaceTemplate, WorkspaceTemplateApply};
use k8s_openapi::{
    api::core::v1::Secret, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use super::{
    harness::{OperatorHarness, has_condition},
    local_aws::LocalAws,
    workspaces::{TEMPLATE, is_ready, wait_until_ready},
};

const GROUP: &str = "infrastructure.cluster.x-k8s.io";

/// A template of a network with this output.
fn template(name: &str, output: &str) -> Value {
    let module = format!("resource \"terraform_data\" \"it\" {{ input = \"x\" }}\n{output}\n");
    json!({"apiVersion": format!("{GROUP}/v1beta1"), "kind": "WorkspaceTemplate",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"template": {"spec": {"forProvider": {"source": "Inline", "module": module}}}}})
}

/// A Cluster whose network is made by a template.
async fn create_network(stage: &OperatorHarness, cluster: &str, name: &str, template: &str) {
    let reference = json!({"apiGroup": GROUP, "kind": "CAPTCluster", "name": name});
    stage
        .apply_value(json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"name": cluster, "namespace": "default"}, "spec": {"infrastructureRef": reference}}))
        .await;
    stage
        .apply_value(json!({"apiVersion": format!("{GROUP}/v1beta1"), "kind": "CAPTCluster",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"region": "eu-central-1", "vpcTemplateRef": {"name": template}}}))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_output_that_is_missing_or_of_another_type_is_told_and_heals_with_the_template() {
    let mut stage = OperatorHarness::without_aws().await;
    stage.apply_value(template("net", "")).await;
    create_network(&stage, "demo", "demo", "net").await;
    let said = |word: &'static str| {
        move |it: &CaptCluster| {
            let status = it.status.clone().unwrap_or_default();
            let ready = status.conditions.iter().find(|it| it.type_ == "VPCReady").cloned();
            ready.is_some_and(|it| it.status == "False" && it.message.contains(word))
                && status.vpc_id.is_none()
        }
    };
    stage.wait_until("demo", "told that vpc_id is missing", said("vpc_id")).await;
    stage.apply_value(template("net", "output \"vpc_id\" { value = [\"vpc-1\", \"vpc-2\"] }")).await;
    let list = |it: &WorkspaceTemplateApply| {
        is_ready(it) && it.status.as_ref().is_some_and(|it| it.outputs.contains_key("vpc_id"))
    };
    stage.wait_until("demo-vpc", "applied with a list", list).await;
    // Another network of the same template comes after it: the first was looked at again by then.
    create_network(&stage, "other", "other", "net").await;
    stage.wait_until("other", "told that vpc_id is no text", said("vpc_id")).await;
    let found = stage.wait_until("demo", "told that vpc_id is no text", said("vpc_id")).await;
    assert_eq!(found.status.unwrap().initialization, None, "the latch stays open");
    stage.apply_value(template("net", "output \"vpc_id\" { value = \"vpc-0123456789abcdef0\" }")).await;
    let well = |it: &CaptCluster| it.status.as_ref().is_some_and(|it| it.ready == Some(true));
    let found = stage.wait_until("demo", "well", well).await;
    assert_eq!(found.status.unwrap().vpc_id.as_deref(), Some("vpc-0123456789abcdef0"));
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_are_too_long_to_be_made_longer_are_hashed() {
    let mut stage = OperatorHarness::without_aws().await;
    stage.apply_value(template("net", "output \"vpc_id\" { value = \"vpc-0123456789abcdef0\" }")).await;
    let (cluster, name) = ("c".repeat(63), "n".repeat(253));
    create_network(&stage, &cluster, &name, "net").await;
    let well = |it: &CaptCluster| it.status.as_ref().is_some_and(|it| it.ready == Some(true));
    let made: CaptCluster = stage.wait_until(&name, "well", well).await;
    let workspace = made.spec.workspace_template_apply_name.unwrap();
    assert!(
        workspace.len() <= 63 && workspace.starts_with("nnnn") && workspace.ends_with("-vpc"),
        "{workspace}"
    );
    // The longest that Kubernetes takes: its directory, its state and its labels are made from it.
    let long = "w".repeat(253);
    let text = TEMPLATE.replace("{name: hello,", &format!("{{name: {long},"));
    stage.apply(&text).await;
    wait_until_ready(&stage, &long).await;
    let states = ListParams::default().labels(capt_kinds::api::names::STATE_LABEL);
    let kept = stage.api::<Secret>("default").list(&states).await.unwrap().items;
    assert!(kept.iter().all(|it| it.name_any().len() <= 253) && kept.len() > 1, "{}", kept.len());
    let api = stage.api::<WorkspaceTemplateApply>("default");
    api.delete(&long, &DeleteParams::default()).await.unwrap();
    stage.wait_until_deleted::<WorkspaceTemplateApply>(&long).await;
    stage.api::<CaptCluster>("default").delete(&name, &DeleteParams::default()).await.unwrap();
    stage.wait_until_deleted::<CaptCluster>(&name).await;
    let left = stage.api::<Secret>("default").list(&states).await.unwrap().items;
    assert!(left.is_empty(), "{left:#?}");
    stage.stop().await;
}

/// A schema as of a release that let anything in; what it was before.
async fn remove_crd_validation(stage: &OperatorHarness, plural: &str) -> CustomResourceDefinition {
    let (all, name) = (Api::<CustomResourceDefinition>::all(stage.client()), format!("{plural}.{GROUP}"));
    let strict = all.get(&name).await.unwrap();
    let mut loose = strict.clone();
    let schema = loose.spec.versions[0].schema.as_mut().unwrap().open_api_v3_schema.as_mut().unwrap();
    *schema = serde_json::from_value(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}))
        .unwrap();
    all.replace(&name, &PostParams::default(), &loose).await.unwrap();
    strict
}

async fn restore_crd_validation(stage: &OperatorHarness, strict: &CustomResourceDefinition) {
    let all = Api::<CustomResourceDefinition>::all(stage.client());
    let mut now = all.get(&strict.name_any()).await.unwrap();
    now.spec.versions = strict.spec.versions.clone();
    all.replace(&strict.name_any(), &PostParams::default(), &now).await.unwrap();
}

/// Writes what the strict schema would refuse, as soon as the loose one is served.
async fn create_unvalidated(
    stage: &OperatorHarness,
    kind: &str,
    plural: &str,
    name: &str,
    spec: &Value,
) -> Api<DynamicObject> {
    let gvk = kube::core::GroupVersionKind::gvk(GROUP, "v1beta1", kind);
    let resource = kube::api::ApiResource::from_gvk_with_plural(&gvk, plural);
    let api: Api<DynamicObject> = Api::namespaced_with(stage.client(), "default", &resource);
    let object = json!({"apiVersion": format!("{GROUP}/v1beta1"), "kind": kind,
        "metadata": {"name": name, "namespace": "default"}, "spec": spec});
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    let is_stored = async || {
        let Ok(made) = api.create(&PostParams::default(), &object).await else { return false };
        if made.data["spec"] != *spec {
            // Taken by the strict schema, which dropped what it does not know.
            api.delete(name, &DeleteParams::default()).await.unwrap();
        }
        made.data["spec"] == *spec
    };
    stage.wait_for(&format!("the loose schema of {kind} is served"), is_stored).await;
    api
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_of_an_older_release_works_and_keeps_its_unknown_fields() {
    let mut stage = OperatorHarness::idle(Cloud::Local { endpoint: "http://127.0.0.1:9".to_owned() }).await;
    stage.apply(TEMPLATE.split("\n---").next().unwrap()).await;
    let strict = remove_crd_validation(&stage, "workspacetemplateapplies").await;
    let spec = json!({"templateRef": {"name": "greeter", "revision": "old"}, "variables": {"greeting": "hi"},
        "legacyField": {"kept": true}});
    let api =
        create_unvalidated(&stage, "WorkspaceTemplateApply", "workspacetemplateapplies", "hello", &spec)
            .await;
    let status = Patch::Merge(json!({"status": {"legacyPhase": "Bound", "lastAppliedRevision": "7"}}));
    api.patch_status("hello", &PatchParams::default(), &status).await.unwrap();
    stage.start().await;
    wait_until_ready(&stage, "hello").await;
    let stored = api.get("hello").await.unwrap();
    assert_eq!(stored.data["spec"], spec, "what we do not know is not ours to remove");
    // With the strict schema back, it goes as any other.
    restore_crd_validation(&stage, &strict).await;
    api.delete("hello", &DeleteParams::default()).await.unwrap();
    stage.wait_until_deleted::<WorkspaceTemplateApply>("hello").await;
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_cannot_be_read_is_told_and_the_others_go_on() {
    let mut stage = OperatorHarness::idle(Cloud::Local { endpoint: "http://127.0.0.1:9".to_owned() }).await;
    let kinds = [
        ("WorkspaceTemplateApply", "workspacetemplateapplies", json!({"templateRef": 7})),
        ("WorkspaceTemplate", "workspacetemplates", json!({"template": "none"})),
        ("CAPTCluster", "captclusters", json!({"region": ["x"]})),
    ];
    let mut broken = Vec::new();
    for (kind, plural, spec) in &kinds {
        remove_crd_validation(&stage, plural).await;
        broken.push(create_unvalidated(&stage, kind, plural, "broken", spec).await);
    }
    stage.start().await;
    stage.apply(TEMPLATE).await;
    wait_until_ready(&stage, "hello").await;
    // Neither is in the way of another one that goes, nor of its template.
    stage.api::<WorkspaceTemplateApply>("default").delete("hello", &DeleteParams::default()).await.unwrap();
    stage.wait_until_deleted::<WorkspaceTemplateApply>("hello").await;
    stage.api::<WorkspaceTemplate>("default").delete("greeter", &DeleteParams::default()).await.unwrap();
    stage.wait_until_deleted::<WorkspaceTemplate>("greeter").await;
    for (api, (kind, ..)) in broken.iter().zip(&kinds) {
        let is_told = async || {
            let found = api.get("broken").await.unwrap();
            let conditions = found.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.iter().any(|it| {
                it["type"] == "Ready"
                    && it["reason"] == "InvalidSpec"
                    && it["message"].as_str().is_some_and(|it| it.contains("cannot be decoded"))
            })
        };
        stage.wait_for(&format!("the {kind} is told"), is_told).await;
        api.delete("broken", &DeleteParams::default()).await.unwrap();
        let is_gone = async || api.get_opt("broken").await.unwrap().is_none();
        stage.wait_for(&format!("the {kind} can go"), is_gone).await;
    }
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_status_that_somebody_edited_is_put_right_and_nothing_is_made_again() {
    let mut stage = OperatorHarness::without_aws().await;
    stage
        .apply(&TEMPLATE.replace(
            "output \"list\"",
            "output \"id\" { value = terraform_data.it.id }\n          output \"list\"",
        ))
        .await;
    let made = wait_until_ready(&stage, "hello").await;
    let id = made.status.unwrap().outputs["id"].clone();
    let lie = json!({"metadata": {}, "status": {"applied": false, "inputsHash": "lies", "run": null, "history": [],
        "outputs": {"greeting": "lies"}, "lastAppliedTime": null, "lastCheckedTime": "1999-01-01T00:00:00Z",
        "conditions": [{"type": "Ready", "status": "False", "reason": "Lies", "message": "",
            "lastTransitionTime": "1999-01-01T00:00:00Z"}]}});
    let api = stage.api::<WorkspaceTemplateApply>("default");
    api.patch_status("hello", &PatchParams::default(), &Patch::Merge(lie)).await.unwrap();
    let is_right = |it: &WorkspaceTemplateApply| {
        is_ready(it)
            && it
                .status
                .as_ref()
                .is_some_and(|it| it.applied == Some(true) && it.outputs["greeting"] == "hello")
    };
    let right: WorkspaceTemplateApply = stage.wait_until("hello", "put right", is_right).await;
    let status = right.status.unwrap();
    assert_eq!(status.outputs["id"], id, "it is the same one");
    assert!(has_condition(&status.conditions, "Planned", "True"));
    // A lie about the end of a deletion does not let anything go.
    api.delete("hello", &DeleteParams::default()).await.unwrap();
    stage.wait_until_deleted::<WorkspaceTemplateApply>("hello").await;
    stage.stop().await;
}

/// A network of the built-in module.
fn vpc_cluster_spec() -> Value {
    json!({"apiVersion": format!("{GROUP}/v1beta1"), "kind": "WorkspaceTemplateApply",
        "metadata": {"name": "net", "namespace": "default"},
        "spec": {"module": "vpc", "region": "eu-central-1",
                 "inputs": {"name": "net", "cluster_name": "net", "cidr": "10.90.0.0/16", "az_count": 2, "nat": "none"}}})
}

#[tokio::test(flavor = "multi_thread")]
async fn an_aws_that_answers_500_or_throttles_is_waited_for_and_nothing_is_made_twice() {
    let aws = LocalAws::start();
    let empty = aws.list_resources().await;
    let broken = json!({"code": "InternalError", "message": "an internal error has occurred", "status": 500});
    aws.admin("POST", "faults", &json!({"operation": "CreateVpc", "times": 2, "error": broken})).await;
    aws.admin("POST", "faults", &json!({"operation": "CreateSubnet", "times": 4, "throttle": true})).await;
    aws.admin("POST", "faults", &json!({"operation": "GetCallerIdentity", "times": 2, "throttle": true}))
        .await;
    let mut stage = OperatorHarness::idle(aws.cloud()).await;
    stage.start().await;
    stage.apply_value(vpc_cluster_spec()).await;
    stage.wait_until("net", "ready in spite of it", is_ready).await;
    let there = aws.list_resources().await;
    assert_eq!(there.iter().filter(|it| it.starts_with("ec2/vpc/")).count(), 1, "{there:#?}");
    stage.api::<WorkspaceTemplateApply>("default").delete("net", &DeleteParams::default()).await.unwrap();
    stage.wait_until_deleted::<WorkspaceTemplateApply>("net").await;
    assert_eq!(aws.list_resources().await, empty);
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_aws_that_never_answers_holds_nothing_but_its_own_workspace() {
    // Takes every connection and says nothing.
    let hole = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", hole.local_addr().unwrap());
    tokio::spawn(async move {
        let mut taken = Vec::new();
        while let Ok((stream, _)) = hole.accept().await {
            taken.push(stream);
        }
    });
    let mut stage = OperatorHarness::idle(Cloud::Local { endpoint }).await;
    stage.start().await;
    stage.apply_value(vpc_cluster_spec()).await;
    let is_busy = |it: &WorkspaceTemplateApply| {
        let status = it.status.clone().unwrap_or_default();
        status.run.is_some_and(|it| it.finished_at.is_none())
            && has_condition(&status.conditions, "Ready", "False")
    };
    stage.wait_until("net", "on its way", is_busy).await;
    stage.apply(TEMPLATE).await;
    wait_until_ready(&stage, "hello").await;
    // Nothing was made, so that it can go at once, whatever it waits for.
    stage.api::<WorkspaceTemplateApply>("default").delete("net", &DeleteParams::default()).await.unwrap();
    stage.wait_until_deleted::<WorkspaceTemplateApply>("net").await;
    stage.stop().await;
}
