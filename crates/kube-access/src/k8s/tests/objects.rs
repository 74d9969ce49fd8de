use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::ResourceExt;
use serde_json::json;

use super::{World, config};
use crate::{
    error::ErrorClass,
    k8s::{DeleteOutcome, DeletionPropagation},
};

fn configured(value: &str) -> ConfigMap {
    let mut object = config("cart");
    object["data"]["a"] = value.into();
    serde_json::from_value(object).unwrap()
}

async fn cart(world: &World) -> ConfigMap {
    world.kube.get(Some("shop"), "cart").await.unwrap().unwrap()
}

#[tokio::test]
async fn apply_makes_an_object_changes_it_and_takes_fields_from_others() {
    let world = World::start().await;
    world.make::<ConfigMap>(config("cart")).await;
    let now = world.kube.apply(&configured("2")).await.unwrap();
    assert_eq!(now.data.as_ref().unwrap()["a"], "2");
    // What came from the server may be given back to it.
    let again = world.kube.apply(&now).await.unwrap();
    assert_eq!(again.resource_version(), now.resource_version());
    assert!(again.managed_fields().iter().any(|entry| entry.manager.as_deref() == Some("capt")));
}

#[tokio::test]
async fn a_replace_of_an_old_version_is_a_conflict_and_so_is_a_second_create() {
    let world = World::start().await;
    let old = world.make::<ConfigMap>(config("cart")).await;
    world.kube.apply(&configured("2")).await.unwrap();
    let error = world.kube.replace(&old).await.unwrap_err();
    assert_eq!((error.class(), error.is_conflict()), (ErrorClass::Conflict, true));
    assert!(world.kube.create(&configured("3")).await.unwrap_err().is_conflict());
    assert_eq!(cart(&world).await.data.unwrap()["a"], "2");
}

#[tokio::test]
async fn a_delete_is_for_one_object_and_may_be_repeated() {
    let world = World::start().await;
    let first = world.make::<ConfigMap>(config("cart")).await;
    assert_eq!(
        world.kube.delete(&first, DeletionPropagation::Background).await.unwrap(),
        DeleteOutcome::Gone
    );
    assert_eq!(
        world.kube.delete(&first, DeletionPropagation::Background).await.unwrap(),
        DeleteOutcome::Gone
    );
    let second = world.make::<ConfigMap>(config("cart")).await;
    assert_eq!(
        world.kube.delete(&first, DeletionPropagation::Background).await.unwrap(),
        DeleteOutcome::Gone
    );
    assert_eq!(cart(&world).await.uid(), second.uid(), "another of the same name was taken");

    let held = world.kube.add_finalizer(&second, "example.com/held").await.unwrap();
    assert_eq!(
        world.kube.delete(&held, DeletionPropagation::Foreground).await.unwrap(),
        DeleteOutcome::Terminating
    );
    assert_eq!(
        world.kube.delete(&held, DeletionPropagation::Foreground).await.unwrap(),
        DeleteOutcome::Terminating
    );
}

#[tokio::test]
async fn finalizers_are_written_once_and_several_go_in_one_patch() {
    let world = World::start().await;
    let made = world.make::<ConfigMap>(config("cart")).await;
    let one = world.kube.add_finalizer(&made, "example.com/one").await.unwrap();
    let two = world.kube.add_finalizer(&one, "example.com/two").await.unwrap();
    let three = world.kube.add_finalizer(&two, "example.com/three").await.unwrap();
    assert_eq!(three.finalizers(), ["example.com/one", "example.com/two", "example.com/three"]);

    world.writes();
    world.kube.add_finalizer(&three, "example.com/two").await.unwrap();
    assert_eq!(world.writes(), 0);
    let left =
        world.kube.remove_finalizers(&three, &["example.com/one", "example.com/three", "example.com/none"]);
    assert_eq!(left.await.unwrap().unwrap().finalizers(), ["example.com/two"]);
    assert_eq!(world.writes(), 1);
    world.kube.remove_finalizers(&cart(&world).await, &["example.com/one"]).await.unwrap();
    assert_eq!(world.writes(), 0);
}

