//! EKS as a service: the model behind a lock, its questions to the other services before, its effects after, and the
//! file that keeps it.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
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
        hosted::conclude,
        input,
        needs::needs,
        page::Query,
        router::{Op, Route},
        settle::settle,
        state::State,
    },
    host::{HostError, Hosting},
    hosts::Hosts,
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
    hosts: Option<Hosts>,
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
        hosts: Option<Hosts>,
    ) -> Self {
        let (persist, instance) = keep;
        Self { model: Mutex::new(Model { state, settings }), cloud, persist, instance, hosts }
    }

    pub(crate) async fn call(self: &Arc<Self>, request: Request<'_>) -> ApiResult<Value> {
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

    fn decide(
        self: &Arc<Self>,
        request: &Request<'_>,
        body: &Value,
        facts: Facts,
    ) -> ApiResult<(Value, Vec<Effect>)> {
        let mut model = self.lock();
        let Model { state, settings } = &mut *model;
        let place = request.place.clone();
        let mut ctx = Context { place, now: clock::now(), settings, facts, effects: Vec::new() };
        let answer = eks::answer(state, &mut ctx, request.route, Query(request.query), body);
        let effects = ctx.effects;
        // Time passed for the others even if this request is refused.
        self.follow(state);
        let answer = answer?;
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
    pub(crate) fn with_state<T>(self: &Arc<Self>, look: impl FnOnce(&mut State) -> T) -> T {
        let mut model = self.lock();
        settle(&mut model.state, clock::now());
        let seen = look(&mut model.state);
        self.follow(&model.state);
        seen
    }

    fn follow(self: &Arc<Self>, state: &State) {
        if let Some(hosts) = &self.hosts {
            hosts.follow(self, state);
        }
    }

    /// Hosts what was loaded, and returns when all of it is hosted or has failed.
    pub(crate) async fn begin_hosting(self: &Arc<Self>) {
        if let Some(hosts) = &self.hosts {
            self.follow(&self.lock().state);
            hosts.rest().await;
        }
    }

    pub(crate) async fn end_hosting(&self) {
        if let Some(hosts) = &self.hosts {
            hosts.end().await;
        }
    }

    /// Takes what a host made of a cluster, named by region, name and id; nothing if there is no such cluster.
    pub(crate) fn hosted(
        &self,
        (region, name, id): (&str, &str, &str),
        result: Result<Hosting, HostError>,
    ) -> Option<&Hosts> {
        let mut model = self.lock();
        let clusters = model.state.regions.get_mut(region)?;
        conclude(clusters.get_mut(name).filter(|cluster| cluster.id == id)?, result);
        self.save(&model.state).ok();
        self.hosts.as_ref()
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
