use capt_kinds::api::{WorkspaceTemplateApply, WorkspaceTemplateApplyStatus, crds};
use kube::ResourceExt;
use serde_json::json;

use super::World;
use crate::{
    error::ErrorClass,
    k8s::{StatusWrite, status::changed_status},
};

fn status(name: &str) -> WorkspaceTemplateApplyStatus {
    WorkspaceTemplateApplyStatus { workspace_name: Some(name.to_owned()), ..Default::default() }
}

async fn apply(world: &World) -> WorkspaceTemplateApply {
    world.kube.install_crds(&crds()).await.unwrap();
    let name = "workspacetemplateapplies.infrastructure.cluster.x-k8s.io";
    let missing = world.kube.wait_for_crds(&[name], super::PATIENCE).await.unwrap();
    assert_eq!(missing, Vec::<String>::new());
    let object = json!({"metadata": {"name": "vpc", "namespace": "shop"}, "spec": {"module": "vpc", "region": "eu-central-1"}});
    world.make(object).await
}

#[tokio::test]
async fn a_status_that_says_nothing_new_is_not_sent() {
    let world = World::start().await;
    let object = apply(&world).await;
    world.writes();
    let empty = WorkspaceTemplateApplyStatus::default();
    assert_eq!(world.kube.write_status(&object, None, &empty).await.unwrap(), StatusWrite::Unchanged);
    assert_eq!(world.writes(), 0);

    let first = status("shop-vpc");
    assert_eq!(world.kube.write_status(&object, None, &first).await.unwrap(), StatusWrite::Changed);
    assert_eq!(world.writes(), 1);
    let now: WorkspaceTemplateApply = world.kube.get(Some("shop"), "vpc").await.unwrap().unwrap();
    assert_eq!(now.status.as_ref(), Some(&first));
    assert_eq!(
        world.kube.write_status(&now, now.status.as_ref(), &first).await.unwrap(),
        StatusWrite::Unchanged
    );
    assert_eq!(world.writes(), 0);
}

#[tokio::test]
async fn a_status_for_an_old_version_is_a_conflict_and_changes_nothing() {
    let world = World::start().await;
    let old = apply(&world).await;
    world.kube.set_annotation(&old, "example.com/note", "meanwhile").await.unwrap();
    let error = world.kube.write_status(&old, None, &status("late")).await.unwrap_err();
    assert_eq!((error.class(), error.category()), (ErrorClass::Conflict, "Conflict"), "{error}");
    let now: WorkspaceTemplateApply = world.kube.get(Some("shop"), "vpc").await.unwrap().unwrap();
    assert_eq!(now.status, None);

    world.kube.delete(&now, crate::k8s::DeletionPropagation::Background).await.unwrap();
    let error = world.kube.write_status(&now, None, &status("gone")).await.unwrap_err();
    assert!(error.is_not_found(), "{error}");
    assert_eq!(now.name_any(), "vpc");
}

#[test]
fn a_field_that_goes_is_a_change() {
    let (full, empty) = (status("x"), WorkspaceTemplateApplyStatus::default());
    assert_eq!(changed_status(Some(&full), &empty).unwrap(), Some(json!({})));
    assert_eq!(changed_status(Some(&full), &full.clone()).unwrap(), None);
}
