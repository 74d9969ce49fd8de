//! One look at the forks of a Sandbox: everything that was read for it, and what comes of that.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use kube::{ResourceExt as _, core::DynamicObject};
use sandbox::{
    api::{
        Sandbox, VirtualSpec, VirtualStatus,
        conditions::{reasons, types},
    },
    condition::Finding,
    fargate::Compute,
    labels::Labels,
    refusal::Refusal,
    service::{baseline_services, misled},
    template::Template,
};
use serde_json::{Value, json};

use super::{
    act,
    build::{self, Built, Shared, Source},
    context::Context,
    decide, locals,
    look::{self, Around, Made},
    news,
    place::Place,
    rehearse,
    status::{self, Moment},
};
use crate::{
    controllers::common::step::{Step, Stopped},
    k8s::K8sError,
};

/// Everything that was read for one look.
pub(super) struct Work<'a> {
    pub object: &'a Sandbox,
    pub key: &'a str,
    pub place: &'a Place,
    pub around: &'a Around,
    pub made: &'a Made,
    pub locals: &'a [DynamicObject],
    pub at: Moment,
}

/// What came of the forks.
pub(super) struct Done {
    pub built: Vec<Built>,
    pub forks: Vec<status::Fork>,
    pub wake: Option<Timestamp>,
    /// Nothing was made, because there is no place for it or a baseline is missing.
    pub is_held: bool,
}

