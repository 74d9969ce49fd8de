//! The controllers of sandboxes: in the operator's own cluster, and in those that it made and that Sandboxes live in.

use std::sync::Arc;

use futures::FutureExt as _;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    controllers::{
        common::{
            self, Meter, Settings,
            board::Board,
            outpost::{Ground, Open, Outpost},
        },
        localworkload, routegroup, sandbox, service,
    },
    k8s::{Events, Kube},
};

/// What the controllers of one cluster are made from.
#[derive(Clone)]
pub struct Crew {
    /// The API server.
    pub kube: Kube,
    /// What people set.
    pub settings: Settings,
    /// Counts reconciles.
    pub meter: Arc<dyn Meter>,
}

impl Crew {
    /// Works until `stop`. One that ends by itself ends all.
    pub async fn work(self, ground: Ground, stop: CancellationToken) {
        let stop = stop.child_token();
        let sandboxes = self.common("capt/sandbox");
        let board = Arc::new(Board::start(&sandboxes));
        let over = || stop.clone().cancelled_owned();
        let groups = routegroup::run(self.common("capt/routegroup"), Arc::clone(&board), over());
        let locals = localworkload::run(self.common("capt/localworkload"), over());
        let services = Arc::new(service::Context::new(self.common("capt/service")));
        let services = service::run(services, stop.clone());
        let sandboxes = sandbox::run(&sandboxes, board, ground, over());
        let all = [sandboxes.boxed(), groups.boxed(), locals.boxed(), services.boxed()];
        let (_first, _, rest) = futures::future::select_all(all).await;
        stop.cancel();
        futures::future::join_all(rest).await;
    }

    /// What a controller needs; what it tells comes from this one.
    fn common(&self, controller: &str) -> Arc<common::Context> {
        let events = Events::new(self.kube.clone(), controller, "capt");
        let context = common::Context::new(self.kube.clone(), self.settings.clone(), events, "");
        Arc::new(context.with_meter(Arc::clone(&self.meter)))
    }
}

/// Lets the same controllers work in other clusters, each until its own end or `stop`.
pub fn outposts(home: &Crew, tasks: &TaskTracker, stop: &CancellationToken) -> Open {
    let (home, tasks, stop) = (home.clone(), tasks.clone(), stop.clone());
    Arc::new(move |outpost: Outpost| {
        let Outpost { kube, namespace, profiles, stop: own } = outpost;
        let settings =
            Settings { namespace: Some(namespace.clone()), watch_filter: None, ..home.settings.clone() };
        let crew = Crew { kube, settings, ..home.clone() };
        let all = stop.clone();
        tasks.spawn(async move {
            // However they end: who opened them learns of it, and opens them again if they are needed.
            let _told = own.clone().drop_guard();
            tracing::info!(namespace, "sandboxes in another cluster are looked after");
            let work = crew.work(Ground::Outpost(profiles), own.clone());
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
