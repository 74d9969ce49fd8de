//! What can go wrong between us and the API server, and what it means for the next attempt.

use std::{fmt, path::PathBuf, time::Duration};

use kube::core::Status;
use thiserror::Error;

use crate::error::Class;

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// What was asked of the API server, for people: `patch Secret shop/cart`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deed {
    /// The verb; a label of metrics too, so one of a few words.
    pub verb: &'static str,
    /// Kind, namespace and name.
    pub what: String,
}

impl fmt::Display for Deed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}", self.verb, self.what)
    }
}

/// Why the API server did not do what we asked.
#[derive(Debug, Error, strum::IntoStaticStr)]
#[non_exhaustive]
pub enum K8sError {
    /// The object is gone, or its namespace.
    #[error("cannot {deed}: it is not there")]
    NotFound {
        /// What was asked.
        deed: Deed,
    },
    /// The kind is not served.
    #[error(
        "cannot {deed}: the API server does not know this kind; install it (`capt crds | kubectl apply -f -`, or \
         Cluster API)"
    )]
    NoKind {
        /// What was asked.
        deed: Deed,
    },
    /// Somebody was faster.
    #[error("cannot {deed}: it was changed meanwhile")]
    Conflict {
        /// What was asked.
        deed: Deed,
        /// What the server said.
        #[source]
        source: Box<Status>,
    },
    /// Nothing new is made in a namespace that is being deleted.
    #[error("cannot {deed}: its namespace is being deleted")]
    Terminating {
        /// What was asked.
        deed: Deed,
        /// What the server said.
        #[source]
        source: Box<Status>,
    },
    /// We may not.
    #[error("the API server forbids us to {deed}: a permission that is missing, a quota, or a policy")]
    Forbidden {
        /// What was asked.
        deed: Deed,
        /// What the server said.
        #[source]
        source: Box<Status>,
    },
    /// The object breaks a rule of its kind.
    #[error("cannot {deed}: the API server finds it invalid")]
    Invalid {
        /// What was asked.
        deed: Deed,
        /// What the server said.
        #[source]
        source: Box<Status>,
    },
    /// The server has trouble of its own, or too much to do.
    #[error("cannot {deed}: the API server is in trouble")]
    Trouble {
        /// What was asked.
        deed: Deed,
        /// What the server said.
        #[source]
        source: Box<Status>,
    },
    /// No answer in time. It may have been done all the same.
    #[error("no answer to {deed} within {} s", after.as_secs_f32())]
    TimedOut {
        /// What was asked.
        deed: Deed,
        /// How long we waited.
        after: Duration,
    },
    /// The server cannot be reached.
    #[error("cannot {deed}: the API server cannot be reached")]
    Unreachable {
        /// What was asked.
        deed: Deed,
        /// Why.
        #[source]
        source: Box<kube::Error>,
    },
    /// The answer is not what the kind promises.
    #[error("cannot read the answer to {deed}; the kind in the cluster may be of another version of capt")]
    Unreadable {
        /// What was asked.
        deed: Deed,
        /// Why.
        #[source]
        source: Cause,
    },
    /// The request cannot even be built.
    #[error("cannot {deed}: there is no such request; this is a defect of capt")]
    Unsendable {
        /// What was asked.
        deed: Deed,
        /// Why.
        #[source]
        source: Cause,
    },
    /// A Secret of the wanted name belongs to somebody else.
    #[error("{what} belongs to {owner}; choose another name for ours, or delete it")]
    Foreign {
        /// The Secret.
        what: String,
        /// Who owns it.
        owner: String,
    },
    /// A Secret of an object that was deleted and made again under the same name.
    #[error("{what} still belongs to an earlier {owner}; it goes away by itself")]
    Stale {
        /// The Secret.
        what: String,
        /// Who owned it.
        owner: String,
    },
    /// A kubeconfig that leads nowhere.
    #[error("cannot use the kubeconfig {}; check --kubeconfig and --context", path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: Cause,
    },
    /// A kubeconfig in a Secret that is not as we write them.
    #[error("cannot use the kubeconfig in a Secret")]
    Untrusted {
        /// Why.
        #[source]
        source: Cause,
    },
    /// No cluster to be found.
    #[error("found no cluster to talk to; give --kubeconfig, set KUBECONFIG, or run inside of a cluster")]
    NoCluster {
        /// Why.
        #[source]
        source: Cause,
    },
}

impl K8sError {
    /// When it makes sense to try again.
    pub fn class(&self) -> Class {
        match self {
            // An object that is gone was seen in a cache that is about to hear of it.
            Self::NotFound { .. } | Self::Conflict { .. } => Class::Conflict,
            Self::Invalid { .. } | Self::Foreign { .. } => Class::Invalid,
            Self::NoKind { .. }
            | Self::Trouble { .. }
            | Self::TimedOut { .. }
            | Self::Unreachable { .. }
            | Self::Stale { .. } => Class::Transient,
            // Nobody has to act: what we wanted to make there is not wanted any more.
            Self::Terminating { .. } => Class::Waiting,
            Self::Forbidden { .. }
            | Self::Unreadable { .. }
            | Self::Unsendable { .. }
            | Self::Kubeconfig { .. }
            | Self::Untrusted { .. }
            | Self::NoCluster { .. } => Class::Terminal,
        }
    }

