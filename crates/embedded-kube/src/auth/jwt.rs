//! Service account tokens: JWTs signed with this cluster's key (ES256).
//!
//! A token is valid until it expires, and while its service account and the object it is bound to exist with the same
//! uid.

use aws_lc_rs::{
    rand::SystemRandom,
    signature::{
        ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, UnparsedPublicKey,
    },
};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{ObjectReader, SYSTEM_AUTHENTICATED};
use crate::{
    object::{MetaAccessor, get_path, str_at},
    request::User,
};

/// Issuer, and the audience of this server.
pub const ISSUER: &str = "https://kubernetes.default.svc";

/// The key could not be generated or parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the service account signing key is invalid")]
pub struct KeyError;

/// The signing key.
pub struct Signer {
    pair: EcdsaKeyPair,
}

/// Claims of a new token.
pub struct TokenClaims<'a> {
    /// The stored service account.
    pub account: &'a Value,
    /// Audiences; empty means this server.
    pub audiences: &'a [String],
    /// Kind, name and uid of the bound object.
    pub bound: Option<(String, String, String)>,
    /// Issue time.
    pub now: Timestamp,
    /// Lifetime in seconds.
    pub seconds: i64,
    /// Unique token id.
    pub id: String,
}

impl Signer {
    /// Generates a key, as PKCS #8.
    pub fn generate() -> Result<Vec<u8>, KeyError> {
        EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new())
            .map(|key| key.as_ref().to_vec())
            .map_err(|_| KeyError)
    }

    /// Loads a key that [`Signer::generate`] returned.
    pub fn from_pkcs8(key: &[u8]) -> Result<Self, KeyError> {
        EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, key)
            .map(|pair| Self { pair })
            .map_err(|_| KeyError)
    }

    /// Signs a token.
    pub fn sign(&self, claims: &TokenClaims<'_>) -> Result<String, KeyError> {
        let head = BASE64_URL_SAFE_NO_PAD.encode(json!({"alg": "ES256", "kid": "embedded-kube"}).to_string());
        let body = BASE64_URL_SAFE_NO_PAD.encode(claims.json().to_string());
        let signed = format!("{head}.{body}");
        let signature = self.pair.sign(&SystemRandom::new(), signed.as_bytes()).map_err(|_| KeyError)?;
        Ok(format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature.as_ref())))
    }

    /// The claims of a token, if this key signed it and it is valid now.
    fn verified_claims(&self, token: &str, now: Timestamp) -> Option<Value> {
        let (signed, signature) = token.rsplit_once('.')?;
        let (_, body) = signed.split_once('.')?;
        let signature = BASE64_URL_SAFE_NO_PAD.decode(signature).ok()?;
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.pair.public_key().as_ref())
            .verify(signed.as_bytes(), &signature)
            .ok()?;
        let claims: Value = serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(body).ok()?).ok()?;
        let now = now.as_second();
        let holds = str_at(&claims, &["iss"]) == ISSUER
            && claims.get("exp").and_then(Value::as_i64).is_some_and(|end| now < end)
            && claims.get("nbf").and_then(Value::as_i64).is_none_or(|start| now + 60 >= start);
        holds.then_some(claims)
    }

    /// The user of a token for this server.
    pub fn authenticate(&self, token: &str, now: Timestamp, objects: &dyn ObjectReader) -> Option<User> {
        self.authenticate_for(token, &[ISSUER.to_owned()], now, objects).map(|(user, _)| user)
    }

    /// The user of a token, and which of these audiences it is for.
    pub fn authenticate_for(
        &self,
        token: &str,
        audiences: &[String],
        now: Timestamp,
        objects: &dyn ObjectReader,
    ) -> Option<(User, Vec<String>)> {
        let claims = self.verified_claims(token, now)?;
        let named = claims.get("aud").and_then(Value::as_array)?;
        let common: Vec<String> =
            audiences.iter().filter(|one| named.iter().any(|name| name == *one)).cloned().collect();
        if common.is_empty() {
            return None;
        }
        let facts = claims.get("kubernetes.io")?;
        let namespace = str_at(facts, &["namespace"]);
        let name = str_at(facts, &["serviceaccount", "name"]);
        let uid = str_at(facts, &["serviceaccount", "uid"]);
        let lives = |plural: &str, name: &str, uid: &str| {
            objects.get(&format!("/{plural}/{namespace}/{name}")).is_some_and(|found| found.uid() == uid)
        };
        let bound = [("pod", "pods"), ("secret", "secrets")].iter().all(|(kind, plural)| {
            get_path(facts, &[kind])
                .is_none_or(|to| lives(plural, str_at(to, &["name"]), str_at(to, &["uid"])))
        });
        if !lives("serviceaccounts", name, uid) || !bound {
            return None;
        }
        let user = User {
            name: format!("system:serviceaccount:{namespace}:{name}"),
            uid: uid.to_owned(),
            groups: vec![
                "system:serviceaccounts".to_owned(),
                format!("system:serviceaccounts:{namespace}"),
                SYSTEM_AUTHENTICATED.to_owned(),
            ],
            extra: user_extra(&claims, facts),
        };
        Some((user, common))
    }
}

