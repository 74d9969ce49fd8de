//! EKS tokens: `k8s-aws-v1.` and a presigned `GetCallerIdentity` URL.
//!
//! The caller chooses the URL, so it is never fetched as given: only its query is used, after every part has been
//! checked, and sent to the configured STS endpoint. That endpoint returns the identity of the signer. The cluster name
//! is the signed header `x-k8s-aws-id`, so a token for another cluster has an invalid signature. A local AWS may not
//! check signatures; if the secret keys are configured, they are checked here.

mod presigned;
mod sts_client;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::{Mutex, RwLock};

use self::presigned::PresignedUrl;
use super::{SYSTEM_AUTHENTICATED, bearer::token_hash};
use crate::{clock, request::User};

/// Maps an AWS identity to a Kubernetes user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessEntry {
    /// ARN of a user or role; `*` matches any identity.
    pub arn: String,
    /// Kubernetes user name; empty for the ARN itself. `{{SessionName}}` is replaced with the role session name.
    pub user: String,
    /// Kubernetes groups, such as `system:masters`.
    pub groups: Vec<String>,
}

impl AccessEntry {
    /// An administrator, such as the creator of a cluster.
    pub fn admin(arn: impl Into<String>) -> Self {
        Self { arn: arn.into(), user: String::new(), groups: vec![super::SYSTEM_MASTERS.to_owned()] }
    }
}

/// Access entries of a cluster. Clones share the list, so changes apply immediately.
#[derive(Debug, Clone, Default)]
pub struct AccessEntries(Arc<RwLock<Vec<AccessEntry>>>);

impl AccessEntries {
    /// Replaces all entries.
    pub fn set(&self, access: Vec<AccessEntry>) {
        *self.0.write() = access;
    }

    fn user_for_arn(&self, arn: &str) -> Option<User> {
        map_arn(&self.0.read(), arn)
    }
}

impl From<Vec<AccessEntry>> for AccessEntries {
    fn from(access: Vec<AccessEntry>) -> Self {
        Self(Arc::new(RwLock::new(access)))
    }
}

/// STS endpoint and access entries that EKS tokens are checked against.
#[derive(Debug, Clone, Default)]
pub struct StsConfig {
    /// Endpoint as `http://host:port`. Its answers are trusted.
    pub endpoint: String,
    /// Cluster name that every token must be signed for.
    pub cluster: String,
    /// Access entries.
    pub access_entries: AccessEntries,
    /// Secret keys by access key id. If any are given, a token must be signed with one of them: other keys are
    /// rejected, and signatures are checked here before STS is called. If none are given, only STS checks signatures;
    /// an STS that does not (most local ones) lets in everyone who can reach the cluster and knows its name.
    pub secrets: Vec<(String, String)>,
}

/// How long the answer of STS for a token is cached.
const IDENTITY_TTL: Duration = Duration::from_mins(1);
const MAX_CACHED_IDENTITIES: usize = 1024;

/// Authenticates EKS tokens.
pub struct EksAuthenticator {
    sts: StsConfig,
    /// Cached ARNs by token hash.
    identities: Mutex<HashMap<[u8; 32], (Instant, String)>>,
}

impl EksAuthenticator {
    pub fn new(sts: StsConfig) -> Self {
        Self { sts, identities: Mutex::default() }
    }

    /// The user of a token.
    pub async fn authenticate(&self, token: &str) -> Option<User> {
        let now = clock::now();
        let presigned = match PresignedUrl::parse(token, &self.sts, now) {
            Ok(presigned) => presigned,
            Err(why) => {
                tracing::debug!(%why, "EKS token rejected");
                return None;
            }
        };
        let key = token_hash(token);
        let known = self.identities.lock().get(&key).filter(|(until, _)| Instant::now() < *until).cloned();
        if let Some((_, arn)) = known {
            return self.sts.access_entries.user_for_arn(&arn);
        }
        let arn = match sts_client::get_caller_identity(&self.sts, &presigned).await {
            Ok(arn) => arn,
            Err(why) => {
                tracing::debug!(%why, "STS did not accept the EKS token");
                return None;
            }
        };
        let user = self.sts.access_entries.user_for_arn(&arn)?;
        let mut known = self.identities.lock();
        if known.len() >= MAX_CACHED_IDENTITIES {
            known.clear();
        }
        known.insert(key, (Instant::now() + IDENTITY_TTL, arn));
        Some(user)
    }
}

fn map_arn(access: &[AccessEntry], arn: &str) -> Option<User> {
    let who = canonical_arn(arn);
    let found = access.iter().find(|one| canonical_arn(&one.arn) == who || one.arn == "*")?;
    let session = session_name(arn);
    let name = if found.user.is_empty() {
        who.clone()
    } else {
        found.user.replace("{{SessionName}}", &session.replace('@', "-"))
    };
    let mut groups = found.groups.clone();
    groups.push(SYSTEM_AUTHENTICATED.to_owned());
    let mut extra =
        BTreeMap::from([("arn".to_owned(), vec![arn.to_owned()]), ("canonicalArn".to_owned(), vec![who])]);
    if !session.is_empty() {
        extra.insert("sessionName".to_owned(), vec![session.to_owned()]);
    }
    Some(User { name, uid: String::new(), groups, extra })
}

/// Canonical ARN of an identity: a role session maps to its role, the path of a role is dropped (sessions do not
/// contain it), and users always use the IAM ARN.
fn canonical_arn(arn: &str) -> String {
    let parts: Vec<&str> = arn.splitn(6, ':').collect();
    let [_, partition, "iam" | "sts", region, account, rest] = parts.as_slice() else {
        return arn.to_owned();
    };
    let resource = match rest.split_once('/') {
        Some(("assumed-role", rest)) => format!("role/{}", rest.split('/').next().unwrap_or_default()),
        Some(("role", path)) => format!("role/{}", path.rsplit('/').next().unwrap_or_default()),
        Some(("user", _)) => (*rest).to_owned(),
        _ => return arn.to_owned(),
    };
    format!("arn:{partition}:iam:{region}:{account}:{resource}")
}

fn session_name(arn: &str) -> &str {
    let rest = arn.split_once(":assumed-role/").and_then(|(_, rest)| rest.split_once('/'));
    rest.map_or("", |(_, session)| session)
}

#[cfg(test)]
mod tests;
