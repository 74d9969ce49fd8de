//! Tokens of service accounts: JSON web tokens signed by a key of this cluster (ES256).
//!
//! A token holds as long as its time, its account, and the object it is bound to are there: each with the same uid.

use aws_lc_rs::{
    rand::SystemRandom,
    signature::{
        ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, UnparsedPublicKey,
    },
};
use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{AUTHENTICATED, Objects};
use crate::{
    object::{Meta, at, text},
    request::User,
};

/// Who signs, and the audience that the server itself is.
pub const ISSUER: &str = "https://kubernetes.default.svc";

/// The key could not be made or read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the signing key of service accounts is not usable")]
pub struct KeyError;

/// The signing key.
pub struct Signer {
    pair: EcdsaKeyPair,
}

/// What a token is to say.
pub struct Claims<'a> {
    /// The stored service account.
    pub account: &'a Value,
    /// Whom it is for; none means this server.
    pub audiences: &'a [String],
    /// Kind, name and uid of the object it is bound to.
    pub bound: Option<(String, String, String)>,
    /// From when.
    pub now: Timestamp,
    /// For how long.
    pub seconds: i64,
    /// Unique name of the token.
    pub id: String,
}

impl Signer {
    /// A new key, as PKCS #8.
    pub fn generate() -> Result<Vec<u8>, KeyError> {
        EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new())
            .map(|key| key.as_ref().to_vec())
            .map_err(|_| KeyError)
    }

    /// From a key that [`Signer::generate`] gave.
    pub fn of(key: &[u8]) -> Result<Self, KeyError> {
        EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, key)
            .map(|pair| Self { pair })
            .map_err(|_| KeyError)
    }

    /// A signed token.
    pub fn sign(&self, claims: &Claims<'_>) -> Result<String, KeyError> {
        let head = BASE64_URL_SAFE_NO_PAD.encode(json!({"alg": "ES256", "kid": "embedded-kube"}).to_string());
        let body = BASE64_URL_SAFE_NO_PAD.encode(claims.json().to_string());
        let signed = format!("{head}.{body}");
        let signature = self.pair.sign(&SystemRandom::new(), signed.as_bytes()).map_err(|_| KeyError)?;
        Ok(format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature.as_ref())))
    }

    /// The claims of a token that this key has signed and that holds now.
    fn claims(&self, token: &str, now: Timestamp) -> Option<Value> {
        let (signed, signature) = token.rsplit_once('.')?;
        let (_, body) = signed.split_once('.')?;
        let signature = BASE64_URL_SAFE_NO_PAD.decode(signature).ok()?;
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.pair.public_key().as_ref())
            .verify(signed.as_bytes(), &signature)
            .ok()?;
        let claims: Value = serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(body).ok()?).ok()?;
        let now = now.as_second();
        let holds = text(&claims, &["iss"]) == ISSUER
            && claims.get("exp").and_then(Value::as_i64).is_some_and(|end| now < end)
            && claims.get("nbf").and_then(Value::as_i64).is_none_or(|start| now + 60 >= start);
        holds.then_some(claims)
    }

    /// The user of a token that is meant for this server.
    pub fn user(&self, token: &str, now: Timestamp, objects: &dyn Objects) -> Option<User> {
        self.user_for(token, &[ISSUER.to_owned()], now, objects).map(|(user, _)| user)
    }

    /// The user of a token, and for which of these audiences it is.
    pub fn user_for(
        &self,
        token: &str,
        audiences: &[String],
        now: Timestamp,
        objects: &dyn Objects,
    ) -> Option<(User, Vec<String>)> {
        let claims = self.claims(token, now)?;
        let named = claims.get("aud").and_then(Value::as_array)?;
        let common: Vec<String> =
            audiences.iter().filter(|one| named.iter().any(|name| name == *one)).cloned().collect();
        if common.is_empty() {
            return None;
        }
        let facts = claims.get("kubernetes.io")?;
        let namespace = text(facts, &["namespace"]);
        let name = text(facts, &["serviceaccount", "name"]);
        let uid = text(facts, &["serviceaccount", "uid"]);
        let lives = |plural: &str, name: &str, uid: &str| {
            objects.get(&format!("/{plural}/{namespace}/{name}")).is_some_and(|found| found.uid() == uid)
        };
        let bound = [("pod", "pods"), ("secret", "secrets")].iter().all(|(kind, plural)| {
            at(facts, &[kind]).is_none_or(|to| lives(plural, text(to, &["name"]), text(to, &["uid"])))
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
                AUTHENTICATED.to_owned(),
            ],
            extra: extra(&claims, facts),
        };
        Some((user, common))
    }
}

fn extra(claims: &Value, facts: &Value) -> std::collections::BTreeMap<String, Vec<String>> {
    let id = format!("JTI={}", text(claims, &["jti"]));
    let mut extra = std::collections::BTreeMap::from([(
        "authentication.kubernetes.io/credential-id".to_owned(),
        vec![id],
    )]);
    if let Some(pod) = facts.get("pod") {
        for key in ["name", "uid"] {
            let value = text(pod, &[key]).to_owned();
            extra.insert(format!("authentication.kubernetes.io/pod-{key}"), vec![value]);
        }
    }
    extra
}

impl Claims<'_> {
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

    impl Objects for Fixed {
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
        let claims = Claims {
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
        let signer = Signer::of(&Signer::generate().unwrap()).unwrap();
        let token = token(&signer, &[]);
        let there = Fixed(vec![(ACCOUNT, account("u1"))]);
        let user = signer.user(&token, now(), &there).unwrap();
        assert_eq!(user.name, "system:serviceaccount:shop:bot");
        assert!(user.groups.contains(&"system:serviceaccounts:shop".to_owned()));
        let late = Timestamp::from_second(1_800_000_600).unwrap();
        assert_eq!(signer.user(&token, late, &there), None);
        assert_eq!(signer.user(&token, now(), &Fixed(vec![(ACCOUNT, account("u2"))])), None);
        assert_eq!(signer.user(&token, now(), &Fixed(Vec::new())), None);
    }

    #[test]
    fn a_token_of_another_key_or_audience_or_a_changed_one_is_refused() {
        let signer = Signer::of(&Signer::generate().unwrap()).unwrap();
        let other = Signer::of(&Signer::generate().unwrap()).unwrap();
        let there = Fixed(vec![(ACCOUNT, account("u1"))]);
        assert_eq!(signer.user(&token(&other, &[]), now(), &there), None);
        assert_eq!(signer.user(&token(&signer, &["vault".to_owned()]), now(), &there), None);
        let mut changed = token(&signer, &[]);
        changed.insert(60, 'A');
        assert_eq!(signer.user(&changed, now(), &there), None);
        for nonsense in ["", ".", "..", "a.b.c", "🦀.🦀.🦀"] {
            assert_eq!(signer.user(nonsense, now(), &there), None, "{nonsense}");
        }
    }
}
