//! `capt approve`: approves a plan that destroys or replaces protected resources.

use anyhow::{anyhow, bail};
use capt_engine::process_env::ProcessEnv;
use capt_kinds::api::{RunPhase, WorkspaceTemplateApply, conditions::types};
use kube::ResourceExt as _;

use super::{
    kube_api,
    kube_target::KubeTarget,
    output::{self, ExitStatus},
};

/// Arguments of `capt approve`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  capt status                                          shows pending plans and the approve command
  capt approve demo-eks-controlplane-apply 0a1b2c3d4e5f

An approval is valid for exactly one plan. If anything changes before the apply, a new plan with another hash is
made. The approval is recorded as an Event of the object.")]
pub(super) struct Args {
    /// Name of the `WorkspaceTemplateApply`.
    name: String,
    /// Hash of its plan, or at least the first 8 characters of it.
    hash: String,
    #[command(flatten)]
    access: KubeTarget,
    /// Namespace of the object.
    #[arg(short, long, value_name = "NAME", default_value = "default")]
    namespace: String,
}

/// Shorter prefixes could be ambiguous.
const MIN_HASH_LENGTH: usize = 8;

pub(super) async fn run(args: &Args, process_env: &ProcessEnv) -> anyhow::Result<ExitStatus> {
    if args.hash.chars().count() < MIN_HASH_LENGTH {
        bail!(
            "{} is too short for a plan hash; pass at least its first {MIN_HASH_LENGTH} characters",
            args.hash
        );
    }
    let client = args.access.client(process_env).await?;
    let found = kube_api::get_workspace(&client, &args.namespace, &args.name).await?;
    let hash = require_pending_plan(&found, &args.hash)?;
    let who = kube_api::approve_plan(&client, &found, &hash, process_env.var("USER")).await?;
    output::print_message(&format!("plan {hash} of {} is approved by {who}", found.name_any()));
    Ok(ExitStatus::Done)
}

/// The full hash, if this plan is pending approval.
fn require_pending_plan(found: &WorkspaceTemplateApply, given: &str) -> anyhow::Result<String> {
    let name = found.name_any();
    let status = found.status.clone().unwrap_or_default();
    let plan = status.plan.ok_or_else(|| anyhow!("{name} has no plan; see `capt status`"))?;
    if !plan.hash.starts_with(given) {
        bail!(
            "{name} has another plan now, {}; review it (`capt status`, `capt logs {name}`) before you approve it",
            plan.hash
        );
    }
    let blocked = status
        .conditions
        .iter()
        .any(|condition| condition.type_ == types::DESTRUCTIVE_CHANGE_BLOCKED && condition.status == "True");
    if !blocked && !status.run.is_some_and(|run| run.phase == RunPhase::AwaitingApproval) {
        bail!("the plan {} of {name} does not wait for approval; nothing to do", plan.hash);
    }
    Ok(plan.hash)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn workspace(status: &serde_json::Value) -> WorkspaceTemplateApply {
        let object = json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "WorkspaceTemplateApply",
            "metadata": {"name": "demo"}, "status": status});
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn only_the_plan_that_waits_can_be_approved() {
        let waiting = workspace(&json!({"plan": {"hash": "0123456789abcdef"},
            "run": {"id": "1", "operation": "Apply", "phase": "AwaitingApproval"}}));
        assert_eq!(require_pending_plan(&waiting, "01234567").unwrap(), "0123456789abcdef");
        let said = require_pending_plan(&waiting, "11234567").unwrap_err().to_string();
        assert!(said.contains("another plan now, 0123456789abcdef"), "{said}");
        let done = workspace(&json!({"plan": {"hash": "0123456789abcdef"},
            "run": {"id": "1", "operation": "Apply", "phase": "Succeeded"}}));
        assert!(require_pending_plan(&done, "01234567").unwrap_err().to_string().contains("does not wait"));
        assert!(
            require_pending_plan(&workspace(&json!({})), "01234567")
                .unwrap_err()
                .to_string()
                .contains("no plan")
        );
    }
}
