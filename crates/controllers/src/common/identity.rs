//! Resolves a `CAPTIdentity` and its Secret to an AWS principal.
//!
//! Contract: an identity is usable only in the namespaces that it allows, and no error contains a credential.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use capt_engine::aws::{
    Principal, PrincipalSource, RoleHop, StaticCredentialsError, parse_credentials_file, parse_keys,
    session_name,
};
use capt_kinds::api::{AllowedNamespaces, CaptIdentity, CaptIdentitySpec};
use capt_kube::{
    error::ErrorClass,
    k8s::{K8sError, KubeClient},
};
use capt_model::model::{
    ObjectKey, Problem,
    identity::{CredentialSource, ValidatedIdentity, validate},
};
use k8s_openapi::{
    ByteString,
    api::core::v1::{Namespace, Secret},
};
use kube::core::{Selector, SelectorExt as _};
use thiserror::Error;

/// Data keys of a credentials Secret.
const ACCESS_KEY_ID: &str = "accessKeyID";
const SECRET_ACCESS_KEY: &str = "secretAccessKey";
const SESSION_TOKEN: &str = "sessionToken";
const CREDENTIALS_FILE: &str = "credentials";

/// The identity of objects that name none. Also the CRD default of `providerConfigRef.name`, as in Crossplane.
pub const DEFAULT_IDENTITY: &str = "default";

/// Why an identity cannot be used.
#[derive(Debug, Error)]
pub enum IdentityError {
    /// It does not exist.
    #[error("CAPTIdentity {identity} does not exist; create it or correct the reference")]
    NotFound {
        /// Its name.
        identity: String,
    },
    /// None is named, there is no default one, and the operator's own identity must not be used.
    #[error(
        "no AWS identity: set identityRef, or create the CAPTIdentity {identity} with the namespace in its allowedNamespaces; \
         this operator requires one (--require-identity)"
    )]
    Required {
        /// The name of the default one.
        identity: String,
    },
    /// It does not allow this namespace.
    #[error("CAPTIdentity {identity} does not allow namespace {namespace}; add it to its allowedNamespaces")]
    NotAllowed {
        /// Its name.
        identity: String,
        /// The namespace.
        namespace: String,
    },
    /// Its spec is invalid.
    #[error("CAPTIdentity {identity} is not valid: {problem}")]
    Invalid {
        /// Its name.
        identity: String,
        /// The first of the problems.
        problem: String,
    },
    /// Its Secret does not exist.
    #[error("Secret {secret} of CAPTIdentity {identity} does not exist; create it")]
    SecretNotFound {
        /// Its name.
        identity: String,
        /// The Secret.
        secret: String,
    },
    /// Its Secret holds no valid credentials.
    #[error("Secret {secret} of CAPTIdentity {identity} holds no credentials")]
    InvalidCredentials {
        /// Its name.
        identity: String,
        /// The Secret.
        secret: String,
        /// What is wrong with it.
        #[source]
        source: StaticCredentialsError,
    },
    /// The API server request failed.
    #[error("cannot read CAPTIdentity {identity}")]
    ReadFailed {
        /// Its name.
        identity: String,
        /// Why.
        #[source]
        source: K8sError,
    },
}

impl IdentityError {
    /// Error class for the error policy.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::NotFound { .. } | Self::Required { .. } | Self::SecretNotFound { .. } => {
                ErrorClass::Waiting
            }
            Self::NotAllowed { .. } | Self::Invalid { .. } | Self::InvalidCredentials { .. } => {
                ErrorClass::Invalid
            }
            Self::ReadFailed { source, .. } => source.class(),
        }
    }

    /// The message with its sources, in one line.
    pub fn full_message(&self) -> String {
        match self {
            Self::InvalidCredentials { source, .. } => format!("{self}: {source}"),
            Self::ReadFailed { source, .. } => format!("{self}: {source}"),
            other => other.to_string(),
        }
    }
}

/// Whether an identity may be used in a namespace with these labels. Without `allowedNamespaces` it is allowed nowhere.
pub fn is_namespace_allowed(
    spec: &CaptIdentitySpec,
    namespace: &str,
    labels: &BTreeMap<String, String>,
) -> bool {
    let Some(AllowedNamespaces { list, selector }) = &spec.allowed_namespaces else { return false };
    if list.is_empty() && selector.is_none() {
        return true;
    }
    let selects = |selector: &k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector| {
        // An invalid selector selects nothing.
        Selector::try_from(selector.clone()).is_ok_and(|selector| selector.matches(labels))
    };
    list.iter().any(|one| one == namespace) || selector.as_ref().is_some_and(selects)
}

