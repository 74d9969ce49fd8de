//! Restores the sealed configuration of the last apply, bound to the AWS that is configured now.
//!
//! The provider block of the local AWS has its endpoints, and a local AWS that was started again may listen on another port, where
//! another one may be by now.

use serde_json::Value;
use terraform_driver::workspace::{
    WorkspaceDir,
    files::{read_optional, write_atomic},
};

use super::error::PipelineError;
use crate::aws::Cloud;

/// The files with a provider block that capt renders.
const PROVIDER_FILES: [&str; 2] = ["capt_provider.tf.json", "capt_provider_override.tf.json"];

/// Restores the configuration of the last apply.
pub(super) fn unseal(workspace: &WorkspaceDir, cloud: &Cloud) -> Result<(), PipelineError> {
    workspace.unseal()?;
    let Cloud::Local { endpoint } = cloud else { return Ok(()) };
    for path in PROVIDER_FILES.map(|name| workspace.root().join(name)) {
        let Some(bytes) = read_optional(&path)? else { continue };
        // Terraform reports a file that is no JSON.
        let Ok(before) = serde_json::from_slice::<Value>(&bytes) else { continue };
        let mut now = before.clone();
        rebind(&mut now, endpoint);
        if now != before {
            write_atomic(&path, now.to_string().as_bytes(), false)?;
        }
    }
    Ok(())
}

/// Replaces every URL below a key `endpoints`.
fn rebind(value: &mut Value, endpoint: &str) {
    match value {
        Value::Object(fields) => {
            for (name, inner) in fields {
                if name == "endpoints" { replace_texts(inner, endpoint) } else { rebind(inner, endpoint) }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| rebind(item, endpoint)),
        _ => {}
    }
}

fn replace_texts(value: &mut Value, text: &str) {
    match value {
        Value::Object(fields) => fields.values_mut().for_each(|inner| replace_texts(inner, text)),
        Value::Array(items) => items.iter_mut().for_each(|item| replace_texts(item, text)),
        Value::String(old) => text.clone_into(old),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_endpoints_are_bound_to_another_address() {
        let mut block = json!({"provider": {"aws": [
            {"region": "eu-central-1", "access_key": "test", "endpoints": [{"ec2": "http://127.0.0.1:1", "iam": "http://127.0.0.1:1"}]},
            {"alias": "http://127.0.0.1:1"},
        ]}});
        rebind(&mut block, "http://127.0.0.1:2");
        let expected = json!({"provider": {"aws": [
            {"region": "eu-central-1", "access_key": "test", "endpoints": [{"ec2": "http://127.0.0.1:2", "iam": "http://127.0.0.1:2"}]},
            {"alias": "http://127.0.0.1:1"},
        ]}});
        assert_eq!(block, expected);
    }

    #[test]
    fn a_sealed_provider_block_follows_the_local_aws() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = WorkspaceDir::at(dir.path().join("ws"));
        let block = br#"{"provider": {"aws": {"endpoints": [{"ec2": "http://127.0.0.1:1"}]}}}"#;
        let file =
            terraform_driver::workspace::FileToWrite { path: PROVIDER_FILES[0], bytes: block, secret: false };
        workspace.sync_files([file]).unwrap();
        workspace.seal().unwrap();
        let bound_to = |cloud: &Cloud| {
            unseal(&workspace, cloud).unwrap();
            std::fs::read_to_string(workspace.root().join(PROVIDER_FILES[0])).unwrap()
        };
        let local = Cloud::Local { endpoint: "http://127.0.0.1:2".to_owned() };
        assert!(bound_to(&local).contains(r#"{"ec2":"http://127.0.0.1:2"}"#));
        assert!(bound_to(&Cloud::Real).contains("http://127.0.0.1:1"));
    }
}
