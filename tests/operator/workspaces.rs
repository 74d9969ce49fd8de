//! Workspaces alone: templates without a provider, so that a run takes a second.

use std::{fs, path::PathBuf};

use capt_kinds::api::{WorkspaceTemplate, WorkspaceTemplateApply, names};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use super::harness::{OperatorHarness, has_condition};

pub(crate) const TEMPLATE: &str = r#"
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: WorkspaceTemplate
metadata: {name: greeter, namespace: default}
spec:
  template:
    spec:
      forProvider:
        source: Inline
        module: |
          variable "greeting" { type = string }
          resource "terraform_data" "it" { input = var.greeting }
          output "greeting" { value = terraform_data.it.output }
          output "secret" {
            value     = "hidden"
            sensitive = true
          }
          output "list" { value = ["a", "b"] }
      writeConnectionSecretToRef: {name: greeter-out, namespace: default}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: WorkspaceTemplateApply
metadata: {name: hello, namespace: default}
spec:
  templateRef: {name: greeter}
  variables: {greeting: hello}
"#;

pub(crate) fn is_ready(object: &WorkspaceTemplateApply) -> bool {
    let status = object.status.clone().unwrap_or_default();
    has_condition(&status.conditions, "Ready", "True") && has_condition(&status.conditions, "Synced", "True")
}

pub(crate) fn is_paused(object: &WorkspaceTemplateApply) -> bool {
    let conditions = object.status.clone().unwrap_or_default().conditions;
    conditions.iter().any(|it| it.type_ == "Synced" && it.status == "False" && it.reason == "ReconcilePaused")
}

pub(crate) async fn wait_until_ready(stage: &OperatorHarness, name: &str) -> WorkspaceTemplateApply {
    stage.wait_until(name, "ready", is_ready).await
}

/// Changes the input of `hello`, and waits until its output has changed.
async fn change_greeting(stage: &OperatorHarness, greeting: &str) -> WorkspaceTemplateApply {
    let change = Patch::Merge(json!({"spec": {"variables": {"greeting": greeting}}}));
    let api = stage.api::<WorkspaceTemplateApply>("default");
    api.patch("hello", &PatchParams::default(), &change).await.unwrap();
    let is_changed = |it: &WorkspaceTemplateApply| {
        is_ready(it) && it.status.as_ref().is_some_and(|status| status.outputs["greeting"] == greeting)
    };
    stage.wait_until("hello", "changed", is_changed).await
}

async fn state_secrets(stage: &OperatorHarness) -> Vec<Secret> {
    let params = ListParams::default().labels(names::STATE_LABEL);
    stage.api::<Secret>("default").list(&params).await.unwrap().items
}