/// Reference to the Secret with the credentials of an identity, if it uses one.
pub fn credentials_secret_ref(spec: &CaptIdentitySpec) -> Option<&capt_kinds::api::SecretRef> {
    spec.secret_ref.as_ref()
}

/// The principal of the identity named `identity` for objects in a namespace. `secret` is the data of its Secret.
pub fn build_principal(
    (identity, namespace): (&str, &str),
    spec: &CaptIdentitySpec,
    secret: Option<&BTreeMap<String, ByteString>>,
) -> Result<Principal, IdentityError> {
    let invalid = |problems: Vec<Problem>| IdentityError::Invalid {
        identity: identity.to_owned(),
        problem: problems.first().map(ToString::to_string).unwrap_or_default(),
    };
    let ValidatedIdentity { source, roles, allowed: _, configuration: _, backend: _, files: _ } =
        validate(spec).map_err(invalid)?;
    let source = match source {
        CredentialSource::Default => PrincipalSource::Default,
        CredentialSource::Secret(key) => parse_credentials(identity, &key, secret)?,
        CredentialSource::WebIdentity { role, token_file } => {
            PrincipalSource::WebIdentity { role_arn: role.to_string(), token_file: PathBuf::from(token_file) }
        }
    };
    let seconds = |seconds: i32| u64::try_from(seconds).ok().map(Duration::from_secs);
    let hops = roles
        .into_iter()
        .map(|role| RoleHop {
            role_arn: role.role.to_string(),
            external_id: role.external_id,
            duration: seconds(role.duration_seconds),
            tags: role.tags.into_iter().collect(),
        })
        .collect();
    Ok(Principal { source, role_chain: hops, session_name: session_name(identity, namespace) })
}

fn parse_credentials(
    identity: &str,
    key: &ObjectKey,
    secret: Option<&BTreeMap<String, ByteString>>,
) -> Result<PrincipalSource, IdentityError> {
    let data = secret.ok_or_else(|| IdentityError::SecretNotFound {
        identity: identity.to_owned(),
        secret: key.to_string(),
    })?;
    let text = |name: &str| data.get(name).map(|ByteString(bytes)| String::from_utf8_lossy(bytes));
    let found = match text(CREDENTIALS_FILE) {
        Some(file) if !data.contains_key(ACCESS_KEY_ID) => parse_credentials_file(&file),
        _ => parse_keys(
            &text(ACCESS_KEY_ID).unwrap_or_default(),
            &text(SECRET_ACCESS_KEY).unwrap_or_default(),
            text(SESSION_TOKEN).as_deref(),
        ),
    };
    found.map_err(|source| IdentityError::InvalidCredentials {
        identity: identity.to_owned(),
        secret: key.to_string(),
        source,
    })
}

/// The principal for objects in a namespace that name this identity. Without one, or if the default one does not exist, this is
/// the operator's own principal, unless an identity is required.
pub async fn resolve_principal(
    kube: &KubeClient,
    identity: Option<&str>,
    namespace: &str,
    required: bool,
) -> Result<Principal, IdentityError> {
    let Some(name) = identity.or_else(|| required.then_some(DEFAULT_IDENTITY)) else {
        return Ok(Principal::from_default_chain());
    };
    match resolve_named_principal(kube, name, namespace).await {
        Err(IdentityError::NotFound { identity }) if identity == DEFAULT_IDENTITY => {
            if required {
                Err(IdentityError::Required { identity })
            } else {
                Ok(Principal::from_default_chain())
            }
        }
        found => found,
    }
}

