//! The EKS service: the model behind a lock, its lookups in other services, its side effects, and its persistence.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde_json::Value;

use crate::{
    clock,
    cluster_host::{HostError, HostedEndpoint},
    cluster_host_sync::ClusterHostSync,
    config::{Limits, Timing},
    eks::{
        self,
        cluster_host_state::apply_host_result,
        context::{Effect, ModelSettings, RequestContext, ResolvedPrerequisites},
        error::{ApiError, ApiResult},
        input,
        pagination::QueryString,
        prerequisites::required_by,
        router::{Op, Route},
        state::EksState,
        transitions::advance,
    },
    moto_client::{Caller, MotoClient},
    region::Region,
    store,
};

/// A routed EKS request.
pub(crate) struct EksRequest<'a> {
    pub(crate) route: &'a Route,
    pub(crate) region: &'a Region,
    pub(crate) query: &'a str,
    pub(crate) body: &'a [u8],
    pub(crate) caller: &'a Caller,
}

#[derive(Debug)]
pub(crate) struct EksService {
    model: Mutex<Model>,
    moto_client: MotoClient,
    persist: Option<PathBuf>,
    instance: String,
    host_sync: Option<ClusterHostSync>,
}

#[derive(Debug)]
struct Model {
    state: EksState,
    settings: ModelSettings,
}

impl EksService {
    pub(crate) fn new(
        state: EksState,
        settings: ModelSettings,
        moto_client: MotoClient,
        keep: (Option<PathBuf>, String),
        host_sync: Option<ClusterHostSync>,
    ) -> Self {
        let (persist, instance) = keep;
        Self { model: Mutex::new(Model { state, settings }), moto_client, persist, instance, host_sync }
    }

    pub(crate) async fn call(self: &Arc<Self>, request: EksRequest<'_>) -> ApiResult<Value> {
        let body = input::parse_json_body(request.body)?;
        let needs = required_by(request.route, &body, &self.lock().state, &request.region.name);
        let facts =
            self.moto_client.resolve_prerequisites(request.region, &needs, request.caller).await.map_err(
                |error| {
                    tracing::error!(error = &error as &dyn std::error::Error, "lookup in moto failed");
                    ApiError::server_error(format!(
                        "the local AWS could not look up the resources that the request names: {error}"
                    ))
                },
            )?;
        let (answer, effects) = self.apply_request(&request, &body, facts)?;
        for effect in effects {
            self.run_effect(request.region, effect).await;
        }
        Ok(answer)
    }

    fn apply_request(
        self: &Arc<Self>,
        request: &EksRequest<'_>,
        body: &Value,
        facts: ResolvedPrerequisites,
    ) -> ApiResult<(Value, Vec<Effect>)> {
        let mut model = self.lock();
        let Model { state, settings } = &mut *model;
        let place = request.region.clone();
        let mut ctx = RequestContext {
            region: place,
            now: clock::now(),
            settings,
            resolved: facts,
            effects: Vec::new(),
        };
        let answer = eks::handle_request(state, &mut ctx, request.route, QueryString(request.query), body);
        let effects = ctx.effects;
        // Time advanced for other resources even if this request is rejected.
        self.sync_hosts(state);
        let answer = answer?;
        if !is_read(request.route.op) {
            self.save(&model.state)?;
        }
        Ok((answer, effects))
    }

    async fn run_effect(&self, place: &Region, effect: Effect) {
        let done = match &effect {
            Effect::CreateClusterSecurityGroup { cluster, vpc_id } => {
                let made = self.moto_client.create_cluster_security_group(place, cluster, vpc_id).await;
                made.map(|id| self.set_security_group(place, cluster, id))
            }
            Effect::DeleteSecurityGroup { id } => self.moto_client.delete_security_group(place, id).await,
        };
        // As in real EKS, the request succeeds even if the side effect fails.
        if let Err(error) = done {
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                ?effect,
                "side effect of EKS in EC2 failed"
            );
        }
    }

    fn set_security_group(&self, place: &Region, cluster: &str, id: String) {
        let mut model = self.lock();
        let clusters = model.state.regions.get_mut(&place.name);
        if let Some(cluster) = clusters.and_then(|clusters| clusters.get_mut(cluster)) {
            cluster.vpc.cluster_security_group_id = Some(id);
        }
        self.save(&model.state).ok();
    }

    fn save(&self, state: &EksState) -> ApiResult<()> {
        let Some(path) = &self.persist else { return Ok(()) };
        store::save(path, &self.instance, state).map_err(|error| {
            tracing::error!(error = &error as &dyn std::error::Error, path = %path.display(), "saving the EKS model failed");
            ApiError::server_error(format!("the local AWS could not save its EKS model: {error}"))
        })
    }

    /// Runs a function on the current state. Only the admin API may modify it.
    pub(crate) fn with_state<T>(self: &Arc<Self>, look: impl FnOnce(&mut EksState) -> T) -> T {
        let mut model = self.lock();
        advance(&mut model.state, clock::now());
        let seen = look(&mut model.state);
        self.sync_hosts(&model.state);
        seen
    }

    fn sync_hosts(self: &Arc<Self>, state: &EksState) {
        if let Some(hosts) = &self.host_sync {
            hosts.sync(self, state);
        }
    }

    /// Starts hosting the loaded clusters; returns when every start has succeeded or failed.
    pub(crate) async fn start_hosting(self: &Arc<Self>) {
        if let Some(hosts) = &self.host_sync {
            self.sync_hosts(&self.lock().state);
            hosts.wait_for_tasks().await;
        }
    }

    pub(crate) async fn stop_hosting(&self) {
        if let Some(hosts) = &self.host_sync {
            hosts.stop_all().await;
        }
    }

    /// Records the result of starting the cluster with this region, name and id; none if it no longer exists.
    pub(crate) fn complete_hosting(
        &self,
        (region, name, id): (&str, &str, &str),
        result: Result<HostedEndpoint, HostError>,
    ) -> Option<&ClusterHostSync> {
        let mut model = self.lock();
        let clusters = model.state.regions.get_mut(region)?;
        apply_host_result(clusters.get_mut(name).filter(|cluster| cluster.id == id)?, result);
        self.save(&model.state).ok();
        self.host_sync.as_ref()
    }

    /// Persists changes made through the admin API.
    pub(crate) fn persist(&self) -> ApiResult<()> {
        self.save(&self.lock().state)
    }

    pub(crate) fn timing(&self) -> Timing {
        self.lock().settings.timing
    }

    pub(crate) fn set_timing(&self, timing: Timing) {
        self.lock().settings.timing = timing;
    }

    pub(crate) fn limits(&self) -> Limits {
        self.lock().settings.limits
    }

    pub(crate) fn set_limits(&self, limits: Limits) {
        self.lock().settings.limits = limits;
    }

    fn lock(&self) -> MutexGuard<'_, Model> {
        self.model.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_read(op: Op) -> bool {
    let name = op.name();
    name.starts_with("Describe") || name.starts_with("List")
}
