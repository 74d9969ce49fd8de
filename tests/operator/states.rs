//! `capt state` against a running operator, and the end of a state when its workspace is deleted.

use std::{
    fs,
    process::{Command, Output},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use capt_kinds::api::WorkspaceTemplateApply;
use capt_kube::k8s::{KubeClient, state_store::KubeStateStore};
use embedded_kube::{fault_injection::Fault, request::Verb};
use k8s_openapi::api::events::v1::Event;
use kube::{
    ResourceExt,
    api::{DeleteParams, ListParams},
};
use serde_json::{Value, json};

use super::{
    harness::OperatorHarness,
    workspaces::{
        TEMPLATE, apply_all, block_applies, read_log, recording_workspace_with, unblock_applies,
        wait_until_ready,
    },
};

/// Runs `capt state` against the API of a test.
#[expect(clippy::disallowed_methods, reason = "a test runs the command as a person does")]
fn capt_state(stage: &OperatorHarness, args: &[&str]) -> Output {
    let kubeconfig = stage.dir.path().join("kubeconfig");
    fs::write(&kubeconfig, stage.kube.kubeconfig().unwrap()).unwrap();
    Command::new(env!("CARGO_BIN_EXE_capt"))
        .arg("state")
        .args(args)
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .current_dir(stage.dir.path())
        .output()
        .unwrap()
}

/// Standard output of a command that succeeds.
#[track_caller]
fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// Runs a command that changes a state as soon as no run is active, and expects it to succeed.
async fn edit_when_idle(stage: &OperatorHarness, args: &[&str]) -> String {
    let last = Mutex::new(None);
    let was_idle = async || {
        let output = capt_state(stage, args);
        let is_busy = String::from_utf8_lossy(&output.stderr).contains("is active");
        *last.lock().unwrap() = Some(output);
        !is_busy
    };
    stage.wait_for("no run is active", was_idle).await;
    said(&last.into_inner().unwrap().unwrap())
}

/// The reason why a command was refused.
#[track_caller]
fn refused(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

async fn stored_state(stage: &OperatorHarness, workspace: &str) -> Value {
    let store = KubeStateStore::new(KubeClient::new(stage.client()));
    let found = store.load(stage.namespace, workspace).await.unwrap().unwrap();
    serde_json::from_slice(&found.payload.state.unwrap()).unwrap()
}

fn object_id(state: &Value) -> &Value {
    &state["resources"][0]["instances"][0]["attributes"]["id"]
}

/// The notes of the Events with this reason.
async fn notes(stage: &OperatorHarness, reason: &str) -> Vec<String> {
    let all = stage.api::<Event>("default").list(&ListParams::default()).await.unwrap().items;
    all.into_iter().filter(|it| it.reason.as_deref() == Some(reason)).filter_map(|it| it.note).collect()
}

/// Waits until a run has saved a state after this serial.
async fn wait_until_run_after(stage: &OperatorHarness, serial: u64) -> Value {
    let is_later = async || stored_state(stage, "hello").await["serial"].as_u64() > Some(serial);
    stage.wait_for("a run saved its state", is_later).await;
    wait_until_ready(stage, "hello").await;
    stored_state(stage, "hello").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_operator_goes_on_from_a_state_that_was_pushed_or_restored() {
    let mut stage = OperatorHarness::without_aws().await;
    stage.apply(TEMPLATE).await;
    wait_until_ready(&stage, "hello").await;
    let first = stored_state(&stage, "hello").await;
    let serial = first["serial"].as_u64().unwrap();
    let listed = said(&capt_state(&stage, &["list"]));
    assert!(listed.contains("default/hello") && listed.contains("Secrets"), "{listed}");
    let pulled: Value = serde_json::from_str(&said(&capt_state(&stage, &["pull", "hello"]))).unwrap();
    assert_eq!(pulled, first);

    // A state that has forgotten the object: a run that starts from it creates another one.
    let mut empty = first.clone();
    empty["resources"] = json!([]);
    fs::write(stage.dir.path().join("empty"), empty.to_string()).unwrap();
    let why = refused(&capt_state(&stage, &["push", "hello", "empty"]));
    assert!(why.contains("has no resources") && why.contains("--force"), "{why}");
    edit_when_idle(&stage, &["push", "hello", "empty", "--force"]).await;
    let second = wait_until_run_after(&stage, serial + 1).await;
    assert_ne!(object_id(&second), object_id(&first), "the run knew the first object");
    let pushed = notes(&stage, "StatePushed").await;
    assert!(pushed[0].contains(&format!("serial {serial} → {}", serial + 1)), "{pushed:?}");
    let older = stage.data_dir().join("workspaces/default/hello/.capt/older");
    assert!(fs::read_dir(older).unwrap().next().is_some(), "the old directory is set aside");

    // The replaced version is kept, also after the saves of that run.
    let versions: Vec<Value> =
        serde_json::from_str(&said(&capt_state(&stage, &["versions", "hello", "-o", "json"]))).unwrap();
    let replaced = versions.iter().find(|it| it["kept"] == "replaced").unwrap();
    assert_eq!(replaced["serial"], serial);
    edit_when_idle(&stage, &["restore", "hello", replaced["id"].as_str().unwrap()]).await;
    let restored = said(&capt_state(&stage, &["pull", "hello"]));
    assert_eq!(object_id(&serde_json::from_str(&restored).unwrap()), object_id(&first));
    assert_eq!(notes(&stage, "StateRestored").await.len(), 1);
    let has_restored = async || {
        let file = stage.data_dir().join("workspaces/default/hello/terraform.tfstate");
        let found: Value = serde_json::from_slice(&fs::read(file).unwrap_or_default()).unwrap_or_default();
        object_id(&found) == object_id(&first)
    };
    stage.wait_for("the operator works with the restored state", has_restored).await;
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_state_is_replaced_and_nothing_unlocked_while_a_run_is_active() {
    let mut stage = OperatorHarness::without_aws().await;
    stage.apply(TEMPLATE).await;
    wait_until_ready(&stage, "hello").await;
    fs::write(stage.dir.path().join("file"), said(&capt_state(&stage, &["pull", "hello"]))).unwrap();
    block_applies(&stage);
    apply_all(&stage, recording_workspace_with(&stage, "default", "busy", &json!({}))).await;
    stage.wait_for("an apply goes on", async || read_log(&stage).contains(&"begun busy".to_owned())).await;
    for args in [&["push", "busy", "file"][..], &["restore", "busy", "1"]] {
        let why = refused(&capt_state(&stage, args));
        assert!(
            why.contains("a run of default/busy is active") && why.contains("capt status busy -w"),
            "{why}"
        );
    }
    let why = refused(&capt_state(&stage, &["unlock", "busy"]));
    assert!(why.contains("was not ended") && why.contains("cannot be proved"), "{why}");
    unblock_applies(&stage);
    wait_until_ready(&stage, "busy").await;
    assert_eq!(notes(&stage, "StatePushed").await, Vec::<String>::new());
    let done = capt_state(&stage, &["unlock", "busy"]);
    said(&done);
    assert!(String::from_utf8_lossy(&done.stderr).contains("is not locked"), "{done:?}");
    stage.stop().await;
}

/// Writes of the operator that give up a destroyed workspace: a deletion and a patch for each of five Secrets, and the finalizer.
const RELEASE_WRITES: u64 = 11;

/// Whether a call is one of them.
fn is_release(verb: Verb, (resource, subresource): (&str, &str), name: &str, workspace: &str) -> bool {
    match resource {
        "secrets" => matches!(verb, Verb::Delete | Verb::Patch) && name.ends_with(&format!("-{workspace}")),
        "workspacetemplateapplies" => verb == Verb::Patch && subresource.is_empty() && name == workspace,
        _ => false,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn m2_a_crash_after_any_write_of_a_release_blocks_no_deletion_although_the_disk_is_lost() {
    let mut stage = OperatorHarness::without_aws().await;
    let names: Vec<String> = (0..RELEASE_WRITES).map(|count| format!("crash{count:02}")).collect();
    for name in &names {
        apply_all(&stage, recording_workspace_with(&stage, "default", name, &json!({}))).await;
    }
    let mut faults = Vec::new();
    for (passing, name) in (0..).zip(&names) {
        wait_until_ready(&stage, name).await;
        // The first writes pass, all later ones fail: to the API, the process is dead from then on.
        let (failed, workspace, counter) =
            (Arc::new(AtomicU64::new(0)), name.clone(), Arc::new(AtomicU64::new(0)));
        let recorded = Arc::clone(&failed);
        let fault = Fault::fail(
            move |call| {
                let is_ours =
                    is_release(call.verb, (&call.resource, &call.subresource), &call.name, &workspace);
                is_ours && counter.fetch_add(1, Ordering::SeqCst) >= passing && {
                    recorded.fetch_add(1, Ordering::SeqCst);
                    true
                }
            },
            500,
        );
        faults.push((stage.kube.faults().add(fault), failed));
    }
    let api = stage.api::<WorkspaceTemplateApply>("default");
    for name in &names {
        api.delete(name, &DeleteParams::default()).await.unwrap();
    }
    for (passing, (_, failed)) in faults.iter().enumerate() {
        let what = format!("the release failed after {passing} writes");
        stage.wait_for(&what, async || failed.load(Ordering::SeqCst) > 0).await;
    }
    stage.abort().await;
    let left: Vec<String> =
        api.list(&ListParams::default()).await.unwrap().iter().map(ResourceExt::name_any).collect();
    assert_eq!(left, names, "every deletion was interrupted");
    fs::remove_dir_all(stage.data_dir()).unwrap();
    for (fault, _) in faults {
        stage.kube.faults().remove(fault);
    }
    stage.start().await;
    for name in &names {
        stage.wait_until_deleted::<WorkspaceTemplateApply>(name).await;
    }
    let log = read_log(&stage);
    let count = |text: String| log.iter().filter(|line| **line == text).count();
    assert!(names.iter().all(|name| count(format!("gone {name}")) == 1), "destroyed once each: {log:?}");
    stage.stop().await;
}