/// Reads an identity, its namespace rules and its Secret.
async fn resolve_named_principal(
    kube: &KubeClient,
    identity: &str,
    namespace: &str,
) -> Result<Principal, IdentityError> {
    let unread = |source| IdentityError::ReadFailed { identity: identity.to_owned(), source };
    let found: Option<CaptIdentity> = kube.get(None, identity).await.map_err(unread)?;
    let spec = found.ok_or_else(|| IdentityError::NotFound { identity: identity.to_owned() })?.spec;
    let home: Option<Namespace> = kube.get(None, namespace).await.map_err(unread)?;
    let labels = home.and_then(|home| home.metadata.labels).unwrap_or_default();
    if !is_namespace_allowed(&spec, namespace, &labels) {
        return Err(IdentityError::NotAllowed {
            identity: identity.to_owned(),
            namespace: namespace.to_owned(),
        });
    }
    let secret: Option<Secret> = match credentials_secret_ref(&spec) {
        Some(at) => kube.get(Some(&at.namespace), &at.name).await.map_err(unread)?,
        None => None,
    };
    let data = secret.map(|secret| secret.data.unwrap_or_default());
    build_principal((identity, namespace), &spec, data.as_ref())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn spec(value: Value) -> CaptIdentitySpec {
        serde_json::from_value(value).unwrap()
    }

    fn data(entries: &[(&str, &str)]) -> BTreeMap<String, ByteString> {
        let bytes = |text: &str| ByteString(text.as_bytes().to_vec());
        entries.iter().map(|(name, text)| ((*name).to_owned(), bytes(text))).collect()
    }

    #[test]
    fn an_identity_serves_whom_it_names() {
        let blue = BTreeMap::from([("team".to_owned(), "blue".to_owned())]);
        let none = BTreeMap::new();
        let table = [
            (json!({}), "shop", &blue, false),
            (json!({"allowedNamespaces": {}}), "shop", &none, true),
            (json!({"allowedNamespaces": {"list": ["shop"]}}), "shop", &none, true),
            (json!({"allowedNamespaces": {"list": ["shop"]}}), "bank", &blue, false),
            (
                json!({"allowedNamespaces": {"selector": {"matchLabels": {"team": "blue"}}}}),
                "bank",
                &blue,
                true,
            ),
            (
                json!({"allowedNamespaces": {"selector": {"matchLabels": {"team": "blue"}}}}),
                "bank",
                &none,
                false,
            ),
            (
                json!({"allowedNamespaces": {"list": ["shop"], "selector": {"matchLabels": {"team": "blue"}}}}),
                "bank",
                &blue,
                true,
            ),
            (json!({"allowedNamespaces": {"selector": {}}}), "bank", &none, true),
        ];
        for (value, namespace, labels, expected) in table {
            assert_eq!(
                is_namespace_allowed(&spec(value.clone()), namespace, labels),
                expected,
                "{value} {namespace}"
            );
        }
    }

    #[test]
    fn a_secret_becomes_keys_and_roles_follow() {
        let spec = spec(json!({
            "source": "Secret", "secretRef": {"name": "keys", "namespace": "ops"},
            "assumeRoles": [{"roleArn": "arn:aws:iam::111122223333:role/one", "externalId": "word",
                "durationSeconds": 900, "sessionTags": {"a": "b"}}],
        }));
        let keys = data(&[("accessKeyID", "AKID\n"), ("secretAccessKey", "S")]);
        let found = build_principal(("prod", "shop"), &spec, Some(&keys)).unwrap();
        let expected = PrincipalSource::Static {
            access_key_id: "AKID".to_owned(),
            secret_access_key: "S".to_owned(),
            session_token: None,
        };
        assert_eq!((found.source, found.session_name.as_str()), (expected, "capt-prod@shop"));
        assert_eq!(found.role_chain.len(), 1);
        assert_eq!(found.role_chain[0].duration, Some(Duration::from_mins(15)));
        assert_eq!(found.role_chain[0].external_id.as_deref(), Some("word"));
    }

    #[test]
    fn a_credentials_file_serves_too() {
        let spec = spec(json!({"source": "Secret", "secretRef": {"name": "keys", "namespace": "ops"}}));
        let file = data(&[("credentials", "[default]\naws_access_key_id = A\naws_secret_access_key = S\n")]);
        let found = build_principal(("prod", "shop"), &spec, Some(&file)).unwrap();
        assert!(
            matches!(found.source, PrincipalSource::Static { ref access_key_id, .. } if access_key_id == "A")
        );
    }

    #[test]
    fn what_is_wrong_is_told_by_name_and_without_a_credential() {
        let secret = spec(json!({"source": "Secret", "secretRef": {"name": "keys", "namespace": "ops"}}));
        let missing = build_principal(("prod", "shop"), &secret, None).unwrap_err();
        assert_eq!(missing.class(), ErrorClass::Waiting);
        assert!(
            missing.full_message().contains("Secret ops/keys of CAPTIdentity prod does not exist"),
            "{missing}"
        );
        let half = build_principal(("prod", "shop"), &secret, Some(&data(&[("accessKeyID", "hunter2")])))
            .unwrap_err();
        assert_eq!(half.class(), ErrorClass::Invalid);
        let said = half.full_message();
        assert!(
            said.contains("ops/keys") && said.contains("secret access key") && !said.contains("hunter2"),
            "{said}"
        );
        let broken = build_principal(("prod", "shop"), &spec(json!({"source": "Secret"})), None).unwrap_err();
        assert!(broken.full_message().contains("spec.secretRef"), "{}", broken.full_message());
    }

    #[test]
    fn a_web_identity_needs_no_secret() {
        let web = json!({"roleArn": "arn:aws:iam::111122223333:role/web", "tokenFile": "/var/run/token"});
        let found =
            build_principal(("w", "n"), &spec(json!({"source": "WebIdentity", "webIdentity": web})), None)
                .unwrap();
        assert!(matches!(found.source, PrincipalSource::WebIdentity { .. }) && found.role_chain.is_empty());
    }
}
