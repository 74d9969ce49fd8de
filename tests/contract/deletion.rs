//! Deletion order, whatever is deleted first: control plane, network, then objects and states.

use std::sync::Arc;

use capt_kinds::api::{CaptCluster, CaptControlPlane, WorkspaceTemplateApply};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams},
};

use crate::{case_namespace::CaseNamespace, fake_capi_core::create_templated_pair, harness::ContractHarness};

const EXPECTED_ORDER: [&str; 4] = ["made network", "made eks", "gone eks", "gone network"];

async fn wait_until_all_deleted(place: &CaseNamespace) {
    place.wait_until_deleted::<CaptControlPlane>("c").await;
    place.wait_until_deleted::<CaptCluster>("c").await;
    place
        .wait_for("all workspaces are gone", async || place.count::<WorkspaceTemplateApply>().await == 0)
        .await;
    assert_eq!(place.recorded_lines(), EXPECTED_ORDER);
}

pub(crate) async fn p10_everything_deleted_at_once_goes_in_order(world: Arc<ContractHarness>) {
    let place = CaseNamespace::create(world, "p10").await;
    create_templated_pair(&place, "c").await;
    let (params, workspaces) = (DeleteParams::background(), place.api::<WorkspaceTemplateApply>());
    let all = workspaces.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(all.len(), 2);
    // The wrong ones first.
    place.api::<CaptCluster>().delete("c", &params).await.unwrap();
    for it in all {
        workspaces.delete(&it.name_any(), &params).await.unwrap();
    }
    place.clusters().delete("c", &params).await.unwrap();
    place.api::<CaptControlPlane>().delete("c", &params).await.unwrap();
    wait_until_all_deleted(&place).await;
}

pub(crate) async fn p10_a_foreground_deletion_goes_in_order(world: Arc<ContractHarness>) {
    let place = CaseNamespace::create(world, "p10-foreground").await;
    create_templated_pair(&place, "c").await;
    place
        .kubectl(&["delete", "cluster", "c", "--cascade=foreground", "--wait=false"], "")
        .await
        .expect_success();
    wait_until_all_deleted(&place).await;
    place
        .wait_for("the Cluster is gone", async || place.clusters().get_opt("c").await.unwrap().is_none())
        .await;
}

pub(crate) async fn p28_a_namespace_goes_after_what_was_made_from_it(world: Arc<ContractHarness>) {
    let place = CaseNamespace::create(world, "p28").await;
    create_templated_pair(&place, "c").await;
    let namespaces: Api<Namespace> = Api::all(place.harness.admin.clone());
    namespaces.delete("p28", &DeleteParams::default()).await.unwrap();
    place
        .wait_for("the namespace is gone", async || namespaces.get_opt("p28").await.unwrap().is_none())
        .await;
    assert_eq!(place.recorded_lines(), EXPECTED_ORDER);
}
