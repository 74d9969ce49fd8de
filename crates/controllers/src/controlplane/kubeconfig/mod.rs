//! Builds the Secrets for access to a cluster's API server, and checks whether they are current. Pure.
//!
//! | Secret | for |
//! |---|---|
//! | `<cluster>-kubeconfig` | Cluster API and other programs: contains a short-lived token, which is rotated |
//! | `<cluster>-user-kubeconfig` | users: gets a token for their own credentials from the AWS CLI |
//! | `<cluster>-ca` | clients that verify the API server certificate; an existing upstream `<control plane>-ca` is used instead |

pub(crate) mod render;
#[cfg(test)]
mod rotation_24h;
mod token_lifetime;

use std::collections::BTreeMap;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use capt_kinds::api::{CaptControlPlane, names as words};
use capt_model::model::names;
use jiff::Timestamp;
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{ResourceExt as _, core::ObjectMeta};
use sha2::{Digest as _, Sha256};
use terraform_driver::hex::hex;

pub(crate) use self::token_lifetime::TokenLifetime;
use super::{
    build::owner_reference,
    eks_poll::{ApiServerAccess, IssuedToken},
};

/// Data key that Cluster API reads.
const KUBECONFIG_KEY: &str = "value";
/// Data key of a kubeconfig that reads its token from the file [`text::TOKEN_FILE`] in the same directory.
const RELATIVE_KUBECONFIG_KEY: &str = "relative";
/// Data key of the CA certificate.
const TLS_CERT_KEY: &str = "tls.crt";
/// Upstream's second data key of the CA certificate.
const CA_CERT_KEY: &str = "ca.crt";

/// Inputs of the kubeconfig Secrets, except the token.
#[derive(Debug, Clone)]
pub(crate) struct KubeconfigInputs<'a> {
    /// The owner.
    pub object: &'a CaptControlPlane,
    /// Name of the Cluster.
    pub cluster: &'a str,
    /// Name in EKS.
    pub eks_name: &'a str,
    /// AWS region.
    pub region: &'a str,
    /// Access to the API server.
    pub access: &'a ApiServerAccess,
    /// Digest of the principal that issues the tokens.
    pub principal_digest: &'a str,
}

/// Whether a Secret with a token is current.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SecretFreshness {
    /// It is current until this time.
    Current(Timestamp),
    /// It must be rewritten.
    Stale,
}

/// Checks the kubeconfig Secret against its inputs.
pub(crate) fn check_freshness(secret: &Secret, facts: &KubeconfigInputs<'_>) -> SecretFreshness {
    let value = secret.data.as_ref().and_then(|data| data.get(KUBECONFIG_KEY)).map(|it| it.0.as_slice());
    let is_whole = secret.data.as_ref().is_some_and(|data| {
        [KUBECONFIG_KEY, RELATIVE_KUBECONFIG_KEY, render::TOKEN_FILE]
            .iter()
            .all(|key| data.contains_key(*key))
    });
    let made_from = secret.annotations().get(words::MADE_FROM_ANNOTATION).map(String::as_str);
    let life = secret.annotations().get(words::TOKEN_ANNOTATION).and_then(|text| TokenLifetime::parse(text));
    let is_owned = owner_reference(facts.object)
        .is_some_and(|owner| secret.owner_references().iter().any(|it| it.uid == owner.uid));
    let is_labelled =
        secret.labels().get(words::CLUSTER_NAME_LABEL).map(String::as_str) == Some(facts.cluster);
    match life {
        Some(life)
            if is_whole
                && is_owned
                && is_labelled
                && made_from == Some(inputs_digest(facts, value.unwrap_or_default()).as_str()) =>
        {
            SecretFreshness::Current(life.replace_at())
        }
        _ => SecretFreshness::Stale,
    }
}

/// When the token in a Secret is due for replacement, regardless of its other inputs.
pub(crate) fn token_replacement_time(secret: &Secret) -> Option<Timestamp> {
    secret
        .annotations()
        .get(words::TOKEN_ANNOTATION)
        .and_then(|text| TokenLifetime::parse(text))
        .map(|it| it.replace_at())
}