impl Work<'_> {
    /// Makes what the Sandbox asks for, or says why it cannot have it.
    pub(super) async fn make(&self, ctx: &Context) -> Result<Result<Done, Refusal>, Stopped> {
        match self.sources(ctx).await.map_err(Step::Dereference.stopped())? {
            Ok(sources) => Box::pin(self.carry_out(&sources, ctx)).await,
            Err(refusal) => Ok(Err(refusal)),
        }
    }

    /// The baselines of the forks that exist, with the patches of the forks.
    async fn sources(&self, ctx: &Context) -> Result<Result<Vec<Source<'_>>, Refusal>, K8sError> {
        let mut sources = Vec::new();
        for fork in &self.object.spec.forks {
            let Some(baseline) = self.around.baselines.get(&fork.fork_of.name) else { continue };
            let patched = rehearse::patched(self.object, fork, baseline, (self.place, ctx)).await?;
            let patched = match patched {
                Ok(patched) => patched,
                Err(refusal) => return Ok(Err(refusal)),
            };
            let value = |it: &DynamicObject| serde_json::to_value(it).unwrap_or_default();
            sources.push(Source { fork, baseline: value(baseline), patched: value(&patched) });
        }
        Ok(Ok(sources))
    }

    /// Makes forks, Services and local workloads.
    async fn carry_out(
        &self,
        sources: &[Source<'_>],
        ctx: &Context,
    ) -> Result<Result<Done, Refusal>, Stopped> {
        let profiles = self.place.profiles.as_deref().unwrap_or_default();
        // What a patch added counts, and what it removed does not.
        let claims = look::claims(self.place, sources.iter().map(|it| &it.patched)).await;
        let claims = claims.map_err(Step::Dereference.stopped())?;
        let around = self.around.view(&claims);
        let shared = Shared {
            sandbox: self.object,
            key: self.key,
            around: &around,
            compute: Compute { profiles, nodes: self.around.has_nodes },
        };
        let built = match build::build(sources, &shared) {
            Ok(built) => built,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let is_nowhere = built.iter().any(|it| matches!(it.place, sandbox::fargate::Place::Nowhere(_)));
        if is_nowhere || !self.missing(false).is_empty() {
            if let Some((fork, by)) = self.caught().first() {
                return Ok(Err(caught_by(fork, by)));
            }
            return Ok(Ok(Done { built, forks: self.kept(), wake: None, is_held: true }));
        }
        let plan = decide::plan(self, sources, &built, ctx);
        if let Some(refusal) = self.stuck(&plan) {
            return Ok(Err(refusal));
        }
        let wanted_locals = match locals::wanted(self.object) {
            Ok(wanted) => wanted,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let wanted = act::Wanted {
            forks: plan.forks.iter().map(|it| (it.name.clone(), it.live.clone())).collect(),
            services: plan.services,
            locals: wanted_locals,
        };
        let live = act::Live { made: self.made, locals: self.locals };
        let acted = act::carry_out(self.object, wanted, live, (self.place, ctx)).await;
        let acted = match acted.map_err(Step::Act.stopped())? {
            Ok(acted) => acted,
            Err(refusal) => return Ok(Err(refusal)),
        };
        news::tell_of_forks(self.object, &built, (&plan.moved, &acted.made), ctx).await;
        let mut forks = plan.forks;
        for (fork, (_, live)) in forks.iter_mut().zip(acted.forks) {
            fork.live = live;
        }
        Ok(Ok(Done { built, forks, wake: plan.wake, is_held: false }))
    }

    /// The forks whose pods a Service takes for the baseline's, with what takes them: somebody made it after them.
    pub(super) fn caught(&self) -> Vec<(&DynamicObject, Vec<String>)> {
        // A budget takes no traffic.
        let around = sandbox::around::Around { budgets: &[], ..self.around.view(&[]) };
        let one = |fork: &'_ DynamicObject| {
            let value = serde_json::to_value(fork).unwrap_or_default();
            let labels = Template::of(&value).labels();
            misled(&labels, &Labels::new(), &around)
        };
        self.made.forks.iter().map(|it| (it, one(it))).filter(|(_, by)| !by.is_empty()).collect()
    }

    /// A fork that stays as it is although it must not.
    fn stuck(&self, plan: &decide::Plan) -> Option<Refusal> {
        let stays = |name: &str| plan.forks.iter().any(|it| !it.up_to_date && it.live.name_any() == name);
        let found = self.caught().into_iter().find(|(fork, _)| stays(&fork.name_any()));
        found.map(|(fork, by)| caught_by(fork, &by))
    }

    /// Takes the pods away from Services that take them for the baseline's. They come back when the fork is made anew. Gives the
    /// names of the forks.
    pub(super) async fn stop_caught(&self) -> Result<BTreeSet<String>, K8sError> {
        let mut names = BTreeSet::new();
        for (fork, _) in self.caught() {
            if fork.data.pointer("/spec/replicas").and_then(Value::as_i64) != Some(0) {
                let none = json!({"metadata": {"uid": fork.uid()}, "spec": {"replicas": 0}});
                self.place.kube.merge_dynamic(&look::kind::<Deployment>(), fork, none).await?;
            }
            names.insert(fork.name_any());
        }
        Ok(names)
    }

    /// Baselines of forks that do not exist: those whose forks do, or those whose forks do not either.
    fn missing(&self, has_fork: bool) -> Vec<&str> {
        let forks = self.object.spec.forks.iter().map(|it| it.fork_of.name.as_str());
        let absent = forks.filter(|it| !self.around.baselines.contains_key(*it));
        absent.filter(|it| self.live(it).is_some() == has_fork).collect()
    }

    /// The fork of a baseline, as it is.
    pub(super) fn live(&self, baseline: &str) -> Option<&DynamicObject> {
        let name = sandbox::fork::fork_name(&self.place.spot.namespace, baseline, &self.object.name_any());
        self.made.forks.iter().find(|it| it.name_any() == name)
    }

    /// The forks that there are, where nothing is changed.
    pub(super) fn kept(&self) -> Vec<status::Fork> {
        let before = self.object.status.clone().unwrap_or_default().forks;
        let one = |fork: &sandbox::api::ForkSpec| {
            let live = self.live(&fork.fork_of.name)?.clone();
            let old = before.iter().find(|it| it.name == fork.name()).cloned().unwrap_or_default();
            Some(status::Fork {
                name: fork.name().to_owned(),
                live,
                up_to_date: old.up_to_date,
                baseline: None,
                services: old.services,
                unroutable: old.unroutable,
                fargate: false,
            })
        };
        self.object.spec.forks.iter().filter_map(one).collect()
    }

    /// Whether all baselines are there.
    pub(super) fn baselines(&self) -> Finding {
        let type_ = types::BASELINE_RESOLVED;
        let gone = self.missing(true);
        if !gone.is_empty() {
            let why = format!("Deployment {} is gone; its fork stays", gone.join(", "));
            return Finding::no(type_, reasons::BASELINE_DELETED, why);
        }
        let all = look::baselines_of(self.object);
        let absent: BTreeSet<&String> =
            all.iter().filter(|it| !self.around.baselines.contains_key(*it)).collect();
        if absent.is_empty() {
            return Finding::yes(type_, reasons::BASELINE_FOUND, "");
        }
        let names = absent.into_iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        let namespace = &self.place.spot.namespace;
        let why = format!("Deployment {names} does not exist in namespace {namespace}");
        Finding::no(type_, reasons::BASELINE_NOT_FOUND, why)
    }

    /// Endpoints whose Services are not there, if there are any.
    pub(super) fn targets(&self) -> Option<Finding> {
        let parsed = sandbox::target::parse_all(&self.object.spec.endpoints).ok()?;
        // Services of other namespaces are not read; the router says if they are missing.
        let here = parsed.into_iter().filter(|(_, it)| it.namespace == self.place.spot.namespace);
        let absent = |service: &str| !self.around.services.iter().any(|it| it.name_any() == service);
        let (endpoint, target) = here.into_iter().find(|(_, it)| absent(&it.service))?;
        let why = format!("endpoint {}: Service {} does not exist", endpoint.name, target.service);
        Some(Finding::no(types::ACCEPTED, reasons::TARGET_NOT_FOUND, why))
    }

    /// The Services of the virtual workloads: their requests are counted under the key, and go where they always do.
    pub(super) fn virtuals(&self) -> Vec<VirtualStatus> {
        let one = |it: &VirtualSpec| {
            let baseline = self.around.baselines.get(&it.workload.name).map(serde_json::to_value);
            let baseline = baseline.and_then(Result::ok).unwrap_or_default();
            let services = baseline_services(&baseline, &self.around.services);
            VirtualStatus { name: it.name.clone(), services }
        };
        self.object.spec.virtuals.iter().map(one).collect()
    }

    /// What is said of the forks. Pods are looked at only if one of them is not ready.
    pub(super) async fn forks(
        &self,
        forks: &[status::Fork],
    ) -> Result<Vec<(sandbox::api::ForkStatus, sandbox::readiness::Readiness)>, K8sError> {
        let before = self.object.status.clone().unwrap_or_default();
        let say = |pods: &[_], events: &[_]| {
            forks.iter().map(|it| status::fork(it, &before, (pods, events))).collect::<Vec<_>>()
        };
        let said = say(&[], &[]);
        if said.iter().all(|(_, seen)| seen.trouble.is_none()) {
            return Ok(said);
        }
        let (pods, events) = look::pods(self.object, self.place).await?;
        Ok(say(&pods, &events))
    }
}

/// Why a fork that is there must not run.
fn caught_by(fork: &DynamicObject, by: &[String]) -> Refusal {
    let message = format!(
        "the labels of Deployment {} make its pods the baseline's to {}; keep fewer in preservedLabels",
        fork.name_any(),
        by.join(", ")
    );
    Refusal::new(reasons::WOULD_RECEIVE_BASELINE_TRAFFIC, message)
}
