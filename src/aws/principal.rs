//! Who a run of terraform or a call of AWS acts as: where the first credentials come from, and the roles that are
//! assumed from there.
//!
//! Contract: the SDK ([`super::Cloud::sdk_as`]) and terraform ([`Principal::terraform`]) act as the same. Nothing here
//! prints a secret.

use std::{collections::BTreeMap, fmt, path::PathBuf, time::Duration};

use sha2::{Digest as _, Sha256};
use terraform_driver::{environment::Credentials, hex::hex, render::AssumeRole};

use super::Cloud;

/// Where the first credentials come from.
#[derive(Clone, PartialEq, Eq)]
pub enum Source {
    /// The SDK's default chain; in the local AWS its own key.
    Default,
    /// These. Made by [`super::keys`] or [`super::parse_ini`].
    Static {
        /// The access key's id.
        access_key_id: String,
        /// The secret.
        secret_access_key: String,
        /// The token of temporary credentials.
        session_token: Option<String>,
    },
    /// A token in a file, exchanged for those of a role.
    WebIdentity {
        /// The role that trusts the token.
        role_arn: String,
        /// The file that holds it.
        token_file: PathBuf,
    },
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("Default"),
            Self::Static { .. } => f.write_str("Static(..)"),
            Self::WebIdentity { role_arn, .. } => write!(f, "WebIdentity({role_arn})"),
        }
    }
}

/// A role to assume.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Hop {
    /// The role.
    pub role_arn: String,
    /// The word that the role's owner asks for.
    pub external_id: Option<String>,
    /// How long a session lives; an hour if left out. Where the default chain is a role itself, AWS gives no more than an
    /// hour and refuses what asks for it.
    pub duration: Option<Duration>,
    /// Tags of the session.
    pub tags: BTreeMap<String, String>,
}

/// An external id is no secret to AWS; people treat it as one.
impl fmt::Debug for Hop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { role_arn, external_id: _, duration, tags } = self;
        let mut text = f.debug_struct("Hop");
        text.field("role_arn", role_arn)
            .field("duration", duration)
            .field("tags", tags)
            .finish_non_exhaustive()
    }
}

/// Who a run or a call acts as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// Where the first credentials come from.
    pub source: Source,
    /// Roles to assume, one with the credentials of the other.
    pub hops: Vec<Hop>,
    /// The name of every session, see [`session_name`].
    pub session_name: String,
}

/// The longest session of a role that another role assumes; AWS refuses to give more.
const CHAINED: Duration = Duration::from_hours(1);

impl Principal {
    /// Ourselves: the default chain and no roles.
    pub fn own() -> Self {
        Self { source: Source::Default, hops: Vec::new(), session_name: "capt".to_owned() }
    }

    /// How long a session of the hop at this place lives. A role that is assumed by a role gets an hour at most,
    /// however long it was asked for.
    pub(super) fn duration(&self, at: usize) -> Option<Duration> {
        let wanted = self.hops.get(at)?.duration?;
        let is_chained = at > 0 || matches!(self.source, Source::WebIdentity { .. });
        Some(if is_chained { wanted.min(CHAINED) } else { wanted })
    }

