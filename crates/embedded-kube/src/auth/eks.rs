//! EKS tokens: `k8s-aws-v1.` and a presigned `GetCallerIdentity` URL.
//!
//! The token is a URL chosen by the caller, so it is never fetched as it stands: only its query is taken, after every
//! part of it was checked, and sent to the one STS endpoint that this cluster was given. That endpoint says who signed
//! it. The name of the cluster goes along as the signed header `x-k8s-aws-id`, so a token for another cluster has a
//! wrong signature. A local AWS may not check signatures; for access keys whose secret is known here, we do.

mod call;
mod presigned;

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use self::presigned::Presigned;
use super::{AUTHENTICATED, bearer::hash};
use crate::{clock, request::User};

/// Who an identity of AWS is in this cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// ARN of a user or role; `*` stands for any identity.
    pub arn: String,
    /// The user's name here; empty for the ARN itself.
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

/// Where EKS tokens are checked, and who their owners are.
#[derive(Debug, Clone, Default)]
pub struct Sts {
    /// Endpoint as `http://host:port`.
    pub endpoint: String,
    /// The cluster's name, which every token must be signed for.
    pub cluster: String,
    /// Who is let in.
    pub access: Vec<Access>,
    /// Secrets by access key: signatures of these keys are checked here too, since a local AWS may not.
    pub secrets: Vec<(String, String)>,
}

/// How long STS's answer for a token is good.
const REMEMBERED: Duration = Duration::from_mins(1);
const MOST_REMEMBERED: usize = 1024;

/// Checks EKS tokens.
pub struct Eks {
    sts: Sts,
    known: Mutex<HashMap<[u8; 32], (Instant, User)>>,
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
        if let Some((until, user)) = self.known.lock().get(&key)
            && Instant::now() < *until
        {
            return Some(user.clone());
        }
        let arn = match call::caller(&self.sts, &presigned).await {
            Ok(arn) => arn,
            Err(why) => {
                tracing::debug!(%why, "STS refused an EKS token");
                return None;
            }
        };
        let user = mapped(&self.sts.access, &canonical(&arn))?;
        let mut known = self.known.lock();
        if known.len() >= MOST_REMEMBERED {
            known.clear();
        }
        known.insert(key, (Instant::now() + REMEMBERED, user.clone()));
        Some(user)
    }
}

fn mapped(access: &[Access], arn: &str) -> Option<User> {
    let found = access.iter().find(|one| canonical(&one.arn) == arn || one.arn == "*")?;
    let name = if found.user.is_empty() { arn } else { &found.user };
    let mut groups = found.groups.clone();
    groups.push(AUTHENTICATED.to_owned());
    let extra = std::collections::BTreeMap::from([("arn".to_owned(), vec![arn.to_owned()])]);
    Some(User { name: name.to_owned(), uid: String::new(), groups, extra })
}

/// A session of a role stands for the role: `…:sts::1:assumed-role/R/S` is `…:iam::1:role/R`.
fn canonical(arn: &str) -> String {
    let parts: Vec<&str> = arn.splitn(6, ':').collect();
    let [_, partition, "sts", region, account, rest] = parts.as_slice() else { return arn.to_owned() };
    match rest.strip_prefix("assumed-role/").map(|rest| rest.split('/').next().unwrap_or_default()) {
        Some(role) => format!("arn:{partition}:iam:{region}:{account}:role/{role}"),
        None => arn.to_owned(),
    }
}

#[cfg(test)]
mod tests;