/// The kubeconfig Secret for programs.
pub(crate) fn build_kubeconfig_secret(facts: &KubeconfigInputs<'_>, made: &IssuedToken) -> Secret {
    let token = made.token.bearer.reveal();
    let value = render::render_with_token(facts.eks_name, facts.access, token);
    let life = TokenLifetime { issued_at: made.issued_at, expires_at: made.token.expires_at };
    let annotations = BTreeMap::from([
        (words::MADE_FROM_ANNOTATION.to_owned(), inputs_digest(facts, value.as_bytes())),
        (words::TOKEN_ANNOTATION.to_owned(), life.to_annotation()),
    ]);
    let data = [
        (KUBECONFIG_KEY, value),
        (RELATIVE_KUBECONFIG_KEY, render::render_with_token_file(facts.eks_name, facts.access)),
        (render::TOKEN_FILE, token.to_owned()),
    ];
    let mut secret = build_secret(facts, names::kubeconfig_secret(facts.cluster), data);
    secret.metadata.annotations = Some(annotations);
    secret
}

/// The kubeconfig Secret for users.
pub(crate) fn build_user_kubeconfig_secret(facts: &KubeconfigInputs<'_>) -> Secret {
    let value = render::render_with_exec(facts.eks_name, facts.region, facts.access);
    build_secret(facts, names::user_kubeconfig_secret(facts.cluster), [(KUBECONFIG_KEY, value)])
}

/// The CA Secret. `upstreams` is the one that upstream created, if it exists. `None` if the CA data is not base64 of UTF-8
/// text.
pub(crate) fn build_ca_secret(facts: &KubeconfigInputs<'_>, upstreams: Option<&Secret>) -> Option<Secret> {
    let pem = String::from_utf8(BASE64_STANDARD.decode(facts.access.ca_data.trim()).ok()?).ok()?;
    Some(match upstreams {
        Some(upstreams) => {
            let data = [(TLS_CERT_KEY, pem.clone()), (CA_CERT_KEY, pem)];
            let mut kept = build_secret(facts, upstreams.name_any(), data);
            kept.type_.clone_from(&upstreams.type_);
            // Upstream sets no cluster label, and the type is immutable: Cluster API continues to ignore this Secret.
            kept.metadata.labels = None;
            kept
        }
        None => build_secret(facts, names::ca_secret(facts.cluster), [(TLS_CERT_KEY, pem)]),
    })
}

/// Whether a Secret is upstream's CA Secret, which has no type of its own.
pub(crate) fn is_legacy_ca(secret: &Secret) -> bool {
    secret.type_.as_deref().is_none_or(|type_| type_ == "Opaque")
        && secret.data.as_ref().is_some_and(|data| data.contains_key(CA_CERT_KEY))
}

/// Whether a Secret has owners and none of them is this control plane.
pub(crate) fn is_owned_by_others(secret: &Secret, uid: &str) -> bool {
    let owners = secret.owner_references();
    !owners.is_empty() && owners.iter().all(|it| it.uid != uid)
}

fn build_secret<const N: usize>(
    facts: &KubeconfigInputs<'_>,
    name: String,
    data: [(&str, String); N],
) -> Secret {
    let bytes = |(key, text): (&str, String)| (key.to_owned(), ByteString(text.into_bytes()));
    let label = (words::CLUSTER_NAME_LABEL.to_owned(), facts.cluster.to_owned());
    Secret {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: facts.object.namespace(),
            labels: Some(BTreeMap::from([label])),
            owner_references: owner_reference(facts.object).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        type_: Some(words::CLUSTER_SECRET_TYPE.to_owned()),
        data: Some(data.into_iter().map(bytes).collect()),
        ..Secret::default()
    }
}

