//! The AWS identity of a terraform run or an SDK call: the source of the first credentials, and the chain of roles that are
//! assumed with them.
//!
//! The SDK ([`super::Cloud::sdk_config_as`]) and terraform ([`Principal::terraform`]) get the same identity. `Debug` never prints a
//! secret.

use std::{collections::BTreeMap, fmt, path::PathBuf, time::Duration};

use sha2::{Digest as _, Sha256};
use terraform_driver::{environment::TerraformCredentials, hex::hex, render::AssumeRole};

use super::Cloud;

/// Source of the first credentials.
#[derive(Clone, PartialEq, Eq)]
pub enum PrincipalSource {
    /// The SDK's default credential chain; for the local AWS its fixed key.
    Default,
    /// Static keys, parsed by [`super::keys`] or [`super::parse_credentials_file`].
    Static {
        /// Access key id.
        access_key_id: String,
        /// Secret access key.
        secret_access_key: String,
        /// Session token of temporary credentials.
        session_token: Option<String>,
    },
    /// A web identity token, exchanged for credentials of a role.
    WebIdentity {
        /// Role that trusts the token issuer.
        role_arn: String,
        /// File with the token.
        token_file: PathBuf,
    },
}

impl fmt::Debug for PrincipalSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("Default"),
            Self::Static { .. } => f.write_str("Static(..)"),
            Self::WebIdentity { role_arn, .. } => write!(f, "WebIdentity({role_arn})"),
        }
    }
}

/// A role of the chain.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct RoleHop {
    /// ARN of the role.
    pub role_arn: String,
    /// External id that the role's trust policy requires.
    pub external_id: Option<String>,
    /// Session duration; one hour by default. If the default chain is a role itself, AWS rejects more than one hour.
    pub duration: Option<Duration>,
    /// Session tags.
    pub tags: BTreeMap<String, String>,
}

/// Omits the external id: AWS does not consider it a secret, but users do.
impl fmt::Debug for RoleHop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { role_arn, external_id: _, duration, tags } = self;
        let mut text = f.debug_struct("RoleHop");
        text.field("role_arn", role_arn)
            .field("duration", duration)
            .field("tags", tags)
            .finish_non_exhaustive()
    }
}

/// AWS identity of a run or a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// Source of the first credentials.
    pub source: PrincipalSource,
    /// Roles to assume, each with the credentials of the previous one.
    pub role_chain: Vec<RoleHop>,
    /// Name of every session, see [`session_name`].
    pub session_name: String,
}

/// Maximum session duration for role chaining; AWS rejects more.
const MAX_CHAINED_SESSION: Duration = Duration::from_hours(1);

impl Principal {
    /// The process's own identity: the default credential chain without roles.
    pub fn from_default_chain() -> Self {
        Self { source: PrincipalSource::Default, role_chain: Vec::new(), session_name: "capt".to_owned() }
    }

    /// An identity that AWS knows nothing of.
    pub fn without_permissions() -> Self {
        let nothing = "none".to_owned();
        Self {
            source: PrincipalSource::Static {
                access_key_id: nothing.clone(),
                secret_access_key: nothing,
                session_token: None,
            },
            ..Self::from_default_chain()
        }
    }

    /// Session duration of the hop at an index; capped for role chaining.
    pub(super) fn session_duration(&self, at: usize) -> Option<Duration> {
        let wanted = self.role_chain.get(at)?.duration?;
        let is_chained = at > 0 || matches!(self.source, PrincipalSource::WebIdentity { .. });
        Some(if is_chained { wanted.min(MAX_CHAINED_SESSION) } else { wanted })
    }

    /// Digest of credentials and roles. Reveals no secret. The contents of a token file and of the default chain are not included.
    pub fn digest(&self) -> String {
        let Self { source, role_chain: hops, session_name } = self;
        let mut hash = LengthPrefixedHash::new("capt principal 1");
        match source {
            PrincipalSource::Default => hash.add("default"),
            PrincipalSource::Static { access_key_id, secret_access_key, session_token } => {
                hash.add("static");
                hash.add(access_key_id);
                hash.add(secret_access_key);
                hash.add_optional(session_token.as_deref());
            }
            PrincipalSource::WebIdentity { role_arn, token_file } => {
                hash.add("web identity");
                hash.add(role_arn);
                hash.add(&token_file.to_string_lossy());
            }
        }
        for RoleHop { role_arn, external_id, duration, tags } in hops {
            hash.add("hop");
            hash.add(role_arn);
            hash.add_optional(external_id.as_deref());
            hash.add_optional(duration.map(|time| time.as_secs().to_string()).as_deref());
            for (key, value) in tags {
                hash.add("tag");
                hash.add(key);
                hash.add(value);
            }
        }
        hash.add("session");
        hash.add(session_name);
        hash.finish()
    }

