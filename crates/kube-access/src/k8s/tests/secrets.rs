use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use serde_json::json;

use super::World;
use crate::{
    error::ErrorClass,
    k8s::{
        DeletionPropagation,
        secrets::{CLUSTER_SECRET_TYPE, CONNECTION_SECRET_TYPE, SecretApplyOutcome, SecretSpec},
    },
};

fn wanted(values: &[(&str, &str)]) -> SecretSpec {
    SecretSpec {
        namespace: "shop".to_owned(),
        name: "cart".to_owned(),
        data: values.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec())).collect(),
        labels: BTreeMap::from([("team".to_owned(), "shop".to_owned())]),
        owner: None,
    }
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
    let mut cart = wanted(&[("id", "vpc-1"), ("old", "x")]);
    cart.owner = Some(world.owner("maker").await.1);
    assert_eq!(world.kube.apply_connection_secret(&cart).await.unwrap(), SecretApplyOutcome::Written);
    world.writes();
    assert_eq!(world.kube.apply_connection_secret(&cart).await.unwrap(), SecretApplyOutcome::Unchanged);
    assert_eq!(world.writes(), 0);
    let secret = found(&world).await;
    assert_eq!((secret.type_.as_deref(), secret.owner_references().len()), (Some(CONNECTION_SECRET_TYPE), 1));

    // A value that changed, and one that is not wanted any more.
    cart.data = wanted(&[("id", "vpc-2")]).data;
    assert_eq!(world.kube.apply_connection_secret(&cart).await.unwrap(), SecretApplyOutcome::Written);
    assert_eq!(keys(&found(&world).await), ["id"]);
    assert_eq!(world.kube.apply_connection_secret(&cart).await.unwrap(), SecretApplyOutcome::Unchanged);
    // Somebody turned a label; it is turned back.
    world.kube.patch_metadata(&found(&world).await, json!({"labels": {"team": "bank"}})).await.unwrap();
    assert_eq!(world.kube.apply_connection_secret(&cart).await.unwrap(), SecretApplyOutcome::Written);
    assert_eq!(found(&world).await.labels()["team"], "shop");
}

#[tokio::test]
async fn a_secret_that_was_there_keeps_its_type_and_what_others_put_in() {
    let world = World::start().await;
    let theirs = json!({
        "metadata": {"name": "cart", "namespace": "shop"},
        "type": "Opaque",
        "stringData": {"theirs": "1", "ca.crt": "old"},
    });
    world.make::<Secret>(theirs).await;
    let ours = wanted(&[("ca.crt", "new")]);
    assert_eq!(
        world.kube.apply_typed_secret(CLUSTER_SECRET_TYPE, &ours).await.unwrap(),
        SecretApplyOutcome::Written
    );
    let secret = found(&world).await;
    assert_eq!((secret.type_.as_deref(), keys(&secret)), (Some("Opaque"), vec!["ca.crt", "theirs"]));
    assert_eq!(secret.data.unwrap()["ca.crt"].0, b"new");
    assert_eq!(
        world.kube.apply_typed_secret(CLUSTER_SECRET_TYPE, &ours).await.unwrap(),
        SecretApplyOutcome::Unchanged
    );
}

#[tokio::test]
async fn a_secret_of_somebody_else_is_refused_with_the_remedy() {
    let world = World::start().await;
    let mut cart = wanted(&[("id", "1")]);
    let (maker, reference) = world.owner("maker").await;
    cart.owner = Some(reference);
    world.kube.apply_connection_secret(&cart).await.unwrap();
    world.writes();

    let mut other = wanted(&[("id", "2")]);
    other.owner = Some(world.owner("other").await.1);
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
    cart.owner = Some(world.owner("maker").await.1);
    let error = world.kube.apply_connection_secret(&cart).await.unwrap_err();
    assert_eq!((error.class(), error.category()), (ErrorClass::Transient, "Stale"), "{error}");
    world.kube.remove_finalizers(&held, &["example.com/held"]).await.unwrap();
    let written = async || world.kube.apply_connection_secret(&cart).await.ok();
    assert_eq!(world.until(written).await, SecretApplyOutcome::Written);
}

#[test]
fn nobody_reads_values_in_a_log() {
    let shown = format!("{:?}", wanted(&[("password", "geheim")]));
    assert!(shown.contains("password") && !shown.contains("geheim"), "{shown}");
}
