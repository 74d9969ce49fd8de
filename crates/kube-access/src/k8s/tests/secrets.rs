use std::collections::BTreeMap;

use capt_kinds::{api::SecretRef, grant};
use k8s_openapi::{api::core::v1::Secret, apimachinery::pkg::apis::meta::v1::OwnerReference};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::World;
use crate::{
    error::ErrorClass,
    k8s::{
        DeletionPropagation,
        secrets::{CONNECTION_SECRET_TYPE, ConnectionSecret, SecretApplyOutcome},
    },
};

fn wanted(values: &[(&str, &str)], owner: OwnerReference) -> ConnectionSecret {
    let target = SecretRef { name: "cart".to_owned(), namespace: "shop".to_owned() };
    ConnectionSecret {
        target: grant::connection_secret("shop", target).unwrap(),
        data: data(values),
        labels: BTreeMap::from([("team".to_owned(), "shop".to_owned())]),
        owner,
    }
}

fn data(values: &[(&str, &str)]) -> BTreeMap<String, Vec<u8>> {
    values.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec())).collect()
}

async fn found(world: &World) -> Secret {
    world.kube.get(Some("shop"), "cart").await.unwrap().unwrap()
}

fn keys(secret: &Secret) -> Vec<&str> {
    secret.data.iter().flat_map(|data| data.keys()).map(String::as_str).collect()
}

#[tokio::test]
async fn a_connection_secret_is_written_only_when_it_differs() {
    let world = World::start().await;
    let mut cart = wanted(&[("id", "vpc-1"), ("old", "x")], world.owner("maker").await.1);
    assert_eq!(world.kube.apply_connection_secret(&cart).await.unwrap(), SecretApplyOutcome::Written);
    world.writes();
    assert_eq!(world.kube.apply_connection_secret(&cart).await.unwrap(), SecretApplyOutcome::Unchanged);
    assert_eq!(world.writes(), 0);
    let secret = found(&world).await;
    assert_eq!((secret.type_.as_deref(), secret.owner_references().len()), (Some(CONNECTION_SECRET_TYPE), 1));

    // A value that changed, and one that is not wanted any more.
    cart.data = data(&[("id", "vpc-2")]);
    assert_eq!(world.kube.apply_connection_secret(&cart).await.unwrap(), SecretApplyOutcome::Written);
    assert_eq!(keys(&found(&world).await), ["id"]);
    assert_eq!(world.kube.apply_connection_secret(&cart).await.unwrap(), SecretApplyOutcome::Unchanged);
    // Somebody turned a label; it is turned back.
    world.kube.patch_metadata(&found(&world).await, json!({"labels": {"team": "bank"}})).await.unwrap();
    assert_eq!(world.kube.apply_connection_secret(&cart).await.unwrap(), SecretApplyOutcome::Written);
    assert_eq!(found(&world).await.labels()["team"], "shop");
}

/// A Secret of somebody else, with a key that the writer wants too.
async fn make_theirs(world: &World, annotations: &Value) {
    let theirs = json!({
        "metadata": {"name": "cart", "namespace": "shop", "annotations": annotations},
        "type": "Opaque",
        "stringData": {"theirs": "1", "id": "old"},
    });
    world.make::<Secret>(theirs).await;
}

#[tokio::test]
async fn l1_a_secret_that_nobody_owns_is_neither_written_nor_adopted() {
    let world = World::start().await;
    make_theirs(&world, &json!({})).await;
    let cart = wanted(&[("id", "new")], world.owner("maker").await.1);
    world.writes();
    let error = world.kube.apply_connection_secret(&cart).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Invalid);
    assert_eq!(
        error.to_string(),
        "Secret shop/cart was not made by maker; choose another Secret name, delete it, or allow the write with the annotation \
         capt.x-k8s.io/allow-write-from: maker on the Secret"
    );
    assert_eq!(world.writes(), 0);
    let secret = found(&world).await;
    assert_eq!((secret.owner_references().len(), &*secret.data.unwrap()["id"].0), (0, b"old".as_slice()));
}

#[tokio::test]
async fn l1_a_secret_that_allows_it_is_written_and_stays_somebody_elses() {
    let world = World::start().await;
    make_theirs(&world, &json!({"capt.x-k8s.io/allow-write-from": "maker"})).await;
    let cart = wanted(&[("id", "new")], world.owner("maker").await.1);
    assert_eq!(world.kube.apply_connection_secret(&cart).await.unwrap(), SecretApplyOutcome::Written);
    let secret = found(&world).await;
    assert_eq!((secret.type_.as_deref(), keys(&secret)), (Some("Opaque"), vec!["id", "theirs"]));
    assert_eq!((secret.owner_references().len(), secret.labels().len()), (0, 0), "it is not adopted");
    assert_eq!(secret.data.unwrap()["id"].0, b"new");
    assert_eq!(world.kube.apply_connection_secret(&cart).await.unwrap(), SecretApplyOutcome::Unchanged);
}

#[tokio::test]
async fn a_secret_of_somebody_else_is_refused_with_the_remedy() {
    let world = World::start().await;
    let (maker, reference) = world.owner("maker").await;
    let mut cart = wanted(&[("id", "1")], reference);
    world.kube.apply_connection_secret(&cart).await.unwrap();
    world.writes();

    let other = wanted(&[("id", "2")], world.owner("other").await.1);
    world.writes();
    let error = world.kube.apply_connection_secret(&other).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Invalid);
    assert_eq!(
        error.to_string(),
        "Secret shop/cart is owned by ConfigMap maker; choose another Secret name, or delete it"
    );
    assert_eq!(world.writes(), 0);

    // The owner was made again: the old Secret is the garbage collector's.
    let held = world.kube.add_finalizer(&found(&world).await, "example.com/held").await.unwrap();
    world.kube.delete(&maker, DeletionPropagation::Background).await.unwrap();
    cart.owner = world.owner("maker").await.1;
    let error = world.kube.apply_connection_secret(&cart).await.unwrap_err();
    assert_eq!((error.class(), error.category()), (ErrorClass::Transient, "Stale"), "{error}");
    world.kube.remove_finalizers(&held, &["example.com/held"]).await.unwrap();
    let written = async || world.kube.apply_connection_secret(&cart).await.ok();
    assert_eq!(world.until(written).await, SecretApplyOutcome::Written);
}

#[test]
fn nobody_reads_values_in_a_log() {
    let shown = format!("{:?}", wanted(&[("password", "geheim")], OwnerReference::default()));
    assert!(shown.contains("password") && !shown.contains("geheim"), "{shown}");
}