#[tokio::test(flavor = "multi_thread")]
async fn a_template_is_applied_its_outputs_are_published_and_it_goes_without_a_trace() {
    let mut stage = OperatorHarness::without_aws().await;
    stage.apply(TEMPLATE).await;
    let made = wait_until_ready(&stage, "hello").await;
    let status = made.status.clone().unwrap();
    assert_eq!(status.outputs["greeting"], "hello");
    assert_eq!(status.outputs.get("secret"), None, "sensitive outputs are not shown");
    assert_eq!(status.applied, Some(true));
    let secret = stage.api::<Secret>("default").get("greeter-out").await.unwrap();
    let data = secret.data.unwrap();
    assert_eq!(data["secret"].0, b"hidden");
    assert_eq!(data["list"].0, br#"["a","b"]"#);
    assert!(!state_secrets(&stage).await.is_empty(), "the state is kept beside the object");

    let api = stage.api::<WorkspaceTemplateApply>("default");
    change_greeting(&stage, "good morning").await;

    api.delete("hello", &DeleteParams::default()).await.unwrap();
    stage.wait_until_deleted::<WorkspaceTemplateApply>("hello").await;
    assert!(state_secrets(&stage).await.is_empty(), "what was kept is gone with it");
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_settled_object_is_left_alone() {
    let mut stage = OperatorHarness::without_aws().await;
    stage.apply(TEMPLATE).await;
    let made = wait_until_ready(&stage, "hello").await;
    // A touch makes the operator reconcile it once more.
    let api = stage.api::<WorkspaceTemplateApply>("default");
    let touch = Patch::Merge(json!({"metadata": {"annotations": {"example.com/looked": "yes"}}}));
    let touched = api.patch("hello", &PatchParams::default(), &touch).await.unwrap();
    apply_another_workspace(&stage, "later").await;
    let later = stage.workspace("hello").await;
    assert_eq!(touched.resource_version(), later.resource_version(), "{later:#?}");
    assert_eq!(made.status, later.status);
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_an_empty_disk_the_kept_state_comes_back_and_nothing_is_made_twice() {
    let mut stage = OperatorHarness::without_aws().await;
    stage.apply(TEMPLATE).await;
    let made = wait_until_ready(&stage, "hello").await;
    stage.stop().await;
    fs::remove_dir_all(stage.data_dir()).unwrap();
    stage.start().await;
    let after = change_greeting(&stage, "still here").await;
    let plan = after.status.unwrap().plan.unwrap();
    assert_eq!((plan.add, plan.change), (0, 1), "it is changed in place: {plan:?}");
    assert_eq!(made.uid(), after.metadata.uid.clone());
    stage.stop().await;
}

/// `hello` and `hello-apply` have the same workspace.
const DUPLICATE: &str = r"
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: WorkspaceTemplateApply
metadata: {name: hello-apply, namespace: default}
spec:
  templateRef: {name: greeter}
  variables: {greeting: mine}
";

#[tokio::test(flavor = "multi_thread")]
async fn deleting_a_rejected_duplicate_destroys_nothing_of_the_owner_even_on_an_empty_disk() {
    let is_rejected = |it: &WorkspaceTemplateApply| {
        let conditions = it.status.clone().unwrap_or_default().conditions;
        conditions.iter().any(|it| it.message.contains("is owned by WorkspaceTemplateApply default/hello"))
    };
    let mut stage = OperatorHarness::without_aws().await;
    stage.apply(TEMPLATE).await;
    let made = wait_until_ready(&stage, "hello").await;
    let api = stage.api::<WorkspaceTemplateApply>("default");

    for is_disk_lost in [false, true] {
        stage.apply(DUPLICATE).await;
        stage.wait_until("hello-apply", "rejected", is_rejected).await;
        if is_disk_lost {
            stage.stop().await;
            fs::remove_dir_all(stage.data_dir()).unwrap();
        }
        api.delete("hello-apply", &DeleteParams::default()).await.unwrap();
        if is_disk_lost {
            stage.start().await;
        }
        stage.wait_until_deleted::<WorkspaceTemplateApply>("hello-apply").await;
        assert!(!state_secrets(&stage).await.is_empty(), "the state of the owner stays");
    }

    let after = change_greeting(&stage, "still here").await;
    let plan = after.status.unwrap().plan.unwrap();
    assert_eq!((plan.add, plan.change), (0, 1), "it was changed in place: {plan:?}");
    assert_eq!(made.uid(), after.metadata.uid.clone());
    stage.stop().await;
}

/// Makes another workspace, and waits for it. The operator hears of it after everything that was changed before, so that
/// it has looked at all of that by then.
pub(crate) async fn apply_another_workspace(stage: &OperatorHarness, name: &str) {
    let meta = json!({"name": name, "namespace": stage.namespace});
    let module = "resource \"terraform_data\" \"it\" {}\n";
    stage
        .apply_value(
            json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "WorkspaceTemplate",
            "metadata": meta,
            "spec": {"template": {"spec": {"forProvider": {"source": "Inline", "module": module}}}}}),
        )
        .await;
    stage
        .apply_value(
            json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "WorkspaceTemplateApply",
            "metadata": meta, "spec": {"templateRef": {"name": name}}}),
        )
        .await;
    wait_until_ready(stage, name).await;
}

/// While it exists, every apply of a recorder waits. It goes with the directory of the test.
fn block_file(stage: &OperatorHarness) -> PathBuf {
    stage.dir.path().join("hold")
}

