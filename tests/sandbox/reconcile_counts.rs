//! Counts the reconciles of a Sandbox.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use capt::operator::sandbox_controllers::{SandboxControllers, remote_starter};
use capt_controllers::{
    common::{ControllerMetricsSink, ReconcileOutcome, Settings},
    sandbox_common::remote_target::SandboxScope,
};
use capt_kube::k8s::KubeClient;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    bad_input::{BadInputCase, bad_input_cases, namespace_with_bad_baselines},
    harness::SandboxHarness,
};

/// Reconciles by kind and object.
#[derive(Default)]
struct ReconcileCounter(Mutex<BTreeMap<String, usize>>);

impl ReconcileCounter {
    fn count(&self, sandbox: &str) -> usize {
        self.0.lock().unwrap().get(&format!("Sandbox shop/{sandbox}")).copied().unwrap_or_default()
    }
}

impl ControllerMetricsSink for ReconcileCounter {
    fn reconcile_started(
        &self,
        kind: &'static str,
        object: &str,
    ) -> Box<dyn FnOnce(ReconcileOutcome) + Send> {
        *self.0.lock().unwrap().entry(format!("{kind} {object}")).or_default() += 1;
        Box::new(|_| {})
    }
}

#[tokio::test]
async fn f8_bad_input_costs_three_looks_at_most() {
    let world = SandboxHarness::idle().await;
    let shop = namespace_with_bad_baselines(&world).await;
    let kube = KubeClient::new(world.operator_client());
    let (count, over) = (Arc::new(ReconcileCounter::default()), CancellationToken::new());
    let crew = SandboxControllers {
        kube: kube.with_deadline(Duration::from_mins(2)),
        settings: Settings::default(),
        metrics: Arc::clone(&count) as Arc<dyn ControllerMetricsSink>,
    };
    let ground = SandboxScope::ManagementCluster(remote_starter(&crew, &TaskTracker::new(), &over));
    let work = tokio::spawn(crew.run(ground, over.clone()));
    // One after another: creating a Service or a Deployment in between would trigger another reconcile.
    for BadInputCase { name, spec, reason, .. } in bad_input_cases() {
        shop.create_sandbox(name, spec).await;
        shop.wait_for_condition(name, "Accepted", "False", reason).await;
    }
    world.settle().await;
    // Each watch that was restarted is a reason for another reconcile of everything.
    let most = 3 + world.watch_restarts();
    for BadInputCase { name, .. } in bad_input_cases() {
        let looks = count.count(name);
        assert!((1..=most).contains(&looks), "{name} was looked at {looks} times, of at most {most}");
    }
    over.cancel();
    work.await.unwrap();
}
