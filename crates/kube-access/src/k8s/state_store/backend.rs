//! Reads states of Terraform's own kubernetes backend, for taking over a workspace. Read-only.
//!
//! A gzip stream in the Secret `tfstate-<workspace>-<suffix>`, since Terraform 1.6 split over further Secrets `-part-<n>`.

use k8s_openapi::api::core::v1::Secret;
use terraform_driver::state::StateVersion;

use super::{KubeStateStore, StateStoreError, compress};

/// Key in the Secret, and prefix of its name.
const KEY: &str = "tfstate";
/// Upper bound of a decompressed state.
const MAX_STATE_BYTES: u64 = 256 * 1024 * 1024;

/// A state of the kubernetes backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendState {
    /// The state file.
    pub bytes: Vec<u8>,
    /// Lineage and serial.
    pub version: StateVersion,
}

/// Name of the nth Secret, counted from 0.
pub fn backend_secret_name(workspace: &str, suffix: &str, part: usize) -> String {
    match part {
        0 => format!("{KEY}-{workspace}-{suffix}"),
        part => format!("{KEY}-{workspace}-{suffix}-part-{part}"),
    }
}

/// Decodes the parts; `None` if they are not a complete state.
pub fn decode_backend_state(parts: &[Vec<u8>]) -> Option<BackendState> {
    let bytes = compress::gunzip(&parts.concat(), MAX_STATE_BYTES)?;
    let version = StateVersion::parse(&bytes).ok()?;
    Some(BackendState { bytes, version })
}

impl KubeStateStore {
    /// The state of a workspace (usually `default`) in Terraform's kubernetes backend.
    pub async fn read_kubernetes_backend(
        &self,
        namespace: &str,
        workspace: &str,
        suffix: &str,
    ) -> Result<Option<BackendState>, StateStoreError> {
        let mut parts = Vec::new();
        loop {
            let name = backend_secret_name(workspace, suffix, parts.len());
            let found: Option<Secret> = self.kube.get(Some(namespace), &name).await?;
            let page = found.and_then(|secret| secret.data?.remove(KEY));
            match page {
                Some(page) => parts.push(page.0),
                None => break,
            }
        }
        if parts.is_empty() {
            return Ok(None);
        }
        let damaged = || StateStoreError::Damaged {
            workspace: format!("{namespace}/{workspace}"),
            part: "state",
            label: format!("tfstateSecretSuffix={suffix}"),
        };
        decode_backend_state(&parts).map(Some).ok_or_else(damaged)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    fn parts(state: &[u8], size: usize) -> Vec<Vec<u8>> {
        let mut out = GzEncoder::new(Vec::new(), Compression::fast());
        out.write_all(state).unwrap();
        out.finish().unwrap().chunks(size).map(<[u8]>::to_vec).collect()
    }

    #[test]
    fn the_parts_of_a_state_give_the_state_and_a_missing_one_gives_none() {
        let state = br#"{"version":4,"serial":7,"lineage":"abc","resources":[]}"#;
        let all = parts(state, 20);
        assert!(all.len() > 2);
        let found = decode_backend_state(&all).unwrap();
        assert_eq!((found.bytes.as_slice(), found.version.serial), (&state[..], 7));
        assert_eq!(decode_backend_state(&all[..2]), None);
        assert_eq!(decode_backend_state(&parts(b"not a state", 100)), None);
    }

    #[test]
    fn names_are_terraforms() {
        assert_eq!(backend_secret_name("default", "aws", 0), "tfstate-default-aws");
        assert_eq!(backend_secret_name("default", "aws", 2), "tfstate-default-aws-part-2");
    }
}
