//! States that Terraform's own kubernetes backend keeps, for whoever takes a workspace over. Read only.
//!
//! One Secret `tfstate-<workspace>-<suffix>`, and since Terraform 1.6 more of them with `-part-<n>`: a gzip stream, cut.

use k8s_openapi::api::core::v1::Secret;
use terraform_driver::state::Version;

use super::{Vault, VaultError, pack};

/// Key in the Secret, and beginning of its name.
const KEY: &str = "tfstate";
/// No state is larger; what claims to be is not one.
const LARGEST: u64 = 256 * 1024 * 1024;

/// A state of that backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendState {
    /// The bytes, as terraform wrote them.
    pub bytes: Vec<u8>,
    /// Lineage and serial.
    pub version: Version,
}

/// Name of the nth Secret, from 0.
pub fn secret_name(workspace: &str, suffix: &str, part: usize) -> String {
    match part {
        0 => format!("{KEY}-{workspace}-{suffix}"),
        part => format!("{KEY}-{workspace}-{suffix}-part-{part}"),
    }
}

/// The state in these parts, in their order. None if they are not a whole one.
pub fn decode(parts: &[Vec<u8>]) -> Option<BackendState> {
    let bytes = pack::gunzip(&parts.concat(), LARGEST)?;
    let version = Version::of(&bytes).ok()?;
    Some(BackendState { bytes, version })
}

impl Vault {
    /// The state that Terraform's kubernetes backend keeps for this workspace (`default` unless it was told otherwise).
    pub async fn read_kubernetes_backend(
        &self,
        namespace: &str,
        workspace: &str,
        suffix: &str,
    ) -> Result<Option<BackendState>, VaultError> {
        let mut parts = Vec::new();
        loop {
            let name = secret_name(workspace, suffix, parts.len());
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
        let damaged = || VaultError::Damaged {
            workspace: format!("{namespace}/{workspace}"),
            part: "state",
            label: format!("tfstateSecretSuffix={suffix}"),
        };
        decode(&parts).map(Some).ok_or_else(damaged)
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
        let found = decode(&all).unwrap();
        assert_eq!((found.bytes.as_slice(), found.version.serial), (&state[..], 7));
        assert_eq!(decode(&all[..2]), None);
        assert_eq!(decode(&parts(b"not a state", 100)), None);
    }

    #[test]
    fn names_are_terraforms() {
        assert_eq!(secret_name("default", "aws", 0), "tfstate-default-aws");
        assert_eq!(secret_name("default", "aws", 2), "tfstate-default-aws-part-2");
    }
}
