//! What is known, and how an answer changes it. Pure.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::aws::{AddonView, ClusterView, ProfileView, Token};

/// Something that was asked for by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found<T> {
    /// It is there, like this.
    There(T),
    /// It is not there.
    Gone,
}

impl<T> Found<T> {
    /// Of an answer.
    pub fn of(answer: Option<T>) -> Self {
        answer.map_or(Self::Gone, Self::There)
    }

    /// What is there.
    pub const fn there(&self) -> Option<&T> {
        match self {
            Self::There(it) => Some(it),
            Self::Gone => None,
        }
    }
}

/// How the API server of a cluster is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// Its URL.
    pub endpoint: String,
    /// The certificate of its authority, base64 of the PEM.
    pub authority: String,
}

/// A token and when it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// When.
    pub at: Timestamp,
    /// What.
    pub token: Token,
}

/// What EKS said of a cluster. What is `None` was never told.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Known {
    /// The cluster.
    pub cluster: Option<Found<ClusterView>>,
    /// Profiles, by their names in EKS.
    pub profiles: BTreeMap<String, Found<ProfileView>>,
    /// The names of all profiles.
    pub all_profiles: Option<Vec<String>>,
    /// The addons.
    pub addons: Option<Vec<AddonView>>,
}

/// One answer. What is `None` was not answered.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Answer {
    /// What EKS said.
    pub known: Known,
    /// Why it did not say all.
    pub trouble: Option<String>,
    /// The token, or why there is none.
    pub token: Option<Result<Made, String>>,
    /// Whether the API server answered.
    pub api: Option<Result<(), String>>,
}

/// How often a workspace was asked to run again.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pokes {
    /// How often, in a row.
    pub times: u32,
    /// When last.
    pub last: Option<Timestamp>,
}

/// All that is known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Look {
    /// What EKS said last, each thing by itself.
    pub known: Known,
    /// Why EKS did not answer the last time.
    pub trouble: Option<String>,
    /// When it was asked last, and on what occasion.
    pub asked: Option<(Timestamp, String)>,
    /// How often in a row it did not answer.
    pub failures: u32,
    /// The last token.
    pub token: Option<Made>,
    /// Why there is no newer one.
    pub token_trouble: Option<String>,
    /// Whether the API server answered when it was called last.
    pub api: Option<Result<(), String>>,
    /// Workspaces that were asked to run again.
    pub pokes: BTreeMap<String, Pokes>,
}

impl Look {
    /// Takes an answer. What it does not say stays as it was.
    pub fn take(&mut self, stamp: &str, answer: Answer, now: Timestamp) {
        let Answer { known, trouble, token, api } = answer;
        let Known { cluster, profiles, all_profiles, addons } = known;
        self.known.cluster = cluster.or_else(|| self.known.cluster.take());
        self.known.profiles.extend(profiles);
        self.known.all_profiles = all_profiles.or_else(|| self.known.all_profiles.take());
        self.known.addons = addons.or_else(|| self.known.addons.take());
        let token_failed = matches!(token, Some(Err(_)));
        match token {
            Some(Ok(made)) => {
                self.token = Some(made);
                self.token_trouble = None;
            }
            Some(Err(why)) => self.token_trouble = Some(why),
            None => {}
        }
        if api.is_some() {
            self.api = api;
        }
        self.failures = if trouble.is_some() || token_failed { self.failures.saturating_add(1) } else { 0 };
        self.trouble = trouble;
        self.asked = Some((now, stamp.to_owned()));
    }

    /// Whether what is known was asked for after this.
    pub fn is_of(&self, stamp: &str) -> bool {
        self.trouble.is_none() && self.asked.as_ref().is_some_and(|(_, of)| of == stamp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(status: &str) -> Known {
        let view = ClusterView { status: status.to_owned(), ..ClusterView::default() };
        Known { cluster: Some(Found::There(view)), ..Known::default() }
    }

    #[test]
    fn an_answer_that_says_nothing_changes_nothing_but_is_noted() {
        let mut look = Look::default();
        look.take("s1", Answer { known: cluster("ACTIVE"), ..Answer::default() }, Timestamp::UNIX_EPOCH);
        let before = look.known.clone();
        let silent = Answer { trouble: Some("500".to_owned()), ..Answer::default() };
        look.take("s2", silent.clone(), Timestamp::UNIX_EPOCH);
        look.take("s2", silent, Timestamp::UNIX_EPOCH);
        assert_eq!(look.known, before);
        assert_eq!((look.failures, look.trouble.as_deref(), look.is_of("s2")), (2, Some("500"), false));
        look.take("s2", Answer { known: cluster("UPDATING"), ..Answer::default() }, Timestamp::UNIX_EPOCH);
        assert_eq!((look.failures, look.is_of("s2"), look.is_of("s1")), (0, true, false));
    }

    #[test]
    fn a_cluster_that_is_gone_is_an_answer() {
        let mut look = Look::default();
        look.take("s", Answer { known: cluster("ACTIVE"), ..Answer::default() }, Timestamp::UNIX_EPOCH);
        let gone = Known { cluster: Some(Found::Gone), ..Known::default() };
        look.take("s", Answer { known: gone, ..Answer::default() }, Timestamp::UNIX_EPOCH);
        assert_eq!(look.known.cluster, Some(Found::Gone));
    }

    #[test]
    fn a_token_that_was_not_made_leaves_the_old_one() {
        let token = Token { text: "t".to_owned().into(), expires_at: Timestamp::UNIX_EPOCH };
        let made = Made { at: Timestamp::UNIX_EPOCH, token };
        let mut look = Look::default();
        look.take("s", Answer { token: Some(Ok(made.clone())), ..Answer::default() }, Timestamp::UNIX_EPOCH);
        look.take(
            "s",
            Answer { token: Some(Err("no keys".to_owned())), ..Answer::default() },
            Timestamp::UNIX_EPOCH,
        );
        assert_eq!(
            (look.token, look.token_trouble.as_deref(), look.failures),
            (Some(made), Some("no keys"), 1)
        );
    }
}
