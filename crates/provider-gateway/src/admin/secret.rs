//! The secret that a client of the admin socket presents.
//!
//! The socket starts programs with the environment that it is given, so the user id of a client is not enough: runs have the
//! same user. They are kept away from the file of the secret, which is new with each gateway.

use std::{fmt, io, path::Path};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use serde::{Deserialize, Serialize};

use crate::{digest, private_fs, random_token};

/// Name of the file in the gateway's directory.
const FILE_NAME: &str = "admin.key";

/// 256 random bits in hexadecimal.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AdminSecret(String);

impl AdminSecret {
    /// Makes a new secret and stores it in the gateway's directory, for this user only. Returns it with its file.
    pub fn create_in(dir: &Path) -> io::Result<(Self, std::path::PathBuf)> {
        let secret = Self(digest::to_hex(random_token::bytes::<32>()?));
        let file = Self::file_in(dir);
        private_fs::write_atomic(&file, secret.0.as_bytes())?;
        Ok((secret, file))
    }

    /// The file of the secret of the gateway with this directory.
    pub fn file_in(dir: &Path) -> std::path::PathBuf {
        dir.join(FILE_NAME)
    }

    /// Reads the secret.
    pub async fn read(file: &Path) -> io::Result<Self> {
        Ok(Self(tokio::fs::read_to_string(file).await?))
    }

    /// Compares in constant time.
    pub(super) fn matches(&self, other: &Self) -> bool {
        verify_slices_are_equal(self.0.as_bytes(), other.0.as_bytes()).is_ok()
    }
}

impl fmt::Debug for AdminSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AdminSecret")
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[tokio::test]
    async fn a_secret_is_private_and_new_each_time() {
        let dir = tempfile::tempdir().unwrap();
        let (first, file) = AdminSecret::create_in(dir.path()).unwrap();
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(AdminSecret::read(&file).await.unwrap().matches(&first));
        let (second, _) = AdminSecret::create_in(dir.path()).unwrap();
        assert!(!second.matches(&first));
        assert!(!second.matches(&AdminSecret(String::new())));
        assert_eq!(format!("{second:?}"), "AdminSecret");
    }
}
