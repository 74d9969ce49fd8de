//! The Secrets by which a cluster's API is reached: what they shall hold, and whether they do. Pure.
//!
//! | Secret | for |
//! |---|---|
//! | `<cluster>-kubeconfig` | Cluster API and other programs: a token that lives for minutes and is replaced in time |
//! | `<cluster>-user-kubeconfig` | people: their own credentials, by the tools of AWS |
//! | `<cluster>-ca` | whoever checks the API server's certificate; upstream's `<control plane>-ca` is kept instead |

#[cfg(test)]
mod day;
pub(crate) mod text;
mod when;

use std::collections::BTreeMap;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use jiff::Timestamp;
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{ResourceExt as _, core::ObjectMeta};
use sha2::{Digest as _, Sha256};
use terraform_driver::hex::hex;

pub(crate) use self::when::Life;
use super::{
    build::owner,
    look::{Access, Made},
};
use crate::{
    api::{CaptControlPlane, names as words},
    k8s::secrets::CLUSTER_TYPE,
    model::names,
};

/// The key that Cluster API reads.
const VALUE: &str = "value";
/// The key with a kubeconfig that reads its token from [`text::TOKEN_FILE`] beside it.
const RELATIVE: &str = "relative";
/// The key of a certificate.
const CERTIFICATE: &str = "tls.crt";
/// Upstream's other key of it.
const AUTHORITY: &str = "ca.crt";

/// Everything that kubeconfigs are made from, but for the token.
#[derive(Debug, Clone)]
pub(crate) struct Facts<'a> {
    /// Whose they are.
    pub object: &'a CaptControlPlane,
    /// Name of the Cluster.
    pub cluster: &'a str,
    /// Name in EKS.
    pub eks_name: &'a str,
    /// Where.
    pub region: &'a str,
    /// How the API is reached.
    pub access: &'a Access,
    /// Digest of who makes the tokens.
    pub principal: &'a str,
}

/// What is thought of a Secret with a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is as it should be, until then.
    Current(Timestamp),
    /// It is to be written anew.
    Stale,
}

/// Looks at the Secret for programs.
pub(crate) fn judge(secret: &Secret, facts: &Facts<'_>) -> Verdict {
    let value = secret.data.as_ref().and_then(|data| data.get(VALUE)).map(|it| it.0.as_slice());
    let is_whole = secret
        .data
        .as_ref()
        .is_some_and(|data| [VALUE, RELATIVE, text::TOKEN_FILE].iter().all(|key| data.contains_key(*key)));
    let made_from = secret.annotations().get(words::MADE_FROM_ANNOTATION).map(String::as_str);
    let life = secret.annotations().get(words::TOKEN_ANNOTATION).and_then(|text| Life::parse(text));
    let is_owned = owner(facts.object)
        .is_some_and(|owner| secret.owner_references().iter().any(|it| it.uid == owner.uid));
    let is_labelled =
        secret.labels().get(words::CLUSTER_NAME_LABEL).map(String::as_str) == Some(facts.cluster);
    match life {
        Some(life)
            if is_whole
                && is_owned
                && is_labelled
                && made_from == Some(digest(facts, value.unwrap_or_default()).as_str()) =>
        {
            Verdict::Current(life.replace_at())
        }
        _ => Verdict::Stale,
    }
}

/// Until when the token in a Secret is to be left alone, whatever the Secret was made from.
pub(crate) fn life(secret: &Secret) -> Option<Timestamp> {
    secret
        .annotations()
        .get(words::TOKEN_ANNOTATION)
        .and_then(|text| Life::parse(text))
        .map(|it| it.replace_at())
}

/// The Secret for programs.
pub(crate) fn for_programs(facts: &Facts<'_>, made: &Made) -> Secret {
    let token = made.token.text.reveal();
    let value = text::with_token(facts.eks_name, facts.access, token);
    let life = Life { made: made.at, expires: made.token.expires_at };
    let annotations = BTreeMap::from([
        (words::MADE_FROM_ANNOTATION.to_owned(), digest(facts, value.as_bytes())),
        (words::TOKEN_ANNOTATION.to_owned(), life.to_text()),
    ]);
    let data = [
        (VALUE, value),
        (RELATIVE, text::with_token_file(facts.eks_name, facts.access)),
        (text::TOKEN_FILE, token.to_owned()),
    ];
    let mut secret = secret(facts, names::kubeconfig_secret(facts.cluster), data);
    secret.metadata.annotations = Some(annotations);
    secret
}

