//! What kind of failure a diagnostic is, and what helps against it (eks-fargate C.5, driver P21).
//!
//! Contract: pure; the text of terraform and of the AWS provider goes in, a class comes out, and the class alone
//! decides the retry. A failure that no rule knows is [`Class::Unknown`], which backs off like any other.

mod aws;
mod rules;

use std::time::Duration;

use crate::events::Diagnostic;

/// The kinds of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// EKS does something else just now. Not a failure.
    Wait,
    /// Too many calls.
    Throttle,
    /// Something that was made a moment ago is not visible everywhere yet.
    Propagation,
    /// Only a person can mend it: the configuration, a permission, a name that is taken.
    UserFix,
    /// A limit of the account.
    Quota,
    /// Something else still hangs on what is to be deleted.
    Dependency,
    /// Somebody holds the state's lock.
    Lock,
    /// Credentials that were good and are not any more.
    Expired,
    /// Deletion protection.
    Protected,
    /// The state moved on after the plan was made.
    StalePlan,
    /// We, or a signal, ended it.
    Interrupted,
    /// A provider cannot be installed or started.
    Provider,
    /// No credentials, or refused ones.
    Credentials,
    /// AWS or the network did not answer properly.
    Network,
    /// The engine itself: its version, its directory, the disk.
    Engine,
    /// No rule knows it.
    Unknown,
}

/// What helps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// Try again after a moment between these two, chosen with jitter; it is not a failure.
    RetryWithin {
        /// At the earliest.
        least: Duration,
        /// At the latest.
        most: Duration,
    },
    /// Try again a few times within this span; after that a person must look.
    ShortRetries {
        /// The span.
        span: Duration,
    },
    /// Try again with growing pauses.
    Backoff,
    /// Try again rarely; the world has to change, not the object.
    SlowRetry,
    /// Nothing helps but a change of the object, its template or its credentials.
    AwaitChange,
    /// Clean up what hangs on it, then try again.
    CleanUp,
    /// Prove the holder of the lock dead before taking it.
    ProveLockDead,
    /// Get new credentials, then try again.
    RefreshCredentials,
    /// Make a new plan.
    Replan,
}

impl Class {
    /// Stable name for conditions, events and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Wait => "Wait",
            Self::Throttle => "Throttle",
            Self::Propagation => "Propagation",
            Self::UserFix => "UserFix",
            Self::Quota => "Quota",
            Self::Dependency => "Dependency",
            Self::Lock => "Lock",
            Self::Expired => "Expired",
            Self::Protected => "Protected",
            Self::StalePlan => "StalePlan",
            Self::Interrupted => "Interrupted",
            Self::Provider => "Provider",
            Self::Credentials => "Credentials",
            Self::Network => "Network",
            Self::Engine => "Engine",
            Self::Unknown => "Unknown",
        }
    }

    /// What helps against it.
    pub const fn advice(self) -> Advice {
        match self {
            Self::Wait => {
                Advice::RetryWithin { least: Duration::from_secs(30), most: Duration::from_mins(1) }
            }
            Self::Propagation => Advice::ShortRetries { span: Duration::from_mins(4) },
            Self::Throttle | Self::Network | Self::Unknown => Advice::Backoff,
            Self::UserFix | Self::Protected | Self::Credentials => Advice::AwaitChange,
            Self::Quota | Self::Provider | Self::Engine => Advice::SlowRetry,
            Self::Dependency => Advice::CleanUp,
            Self::Lock => Advice::ProveLockDead,
            Self::Expired => Advice::RefreshCredentials,
            Self::StalePlan | Self::Interrupted => Advice::Replan,
        }
    }

    /// Which of several failures of one run speaks for it: the one that needs the most help. What was cancelled
    /// because of an interruption says nothing about the cloud, so the interruption is heard before it.
    const fn weight(self) -> u8 {
        match self {
            Self::Protected => 15,
            Self::UserFix => 14,
            Self::Credentials => 13,
            Self::Provider => 12,
            Self::Engine => 11,
            Self::Quota => 10,
            Self::Lock => 9,
            Self::StalePlan => 8,
            Self::Expired => 7,
            Self::Dependency => 6,
            Self::Interrupted => 5,
            Self::Unknown => 4,
            Self::Propagation => 3,
            Self::Network => 2,
            Self::Throttle => 1,
            Self::Wait => 0,
        }
    }
}

/// A failure that was understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Its kind.
    pub class: Class,
    /// The AWS error code, if AWS spoke.
    pub code: Option<String>,
    /// The resource it is about.
    pub address: Option<String>,
    /// For people: without request ids, so that the same failure has the same text every time.
    pub message: String,
}

impl Failure {
    /// What helps against it.
    pub const fn advice(&self) -> Advice {
        self.class.advice()
    }
}

/// Classifies one diagnostic.
pub fn classify(diagnostic: &Diagnostic) -> Failure {
    let Diagnostic { severity: _, summary, detail, address, range } = diagnostic;
    let text = format!("{summary}\n{detail}");
    let code = aws::error_code(&text);
    // A place in a file but no object: terraform complains about the text of the configuration.
    let about_text = range.is_some() && address.is_none() && code.is_none();
    let otherwise = if about_text { Class::UserFix } else { Class::Unknown };
    let class = rules::class_of(&text, code).unwrap_or(otherwise);
    Failure {
        class,
        code: code.map(str::to_owned),
        address: address.clone(),
        message: aws::message(summary, detail),
    }
}

/// The failure that speaks for a run: the errors among its diagnostics, the heaviest first, else the first.
pub fn primary(diagnostics: &[Diagnostic]) -> Option<Failure> {
    let failures = diagnostics.iter().filter(|diagnostic| diagnostic.is_error()).map(classify);
    failures.reduce(|best, next| if next.class.weight() > best.class.weight() { next } else { best })
}

/// Classifies plain text, for a child that died without a diagnostic.
pub fn classify_text(text: &str) -> Failure {
    classify(&Diagnostic { severity: "error".to_owned(), summary: text.to_owned(), ..Diagnostic::default() })
}

#[cfg(test)]
mod tests;
