//! P4: whatever happens to the operator, terraform changes an EKS cluster from one place at a time.

use std::{collections::BTreeSet, time::Duration};

use capt::{
    api::{WorkspaceTemplateApply, names},
    aws::Cloud,
};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use super::{
    engine::{Entry, Scripted},
    stage::Stage,
    workspaces::is_ready,
};

const PATIENCE: Duration = Duration::from_mins(4);

/// What stands for a profile or for the cluster itself: it takes a while, and belongs to an EKS cluster.
fn template(stage: &Stage, seconds: &str) -> Value {
    let log = stage.dir.path().join("log");
    let module = format!(
        "variable \"name\" {{ type = string }}\nvariable \"revision\" {{ default = \"1\" }}\n\
         resource \"terraform_data\" \"it\" {{\n  input = var.name\n  triggers_replace = var.revision\n  \
           provisioner \"local-exec\" {{ command = \"sleep {seconds}; echo made ${{var.name}} ${{var.revision}} >> {log}\" }}\n  \
           provisioner \"local-exec\" {{\n    when    = destroy\n    command = \"sleep {seconds}; echo gone ${{self.input}} >> {log}\"\n  }}\n}}\n",
        log = log.display()
    );
    // Terraform's own templates are not ours to fill in.
    let vars = json!([{"key": "name", "value": "${name}"}, {"key": "revision", "value": "${revision}"}]);
    json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "WorkspaceTemplate",
        "metadata": {"name": "step", "namespace": "default"},
        "spec": {"template": {"spec": {"forProvider": {"source": "Inline", "module": module, "vars": vars}}}}})
}

fn step(name: &str) -> Value {
    json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "WorkspaceTemplateApply",
        "metadata": {"name": name, "namespace": "default", "annotations": {names::EKS_CLUSTER_ANNOTATION: "demo"}},
        "spec": {"templateRef": {"name": "step"}, "variables": {"name": name, "revision": "1"}}})
}

fn log(stage: &Stage) -> Vec<String> {
    let text = std::fs::read_to_string(stage.dir.path().join("log")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Proves that no apply began before the one before it had ended; how many there were.
fn one_at_a_time(diary: &[Entry]) -> usize {
    let mut running = BTreeSet::new();
    let applies: Vec<&Entry> = diary.iter().filter(|it| it.command == "apply").collect();
    for entry in &applies {
        if entry.begins {
            assert!(running.is_empty(), "{entry:?} began beside {running:?}: {applies:#?}");
            running.insert((entry.pid, entry.workspace.clone()));
        } else {
            assert!(running.remove(&(entry.pid, entry.workspace.clone())), "{entry:?} ended and never began");
        }
    }
    assert!(running.is_empty(), "{running:?} never ended");
    applies.len() / 2
}

async fn all_ready(stage: &Stage, count: usize) {
    let api: Api<WorkspaceTemplateApply> = stage.api("default");
    stage
        .eventually(PATIENCE, "all are ready", async || {
            let all = api.list(&ListParams::default()).await.unwrap().items;
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
    let terraform = Scripted::real();
    let mut stage = Stage::idle(Cloud::Local { endpoint: "http://127.0.0.1:9".to_owned() }).await;
    stage.engine = Some(terraform.path());
    stage.start().await;
    stage.apply_value(template(&stage, "0.7")).await;
    let profiles: Vec<String> = (1..=10).map(|n| format!("p{n}")).collect();
    for name in profiles.iter().map(String::as_str).chain(["cluster"]) {
        stage.apply_value(step(name)).await;
    }
    stage.eventually(PATIENCE, "a third apply goes on", async || terraform.begun("apply") == 3).await;
    stage.abort().await;
    stage.start().await;
    all_ready(&stage, 11).await;
    assert_eq!(one_at_a_time(&terraform.diary()), 11);
    assert_eq!(
        log(&stage).iter().collect::<BTreeSet<_>>().len(),
        11,
        "each was made once: {:?}",
        log(&stage)
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
    all_ready(&stage, 6).await;
    assert_eq!(one_at_a_time(&terraform.diary()), 22);
    stage.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn p4_a_leader_that_is_asked_to_stop_leads_until_its_terraform_is_done() {
    let terraform = Scripted::real();
    let mut stage = Stage::idle(Cloud::Local { endpoint: "http://127.0.0.1:9".to_owned() }).await;
    stage.engine = Some(terraform.path());
    stage.settings.leader_election = Some("capt-system".to_owned());
    let first = stage.launch(stage.dir.path().join("first")).await;
    stage.apply_value(template(&stage, "4")).await;
    for name in ["p1", "p2", "p3"] {
        stage.apply_value(step(name)).await;
    }
    stage.eventually(PATIENCE, "an apply goes on", async || terraform.begun("apply") == 1).await;
    // As in a rolling update: the next pod waits for the Lease, then the old one is asked to stop.
    let second = stage.launch(stage.dir.path().join("second")).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    first.stop().await;
    all_ready(&stage, 3).await;
    assert_eq!(one_at_a_time(&terraform.diary()), 3);
    let mut made = log(&stage);
    made.sort();
    assert_eq!(made, ["made p1 1", "made p2 1", "made p3 1"], "each was made once");
    second.stop().await;
}