/// The Secret for people.
pub(crate) fn for_people(facts: &Facts<'_>) -> Secret {
    let value = text::with_exec(facts.eks_name, facts.region, facts.access);
    secret(facts, names::user_kubeconfig_secret(facts.cluster), [(VALUE, value)])
}

/// The Secret with the certificate of the authority. `upstreams` is the one that upstream made, if it is there. None if
/// the authority is no text.
pub(crate) fn authority(facts: &Facts<'_>, upstreams: Option<&Secret>) -> Option<Secret> {
    let pem = String::from_utf8(BASE64_STANDARD.decode(facts.access.authority.trim()).ok()?).ok()?;
    Some(match upstreams {
        Some(upstreams) => {
            let data = [(CERTIFICATE, pem.clone()), (AUTHORITY, pem)];
            let mut kept = secret(facts, upstreams.name_any(), data);
            kept.type_.clone_from(&upstreams.type_);
            // It never had one, and a type cannot be changed: to Cluster API it stays what it was.
            kept.metadata.labels = None;
            kept
        }
        None => secret(facts, names::authority_secret(facts.cluster), [(CERTIFICATE, pem)]),
    })
}

/// Whether a Secret is one that upstream made for the authority: without a type of its own.
pub(crate) fn is_upstreams_authority(secret: &Secret) -> bool {
    secret.type_.as_deref().is_none_or(|type_| type_ == "Opaque")
        && secret.data.as_ref().is_some_and(|data| data.contains_key(AUTHORITY))
}

/// Whether a Secret belongs to others, and to us not.
pub(crate) fn is_foreign(secret: &Secret, uid: &str) -> bool {
    let owners = secret.owner_references();
    !owners.is_empty() && owners.iter().all(|it| it.uid != uid)
}

fn secret<const N: usize>(facts: &Facts<'_>, name: String, data: [(&str, String); N]) -> Secret {
    let bytes = |(key, text): (&str, String)| (key.to_owned(), ByteString(text.into_bytes()));
    let label = (words::CLUSTER_NAME_LABEL.to_owned(), facts.cluster.to_owned());
    Secret {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: facts.object.namespace(),
            labels: Some(BTreeMap::from([label])),
            owner_references: owner(facts.object).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        type_: Some(CLUSTER_TYPE.to_owned()),
        data: Some(data.into_iter().map(bytes).collect()),
        ..Secret::default()
    }
}