    /// Changes whenever credentials or roles do. Tells nothing about a secret; what a file or the default chain holds
    /// is not looked at.
    pub fn digest(&self) -> String {
        let Self { source, hops, session_name } = self;
        let mut hash = Parts::new("capt principal 1");
        match source {
            Source::Default => hash.add("default"),
            Source::Static { access_key_id, secret_access_key, session_token } => {
                hash.add("static");
                hash.add(access_key_id);
                hash.add(secret_access_key);
                hash.optional(session_token.as_deref());
            }
            Source::WebIdentity { role_arn, token_file } => {
                hash.add("web identity");
                hash.add(role_arn);
                hash.add(&token_file.to_string_lossy());
            }
        }
        for Hop { role_arn, external_id, duration, tags } in hops {
            hash.add("hop");
            hash.add(role_arn);
            hash.optional(external_id.as_deref());
            hash.optional(duration.map(|time| time.as_secs().to_string()).as_deref());
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

    /// The same for terraform: the credentials of its environment and the roles of its provider block.
    ///
    /// In the local AWS a run never gets the caller's own credentials, and a web identity becomes a role that is
    /// assumed with the local key, because the provider would exchange the token at the real STS. With
    /// `Credentials::Static` there, set `keys_from_environment` in the block, which would hide them otherwise.
    pub fn terraform(&self, cloud: &Cloud) -> (Credentials, Vec<AssumeRole>) {
        let is_local = matches!(cloud, Cloud::Local { .. });
        let mut roles = Vec::with_capacity(self.hops.len() + 1);
        let credentials = match &self.source {
            Source::Default if is_local => Credentials::None,
            Source::Default => Credentials::Outer,
            Source::Static { access_key_id, secret_access_key, session_token } => Credentials::Static {
                access_key_id: access_key_id.clone(),
                secret_access_key: secret_access_key.clone(),
                session_token: session_token.clone(),
            },
            Source::WebIdentity { role_arn, .. } if is_local => {
                let session_name = Some(self.session_name.clone());
                roles.push(AssumeRole { role_arn: role_arn.clone(), session_name, ..AssumeRole::default() });
                Credentials::None
            }
            Source::WebIdentity { role_arn, token_file } => Credentials::WebIdentity {
                role_arn: role_arn.clone(),
                token_file: token_file.clone(),
                session_name: self.session_name.clone(),
            },
        };
        roles.extend(self.hops.iter().enumerate().map(|(at, hop)| self.assumed(at, hop)));
        (credentials, roles)
    }

    fn assumed(&self, at: usize, hop: &Hop) -> AssumeRole {
        let Hop { role_arn, external_id, duration: _, tags } = hop;
        AssumeRole {
            role_arn: role_arn.clone(),
            session_name: Some(self.session_name.clone()),
            external_id: external_id.clone(),
            duration_seconds: self.duration(at).and_then(|time| i32::try_from(time.as_secs()).ok()),
            tags: tags.clone(),
        }
    }
}

/// A hash over texts that cannot be shifted from one into the next.
struct Parts(Sha256);

impl Parts {
    fn new(domain: &str) -> Self {
        let mut parts = Self(Sha256::new());
        parts.add(domain);
        parts
    }

    fn add(&mut self, text: &str) {
        self.0.update(text.len().to_be_bytes());
        self.0.update(text);
    }

    fn optional(&mut self, text: Option<&str>) {
        self.add(if text.is_some() { "some" } else { "none" });
        self.add(text.unwrap_or_default());
    }

    fn finish(self) -> String {
        hex(&self.0.finalize())
    }
}

/// The longest name of a session.
const LONGEST: usize = 64;

/// The name of an identity's sessions in a namespace, as the logs of AWS and of a cluster show it. The same for the same
/// two, and for no others: a trust policy may ask for it. STS takes 2 to 64 characters of `[\w+=,.@-]`.
pub fn session_name(identity: &str, namespace: &str) -> String {
    // No name of Kubernetes holds an @ or a =, so that neither the border nor a hash can be part of one.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_+,.-".contains(c);
    let whole = format!("capt-{identity}@{namespace}");
    if whole.len() <= LONGEST && identity.chars().chain(namespace.chars()).all(is_plain) {
        return whole;
    }
    let mut hash = Parts::new("capt session 1");
    hash.add(identity);
    hash.add(namespace);
    let hash: String = hash.finish().chars().take(12).collect();
    let cut = |text: &str, most: usize| -> String {
        text.chars().map(|c| if is_plain(c) { c } else { '-' }).take(most).collect()
    };
    let namespace = cut(namespace, 20);
    let rest = LONGEST - "capt-@=".len() - hash.len() - namespace.len();
    format!("capt-{}@{namespace}={hash}", cut(identity, rest))
}

#[cfg(test)]
mod tests;