    /// Translates the principal for terraform: credentials for its environment and roles for its provider block.
    ///
    /// For the local AWS, a run never gets the caller's own credentials, and a web identity becomes a role that is assumed
    /// with the local key, because the provider would exchange the token at the real STS. With static credentials for the
    /// local AWS, set `keys_from_environment` in the block, which otherwise overrides them with the local key.
    pub fn terraform_credentials(&self, cloud: &Cloud) -> (TerraformCredentials, Vec<AssumeRole>) {
        let is_local = matches!(cloud, Cloud::Local { .. });
        let mut roles = Vec::with_capacity(self.role_chain.len() + 1);
        let credentials = match &self.source {
            PrincipalSource::Default if is_local => TerraformCredentials::None,
            PrincipalSource::Default => TerraformCredentials::Inherited,
            PrincipalSource::Static { access_key_id, secret_access_key, session_token } => {
                TerraformCredentials::Static {
                    access_key_id: access_key_id.clone(),
                    secret_access_key: secret_access_key.clone(),
                    session_token: session_token.clone(),
                }
            }
            PrincipalSource::WebIdentity { role_arn, .. } if is_local => {
                let session_name = Some(self.session_name.clone());
                roles.push(AssumeRole { role_arn: role_arn.clone(), session_name, ..AssumeRole::default() });
                TerraformCredentials::None
            }
            PrincipalSource::WebIdentity { role_arn, token_file } => TerraformCredentials::WebIdentity {
                role_arn: role_arn.clone(),
                token_file: token_file.clone(),
                session_name: self.session_name.clone(),
            },
        };
        roles.extend(self.role_chain.iter().enumerate().map(|(at, hop)| self.assume_role_block(at, hop)));
        (credentials, roles)
    }

    fn assume_role_block(&self, at: usize, hop: &RoleHop) -> AssumeRole {
        let RoleHop { role_arn, external_id, duration: _, tags } = hop;
        AssumeRole {
            role_arn: role_arn.clone(),
            session_name: Some(self.session_name.clone()),
            external_id: external_id.clone(),
            duration_seconds: self.session_duration(at).and_then(|time| i32::try_from(time.as_secs()).ok()),
            tags: tags.clone(),
        }
    }
}

/// Hash over length-prefixed texts, so that no two sequences collide by moving a boundary.
struct LengthPrefixedHash(Sha256);

impl LengthPrefixedHash {
    fn new(domain: &str) -> Self {
        let mut parts = Self(Sha256::new());
        parts.add(domain);
        parts
    }

    fn add(&mut self, text: &str) {
        self.0.update(text.len().to_be_bytes());
        self.0.update(text);
    }

    fn add_optional(&mut self, text: Option<&str>) {
        self.add(if text.is_some() { "some" } else { "none" });
        self.add(text.unwrap_or_default());
    }

    fn finish(self) -> String {
        hex(self.0.finalize())
    }
}

/// Maximum length of a session name.
const MAX_SESSION_NAME_LEN: usize = 64;

/// Session name of an identity in a namespace, as AWS and cluster audit logs show it. Unique per pair, because a trust
/// policy may match it. STS accepts 2 to 64 characters of `[\w+=,.@-]`.
pub fn session_name(identity: &str, namespace: &str) -> String {
    // Kubernetes names contain neither `@` nor `=`, so the separator and the hash suffix are unambiguous.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_+,.-".contains(c);
    let whole = format!("capt-{identity}@{namespace}");
    if whole.len() <= MAX_SESSION_NAME_LEN && identity.chars().chain(namespace.chars()).all(is_plain) {
        return whole;
    }
    let mut hash = LengthPrefixedHash::new("capt session 1");
    hash.add(identity);
    hash.add(namespace);
    let hash: String = hash.finish().chars().take(12).collect();
    let cut = |text: &str, most: usize| -> String {
        text.chars().map(|c| if is_plain(c) { c } else { '-' }).take(most).collect()
    };
    let namespace = cut(namespace, 20);
    let rest = MAX_SESSION_NAME_LEN - "capt-@=".len() - hash.len() - namespace.len();
    format!("capt-{}@{namespace}={hash}", cut(identity, rest))
}

#[cfg(test)]
mod tests;
