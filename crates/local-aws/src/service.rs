//! EKS as a service: the model behind a lock, its questions to the other services before, its effects after, and the
//! file that keeps it.

use std::{
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
};

use serde_json::Value;

use crate::{
    clock,
    cloud::{Caller, Cloud},
    config::{Limits, Timing},
    eks::{
        self,
        context::{Context, Effect, Facts, Settings},
        error::{ApiError, ApiResult},
        input,
        needs::needs,
        page::Query,
        router::{Op, Route},
        settle::settle,
        state::State,
    },
    place::Place,
    store,
};

/// One request for EKS that has a route.
pub(crate) struct Request<'a> {
    pub(crate) route: &'a Route,
    pub(crate) place: &'a Place,
    pub(crate) query: &'a str,
    pub(crate) body: &'a [u8],
    pub(crate) caller: &'a Caller,
}

#[derive(Debug)]
pub(crate) struct Eks {
    model: Mutex<Model>,
    cloud: Cloud,
    persist: Option<PathBuf>,
    instance: String,
}

#[derive(Debug)]
struct Model {
    state: State,
    settings: Settings,
}

impl Eks {
    pub(crate) fn new(
        state: State,
        settings: Settings,
        cloud: Cloud,
        keep: (Option<PathBuf>, String),
    ) -> Self {
        let (persist, instance) = keep;
        Self { model: Mutex::new(Model { state, settings }), cloud, persist, instance }
    }

    pub(crate) async fn call(&self, request: Request<'_>) -> ApiResult<Value> {
        let body = input::json(request.body)?;
        let needs = needs(request.route, &body, &self.lock().state, &request.place.region);
        let facts = self.cloud.facts(request.place, &needs, request.caller).await.map_err(|error| {
            tracing::error!(error = &error as &dyn std::error::Error, "EKS could not ask moto");
            ApiError::server(format!("the local AWS could not look up what the request names: {error}"))
        })?;
        let (answer, effects) = self.decide(&request, &body, facts)?;
        for effect in effects {
            self.carry_out(request.place, effect).await;
        }
        Ok(answer)
    }

    fn decide(&self, request: &Request<'_>, body: &Value, facts: Facts) -> ApiResult<(Value, Vec<Effect>)> {
        let mut model = self.lock();
        let Model { state, settings } = &mut *model;
        let place = request.place.clone();
        let mut ctx = Context { place, now: clock::now(), settings, facts, effects: Vec::new() };
        let answer = eks::answer(state, &mut ctx, request.route, Query(request.query), body)?;
        let effects = ctx.effects;
        if !is_read(request.route.op) {
            self.save(&model.state)?;
        }
        Ok((answer, effects))
    }

    async fn carry_out(&self, place: &Place, effect: Effect) {
        let done = match &effect {
            Effect::CreateClusterSecurityGroup { cluster, vpc_id } => {
                let made = self.cloud.create_cluster_security_group(place, cluster, vpc_id).await;
                made.map(|id| self.set_security_group(place, cluster, id))
            }
            Effect::DeleteSecurityGroup { id } => self.cloud.delete_security_group(place, id).await,
        };
        // EKS does this beside the request, too: the request stands even when it fails.
        if let Err(error) = done {
            tracing::warn!(error = &error as &dyn std::error::Error, ?effect, "EKS could not do this in EC2");
        }
    }

    fn set_security_group(&self, place: &Place, cluster: &str, id: String) {
        let mut model = self.lock();
        let clusters = model.state.regions.get_mut(&place.region);
        if let Some(cluster) = clusters.and_then(|clusters| clusters.get_mut(cluster)) {
            cluster.vpc.cluster_security_group_id = Some(id);
        }
        self.save(&model.state).ok();
    }

    fn save(&self, state: &State) -> ApiResult<()> {
        let Some(path) = &self.persist else { return Ok(()) };
        store::save(path, &self.instance, state).map_err(|error| {
            tracing::error!(error = &error as &dyn std::error::Error, path = %path.display(), "saving the EKS model");
            ApiError::server(format!("the local AWS could not save its EKS model: {error}"))
        })
    }

    /// Lets a function look at the state of this instant, and change it if it is the admin's.
    pub(crate) fn with_state<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        let mut model = self.lock();
        settle(&mut model.state, clock::now());
        look(&mut model.state)
    }

    /// Keeps what the admin changed.
    pub(crate) fn save_now(&self) -> ApiResult<()> {
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