/// Lets applies of recorders begin, and not end.
pub(crate) fn block_applies(stage: &OperatorHarness) {
    fs::write(block_file(stage), "").unwrap();
}

/// Lets them end.
pub(crate) fn unblock_applies(stage: &OperatorHarness) {
    fs::remove_file(block_file(stage)).unwrap();
}

/// A workspace that writes its name to a file when it is made and when it is destroyed.
fn recording_workspace(stage: &OperatorHarness, namespace: &str, name: &str, more: &Value) -> Value {
    let mut objects = recording_workspace_with(stage, namespace, name, more);
    let module = &mut objects[0]["spec"]["template"]["spec"]["forProvider"]["module"];
    // Only the order of whole things is of interest.
    *module = json!(module.as_str().unwrap().replace(&format!("echo begun {name}"), "true"));
    objects
}

/// One that writes also when it begins, and does not end while it is held.
pub(crate) fn recording_workspace_with(
    stage: &OperatorHarness,
    namespace: &str,
    name: &str,
    more: &Value,
) -> Value {
    let (log, hold) = (stage.dir.path().join("log"), block_file(stage));
    let module = format!(
        "resource \"terraform_data\" \"it\" {{\n  \
           provisioner \"local-exec\" {{\n    command = \"echo begun {name} >> {log}; \
             while [ -e {hold} ]; do sleep 0.05; done; echo made {name} >> {log}\"\n  }}\n  \
           provisioner \"local-exec\" {{\n    when    = destroy\n    command = \"echo gone {name} >> {log}\"\n  }}\n}}\n\
         output \"it\" {{ value = terraform_data.it.id }}\n",
        log = log.display(),
        hold = hold.display()
    );
    let mut spec = json!({
        "templateRef": {"name": name},
        "writeConnectionSecretToRef": {"name": format!("{name}-out"), "namespace": namespace},
    });
    for (field, value) in more.as_object().into_iter().flatten() {
        spec[field] = value.clone();
    }
    json!([
        {
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "WorkspaceTemplate",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"template": {"spec": {"forProvider": {"source": "Inline", "module": module}}}},
        },
        {
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "WorkspaceTemplateApply",
            "metadata": {"name": name, "namespace": namespace},
            "spec": spec,
        },
    ])
}

pub(crate) async fn apply_all(stage: &OperatorHarness, objects: Value) {
    for object in objects.as_array().unwrap() {
        stage.apply_value(object.clone()).await;
    }
}

