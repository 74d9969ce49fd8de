//! P6: transient errors are retried, and errors that need a user are not retried in a tight loop.

use capt_kinds::api::{WorkspaceTemplateApply, WorkspaceTemplateApplyStatus};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::{
    harness::{OperatorHarness, has_condition},
    workspaces::{apply_another_workspace, is_ready},
};

/// A workspace whose apply fails once with the words of AWS, and then does not.
fn workspace_failing_once(stage: &OperatorHarness, name: &str, words: &str) -> [Value; 2] {
    let marker = stage.dir.path().join(format!("{name}.failed"));
    let module = format!(
        "variable \"note\" {{ default = \"\" }}\nresource \"terraform_data\" \"it\" {{\n  \
           provisioner \"local-exec\" {{\n    \
             command = \"echo run >> {marker}; test $(wc -l < {marker}) -gt 1 || {{ echo '{words}'; exit 1; }}\"\n  }}\n}}\n",
        marker = marker.display()
    );
    let meta = json!({"name": name, "namespace": "default"});
    let vars = json!([{"key": "note", "value": "${note}"}]);
    [
        json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "WorkspaceTemplate", "metadata": meta,
            "spec": {"template": {"spec": {"forProvider": {"source": "Inline", "module": module, "vars": vars}}}}}),
        json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "WorkspaceTemplateApply", "metadata": meta,
            "spec": {"templateRef": {"name": name}, "variables": {"note": "first"}}}),
    ]
}

/// How often it was applied.
fn count_applies(stage: &OperatorHarness, name: &str) -> usize {
    let text = std::fs::read_to_string(stage.dir.path().join(format!("{name}.failed")));
    text.unwrap_or_default().lines().count()
}

async fn wait_for_failure(stage: &OperatorHarness, name: &str) -> WorkspaceTemplateApplyStatus {
    let told = |it: &WorkspaceTemplateApply| it.status.as_ref().is_some_and(|it| it.last_error.is_some());
    let found: WorkspaceTemplateApply = stage.wait_until(name, "failed", told).await;
    found.status.unwrap()
}

/// How long after the end of the run it is tried again.
fn retry_delay_seconds(status: &WorkspaceTemplateApplyStatus) -> i64 {
    let at = status.last_error.as_ref().and_then(|it| it.retry_at.as_ref()).expect("it is tried again").0;
    let ended = status.run.as_ref().and_then(|it| it.finished_at.as_ref()).unwrap().0;
    at.as_second() - ended.as_second()
}

fn condition_reason<'a>(status: &'a WorkspaceTemplateApplyStatus, kind: &str) -> &'a str {
    status.conditions.iter().find(|it| it.type_ == kind).map_or("", |it| it.reason.as_str())
}

#[tokio::test(flavor = "multi_thread")]
async fn p6_what_passes_by_itself_is_waited_out_without_a_hand() {
    let mut stage = OperatorHarness::without_aws().await;
    let cases = [
        (
            "busy",
            "ResourceInUseException: Cannot create Fargate Profile a because cluster c currently has Fargate profile b \
             in status CREATING",
            ("Wait", 30..=61),
        ),
        ("hasty", "ThrottlingException: Rate exceeded", ("Throttle", 5..=7)),
        (
            "spreading",
            "InvalidParameterException: Misconfigured PodExecutionRole Trust Policy; Please add the \
             eks-fargate-pods.amazonaws.com Service Principal",
            ("Propagation", 20..=25),
        ),
    ];
    for (name, words, _) in &cases {
        for object in workspace_failing_once(&stage, name, words) {
            stage.apply_value(object).await;
        }
    }
    for (name, _, (class, pauses)) in &cases {
        let status = wait_for_failure(&stage, name).await;
        assert_eq!(<&str>::from(status.last_error.as_ref().unwrap().class), *class, "{name}");
        assert!(pauses.contains(&retry_delay_seconds(&status)), "{name}: {}", retry_delay_seconds(&status));
        if *class == "Wait" {
            assert_eq!(
                (condition_reason(&status, "Synced"), condition_reason(&status, "Ready")),
                ("WaitingForEKSMutation", "Creating")
            );
        }
    }
    for (name, ..) in &cases {
        let well: WorkspaceTemplateApply = stage.wait_until(name, "well by itself", is_ready).await;
        assert_eq!(well.status.unwrap().last_error, None);
        assert_eq!(count_applies(&stage, name), 2, "{name}: one more run was enough");
    }
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn p6_what_a_person_must_mend_is_tried_once_in_ten_minutes_and_at_once_after_a_change() {
    let mut stage = OperatorHarness::without_aws().await;
    let words = "AccessDeniedException: User is not authorized to perform: eks:CreateFargateProfile";
    for object in workspace_failing_once(&stage, "forbidden", words) {
        stage.apply_value(object).await;
    }
    let status = wait_for_failure(&stage, "forbidden").await;
    let error = status.last_error.clone().unwrap();
    assert_eq!((error.class.into(), error.code.as_deref()), ("UserFix", Some("AccessDeniedException")));
    assert!(retry_delay_seconds(&status) >= 600, "{}", retry_delay_seconds(&status));
    assert!(
        has_condition(&status.conditions, "Synced", "False")
            && has_condition(&status.conditions, "Ready", "False")
    );
    let synced = status.conditions.iter().find(|it| it.type_ == "Synced").unwrap();
    assert!(synced.message.contains("eks:CreateFargateProfile"), "{}", synced.message);

    // Neither a look at it, nor a restart, nor a new disk is a reason to try again.
    let api = stage.api::<WorkspaceTemplateApply>("default");
    let touch = Patch::Merge(json!({"metadata": {"annotations": {"example.com/looked": "yes"}}}));
    api.patch("forbidden", &PatchParams::default(), &touch).await.unwrap();
    apply_another_workspace(&stage, "before").await;
    stage.abort().await;
    stage.start().await;
    apply_another_workspace(&stage, "after").await;
    assert_eq!(count_applies(&stage, "forbidden"), 1);
    let later = stage.workspace("forbidden").await.status.unwrap();
    assert_eq!(later.last_error.unwrap().retry_at, error.retry_at, "the time of the next try does not move");

    let edit = Patch::Merge(json!({"spec": {"variables": {"note": "mended"}}}));
    api.patch("forbidden", &PatchParams::default(), &edit).await.unwrap();
    stage.wait_until("forbidden", "well after a change", is_ready).await;
    assert_eq!(count_applies(&stage, "forbidden"), 2);
    stage.stop().await;
}
