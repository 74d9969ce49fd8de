//! The barrier: nothing is planned while calls of an earlier run are in flight.
//!
//! The gateway completes a change whose terraform was killed. A plan made in the meantime would not know of it, and would
//! create the object again.

use std::time::Duration;

use capt_model::workspaces::WorkspaceKey;
use jiff::Timestamp;
use provider_gateway::{admin::GatewayClientError, journal::ChangeInFlight};
use terraform_driver::{clock, run::unfinished_changes, workspace::WorkspaceDir};
use tokio_util::sync::CancellationToken;

use super::{error::PipelineError, hooks::RunHooks};
use crate::gateway::GatewayHandle;

const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Waits until the gateway of the data directory has no change of this workspace in flight. A gateway that exited has none:
/// its providers end with it.
pub(super) async fn wait_for_calls(
    data: &std::path::Path,
    (key, workspace): (&WorkspaceKey, &WorkspaceDir),
    hooks: &dyn RunHooks,
    stop: &CancellationToken,
) -> Result<(), PipelineError> {
    let mut waits = false;
    while let Some(server) = GatewayHandle::find_running(data)? {
        let client = server.client();
        match client.changes_in_flight(&key.to_string()).await {
            Ok(changes) if changes.is_empty() => break,
            Ok(changes) => {
                waits = true;
                let text = describe(&changes, &unfinished_changes(workspace)?, clock::now());
                hooks.set_waiting_for(key, Some(text));
            }
            // It exited instead of answering; otherwise it is asked again.
            Err(GatewayClientError::Unavailable { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        tokio::select! {
            () = tokio::time::sleep(POLL_INTERVAL) => {}
            () = stop.cancelled() => return Err(PipelineError::Interrupted),
        }
    }
    if waits {
        hooks.set_waiting_for(key, None);
    }
    Ok(())
}

/// `2 calls of an earlier run: aws_eks_cluster.this, aws_eip, 3 min`. The gateway knows types only; a type becomes an address
/// if the earlier run began as many changes of it as are in flight.
fn describe(changes: &[ChangeInFlight], unfinished: &[(String, String)], now: Timestamp) -> String {
    let mut names: Vec<String> = Vec::new();
    let mut kinds: Vec<&str> = changes.iter().map(|change| change.kind.as_str()).collect();
    kinds.sort_unstable();
    for group in kinds.chunk_by(|left, right| left == right) {
        let kind = group.first().copied().unwrap_or_default();
        let addresses =
            unfinished.iter().filter(|(_, other)| other == kind).map(|(address, _)| address.clone());
        let addresses: Vec<String> = addresses.collect();
        if addresses.len() == group.len() {
            names.extend(addresses);
        } else {
            names.push(kind.to_owned());
        }
    }
    let since = changes.iter().map(|change| change.since).min().unwrap_or(now);
    let seconds = now.duration_since(since).as_secs().max(0);
    // In steps: each new text is a line in a log.
    let age = if seconds < 60 { format!("{} s", seconds / 10 * 10) } else { format!("{} min", seconds / 60) };
    let noun = if changes.len() == 1 { "call" } else { "calls" };
    format!("{} {noun} of an earlier run: {}, {age}", changes.len(), names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(kind: &str) -> ChangeInFlight {
        ChangeInFlight {
            workspace: "default/demo".to_owned(),
            kind: kind.to_owned(),
            since: "2026-01-01T00:00:00Z".parse().unwrap(),
        }
    }

    fn unfinished(address: &str) -> (String, String) {
        (address.to_owned(), address.split('.').next().unwrap().to_owned())
    }

    #[test]
    fn calls_are_named_by_their_addresses_where_these_are_certain() {
        let now = "2026-01-01T00:03:10Z".parse().unwrap();
        let text = describe(&[change("aws_eks_cluster")], &[unfinished("aws_eks_cluster.this")], now);
        assert_eq!(text, "1 call of an earlier run: aws_eks_cluster.this, 3 min");
        let two = vec![unfinished("aws_eip.nat[0]"), unfinished("aws_eip.nat[1]")];
        let text = describe(&[change("aws_eip")], &two, "2026-01-01T00:00:17Z".parse().unwrap());
        assert_eq!(text, "1 call of an earlier run: aws_eip, 10 s");
    }
}
