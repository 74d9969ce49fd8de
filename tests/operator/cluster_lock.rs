//! P4: at most one terraform changes an EKS cluster at a time, also across operator restarts.

use std::{
    collections::BTreeSet,
    net::{Ipv4Addr, SocketAddr},
};

use capt_engine::aws::Cloud;
use capt_kinds::api::{WorkspaceTemplateApply, names};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::{
    harness::OperatorHarness,
    ports::free_port,
    recording_terraform::{LogEntry, RecordingTerraform},
    workspaces::{apply_another_workspace, is_ready},
};

/// What stands for a profile or for the cluster itself: it belongs to an EKS cluster, and while there is a file `hold` that
/// names a number, it does not end after so many others were made.
fn blocking_template(stage: &OperatorHarness) -> Value {
    let (log, hold) = (stage.dir.path().join("log"), stage.dir.path().join("hold"));
    let wait = format!(
        "touch {log}; while [ -e {hold} ] && [ $(wc -l < {log}) -ge $(cat {hold}) ]; do sleep 0.05; done",
        log = log.display(),
        hold = hold.display()
    );
    let module = format!(
        "variable \"name\" {{ type = string }}\nvariable \"revision\" {{ default = \"1\" }}\n\
         resource \"terraform_data\" \"it\" {{\n  input = var.name\n  triggers_replace = var.revision\n  \
           provisioner \"local-exec\" {{ command = \"{wait}; echo made ${{var.name}} ${{var.revision}} >> {log}\" }}\n  \
           provisioner \"local-exec\" {{\n    when    = destroy\n    command = \"echo gone ${{self.input}} >> {log}\"\n  }}\n}}\n",
        log = log.display()
    );
    // Terraform's own templates are not ours to fill in.
    let vars = json!([{"key": "name", "value": "${name}"}, {"key": "revision", "value": "${revision}"}]);
    json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "WorkspaceTemplate",
        "metadata": {"name": "step", "namespace": "default"},
        "spec": {"template": {"spec": {"forProvider": {"source": "Inline", "module": module, "vars": vars}}}}})
}

/// A workspace that belongs to no EKS cluster.
const UNBOUND: &str = "free";

fn workspace_object(name: &str) -> Value {
    json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "WorkspaceTemplateApply",
        "metadata": {"name": name, "namespace": "default", "annotations": {names::EKS_CLUSTER_ANNOTATION: "demo"}},
        "spec": {"templateRef": {"name": "step"}, "variables": {"name": name, "revision": "1"}}})
}