#[tokio::test]
async fn the_last_finalizer_lets_an_object_go_and_others_keep_it() {
    let world = World::start().await;
    let made = world.make::<ConfigMap>(config("cart")).await;
    let ours = world.kube.add_finalizer(&made, "example.com/ours").await.unwrap();
    let both = world.kube.add_finalizer(&ours, "example.com/theirs").await.unwrap();
    world.kube.delete(&both, DeletionPropagation::Background).await.unwrap();
    let left = world.kube.remove_finalizers(&both, &["example.com/ours"]).await.unwrap().unwrap();
    assert_eq!(left.finalizers(), ["example.com/theirs"]);
    assert!(world.kube.remove_finalizers(&left, &["example.com/theirs"]).await.unwrap().is_none());
    assert!(world.kube.remove_finalizers(&left, &["example.com/theirs"]).await.unwrap().is_none());
    assert!(world.kube.add_finalizer(&left, "example.com/ours").await.unwrap_err().is_not_found());
}

#[tokio::test]
async fn a_finalizer_from_an_old_view_loses_nobody_elses() {
    let world = World::start().await;
    let old = world.make::<ConfigMap>(config("cart")).await;
    world.kube.add_finalizer(&old, "example.com/theirs").await.unwrap();
    let now = world.kube.add_finalizer(&old, "example.com/ours").await.unwrap();
    assert_eq!(now.finalizers(), ["example.com/theirs", "example.com/ours"]);
    let left = world.kube.remove_finalizers(&now, &["example.com/ours"]).await.unwrap().unwrap();
    assert_eq!(left.finalizers(), ["example.com/theirs"]);

    // The same name, another object: it does not get what was meant for the first.
    world.kube.remove_finalizers(&left, &["example.com/theirs"]).await.unwrap();
    world.kube.delete(&left, DeletionPropagation::Background).await.unwrap();
    world.make::<ConfigMap>(config("cart")).await;
    assert!(world.kube.add_finalizer(&old, "example.com/ours").await.unwrap_err().is_not_found());
    assert!(cart(&world).await.finalizers().is_empty());
}

#[tokio::test]
async fn an_object_without_its_owner_outlives_it() {
    let world = World::start().await;
    let (maker, reference) = world.owner("maker").await;
    let made = world.make::<ConfigMap>(config("cart")).await;
    let owned = world.kube.set_owner(&made, &reference).await.unwrap();
    assert_eq!(owned.owner_references(), std::slice::from_ref(&reference));
    world.writes();
    world.kube.set_owner(&owned, &reference).await.unwrap();
    assert_eq!(world.writes(), 0);

    let free = world.kube.remove_owner(&owned, &reference.uid).await.unwrap().unwrap();
    assert!(free.owner_references().is_empty());
    world.kube.delete(&maker, DeletionPropagation::Background).await.unwrap();
    let other =
        world.kube.set_owner(&world.make::<ConfigMap>(config("bag")).await, &reference).await.unwrap();
    world
        .until(async || {
            world.kube.get::<ConfigMap>(Some("shop"), "bag").await.unwrap().is_none().then_some(())
        })
        .await;
    assert!(world.kube.remove_owner(&other, &reference.uid).await.unwrap().is_none());
    assert_eq!(cart(&world).await.uid(), made.uid());
}

#[tokio::test]
async fn annotations_of_an_object_without_a_namespace_change_only_if_they_must() {
    let world = World::start().await;
    let shop: Namespace = world.kube.get(None, "shop").await.unwrap().unwrap();
    let noted = world.kube.set_annotation(&shop, "example.com/note", "a/b").await.unwrap();
    world.writes();
    world.kube.set_annotation(&noted, "example.com/note", "a/b").await.unwrap();
    assert_eq!(world.writes(), 0);
    let patched = world.kube.patch_metadata(&noted, json!({"labels": {"x": "y"}})).await.unwrap();
    assert_eq!(
        (patched.labels()["x"].as_str(), patched.annotations()["example.com/note"].as_str()),
        ("y", "a/b")
    );
    // An old view: the label that came meanwhile stays.
    let bare = world.kube.remove_annotation(&noted, "example.com/note").await.unwrap().unwrap();
    assert!(bare.annotations().is_empty() && bare.labels().contains_key("x"));
    world.writes();
    world.kube.remove_annotation(&bare, "example.com/note").await.unwrap();
    assert_eq!(world.writes(), 0);
}
