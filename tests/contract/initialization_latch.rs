//! Initialization latches: a status that became true never becomes false.

use std::sync::Arc;

use capt_kinds::api::{CaptCluster, WorkspaceTemplateApply};
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams},
    runtime::{WatchStreamExt as _, watcher},
};
use serde_json::json;

use crate::{
    case_namespace::{CaseNamespace, has_condition, template},
    fake_capi_core::{self, set_owner_references},
    harness::ContractHarness,
};

fn is_provisioned(it: &CaptCluster) -> bool {
    it.status.clone().and_then(|it| it.initialization).is_some_and(|it| it.provisioned == Some(true))
}

fn is_ready(it: &CaptCluster, status: &str) -> bool {
    has_condition(&it.status.clone().unwrap_or_default().conditions, "Ready", status)
}

/// Whatever goes wrong afterwards: the template breaks, outputs get lost, the operator starts again without its disk.
pub(crate) async fn p2_what_was_once_provisioned_stays_provisioned(world: Arc<ContractHarness>) {
    let place = CaseNamespace::create(world, "p2").await;
    fake_capi_core::create_cluster_with_network(&place).await;
    set_owner_references(&place, "c").await;
    fake_capi_core::mark_infrastructure_provisioned(&place, "c").await;
    let events = watcher(place.api::<CaptCluster>(), watcher::Config::default()).applied_objects();
    let watched = tokio::spawn(
        events
            .take_while(|it| {
                futures::future::ready(it.as_ref().is_ok_and(|it| it.metadata.deletion_timestamp.is_none()))
            })
            .try_collect::<Vec<CaptCluster>>(),
    );

    let failing = "resource \"terraform_data\" \"it\" {\n  provisioner \"local-exec\" {\n    command = \"exit 3\"\n  }\n  input = 1\n  triggers_replace = 2\n}\n";
    place.apply(&json!([template("network", failing)])).await;
    place.wait_until("c", "not ready", |it: &CaptCluster| is_ready(it, "False")).await;
    let secrets = place.api::<Secret>();
    for it in secrets.list(&ListParams::default()).await.unwrap() {
        if it.name_any().contains("connection") {
            secrets.delete(&it.name_any(), &DeleteParams::default()).await.unwrap();
        }
    }
    place.harness.stop_operator().await;
    std::fs::remove_dir_all(place.harness.data_dir()).unwrap();
    place.harness.start_operator().await;
    place.apply(&json!([place.recording_template("network", &json!({"vpc_id": "vpc-1"}))])).await;
    place.wait_until("c", "ready again", |it: &CaptCluster| is_ready(it, "True")).await;
    // The workspace is gone behind our back.
    let workspaces = place.api::<WorkspaceTemplateApply>();
    for it in workspaces.list(&ListParams::default()).await.unwrap() {
        workspaces.delete(&it.name_any(), &DeleteParams::default()).await.unwrap();
    }
    place.wait_until("c", "not ready", |it: &CaptCluster| is_ready(it, "False")).await;
    place.wait_until("c", "ready again", |it: &CaptCluster| is_ready(it, "True")).await;

    let touch = Patch::Merge(json!({"metadata": {"annotations": {"test": "over"}}}));
    place.api::<CaptCluster>().patch("c", &PatchParams::default(), &touch).await.unwrap();
    place.api::<CaptCluster>().delete("c", &DeleteParams::default()).await.unwrap();
    let seen = watched.await.unwrap().unwrap();
    assert!(seen.iter().any(|it| is_ready(it, "False")), "nothing went wrong, so nothing was shown");
    let lost: Vec<&CaptCluster> = seen.iter().filter(|it| !is_provisioned(it)).collect();
    assert!(lost.is_empty(), "{lost:#?}");
    place.wait_until_deleted::<CaptCluster>("c").await;
}
