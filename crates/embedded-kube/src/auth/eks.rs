//! EKS tokens: `k8s-aws-v1.` and a presigned `GetCallerIdentity` URL.
//!
//! The token is a URL chosen by the caller, so it is never fetched as it stands: only its query is taken, after every
//! part of it was checked, and sent to the one STS endpoint that this cluster was given. That endpoint says who signed
//! it. The name of the cluster goes along as the signed header `x-k8s-aws-id`, so a token for another cluster has a
//! wrong signature. A local AWS may not check signatures; given the secrets of the access keys, we do.

mod call;
mod presigned;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::{Mutex, RwLock};

use self::presigned::Presigned;
use super::{AUTHENTICATED, bearer::hash};
use crate::{clock, request::User};

/// Who an identity of AWS is in this cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// ARN of a user or role; `*` stands for any identity.
    pub arn: String,
    /// The user's name here; empty for the ARN itself. `{{SessionName}}` stands for the session of a role.
    pub user: String,
    /// The user's groups here, such as `system:masters`.
    pub groups: Vec<String>,
}

impl Access {
    /// An administrator, as the creator of a cluster is.
    pub fn admin(arn: impl Into<String>) -> Self {
        Self { arn: arn.into(), user: String::new(), groups: vec![super::MASTERS.to_owned()] }
    }
}

/// Who is let in. Clones are one and the same list, so a cluster follows changes of it at once.
#[derive(Debug, Clone, Default)]
pub struct Accesses(Arc<RwLock<Vec<Access>>>);

impl Accesses {
    /// From now on these.
    pub fn set(&self, access: Vec<Access>) {
        *self.0.write() = access;
    }

    fn user(&self, arn: &str) -> Option<User> {
        mapped(&self.0.read(), arn)
    }
}

impl From<Vec<Access>> for Accesses {
    fn from(access: Vec<Access>) -> Self {
        Self(Arc::new(RwLock::new(access)))
    }
}

/// Where EKS tokens are checked, and who their owners are.
#[derive(Debug, Clone, Default)]
pub struct Sts {
    /// Endpoint as `http://host:port`. Whoever it says a token's owner is, is believed.
    pub endpoint: String,
    /// The cluster's name, which every token must be signed for.
    pub cluster: String,
    /// Who is let in.
    pub access: Accesses,
    /// Secrets by access key. If there are any, a token must be signed with one of them: other keys are refused, and
    /// signatures are checked here before STS is asked. If there are none, STS alone is trusted to check signatures; an
    /// STS that checks none (most local ones) lets in everybody who can reach the cluster and knows its name.
    pub secrets: Vec<(String, String)>,
}

/// How long STS's answer for a token is good.
const REMEMBERED: Duration = Duration::from_mins(1);
const MOST_REMEMBERED: usize = 1024;

/// Checks EKS tokens.
pub struct Eks {
    sts: Sts,
    /// ARNs by token.
    known: Mutex<HashMap<[u8; 32], (Instant, String)>>,
}

impl Eks {
    pub fn new(sts: Sts) -> Self {
        Self { sts, known: Mutex::default() }
    }

    /// Whose token this is.
    pub async fn user(&self, token: &str) -> Option<User> {
        let now = clock::now();
        let presigned = match Presigned::read(token, &self.sts, now) {
            Ok(presigned) => presigned,
            Err(why) => {
                tracing::debug!(%why, "an EKS token was refused");
                return None;
            }
        };
        let key = hash(token);
        let known = self.known.lock().get(&key).filter(|(until, _)| Instant::now() < *until).cloned();
        if let Some((_, arn)) = known {
            return self.sts.access.user(&arn);
        }
        let arn = match call::caller(&self.sts, &presigned).await {
            Ok(arn) => arn,
            Err(why) => {
                tracing::debug!(%why, "STS refused an EKS token");
                return None;
            }
        };
        let user = self.sts.access.user(&arn)?;
        let mut known = self.known.lock();
        if known.len() >= MOST_REMEMBERED {
            known.clear();
        }
        known.insert(key, (Instant::now() + REMEMBERED, arn));
        Some(user)
    }
}

fn mapped(access: &[Access], arn: &str) -> Option<User> {
    let who = canonical(arn);
    let found = access.iter().find(|one| canonical(&one.arn) == who || one.arn == "*")?;
    let session = session(arn);
    let name = if found.user.is_empty() {
        who.clone()
    } else {
        found.user.replace("{{SessionName}}", &session.replace('@', "-"))
    };
    let mut groups = found.groups.clone();
    groups.push(AUTHENTICATED.to_owned());
    let mut extra =
        BTreeMap::from([("arn".to_owned(), vec![arn.to_owned()]), ("canonicalArn".to_owned(), vec![who])]);
    if !session.is_empty() {
        extra.insert("sessionName".to_owned(), vec![session.to_owned()]);
    }
    Some(User { name, uid: String::new(), groups, extra })
}

/// One spelling for all ARNs of an identity: a session of a role stands for the role, a role goes without its path
/// (sessions do not tell it), and a user is IAM's whoever names it.
fn canonical(arn: &str) -> String {
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

fn session(arn: &str) -> &str {
    let rest = arn.split_once(":assumed-role/").and_then(|(_, rest)| rest.split_once('/'));
    rest.map_or("", |(_, session)| session)
}

#[cfg(test)]
mod tests;
