//! Bearer tokens: static tokens, service account tokens and EKS tokens.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use super::{ObjectReader, Signer, eks::EksAuthenticator};
use crate::{clock, request::User};

/// Tokens by hash, so that a lookup takes the same time whatever prefix it shares with a valid token.
type StaticTokens = BTreeMap<[u8; 32], User>;

/// Authenticates all supported token types.
pub struct TokenAuthenticator {
    static_tokens: StaticTokens,
    signer: Signer,
    eks: Option<EksAuthenticator>,
}

/// The bearer token of an `Authorization` header.
pub fn bearer_token(header: &str) -> Option<&str> {
    let (scheme, token) = header.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

impl TokenAuthenticator {
    pub fn new(
        tokens: impl IntoIterator<Item = (String, User)>,
        signer: Signer,
        eks: Option<EksAuthenticator>,
    ) -> Self {
        let static_tokens = tokens.into_iter().map(|(token, user)| (token_hash(&token), user)).collect();
        Self { static_tokens, signer, eks }
    }

    /// Signs service account tokens.
    pub fn signer(&self) -> &Signer {
        &self.signer
    }

    /// The user of a token.
    pub async fn authenticate(&self, token: &str, objects: &dyn ObjectReader) -> Option<User> {
        if let Some(user) = self.static_tokens.get(&token_hash(token)) {
            return Some(user.clone());
        }
        if token.starts_with("k8s-aws-v1.") {
            return self.eks.as_ref()?.authenticate(token).await;
        }
        self.signer.authenticate(token, clock::now(), objects)
    }
}

pub fn token_hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}