/// Digest over all inputs and the rendered kubeconfig.
fn inputs_digest(facts: &KubeconfigInputs<'_>, value: &[u8]) -> String {
    let KubeconfigInputs { object: _, cluster, eks_name, region, access, principal_digest: principal } =
        facts;
    let mut hash = Sha256::new();
    for part in [cluster, eks_name, region, access.endpoint.as_str(), access.ca_data.as_str(), principal] {
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
    use crate::controlplane::fixtures::control_plane;
    use capt_engine::aws::EksToken;

    const PEM: &str = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n";

    fn access() -> ApiServerAccess {
        ApiServerAccess { endpoint: "https://eks.example".to_owned(), ca_data: BASE64_STANDARD.encode(PEM) }
    }

    fn made(at: &str) -> IssuedToken {
        let at: Timestamp = at.parse().unwrap();
        let expires_at = at.saturating_add(jiff::SignedDuration::from_mins(14)).unwrap();
        IssuedToken {
            issued_at: at,
            token: EksToken { bearer: "k8s-aws-v1.abc".to_owned().into(), expires_at },
        }
    }

    fn with<T>(
        access: &ApiServerAccess,
        principal: &str,
        work: impl FnOnce(&KubeconfigInputs<'_>) -> T,
    ) -> T {
        let object = control_plane(&json!({"version": "1.33"}));
        work(&KubeconfigInputs {
            object: &object,
            cluster: "demo",
            eks_name: "prod",
            region: "eu-central-1",
            access,
            principal_digest: principal,
        })
    }

    #[test]
    fn p18_the_secret_for_programs_is_exactly_what_cluster_api_asks_for() {
        let secret =
            with(&access(), "p", |facts| build_kubeconfig_secret(facts, &made("2026-11-01T10:00:00Z")));
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
        let secret =
            with(&access(), "p", |facts| build_kubeconfig_secret(facts, &made("2026-11-01T10:00:00Z")));
        let due = "2026-11-01T10:09:00Z".parse().unwrap();
        assert_eq!(
            with(&access(), "p", |facts| check_freshness(&secret, facts)),
            SecretFreshness::Current(due)
        );
        let moved = ApiServerAccess { endpoint: "https://other".to_owned(), ..access() };
        assert_eq!(with(&moved, "p", |facts| check_freshness(&secret, facts)), SecretFreshness::Stale);
        assert_eq!(with(&access(), "other", |facts| check_freshness(&secret, facts)), SecretFreshness::Stale);
    }

    #[test]
    fn whatever_somebody_does_to_it_is_noticed() {
        let good =
            with(&access(), "p", |facts| build_kubeconfig_secret(facts, &made("2026-11-01T10:00:00Z")));
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
            assert_eq!(
                with(&access(), "p", |facts| check_freshness(&secret, facts)),
                SecretFreshness::Stale,
                "edit {at}"
            );
        }
    }

    #[test]
    fn the_authority_has_no_key_that_could_be_taken_for_one_that_signs() {
        let secret = with(&access(), "p", |facts| build_ca_secret(facts, None)).unwrap();
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
        assert!(is_legacy_ca(&old));
        let secret = with(&access(), "p", |facts| build_ca_secret(facts, Some(&old))).unwrap();
        assert_eq!((secret.name_any().as_str(), secret.type_.as_deref()), ("cp-ca", Some("Opaque")));
        assert_eq!(secret.data.unwrap()["ca.crt"].0, PEM.as_bytes());
    }

    #[test]
    fn an_authority_that_is_garbage_makes_no_secret() {
        let garbage = ApiServerAccess { ca_data: "not base64!".to_owned(), ..access() };
        assert!(with(&garbage, "p", |facts| build_ca_secret(facts, None)).is_none());
    }

    #[test]
    fn a_secret_of_somebody_else_is_foreign_and_one_of_nobody_is_not() {
        let owned = |uid: &str| -> Secret {
            let owner = json!({"apiVersion": "v1", "kind": "X", "name": "x", "uid": uid});
            serde_json::from_value(json!({"metadata": {"name": "s", "ownerReferences": [owner]}})).unwrap()
        };
        assert!(is_owned_by_others(&owned("other"), "c1"));
        assert!(!is_owned_by_others(&owned("c1"), "c1"));
        assert!(!is_owned_by_others(&Secret::default(), "c1"));
    }
}
