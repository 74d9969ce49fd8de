use embedded_kube::fault_injection::Fault;
use k8s_openapi::api::{
    core::v1::{ConfigMap, Namespace},
    events::v1::Event,
};
use kube::ResourceExt;

use super::{World, config};
use crate::k8s::{DeletionPropagation, EventPublisher, EventSpec};

async fn events(world: &World, namespace: &str) -> Vec<Event> {
    let all: Vec<Event> = world.kube.list(Some(namespace), "").await.unwrap();
    all.into_iter().filter(|one| one.reporting_controller.as_deref() == Some("capt/test")).collect()
}

fn teller(world: &World) -> EventPublisher {
    EventPublisher::new(world.kube.clone(), "capt/test", "pod-1")
}

#[tokio::test]
async fn the_same_is_told_once_and_again_after_something_else() {
    let world = World::start().await;
    let cart = world.make::<ConfigMap>(config("cart")).await;
    let teller = teller(&world);
    let failed = EventSpec::warning("Run", "ApplyFailed", "no quota");
    world.writes();
    for _ in 0..5 {
        teller.publish(&cart, failed.clone()).await;
    }
    assert_eq!(world.writes(), 1);
    // Another action does not make it news.
    teller.publish(&cart, EventSpec::normal("Check", "NoDrift", "")).await;
    teller.publish(&cart, failed.clone()).await;
    assert_eq!(world.writes(), 1);
    // Something else under the same action does.
    teller.publish(&cart, EventSpec::normal("Run", "Applied", "9 resources")).await;
    teller.publish(&cart, failed.clone()).await;
    assert_eq!(world.writes(), 2);
    // Another object has news of its own.
    teller.publish(&world.make::<ConfigMap>(config("bag")).await, failed).await;
    let all = events(&world, "shop").await;
    let warning = all.iter().find(|one| one.reason.as_deref() == Some("ApplyFailed")).unwrap();
    assert_eq!((warning.type_.as_deref(), warning.note.as_deref()), (Some("Warning"), Some("no quota")));
    assert_eq!(teller.dropped_count(), 0);
}

#[tokio::test]
async fn a_long_note_is_cut_and_an_object_without_a_namespace_has_events_too() {
    let world = World::start().await;
    let shop: Namespace = world.kube.get(None, "shop").await.unwrap().unwrap();
    teller(&world).publish(&shop, EventSpec::normal("Run", "Long", "ü".repeat(2000))).await;
    let all = events(&world, "default").await;
    let note = all[0].note.as_deref().unwrap();
    assert!(note.len() <= 1024 && note.len() > 1000 && note.ends_with('…'), "{}", note.len());
    assert_eq!(all[0].regarding.as_ref().unwrap().name.as_deref(), Some("shop"));
}

#[tokio::test]
async fn an_event_that_is_lost_fails_nothing_and_is_told_next_time() {
    let world = World::start().await;
    let cart = world.make::<ConfigMap>(config("cart")).await;
    let teller = teller(&world);
    world.server.faults().add(Fault::fail(|call| call.targets("events.events.k8s.io"), 500).times(1));
    teller.publish(&cart, EventSpec::normal("Run", "Applied", "")).await;
    assert_eq!((teller.dropped_count(), events(&world, "shop").await.len()), (1, 0));
    teller.publish(&cart, EventSpec::normal("Run", "Applied", "")).await;
    assert_eq!((teller.dropped_count(), events(&world, "shop").await.len()), (1, 1));
}

#[tokio::test]
async fn an_object_that_is_being_deleted_tells_and_a_namespace_that_is_stays_silent() {
    let world = World::start().await;
    let cart = world.make::<ConfigMap>(config("cart")).await;
    let held = world.kube.add_finalizer(&cart, "example.com/held").await.unwrap();
    world.kube.delete(&held, DeletionPropagation::Background).await.unwrap();
    let teller = teller(&world);
    teller.publish(&held, EventSpec::normal("Run", "Destroying", "")).await;
    assert_eq!(events(&world, "shop").await.len(), 1);

    let shop: Namespace = world.kube.get(None, "shop").await.unwrap().unwrap();
    world.kube.delete(&shop, DeletionPropagation::Background).await.unwrap();
    teller.publish(&held, EventSpec::normal("Run", "Destroyed", "")).await;
    assert_eq!(teller.dropped_count(), 0);
    assert!(world.kube.get::<ConfigMap>(Some("shop"), &held.name_any()).await.unwrap().is_some());

    world.kube.remove_finalizers(&held, &["example.com/held"]).await.unwrap();
    let gone = async || world.kube.get::<Namespace>(None, "shop").await.unwrap().is_none().then_some(());
    world.until(gone).await;
    teller.publish(&held, EventSpec::normal("Run", "Gone", "")).await;
    assert_eq!(teller.dropped_count(), 0);
}
