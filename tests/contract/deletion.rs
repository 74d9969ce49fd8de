//! What goes first, whatever is deleted first: the control plane, then the network, then the objects and the states.

use std::sync::Arc;

use capt::api::{CaptCluster, CaptControlPlane, WorkspaceTemplateApply};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams},
};

use crate::{core::pair, place::Place, world::World};

const IN_ORDER: [&str; 4] = ["made network", "made eks", "gone eks", "gone network"];

async fn all_gone(place: &Place) {
    place.until_gone::<CaptControlPlane>("c").await;
    place.until_gone::<CaptCluster>("c").await;
    place
        .eventually("all workspaces are gone", async || place.count::<WorkspaceTemplateApply>().await == 0)
        .await;
    assert_eq!(place.recorded(), IN_ORDER);
}

pub(crate) async fn p10_everything_deleted_at_once_goes_in_order(world: Arc<World>) {
    let place = Place::make(world, "p10").await;
    pair(&place, "c").await;
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
    all_gone(&place).await;
}

pub(crate) async fn p10_a_foreground_deletion_goes_in_order(world: Arc<World>) {
    let place = Place::make(world, "p10-foreground").await;
    pair(&place, "c").await;
    place.kubectl(&["delete", "cluster", "c", "--cascade=foreground", "--wait=false"], "").await.good();
    all_gone(&place).await;
    place
        .eventually("the Cluster is gone", async || place.clusters().get_opt("c").await.unwrap().is_none())
        .await;
}

pub(crate) async fn p28_a_namespace_goes_after_what_was_made_from_it(world: Arc<World>) {
    let place = Place::make(world, "p28").await;
    pair(&place, "c").await;
    let namespaces: Api<Namespace> = Api::all(place.world.admin.clone());
    namespaces.delete("p28", &DeleteParams::default()).await.unwrap();
    place
        .eventually("the namespace is gone", async || namespaces.get_opt("p28").await.unwrap().is_none())
        .await;
    assert_eq!(place.recorded(), IN_ORDER);
}
