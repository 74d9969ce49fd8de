//! Bearer tokens: fixed ones, service accounts', EKS'.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use super::{Objects, Signer, eks::Eks};
use crate::{clock, request::User};

/// Tokens by their hash, so that looking one up takes the same time whatever it shares with a real one.
type Fixed = BTreeMap<[u8; 32], User>;

/// Every kind of token that this cluster knows.
pub struct Bearers {
    fixed: Fixed,
    signer: Signer,
    eks: Option<Eks>,
}

/// The token of an `Authorization` header, if it is one of ours to read.
pub fn token(header: &str) -> Option<&str> {
    let (scheme, token) = header.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

impl Bearers {
    pub fn new(tokens: impl IntoIterator<Item = (String, User)>, signer: Signer, eks: Option<Eks>) -> Self {
        let fixed = tokens.into_iter().map(|(token, user)| (hash(&token), user)).collect();
        Self { fixed, signer, eks }
    }

    /// Signs tokens of service accounts.
    pub fn signer(&self) -> &Signer {
        &self.signer
    }

    /// Whose token this is.
    pub async fn user(&self, token: &str, objects: &dyn Objects) -> Option<User> {
        if let Some(user) = self.fixed.get(&hash(token)) {
            return Some(user.clone());
        }
        if token.starts_with("k8s-aws-v1.") {
            return self.eks.as_ref()?.user(token).await;
        }
        self.signer.user(token, clock::now(), objects)
    }
}

pub fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}