fn read_log(stage: &OperatorHarness) -> Vec<String> {
    let text = std::fs::read_to_string(stage.dir.path().join("log")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Applies do not end after so many were made, until they are released.
fn block_applies_after(stage: &OperatorHarness, after: usize) {
    std::fs::write(stage.dir.path().join("hold"), after.to_string()).unwrap();
}

fn unblock_applies(stage: &OperatorHarness) {
    std::fs::remove_file(stage.dir.path().join("hold")).unwrap();
}

/// Proves that no apply began before the one before it had ended; how many there were.
fn assert_serial_applies(diary: &[LogEntry]) -> usize {
    let mut running = BTreeSet::new();
    // The one that belongs to no cluster waits for none.
    let applies: Vec<&LogEntry> =
        diary.iter().filter(|it| it.command == "apply" && it.workspace != UNBOUND).collect();
    for entry in &applies {
        if entry.is_start {
            assert!(running.is_empty(), "{entry:?} began beside {running:?}: {applies:#?}");
            running.insert((entry.pid, entry.workspace.clone()));
        } else {
            assert!(running.remove(&(entry.pid, entry.workspace.clone())), "{entry:?} ended and never began");
        }
    }
    assert!(running.is_empty(), "{running:?} never ended");
    applies.len() / 2
}

async fn wait_until_all_ready(stage: &OperatorHarness, count: usize) {
    let api: Api<WorkspaceTemplateApply> = stage.api("default");
    stage
        .wait_for("all are ready", async || {
            let mut all = api.list(&ListParams::default()).await.unwrap().items;
            all.retain(|it| it.name_any() != UNBOUND);
            all.len() == count
                && all.iter().all(|it| {
                    let observed = it.status.as_ref().and_then(|it| it.observed_generation);
                    let idle = it
                        .status
                        .as_ref()
                        .and_then(|it| it.run.as_ref())
                        .is_some_and(|it| it.finished_at.is_some());
                    is_ready(it) && observed == it.metadata.generation && idle
                })
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn p4_ten_profiles_and_their_cluster_take_turns_although_the_operator_dies_in_between() {
    let terraform = RecordingTerraform::real();
    let mut stage = OperatorHarness::idle(Cloud::Local { endpoint: "http://127.0.0.1:9".to_owned() }).await;
    stage.engine = Some(terraform.path());
    stage.start().await;
    block_applies_after(&stage, 2);
    stage.apply_value(blocking_template(&stage)).await;
    let profiles: Vec<String> = (1..=10).map(|n| format!("p{n}")).collect();
    for name in profiles.iter().map(String::as_str).chain(["cluster"]) {
        stage.apply_value(workspace_object(name)).await;
    }
    stage.wait_for("a third apply goes on", async || terraform.count_starts("apply") == 3).await;
    stage.abort().await;
    stage.start().await;
    // The next operator is at work, and lets the third one end before the fourth begins.
    apply_another_workspace(&stage, UNBOUND).await;
    unblock_applies(&stage);
    wait_until_all_ready(&stage, 11).await;
    assert_eq!(assert_serial_applies(&terraform.entries()), 11);
    assert_eq!(
        read_log(&stage).iter().collect::<BTreeSet<_>>().len(),
        11,
        "each was made once: {:?}",
        read_log(&stage)
    );

    // The cluster is updated, half of the profiles are, and the others go: all at once.
    let api: Api<WorkspaceTemplateApply> = stage.api("default");
    for name in ["cluster", "p1", "p2", "p3", "p4", "p5"] {
        let edit = Patch::Merge(json!({"spec": {"variables": {"revision": "2"}}}));
        api.patch(name, &PatchParams::default(), &edit).await.unwrap();
    }
    for name in ["p6", "p7", "p8", "p9", "p10"] {
        api.delete(name, &DeleteParams::default()).await.unwrap();
    }
    wait_until_all_ready(&stage, 6).await;
    assert_eq!(assert_serial_applies(&terraform.entries()), 22);
    stage.stop().await;
}

/// Whether `/readyz` answers 200.
async fn is_ready_at(address: SocketAddr) -> bool {
    let Ok(mut stream) = TcpStream::connect(address).await else { return false };
    let mut response = Vec::new();
    let request = stream.write_all(b"GET /readyz HTTP/1.0\r\n\r\n").await;
    request.is_ok()
        && stream.read_to_end(&mut response).await.is_ok()
        && response.starts_with(b"HTTP/1.0 200")
}

#[tokio::test(flavor = "multi_thread")]
async fn p4_a_leader_that_is_asked_to_stop_leads_until_its_terraform_is_done() {
    let terraform = RecordingTerraform::real();
    let mut stage = OperatorHarness::idle(Cloud::Local { endpoint: "http://127.0.0.1:9".to_owned() }).await;
    stage.engine = Some(terraform.path());
    stage.settings.leader_election = Some("capt-system".to_owned());
    let first = stage.start_replica(stage.dir.path().join("first")).await;
    block_applies_after(&stage, 0);
    stage.apply_value(blocking_template(&stage)).await;
    for name in ["p1", "p2", "p3"] {
        stage.apply_value(workspace_object(name)).await;
    }
    stage.wait_for("an apply goes on", async || terraform.count_starts("apply") == 1).await;
    // As in a rolling update: the next pod waits for the Lease, then the old one is asked to stop.
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    stage.settings.listen = Some(listen);
    let second = stage.start_replica_as("second", stage.dir.path().join("second")).await;
    // The Deployment stops the old pod only after the new one is ready, so readiness cannot need the Lease.
    stage.wait_for("the second one is ready", async || is_ready_at(listen).await).await;
    let asked = || {
        stage
            .kube
            .request_log()
            .all()
            .iter()
            .filter(|it| it.agent == "second" && it.resource == "leases")
            .count()
    };
    stage.wait_for("the second one asks for the Lease", async || asked() > 0).await;
    let stopping = tokio::spawn(first.stop());
    let before = asked();
    stage.wait_for("the second one asks again and again", async || asked() > before + 2).await;
    assert!(!stopping.is_finished(), "it stopped before its terraform was done");
    assert_eq!(terraform.count_starts("apply"), 1, "the second one leads already");
    unblock_applies(&stage);
    stopping.await.unwrap();
    wait_until_all_ready(&stage, 3).await;
    assert_eq!(assert_serial_applies(&terraform.entries()), 3);
    let mut made = read_log(&stage);
    made.sort();
    assert_eq!(made, ["made p1 1", "made p2 1", "made p3 1"], "each was made once");
    second.stop().await;
}
