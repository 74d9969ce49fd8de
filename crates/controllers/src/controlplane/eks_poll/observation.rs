//! The observation of an EKS cluster, and how a response updates it. Pure.

use std::collections::BTreeMap;

use capt_engine::aws::{EksAddon, EksCluster, EksFargateProfile, EksToken};
use jiff::Timestamp;

/// Result of a lookup by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EksLookup<T> {
    /// It exists.
    Present(T),
    /// It does not exist.
    NotFound,
}

impl<T> EksLookup<T> {
    /// From an optional result.
    pub fn from_option(answer: Option<T>) -> Self {
        answer.map_or(Self::NotFound, Self::Present)
    }

    /// The value, if it exists.
    pub const fn present(&self) -> Option<&T> {
        match self {
            Self::Present(it) => Some(it),
            Self::NotFound => None,
        }
    }
}

/// Endpoint and CA of an API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiServerAccess {
    /// Its URL.
    pub endpoint: String,
    /// CA certificate: base64 of the PEM.
    pub ca_data: String,
}

impl ApiServerAccess {
    /// Of a cluster, if EKS reports both.
    pub fn of_cluster(view: &EksCluster) -> Option<Self> {
        Some(Self { endpoint: view.endpoint.clone()?, ca_data: view.certificate_authority.clone()? })
    }
}

/// A token and when it was issued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuedToken {
    /// When it was issued.
    pub issued_at: Timestamp,
    /// The token.
    pub token: EksToken,
}

/// Facts reported by EKS. `None` means never reported.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EksFacts {
    /// The cluster.
    pub cluster: Option<EksLookup<EksCluster>>,
    /// Profiles, by their names in EKS.
    pub profiles: BTreeMap<String, EksLookup<EksFargateProfile>>,
    /// The names of all profiles.
    pub profile_names: Option<Vec<String>>,
    /// The addons.
    pub addons: Option<Vec<EksAddon>>,
}

/// Response to one query. `None` means not part of the response.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EksResponse {
    /// What EKS reported.
    pub facts: EksFacts,
    /// The first failed EKS request.
    pub error: Option<String>,
    /// The token, or why issuing it failed.
    pub token: Option<Result<IssuedToken, String>>,
    /// Result of the API server probe.
    pub api_probe: Option<Result<(), String>>,
}

/// Requested reruns of a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RerunHistory {
    /// Number of consecutive requests.
    pub count: u32,
    /// Time of the last request.
    pub last_requested: Option<Timestamp>,
}

/// The last observation of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EksObservation {
    /// The last facts from EKS, each kept until a newer one arrives.
    pub facts: EksFacts,
    /// Error of the last query.
    pub last_error: Option<String>,
    /// Time of the last query and its run fingerprint.
    pub last_query: Option<(Timestamp, String)>,
    /// Consecutive failed queries.
    pub failures: u32,
    /// The last token.
    pub token: Option<IssuedToken>,
    /// Why the last attempt to issue a token failed.
    pub token_error: Option<String>,
    /// Result of the last API server probe.
    pub api_probe: Option<Result<(), String>>,
    /// Requested reruns, by workspace name.
    pub reruns: BTreeMap<String, RerunHistory>,
}

impl EksObservation {
    /// Merges a response. Facts that it does not contain are kept.
    pub fn merge_response(&mut self, stamp: &str, answer: EksResponse, now: Timestamp) {
        let EksResponse { facts: known, error: trouble, token, api_probe: api } = answer;
        let EksFacts { cluster, profiles, profile_names: all_profiles, addons } = known;
        self.facts.cluster = cluster.or_else(|| self.facts.cluster.take());
        self.facts.profiles.extend(profiles);
        self.facts.profile_names = all_profiles.or_else(|| self.facts.profile_names.take());
        self.facts.addons = addons.or_else(|| self.facts.addons.take());
        let token_failed = matches!(token, Some(Err(_)));
        match token {
            Some(Ok(made)) => {
                self.token = Some(made);
                self.token_error = None;
            }
            Some(Err(why)) => self.token_error = Some(why),
            None => {}
        }
        if api.is_some() {
            self.api_probe = api;
        }
        self.failures = if trouble.is_some() || token_failed { self.failures.saturating_add(1) } else { 0 };
        self.last_error = trouble;
        self.last_query = Some((now, stamp.to_owned()));
    }

    /// Whether the last query succeeded for this run fingerprint.
    pub fn is_fresh_for(&self, stamp: &str) -> bool {
        self.last_error.is_none() && self.last_query.as_ref().is_some_and(|(_, of)| of == stamp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(status: &str) -> EksFacts {
        let view = EksCluster { status: status.to_owned(), ..EksCluster::default() };
        EksFacts { cluster: Some(EksLookup::Present(view)), ..EksFacts::default() }
    }

    #[test]
    fn an_answer_that_says_nothing_changes_nothing_but_is_noted() {
        let mut observation = EksObservation::default();
        observation.merge_response(
            "s1",
            EksResponse { facts: cluster("ACTIVE"), ..EksResponse::default() },
            Timestamp::UNIX_EPOCH,
        );
        let before = observation.facts.clone();
        let silent = EksResponse { error: Some("500".to_owned()), ..EksResponse::default() };
        observation.merge_response("s2", silent.clone(), Timestamp::UNIX_EPOCH);
        observation.merge_response("s2", silent, Timestamp::UNIX_EPOCH);
        assert_eq!(observation.facts, before);
        assert_eq!(
            (observation.failures, observation.last_error.as_deref(), observation.is_fresh_for("s2")),
            (2, Some("500"), false)
        );
        observation.merge_response(
            "s2",
            EksResponse { facts: cluster("UPDATING"), ..EksResponse::default() },
            Timestamp::UNIX_EPOCH,
        );
        assert_eq!(
            (observation.failures, observation.is_fresh_for("s2"), observation.is_fresh_for("s1")),
            (0, true, false)
        );
    }

    #[test]
    fn a_cluster_that_is_gone_is_an_answer() {
        let mut observation = EksObservation::default();
        observation.merge_response(
            "s",
            EksResponse { facts: cluster("ACTIVE"), ..EksResponse::default() },
            Timestamp::UNIX_EPOCH,
        );
        let gone = EksFacts { cluster: Some(EksLookup::NotFound), ..EksFacts::default() };
        observation.merge_response(
            "s",
            EksResponse { facts: gone, ..EksResponse::default() },
            Timestamp::UNIX_EPOCH,
        );
        assert_eq!(observation.facts.cluster, Some(EksLookup::NotFound));
    }

    #[test]
    fn a_token_that_was_not_made_leaves_the_old_one() {
        let token = EksToken { bearer: "t".to_owned().into(), expires_at: Timestamp::UNIX_EPOCH };
        let made = IssuedToken { issued_at: Timestamp::UNIX_EPOCH, token };
        let mut observation = EksObservation::default();
        observation.merge_response(
            "s",
            EksResponse { token: Some(Ok(made.clone())), ..EksResponse::default() },
            Timestamp::UNIX_EPOCH,
        );
        observation.merge_response(
            "s",
            EksResponse { token: Some(Err("no keys".to_owned())), ..EksResponse::default() },
            Timestamp::UNIX_EPOCH,
        );
        assert_eq!(
            (observation.token, observation.token_error.as_deref(), observation.failures),
            (Some(made), Some("no keys"), 1)
        );
    }
}
