//! The objects of the files, one after the other.

use std::time::Duration;

use anyhow::anyhow;
use kube::Client;
use tokio::time::{Instant, sleep};

use crate::cli::{
    client,
    objects::{Wanted, refusal},
};

/// How long a kind that was just installed may take to be served.
const PATIENCE: Duration = Duration::from_secs(10);

/// Applies all that can be; what was refused is the error.
pub(super) async fn all(client: &Client, wanted: &[Wanted]) -> anyhow::Result<()> {
    let mut refused = Vec::new();
    let mut installed = None;
    for object in wanted {
        let begun = Instant::now();
        loop {
            let outcome = client::apply(client, object).await;
            let waits =
                installed.is_some_and(|at: Instant| at.elapsed() < PATIENCE) && begun.elapsed() < PATIENCE;
            match outcome {
                Err(error) if waits && client::is_absent(&error) => sleep(Duration::from_millis(200)).await,
                Err(error) => {
                    refused.extend(refusal(object, &error));
                    break;
                }
                Ok(()) => break,
            }
        }
        if object.gvk.kind == "CustomResourceDefinition" {
            installed = Some(Instant::now());
        }
    }
    match refused.as_slice() {
        [] => Ok(()),
        [one] => Err(anyhow!("{one}")),
        many => Err(anyhow!("{} problems\n  {}", many.len(), many.join("\n  "))),
    }
}