fn user_extra(claims: &Value, facts: &Value) -> std::collections::BTreeMap<String, Vec<String>> {
    let id = format!("JTI={}", str_at(claims, &["jti"]));
    let mut extra = std::collections::BTreeMap::from([(
        "authentication.kubernetes.io/credential-id".to_owned(),
        vec![id],
    )]);
    if let Some(pod) = facts.get("pod") {
        for key in ["name", "uid"] {
            let value = str_at(pod, &[key]).to_owned();
            extra.insert(format!("authentication.kubernetes.io/pod-{key}"), vec![value]);
        }
    }
    extra
}

impl TokenClaims<'_> {
    fn json(&self) -> Value {
        let namespace = self.account.namespace();
        let name = self.account.name();
        let start = self.now.as_second();
        let own = [ISSUER.to_owned()];
        let audiences = if self.audiences.is_empty() { &own[..] } else { self.audiences };
        let mut facts = json!({
            "namespace": namespace, "serviceaccount": { "name": name, "uid": self.account.uid() },
        });
        if let Some((kind, name, uid)) = &self.bound {
            facts[kind.to_ascii_lowercase()] = json!({ "name": name, "uid": uid });
        }
        json!({
            "aud": audiences, "exp": start + self.seconds, "iat": start, "nbf": start, "iss": ISSUER,
            "jti": self.id, "kubernetes.io": facts, "sub": format!("system:serviceaccount:{namespace}:{name}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::object::Document;

    struct Fixed(Vec<(&'static str, Value)>);

    impl ObjectReader for Fixed {
        fn get(&self, key: &str) -> Option<Value> {
            self.0.iter().find(|(name, _)| *name == key).map(|(_, value)| value.clone())
        }

        fn list(&self, _prefix: &str) -> Vec<(Arc<str>, u64, Document)> {
            Vec::new()
        }

        fn revision(&self) -> u64 {
            1
        }
    }

    const ACCOUNT: &str = "/serviceaccounts/shop/bot";

    fn account(uid: &str) -> Value {
        json!({"metadata": {"name": "bot", "namespace": "shop", "uid": uid}})
    }

    fn now() -> Timestamp {
        Timestamp::from_second(1_800_000_000).unwrap()
    }

    fn token(signer: &Signer, audiences: &[String]) -> String {
        let account = account("u1");
        let claims = TokenClaims {
            account: &account,
            audiences,
            bound: None,
            now: now(),
            seconds: 600,
            id: "j".to_owned(),
        };
        signer.sign(&claims).unwrap()
    }

    #[test]
    fn a_token_holds_while_its_account_lives_and_its_time_lasts() {
        let signer = Signer::from_pkcs8(&Signer::generate().unwrap()).unwrap();
        let token = token(&signer, &[]);
        let there = Fixed(vec![(ACCOUNT, account("u1"))]);
        let user = signer.authenticate(&token, now(), &there).unwrap();
        assert_eq!(user.name, "system:serviceaccount:shop:bot");
        assert!(user.groups.contains(&"system:serviceaccounts:shop".to_owned()));
        let late = Timestamp::from_second(1_800_000_600).unwrap();
        assert_eq!(signer.authenticate(&token, late, &there), None);
        assert_eq!(signer.authenticate(&token, now(), &Fixed(vec![(ACCOUNT, account("u2"))])), None);
        assert_eq!(signer.authenticate(&token, now(), &Fixed(Vec::new())), None);
    }

    #[test]
    fn a_token_of_another_key_or_audience_or_a_changed_one_is_refused() {
        let signer = Signer::from_pkcs8(&Signer::generate().unwrap()).unwrap();
        let other = Signer::from_pkcs8(&Signer::generate().unwrap()).unwrap();
        let there = Fixed(vec![(ACCOUNT, account("u1"))]);
        assert_eq!(signer.authenticate(&token(&other, &[]), now(), &there), None);
        assert_eq!(signer.authenticate(&token(&signer, &["vault".to_owned()]), now(), &there), None);
        let mut changed = token(&signer, &[]);
        changed.insert(60, 'A');
        assert_eq!(signer.authenticate(&changed, now(), &there), None);
        for nonsense in ["", ".", "..", "a.b.c", "🦀.🦀.🦀"] {
            assert_eq!(signer.authenticate(nonsense, now(), &there), None, "{nonsense}");
        }
    }
}
