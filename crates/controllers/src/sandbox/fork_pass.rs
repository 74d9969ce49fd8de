//! One reconcile pass over the forks of a Sandbox: its inputs, and the steps from patched baselines to applied objects.

use std::collections::BTreeSet;

use capt_kinds::sandbox::{
    Sandbox, VirtualSpec, VirtualStatus,
    conditions::{reasons, types},
};
use capt_kube::k8s::K8sError;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use kube::{ResourceExt as _, core::DynamicObject};
use sandbox::{
    condition::ConditionUpdate,
    fargate::ClusterCompute,
    labels::Labels,
    rejection::Rejection,
    service::{baseline_services, misselecting_objects},
    template::PodTemplate,
};
use serde_json::{Value, json};

use super::{
    act,
    build::{self, BuildContext, BuiltFork, ForkSource},
    context::Context,
    decide,
    dereference::{self, NamespaceObjects, OwnedObjects},
    dry_run, events,
    fork_target::ForkTarget,
    local_workloads,
    status::{self, StatusContext},
};
use crate::common::reconcile_error::{ReconcileError, ReconcileStep};

/// The inputs of one pass.
pub(super) struct ForkPass<'a> {
    pub object: &'a Sandbox,
    pub key: &'a str,
    pub target: &'a ForkTarget,
    pub namespace: &'a NamespaceObjects,
    pub owned: &'a OwnedObjects,
    pub locals: &'a [DynamicObject],
    pub status_ctx: StatusContext,
}

/// The result of one pass.
pub(super) struct ForkOutcome {
    pub built: Vec<BuiltFork>,
    pub forks: Vec<status::ForkState>,
    pub requeue_at: Option<Timestamp>,
    /// Nothing was applied: the pods cannot be scheduled, or a baseline is missing.
    pub is_blocked: bool,
}