    /// One word for metrics, reasons and events.
    pub fn category(&self) -> &'static str {
        self.into()
    }

    /// Whether it was refused because the namespace is being deleted.
    pub fn is_terminating(&self) -> bool {
        matches!(self, Self::Terminating { .. })
    }

    /// Whether the object is not there.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }

    /// Whether somebody was faster.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Conflict { .. })
    }

    /// How long the server asks us to stay away.
    pub fn retry_after(&self) -> Option<Duration> {
        let Self::Trouble { source, .. } = self else { return None };
        let seconds = source.details.as_ref()?.retry_after_seconds;
        (seconds > 0).then(|| Duration::from_secs(seconds.into()))
    }

    /// Whether the server said, before doing anything, that now is a bad moment.
    pub(super) fn is_busy(&self) -> bool {
        matches!(self, Self::Trouble { source, .. } if matches!(source.code, 429 | 503))
    }

    pub(super) fn of(deed: Deed, error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::of_status(deed, status),
            kube::Error::SerdeError(source) => Self::Unreadable { deed, source: source.into() },
            kube::Error::FromUtf8(source) => Self::Unreadable { deed, source: source.into() },
            kube::Error::BuildRequest(source) => Self::Unsendable { deed, source: source.into() },
            other => Self::Unreachable { deed, source: Box::new(other) },
        }
    }

    fn of_status(deed: Deed, source: Box<Status>) -> Self {
        match source.code {
            404 if is_about_an_object(&source) => Self::NotFound { deed },
            404 => Self::NoKind { deed },
            409 => Self::Conflict { deed, source },
            422 if is_failed_test(&source) => Self::Conflict { deed, source },
            403 if has_cause(&source, "NamespaceTerminating") => Self::Terminating { deed, source },
            401 | 403 => Self::Forbidden { deed, source },
            // 408: the server gave up reading us; 410: the list went stale between two pages.
            408 | 410 | 429 | 500.. => Self::Trouble { deed, source },
            _ => Self::Invalid { deed, source },
        }
    }
}

fn is_about_an_object(status: &Status) -> bool {
    status.details.as_ref().is_some_and(|details| !details.name.is_empty())
}

fn has_cause(status: &Status, reason: &str) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes.into_iter().any(|cause| cause.reason == reason)
}

/// A JSON patch whose `test` does not hold gets a bare 422; one that breaks a rule of the kind names the object.
fn is_failed_test(status: &Status) -> bool {
    status.details.as_ref().is_none_or(|details| details.causes.is_empty() && details.name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(code: u16, details: &serde_json::Value) -> kube::Error {
        let text = serde_json::json!({"code": code, "message": "said", "reason": "Why", "details": details});
        kube::Error::Api(Box::new(serde_json::from_value(text).unwrap()))
    }

    fn error(code: u16, details: &serde_json::Value) -> K8sError {
        let deed = Deed { verb: "patch", what: "Secret shop/cart".to_owned() };
        K8sError::of(deed, status(code, details))
    }

    #[test]
    fn every_code_has_its_class_and_category() {
        let bare = serde_json::json!({});
        let named = serde_json::json!({"name": "cart"});
        let going = serde_json::json!({"causes": [{"reason": "NamespaceTerminating"}]});
        let ruled = serde_json::json!({"name": "cart", "causes": [{"reason": "FieldValueInvalid"}]});
        let table = [
            (404, &named, Class::Conflict, "NotFound"),
            (404, &bare, Class::Transient, "NoKind"),
            (409, &named, Class::Conflict, "Conflict"),
            (422, &bare, Class::Conflict, "Conflict"),
            (422, &ruled, Class::Invalid, "Invalid"),
            (400, &bare, Class::Invalid, "Invalid"),
            (413, &bare, Class::Invalid, "Invalid"),
            (403, &going, Class::Waiting, "Terminating"),
            (403, &named, Class::Terminal, "Forbidden"),
            (401, &bare, Class::Terminal, "Forbidden"),
            (429, &bare, Class::Transient, "Trouble"),
            (500, &bare, Class::Transient, "Trouble"),
            (504, &bare, Class::Transient, "Trouble"),
        ];
        for (code, details, class, category) in table {
            let error = error(code, details);
            assert_eq!((error.class(), error.category()), (class, category), "{code} {details}");
        }
    }

    #[test]
    fn a_message_says_what_we_were_doing_and_leaves_the_cause_to_the_source() {
        let error = error(409, &serde_json::json!({"name": "cart"}));
        assert_eq!(error.to_string(), "cannot patch Secret shop/cart: it was changed meanwhile");
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        assert_eq!(cause.as_deref(), Some("said: Why"));
    }

    #[test]
    fn the_time_to_stay_away_is_the_servers() {
        let error = error(429, &serde_json::json!({"retryAfterSeconds": 7}));
        assert_eq!(error.retry_after(), Some(Duration::from_secs(7)));
        assert!(error.is_busy());
    }
}
