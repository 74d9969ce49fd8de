//! Applies the manifest objects in order.

use std::time::Duration;

use anyhow::anyhow;
use kube::Client;
use tokio::time::{Instant, sleep};

use crate::cli::{
    kube_api,
    manifest_objects::{ManifestObject, describe_rejection},
};

/// How long a CRD of the same files may take to be established.
const CRD_TIMEOUT: Duration = Duration::from_secs(10);

/// Applies all objects; the error lists the rejections.
pub(super) async fn apply_all(client: &Client, wanted: &[ManifestObject]) -> anyhow::Result<()> {
    let mut refused = Vec::new();
    let mut installed = None;
    for object in wanted {
        let begun = Instant::now();
        loop {
            let outcome = kube_api::apply_object(client, object).await;
            let waits = installed.is_some_and(|at: Instant| at.elapsed() < CRD_TIMEOUT)
                && begun.elapsed() < CRD_TIMEOUT;
            match outcome {
                Err(error) if waits && kube_api::is_not_found(&error) => {
                    sleep(Duration::from_millis(200)).await;
                }
                Err(error) => {
                    refused.extend(describe_rejection(object, &error));
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