impl ForkPass<'_> {
    /// Applies the forks, or rejects the spec.
    pub(super) async fn run(&self, ctx: &Context) -> Result<Result<ForkOutcome, Rejection>, ReconcileError> {
        match self.patch_baselines(ctx).await.map_err(ReconcileStep::Dereference.wrap_error())? {
            Ok(sources) => Box::pin(self.apply(&sources, ctx)).await,
            Err(refusal) => Ok(Err(refusal)),
        }
    }

    /// The existing baselines of the forks, with the forks' patches applied by dry run.
    async fn patch_baselines(
        &self,
        ctx: &Context,
    ) -> Result<Result<Vec<ForkSource<'_>>, Rejection>, K8sError> {
        let mut sources = Vec::new();
        for fork in &self.object.spec.forks {
            let Some(baseline) = self.namespace.baselines.get(&fork.fork_of.name) else { continue };
            let patched = dry_run::dry_run_patch(self.object, fork, baseline, (self.target, ctx)).await?;
            let patched = match patched {
                Ok(patched) => patched,
                Err(refusal) => return Ok(Err(refusal)),
            };
            let value = |it: &DynamicObject| serde_json::to_value(it).unwrap_or_default();
            sources.push(ForkSource { fork, baseline: value(baseline), patched: value(&patched) });
        }
        Ok(Ok(sources))
    }

    /// Applies forks, Services and local workloads.
    async fn apply(
        &self,
        sources: &[ForkSource<'_>],
        ctx: &Context,
    ) -> Result<Result<ForkOutcome, Rejection>, ReconcileError> {
        let profiles = self.target.fargate_profiles.as_deref().unwrap_or_default();
        // From the patched workload: a patch may add or remove claims.
        let claims = dereference::read_claims(self.target, sources.iter().map(|it| &it.patched)).await;
        let claims = claims.map_err(ReconcileStep::Dereference.wrap_error())?;
        let around = self.namespace.as_context(&claims);
        let shared = BuildContext {
            sandbox: self.object,
            key: self.key,
            namespace: &around,
            compute: ClusterCompute { profiles, has_nodes: self.namespace.has_nodes },
        };
        let built = match build::build_forks(sources, &shared) {
            Ok(built) => built,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let is_nowhere =
            built.iter().any(|it| matches!(it.placement, sandbox::fargate::Placement::Unschedulable(_)));
        if is_nowhere || !self.missing_baselines(false).is_empty() {
            if let Some((fork, by)) = self.misselected_forks().first() {
                return Ok(Err(misselection_rejection(fork, by)));
            }
            return Ok(Ok(ForkOutcome {
                built,
                forks: self.retained_forks(),
                requeue_at: None,
                is_blocked: true,
            }));
        }
        let plan = decide::plan_forks(self, sources, &built, ctx);
        if let Some(refusal) = self.misselected_kept_fork(&plan) {
            return Ok(Err(refusal));
        }
        let wanted_locals = match local_workloads::desired_objects(self.object) {
            Ok(wanted) => wanted,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let wanted = act::DesiredObjects {
            forks: plan.forks.iter().map(|it| (it.name.clone(), it.live.clone())).collect(),
            services: plan.services,
            locals: wanted_locals,
        };
        let live = act::LiveObjects { owned: self.owned, locals: self.locals };
        let acted = act::apply(self.object, wanted, live, (self.target, ctx)).await;
        let acted = match acted.map_err(ReconcileStep::Act.wrap_error())? {
            Ok(acted) => acted,
            Err(refusal) => return Ok(Err(refusal)),
        };
        events::publish_fork_events(self.object, &built, (&plan.baseline_changes, &acted.created), ctx).await;
        let mut forks = plan.forks;
        for (fork, (_, live)) in forks.iter_mut().zip(acted.forks) {
            fork.live = live;
        }
        Ok(Ok(ForkOutcome { built, forks, requeue_at: plan.requeue_at, is_blocked: false }))
    }

    /// The forks whose pods a Service selects as the baseline's, with the selecting objects. Happens when such a Service is created
    /// after the fork.
    pub(super) fn misselected_forks(&self) -> Vec<(&DynamicObject, Vec<String>)> {
        // A PodDisruptionBudget carries no traffic.
        let around =
            sandbox::namespace_context::NamespaceContext { budgets: &[], ..self.namespace.as_context(&[]) };
        let one = |fork: &'_ DynamicObject| {
            let value = serde_json::to_value(fork).unwrap_or_default();
            let labels = PodTemplate::from_workload(&value).labels();
            misselecting_objects(&labels, &Labels::new(), &around)
        };
        self.owned.forks.iter().map(|it| (it, one(it))).filter(|(_, by)| !by.is_empty()).collect()
    }

    /// A rejection if a misselected fork would be kept unchanged.
    fn misselected_kept_fork(&self, plan: &decide::ForkPlan) -> Option<Rejection> {
        let stays = |name: &str| plan.forks.iter().any(|it| !it.up_to_date && it.live.name_any() == name);
        let found = self.misselected_forks().into_iter().find(|(fork, _)| stays(&fork.name_any()));
        found.map(|(fork, by)| misselection_rejection(fork, &by))
    }

    /// Scales misselected forks to zero; the next apply of a fork restores its replicas. Returns the names of the forks.
    pub(super) async fn scale_down_misselected(&self) -> Result<BTreeSet<String>, K8sError> {
        let mut names = BTreeSet::new();
        for (fork, _) in self.misselected_forks() {
            if fork.data.pointer("/spec/replicas").and_then(Value::as_i64) != Some(0) {
                let none = json!({"metadata": {"uid": fork.uid()}, "spec": {"replicas": 0}});
                self.target
                    .kube
                    .merge_patch_dynamic(&dereference::api_resource::<Deployment>(), fork, none)
                    .await?;
            }
            names.insert(fork.name_any());
        }
        Ok(names)
    }

    /// Missing baselines of forks: those whose fork exists (`has_fork`), or those whose fork does not.
    fn missing_baselines(&self, has_fork: bool) -> Vec<&str> {
        let forks = self.object.spec.forks.iter().map(|it| it.fork_of.name.as_str());
        let absent = forks.filter(|it| !self.namespace.baselines.contains_key(*it));
        absent.filter(|it| self.live_fork(it).is_some() == has_fork).collect()
    }

    /// The live Deployment of the fork of a baseline.
    pub(super) fn live_fork(&self, baseline: &str) -> Option<&DynamicObject> {
        let name =
            sandbox::fork::fork_name(&self.target.location.namespace, baseline, &self.object.name_any());
        self.owned.forks.iter().find(|it| it.name_any() == name)
    }

    /// The state of the existing forks when nothing is applied.
    pub(super) fn retained_forks(&self) -> Vec<status::ForkState> {
        let before = self.object.status.clone().unwrap_or_default().forks;
        let one = |fork: &capt_kinds::sandbox::ForkSpec| {
            let live = self.live_fork(&fork.fork_of.name)?.clone();
            let old = before.iter().find(|it| it.name == fork.name()).cloned().unwrap_or_default();
            Some(status::ForkState {
                name: fork.name().to_owned(),
                live,
                up_to_date: old.up_to_date,
                baseline: None,
                services: old.services,
                unroutable: old.unroutable,
                on_fargate: false,
            })
        };
        self.object.spec.forks.iter().filter_map(one).collect()
    }

    /// The condition `BaselineResolved`.
    pub(super) fn baseline_resolved(&self) -> ConditionUpdate {
        let type_ = types::BASELINE_RESOLVED;
        let gone = self.missing_baselines(true);
        if !gone.is_empty() {
            let why = format!("Deployment {} was deleted; its fork is kept", gone.join(", "));
            return ConditionUpdate::no(type_, reasons::BASELINE_DELETED, why);
        }
        let all = dereference::baseline_names(self.object);
        let absent: BTreeSet<&String> =
            all.iter().filter(|it| !self.namespace.baselines.contains_key(*it)).collect();
        if absent.is_empty() {
            return ConditionUpdate::yes(type_, reasons::BASELINE_FOUND, "");
        }
        let names = absent.into_iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        let namespace = &self.target.location.namespace;
        let why = format!("Deployment {names} does not exist in namespace {namespace}");
        ConditionUpdate::no(type_, reasons::BASELINE_NOT_FOUND, why)
    }

    /// The condition `Accepted=False` for the first endpoint whose Service is missing.
    pub(super) fn missing_endpoint_target(&self) -> Option<ConditionUpdate> {
        let parsed = sandbox::target::parse_targets(&self.object.spec.endpoints).ok()?;
        // Services of other namespaces are not read; the router reports missing ones.
        let here = parsed.into_iter().filter(|(_, it)| it.namespace == self.target.location.namespace);
        let absent = |service: &str| !self.namespace.services.iter().any(|it| it.name_any() == service);
        let (endpoint, target) = here.into_iter().find(|(_, it)| absent(&it.service))?;
        let why = format!("endpoint {}: Service {} does not exist", endpoint.name, target.service);
        Some(ConditionUpdate::no(types::ACCEPTED, reasons::TARGET_NOT_FOUND, why))
    }

    /// The Services of the virtual workloads. Their requests go to the baseline and are counted under the routing key.
    pub(super) fn virtual_statuses(&self) -> Vec<VirtualStatus> {
        let one = |it: &VirtualSpec| {
            let baseline = self.namespace.baselines.get(&it.workload.name).map(serde_json::to_value);
            let baseline = baseline.and_then(Result::ok).unwrap_or_default();
            let services = baseline_services(&baseline, &self.namespace.services);
            VirtualStatus { name: it.name.clone(), services }
        };
        self.object.spec.virtuals.iter().map(one).collect()
    }

    /// The statuses of the forks. Lists pods and events only if a fork is not ready.
    pub(super) async fn fork_statuses(
        &self,
        forks: &[status::ForkState],
    ) -> Result<Vec<(capt_kinds::sandbox::ForkStatus, sandbox::readiness::ForkReadiness)>, K8sError> {
        let before = self.object.status.clone().unwrap_or_default();
        let say = |pods: &[_], events: &[_]| {
            forks.iter().map(|it| status::fork_status(it, &before, (pods, events))).collect::<Vec<_>>()
        };
        let said = say(&[], &[]);
        if said.iter().all(|(_, seen)| seen.problem.is_none()) {
            return Ok(said);
        }
        let (pods, events) = dereference::list_pods_and_events(self.object, self.target).await?;
        Ok(say(&pods, &events))
    }
}

/// The rejection for an existing fork whose pods are selected as the baseline's.
fn misselection_rejection(fork: &DynamicObject, by: &[String]) -> Rejection {
    let message = format!(
        "labels of Deployment {} let {} select its pods as the baseline's; preserve fewer in preservedLabels",
        fork.name_any(),
        by.join(", ")
    );
    Rejection::new(reasons::WOULD_RECEIVE_BASELINE_TRAFFIC, message)
}
