//! boto3 parses every response of the EKS model. (Terraform exercises the Go SDK.)

use std::process::Stdio;

use crate::common::{config, python, start_with};
use local_aws::{Config, Timing};

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::disallowed_methods, reason = "the SDK at hand is a Python one")]
async fn boto3_understands_every_answer() {
    let timing =
        Timing { cluster_create_ms: 300, profile_create_ms: 300, cluster_update_ms: 50, ..Timing::instant() };
    let (aws, _) = start_with(Config { timing, ..config() }).await;
    let walk = tokio::process::Command::new(python())
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sdk.py"))
        .arg(aws.endpoint())
        .env_remove("AWS_CA_BUNDLE")
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();
    let errors = String::from_utf8_lossy(&walk.stderr);
    assert!(walk.status.success(), "{errors}");
    assert_eq!(String::from_utf8_lossy(&walk.stdout).trim(), "every answer was understood");
    aws.shutdown().await;
}
