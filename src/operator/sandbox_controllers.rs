//! The sandbox controllers, for the operator's own cluster and for workload clusters with Sandboxes.

use std::sync::Arc;

use capt_controllers::{
    common::{self, ControllerMetricsSink, Settings},
    localworkload, routegroup, sandbox,
    sandbox_common::{
        remote_target::{RemoteTarget, SandboxScope, StartRemoteControllers},
        route_snapshot::RouteSnapshotter,
    },
    service_takeover,
};
use capt_kube::k8s::{EventPublisher, KubeClient};
use futures::FutureExt as _;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Dependencies of the sandbox controllers of one cluster.
#[derive(Clone)]
pub struct SandboxControllers {
    /// The client of the cluster.
    pub kube: KubeClient,
    /// Settings of the controllers.
    pub settings: Settings,
    /// Metrics hook.
    pub metrics: Arc<dyn ControllerMetricsSink>,
}

impl SandboxControllers {
    /// Runs until `stop` is cancelled. If one controller stops, all stop.
    pub async fn run(self, ground: SandboxScope, stop: CancellationToken) {
        let stop = stop.child_token();
        let sandboxes = self.context("capt/sandbox");
        let snapshotter = Arc::new(RouteSnapshotter::start(&sandboxes));
        let over = || stop.clone().cancelled_owned();
        let groups = routegroup::run(self.context("capt/routegroup"), Arc::clone(&snapshotter), over());
        let locals = localworkload::run(self.context("capt/localworkload"), over());
        let services = Arc::new(service_takeover::Context::new(self.context("capt/service")));
        let services = service_takeover::run(services, stop.clone());
        let sandboxes = sandbox::run(&sandboxes, snapshotter, ground, over());
        let all = [sandboxes.boxed(), groups.boxed(), locals.boxed(), services.boxed()];
        let (_first, _, rest) = futures::future::select_all(all).await;
        stop.cancel();
        futures::future::join_all(rest).await;
    }

    /// The context of a controller, with events reported under its name.
    fn context(&self, controller: &str) -> Arc<common::Context> {
        let events = EventPublisher::new(self.kube.clone(), controller, "capt");
        let context = common::Context::new(self.kube.clone(), self.settings.clone(), events, "");
        Arc::new(context.with_metrics(Arc::clone(&self.metrics)))
    }
}

/// A function that starts the same controllers in a workload cluster, until its own token or `stop` is cancelled.
pub fn remote_starter(
    home: &SandboxControllers,
    tasks: &TaskTracker,
    stop: &CancellationToken,
) -> StartRemoteControllers {
    let (home, tasks, stop) = (home.clone(), tasks.clone(), stop.clone());
    Arc::new(move |outpost: RemoteTarget| {
        let RemoteTarget { kube, namespace, fargate_profiles: profiles, stop: own } = outpost;
        let settings =
            Settings { namespace: Some(namespace.clone()), watch_filter: None, ..home.settings.clone() };
        let crew = SandboxControllers { kube, settings, ..home.clone() };
        let all = stop.clone();
        tasks.spawn(async move {
            // Cancels the token however the task ends, so that the owner can restart the controllers.
            let _told = own.clone().drop_guard();
            tracing::info!(namespace, "starting the sandbox controllers of a workload cluster");
            let work = crew.run(SandboxScope::WorkloadCluster(profiles), own.clone());
            let ended = async {
                all.cancelled().await;
                own.cancel();
                std::future::pending::<()>().await;
            };
            tokio::select! {
                () = work => {}
                () = ended => {}
            }
        });
    })
}