/// Changes with everything that the text is made from, and with the text.
fn digest(facts: &Facts<'_>, value: &[u8]) -> String {
    let Facts { object: _, cluster, eks_name, region, access, principal } = facts;
    let mut hash = Sha256::new();
    for part in [cluster, eks_name, region, access.endpoint.as_str(), access.authority.as_str(), principal] {
        hash.update(part.len().to_be_bytes());
        hash.update(part);
    }
    hash.update(value);
    hex(&hash.finalize()[..16])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{aws::Token, controllers::controlplane::fixtures::control_plane};

    const PEM: &str = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n";

    fn access() -> Access {
        Access { endpoint: "https://eks.example".to_owned(), authority: BASE64_STANDARD.encode(PEM) }
    }

    fn made(at: &str) -> Made {
        let at: Timestamp = at.parse().unwrap();
        let expires_at = at.saturating_add(jiff::SignedDuration::from_mins(14)).unwrap();
        Made { at, token: Token { text: "k8s-aws-v1.abc".to_owned().into(), expires_at } }
    }

    fn with<T>(access: &Access, principal: &str, work: impl FnOnce(&Facts<'_>) -> T) -> T {
        let object = control_plane(&json!({"version": "1.33"}));
        work(&Facts {
            object: &object,
            cluster: "demo",
            eks_name: "prod",
            region: "eu-central-1",
            access,
            principal,
        })
    }

    #[test]
    fn p18_the_secret_for_programs_is_exactly_what_cluster_api_asks_for() {
        let secret = with(&access(), "p", |facts| for_programs(facts, &made("2026-11-01T10:00:00Z")));
        assert_eq!(secret.name_any(), "demo-kubeconfig");
        assert_eq!(secret.type_.as_deref(), Some("cluster.x-k8s.io/secret"));
        assert_eq!(secret.labels()["cluster.x-k8s.io/cluster-name"], "demo");
        let owner = &secret.owner_references()[0];
        assert_eq!(owner.api_version, "controlplane.cluster.x-k8s.io/v1beta1");
        assert_eq!(owner.kind, "CAPTControlPlane");
        let data = secret.data.unwrap();
        assert_eq!(data.keys().collect::<Vec<_>>(), ["relative", "token-file", "value"]);
        assert_eq!(data["token-file"].0, b"k8s-aws-v1.abc");
        assert!(String::from_utf8_lossy(&data["value"].0).contains("https://eks.example"));
    }

    #[test]
    fn it_is_current_until_its_token_is_to_be_replaced_and_no_longer_what_it_was_made_from() {
        let secret = with(&access(), "p", |facts| for_programs(facts, &made("2026-11-01T10:00:00Z")));
        let due = "2026-11-01T10:09:00Z".parse().unwrap();
        assert_eq!(with(&access(), "p", |facts| judge(&secret, facts)), Verdict::Current(due));
        let moved = Access { endpoint: "https://other".to_owned(), ..access() };
        assert_eq!(with(&moved, "p", |facts| judge(&secret, facts)), Verdict::Stale);
        assert_eq!(with(&access(), "other", |facts| judge(&secret, facts)), Verdict::Stale);
    }

    #[test]
    fn whatever_somebody_does_to_it_is_noticed() {
        let good = with(&access(), "p", |facts| for_programs(facts, &made("2026-11-01T10:00:00Z")));
        let edits: [fn(&mut Secret); 6] = [
            |secret| secret.data.as_mut().unwrap().get_mut("value").unwrap().0.push(b' '),
            |secret| drop(secret.data.as_mut().unwrap().remove("token-file")),
            |secret| secret.data = None,
            |secret| secret.metadata.labels = None,
            |secret| secret.metadata.owner_references = None,
            |secret| secret.metadata.annotations = None,
        ];
        for (at, edit) in edits.iter().enumerate() {
            let mut secret = good.clone();
            edit(&mut secret);
            assert_eq!(with(&access(), "p", |facts| judge(&secret, facts)), Verdict::Stale, "edit {at}");
        }
    }

    #[test]
    fn the_authority_has_no_key_that_could_be_taken_for_one_that_signs() {
        let secret = with(&access(), "p", |facts| authority(facts, None)).unwrap();
        assert_eq!(secret.name_any(), "demo-ca");
        assert_eq!(secret.type_.as_deref(), Some("cluster.x-k8s.io/secret"));
        let data = secret.data.unwrap();
        assert_eq!(data.keys().collect::<Vec<_>>(), ["tls.crt"]);
        assert_eq!(data["tls.crt"].0, PEM.as_bytes());
    }

    #[test]
    fn upstreams_authority_is_kept_current_as_it_is() {
        let old: Secret = serde_json::from_value(json!({"metadata": {"name": "cp-ca", "namespace": "team"},
            "type": "Opaque", "data": {"tls.crt": "b2xk", "ca.crt": "b2xk"}}))
        .unwrap();
        assert!(is_upstreams_authority(&old));
        let secret = with(&access(), "p", |facts| authority(facts, Some(&old))).unwrap();
        assert_eq!((secret.name_any().as_str(), secret.type_.as_deref()), ("cp-ca", Some("Opaque")));
        assert_eq!(secret.data.unwrap()["ca.crt"].0, PEM.as_bytes());
    }

    #[test]
    fn an_authority_that_is_garbage_makes_no_secret() {
        let garbage = Access { authority: "not base64!".to_owned(), ..access() };
        assert!(with(&garbage, "p", |facts| authority(facts, None)).is_none());
    }

    #[test]
    fn a_secret_of_somebody_else_is_foreign_and_one_of_nobody_is_not() {
        let owned = |uid: &str| -> Secret {
            let owner = json!({"apiVersion": "v1", "kind": "X", "name": "x", "uid": uid});
            serde_json::from_value(json!({"metadata": {"name": "s", "ownerReferences": [owner]}})).unwrap()
        };
        assert!(is_foreign(&owned("other"), "c1"));
        assert!(!is_foreign(&owned("c1"), "c1"));
        assert!(!is_foreign(&Secret::default(), "c1"));
    }
}
