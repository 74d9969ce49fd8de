//! `capt approve`: consent to a plan that destroys or replaces what is protected.

use anyhow::{anyhow, bail};
use kube::ResourceExt as _;

use super::{
    access::Access,
    client,
    output::{self, ExitStatus},
};
use crate::{
    api::{RunPhase, WorkspaceTemplateApply, conditions::types},
    config::Outer,
};

/// Which plan.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  capt status                                          shows what waits, and the command to type
  capt approve demo-eks-controlplane-apply 0a1b2c3d4e5f

An approval is for exactly one plan. If anything changes before it is applied, there is another plan with another
hash. Who approved what is written down as an Event of the object.")]
pub(super) struct Args {
    /// The workspace, by the name of its object.
    name: String,
    /// The hash of its plan, or at least the first 8 characters of it.
    hash: String,
    #[command(flatten)]
    access: Access,
    /// Its namespace.
    #[arg(short, long, value_name = "NAME", default_value = "default")]
    namespace: String,
}

/// Fewer characters could mean two plans.
const SHORTEST: usize = 8;

pub(super) async fn run(args: &Args, outer: &Outer) -> anyhow::Result<ExitStatus> {
    if args.hash.chars().count() < SHORTEST {
        bail!("{} is too short for a plan's hash; give at least its first {SHORTEST} characters", args.hash);
    }
    let client = args.access.client(outer).await?;
    let found = client::workspace(&client, &args.namespace, &args.name).await?;
    let hash = approvable(&found, &args.hash)?;
    let who = client::approve(&client, &found, &hash, outer.var("USER")).await?;
    output::say(&format!("plan {hash} of {} is approved by {who}", found.name_any()));
    Ok(ExitStatus::Done)
}

/// The whole hash, if this very plan waits.
fn approvable(found: &WorkspaceTemplateApply, given: &str) -> anyhow::Result<String> {
    let name = found.name_any();
    let status = found.status.clone().unwrap_or_default();
    let plan = status.plan.ok_or_else(|| anyhow!("{name} has no plan; `capt status` tells how it is"))?;
    if !plan.hash.starts_with(given) {
        bail!(
            "{name} has another plan now, {}; look at it (`capt status`, `capt logs {name}`) before you approve it",
            plan.hash
        );
    }
    let blocked = status
        .conditions
        .iter()
        .any(|condition| condition.type_ == types::DESTRUCTIVE_CHANGE_BLOCKED && condition.status == "True");
    if !blocked && !status.run.is_some_and(|run| run.phase == RunPhase::AwaitingApproval) {
        bail!("the plan {} of {name} does not wait for approval; there is nothing to do", plan.hash);
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
        assert_eq!(approvable(&waiting, "01234567").unwrap(), "0123456789abcdef");
        let said = approvable(&waiting, "11234567").unwrap_err().to_string();
        assert!(said.contains("another plan now, 0123456789abcdef"), "{said}");
        let done = workspace(&json!({"plan": {"hash": "0123456789abcdef"},
            "run": {"id": "1", "operation": "Apply", "phase": "Succeeded"}}));
        assert!(approvable(&done, "01234567").unwrap_err().to_string().contains("does not wait"));
        assert!(approvable(&workspace(&json!({})), "01234567").unwrap_err().to_string().contains("no plan"));
    }
}
