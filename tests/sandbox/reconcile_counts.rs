//! How often a Sandbox is looked at.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use capt::{
    controllers::common::{End, Meter, Settings, outpost::Ground},
    k8s::Kube,
    operator::sandboxes::{Crew, outposts},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    bad_input::{Row, rows, with_oddities},
    world::World,
};

/// Counts looks, by kind and object.
#[derive(Default)]
struct Count(Mutex<BTreeMap<String, usize>>);

impl Count {
    fn of(&self, sandbox: &str) -> usize {
        self.0.lock().unwrap().get(&format!("Sandbox shop/{sandbox}")).copied().unwrap_or_default()
    }
}

impl Meter for Count {
    fn begin(&self, kind: &'static str, object: &str) -> Box<dyn FnOnce(End) + Send> {
        *self.0.lock().unwrap().entry(format!("{kind} {object}")).or_default() += 1;
        Box::new(|_| {})
    }
}

#[tokio::test]
async fn f8_bad_input_costs_three_looks_at_most() {
    let world = World::idle().await;
    let shop = with_oddities(&world).await;
    let kube = Kube::new(world.operator());
    let (count, over) = (Arc::new(Count::default()), CancellationToken::new());
    let crew = Crew {
        kube: kube.with_deadline(Duration::from_mins(2)),
        settings: Settings::default(),
        meter: Arc::clone(&count) as Arc<dyn Meter>,
    };
    let ground = Ground::Home(outposts(&crew, &TaskTracker::new(), &over));
    let work = tokio::spawn(crew.work(ground, over.clone()));
    // One after another: a Service or a Deployment that somebody makes meanwhile would be a reason for another look.
    for Row { name, spec, reason, .. } in rows() {
        shop.sandbox(name, spec).await;
        shop.until_said(name, "Accepted", "False", reason).await;
    }
    world.settle().await;
    // Each watch that was restarted is a reason for another reconcile of everything.
    let most = 3 + world.begun_anew();
    for Row { name, .. } in rows() {
        let looks = count.of(name);
        assert!((1..=most).contains(&looks), "{name} was looked at {looks} times, of at most {most}");
    }
    over.cancel();
    work.await.unwrap();
}