pub(crate) fn read_log(stage: &OperatorHarness) -> Vec<String> {
    let text = fs::read_to_string(stage.dir.path().join("log")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_stands_on_another_goes_first_whatever_is_deleted_first() {
    let mut stage = OperatorHarness::without_aws().await;
    apply_all(&stage, recording_workspace(&stage, "default", "below", &json!({}))).await;
    let waits = json!({"waitForSecrets": [{"name": "below-out", "namespace": "default"}]});
    apply_all(&stage, recording_workspace(&stage, "default", "above", &waits)).await;
    wait_until_ready(&stage, "above").await;
    let api = stage.api::<WorkspaceTemplateApply>("default");
    for name in ["below", "above"] {
        api.delete(name, &DeleteParams::default()).await.unwrap();
    }
    stage.wait_until_deleted::<WorkspaceTemplateApply>("below").await;
    assert_eq!(read_log(&stage), ["made below", "made above", "gone above", "gone below"]);
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn p28_a_namespace_that_is_deleted_takes_its_state_only_after_the_destroy() {
    let mut stage = OperatorHarness::without_aws().await;
    stage.apply_value(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})).await;
    apply_all(&stage, recording_workspace(&stage, "team", "below", &json!({}))).await;
    let waits = json!({"waitForSecrets": [{"name": "below-out", "namespace": "team"}]});
    apply_all(&stage, recording_workspace(&stage, "team", "above", &waits)).await;
    let team = stage.api::<WorkspaceTemplateApply>("team");
    stage
        .wait_for("both are ready", async || {
            let all = team.list(&ListParams::default()).await.unwrap().items;
            all.len() == 2 && all.iter().all(is_ready)
        })
        .await;
    let namespaces: Api<Namespace> = Api::all(stage.client());
    namespaces.delete("team", &DeleteParams::default()).await.unwrap();
    stage
        .wait_for("the namespace is gone", async || namespaces.get_opt("team").await.unwrap().is_none())
        .await;
    assert_eq!(read_log(&stage), ["made below", "made above", "gone above", "gone below"]);
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn p11_a_template_in_use_is_held_and_a_destroy_does_without_it() {
    let mut stage = OperatorHarness::without_aws().await;
    apply_all(&stage, recording_workspace(&stage, "default", "lonely", &json!({}))).await;
    wait_until_ready(&stage, "lonely").await;
    let templates = stage.api::<WorkspaceTemplate>("default");
    templates.delete("lonely", &DeleteParams::default()).await.unwrap();
    let held = stage
        .wait_until::<WorkspaceTemplate>("lonely", "held", |it| it.metadata.deletion_timestamp.is_some())
        .await;
    assert!(held.finalizers().iter().any(|it| it == names::TEMPLATE_FINALIZER));
    // A forced deletion.
    let force = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    templates.patch("lonely", &PatchParams::default(), &force).await.unwrap();
    let told = |it: &WorkspaceTemplateApply| {
        let status = it.status.clone().unwrap_or_default();
        has_condition(&status.conditions, "Ready", "True")
            && has_condition(&status.conditions, "Synced", "False")
    };
    stage.wait_until("lonely", "told of its loss, and still ready", told).await;
    // And the disk is gone, too.
    stage.stop().await;
    fs::remove_dir_all(stage.data_dir()).unwrap();
    stage.start().await;
    let api = stage.api::<WorkspaceTemplateApply>("default");
    api.delete("lonely", &DeleteParams::default()).await.unwrap();
    stage.wait_until_deleted::<WorkspaceTemplateApply>("lonely").await;
    assert_eq!(read_log(&stage), ["made lonely", "gone lonely"]);
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn p15_nothing_begins_while_paused_and_everything_right_after() {
    let mut stage = OperatorHarness::without_aws().await;
    stage.apply(TEMPLATE).await;
    let made = wait_until_ready(&stage, "hello").await;
    let api = stage.api::<WorkspaceTemplateApply>("default");
    let pause = Patch::Merge(json!({"metadata": {"annotations": {names::PAUSED_ANNOTATION: ""}},
        "spec": {"variables": {"greeting": "later"}}}));
    api.patch("hello", &PatchParams::default(), &pause).await.unwrap();
    stage.wait_until("hello", "told that it is paused", is_paused).await;
    apply_another_workspace(&stage, "other").await;
    let paused = stage.workspace("hello").await;
    let run = |it: &WorkspaceTemplateApply| it.status.clone().unwrap().run.unwrap().id;
    assert_eq!(run(&made), run(&paused), "a run began while paused");
    let resume = Patch::Merge(json!({"metadata": {"annotations": {names::PAUSED_ANNOTATION: null}}}));
    api.patch("hello", &PatchParams::default(), &resume).await.unwrap();
    let begun = |it: &WorkspaceTemplateApply| run(it) != run(&made);
    stage.wait_until("hello", "begun again", begun).await;
    let is_changed = |it: &WorkspaceTemplateApply| {
        is_ready(it) && it.status.as_ref().is_some_and(|status| status.outputs["greeting"] == "later")
    };
    stage.wait_until("hello", "changed", is_changed).await;
    stage.stop().await;
}

/// What the Synced condition of an object says.
async fn wait_for_sync_failure(stage: &OperatorHarness, name: &str, reason: &str) -> String {
    let is = |it: &WorkspaceTemplateApply| {
        let status = it.status.clone().unwrap_or_default();
        status.conditions.iter().any(|it| it.type_ == "Synced" && it.status == "False" && it.reason == reason)
    };
    let found: WorkspaceTemplateApply = stage.wait_until(name, reason, is).await;
    let status = found.status.unwrap();
    status.conditions.iter().find(|it| it.type_ == "Synced").unwrap().message.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_input_gets_a_condition_and_starts_nothing() {
    let mut stage = OperatorHarness::without_aws().await;
    let object = |name: &str, spec: Value| {
        json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "WorkspaceTemplateApply",
            "metadata": {"name": name, "namespace": "default"}, "spec": spec})
    };
    stage
        .apply_value(json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "garbage", "namespace": "default"}, "stringData": {"subnets": "hunter2"}}))
        .await;
    stage
        .apply_value(json!({"apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "private", "namespace": "kube-system"}, "stringData": {"x": "y"}}))
        .await;
    let from = |secret: &str, namespace: &str, key: &str| {
        json!({"module": "fargate", "region": "eu-central-1", "inputsFrom": [{"input": "private_subnets",
            "secretRef": {"name": secret, "namespace": namespace}, "key": key, "format": "JSON"}]})
    };
    stage.apply_value(object("garbage", from("garbage", "default", "subnets"))).await;
    let said = wait_for_sync_failure(&stage, "garbage", "InvalidInput").await;
    assert!(said.contains("is not JSON") && !said.contains("hunter2"), "{said}");
    stage.apply_value(object("missing-key", from("garbage", "default", "nothing"))).await;
    assert!(wait_for_sync_failure(&stage, "missing-key", "InvalidInput").await.contains("is missing"));
    stage.apply_value(object("stranger", from("private", "kube-system", "x"))).await;
    assert!(
        wait_for_sync_failure(&stage, "stranger", "ReferenceNotGranted")
            .await
            .contains("allow-references-from")
    );
    stage.apply_value(object("waiting", from("not-there", "default", "x"))).await;
    assert!(
        wait_for_sync_failure(&stage, "waiting", "WaitingForSecrets").await.contains("default/not-there")
    );
    stage.apply_value(object("no-template", json!({"templateRef": {"name": "nowhere"}}))).await;
    assert!(
        wait_for_sync_failure(&stage, "no-template", "WorkspaceTemplateNotFound")
            .await
            .contains("default/nowhere")
    );
    let identity =
        json!({"module": "vpc", "region": "eu-central-1", "inputs": {}, "identityRef": {"name": "theirs"}});
    stage.apply_value(json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "CAPTIdentity",
        "metadata": {"name": "theirs"}, "spec": {"source": "Default", "allowedNamespaces": {"list": ["other"]}}})).await;
    stage.apply_value(object("not-allowed", identity)).await;
    assert!(
        wait_for_sync_failure(&stage, "not-allowed", "IdentityNotAllowed")
            .await
            .contains("allowedNamespaces")
    );
    let all = stage.api::<WorkspaceTemplateApply>("default").list(&ListParams::default()).await.unwrap();
    assert!(all.items.iter().all(|it| it.status.clone().unwrap_or_default().run.is_none()), "nothing ran");
    // What is not made can go.
    for it in all {
        stage
            .api::<WorkspaceTemplateApply>("default")
            .delete(&it.name_any(), &DeleteParams::default())
            .await
            .unwrap();
        stage.wait_until_deleted::<WorkspaceTemplateApply>(&it.name_any()).await;
    }
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_dies_in_an_apply_leaves_it_to_the_next_one() {
    let mut stage = OperatorHarness::without_aws().await;
    block_applies(&stage);
    apply_all(&stage, recording_workspace_with(&stage, "default", "slow", &json!({}))).await;
    stage.wait_for("the apply has begun", async || read_log(&stage) == ["begun slow"]).await;
    stage.abort().await;
    stage.start().await;
    // The next one is at work while terraform still is.
    apply_another_workspace(&stage, "other").await;
    assert_eq!(read_log(&stage), ["begun slow"], "it was begun once");
    unblock_applies(&stage);
    wait_until_ready(&stage, "slow").await;
    assert_eq!(read_log(&stage), ["begun slow", "made slow"], "it was made once");
    stage.stop().await;
}
