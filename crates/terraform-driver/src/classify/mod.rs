//! Classifies terraform and AWS errors for retries.
//!
//! Pure: maps the text of a diagnostic to a class, and the class alone decides the retry. A failure that no rule matches is
//! [`FailureClass::Unknown`], which is retried with backoff.

mod aws_error;
mod rules;

use std::time::Duration;

use crate::events::Diagnostic;

/// Class of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FailureClass {
    /// EKS is busy with another change. Not a failure.
    Wait,
    /// Throttled by AWS.
    Throttle,
    /// Eventual consistency: a new resource is not visible everywhere yet.
    Propagation,
    /// Needs a fix by the user: the configuration, a permission, a name conflict.
    UserFix,
    /// The object to create exists: of an earlier attempt whose answer was lost, or of another owner.
    AlreadyExists,
    /// Account quota exceeded.
    Quota,
    /// Another resource depends on the one to delete.
    Dependency,
    /// The state is locked.
    Lock,
    /// Expired credentials.
    Expired,
    /// Deletion protection.
    Protected,
    /// The state changed after the plan.
    StalePlan,
    /// Interrupted by a stop or a signal.
    Interrupted,
    /// A provider cannot be installed or started.
    Provider,
    /// Missing or rejected credentials.
    Credentials,
    /// Network error or server error of AWS.
    Network,
    /// Problem of the engine: its version, its directory, the disk.
    Engine,
    /// No rule matches.
    Unknown,
}

/// How to retry a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryAdvice {
    /// Retry after a random delay in this range; does not count as a failure.
    RetryWithin {
        /// Minimum delay.
        least: Duration,
        /// Maximum delay.
        most: Duration,
    },
    /// Retry a few times within this span, then report it to the user.
    ShortRetries {
        /// The span.
        span: Duration,
    },
    /// Retry with exponential backoff.
    Backoff,
    /// A person has to change something, in the object or outside. The operator retries rarely, since a change outside of the
    /// cluster triggers no watch event; the command line does not retry.
    SlowRetry,
    /// Exponential backoff in the operator, since others may end the problem; the command line does not retry.
    OperatorBackoff,
    /// Create a new plan.
    Replan,
}

impl FailureClass {
    /// Stable name for conditions, events and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Wait => "Wait",
            Self::Throttle => "Throttle",
            Self::Propagation => "Propagation",
            Self::UserFix => "UserFix",
            Self::AlreadyExists => "AlreadyExists",
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

    /// How to retry it.
    pub const fn advice(self) -> RetryAdvice {
        match self {
            Self::Wait => {
                RetryAdvice::RetryWithin { least: Duration::from_secs(30), most: Duration::from_mins(1) }
            }
            Self::Propagation => RetryAdvice::ShortRetries { span: Duration::from_mins(4) },
            Self::Throttle | Self::Network | Self::Unknown => RetryAdvice::Backoff,
            Self::UserFix
            | Self::Protected
            | Self::Credentials
            | Self::AlreadyExists
            | Self::Quota
            | Self::Provider
            | Self::Engine => RetryAdvice::SlowRetry,
            Self::Dependency | Self::Lock | Self::Expired => RetryAdvice::OperatorBackoff,
            Self::StalePlan | Self::Interrupted => RetryAdvice::Replan,
        }
    }

    /// Precedence among several failures of a run: the one that needs the most intervention wins. An interruption precedes the
    /// unknown and network errors that it causes.
    const fn weight(self) -> u8 {
        match self {
            Self::Protected => 16,
            Self::UserFix => 15,
            Self::AlreadyExists => 14,
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

/// A classified failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TerraformFailure {
    /// Its class.
    pub class: FailureClass,
    /// AWS error code, if there is one.
    pub code: Option<String>,
    /// Address of the resource.
    pub address: Option<String>,
    /// Message without request ids, so that equal failures have equal texts.
    pub message: String,
}

impl TerraformFailure {
    /// How to retry it.
    pub const fn advice(&self) -> RetryAdvice {
        self.class.advice()
    }
}

/// Classifies one diagnostic.
pub fn classify_diagnostic(diagnostic: &Diagnostic) -> TerraformFailure {
    let Diagnostic { severity: _, summary, detail, address, range } = diagnostic;
    let text = format!("{summary}\n{detail}");
    let code = aws_error::error_code(&text);
    // A source range without a resource: the configuration itself is invalid.
    let about_text = range.is_some() && address.is_none() && code.is_none();
    let otherwise = if about_text { FailureClass::UserFix } else { FailureClass::Unknown };
    let class = rules::classify_message(&text, code).unwrap_or(otherwise);
    TerraformFailure {
        class,
        code: code.map(str::to_owned),
        address: address.clone(),
        message: aws_error::failure_message(summary, detail) + hint(class),
    }
}

/// What to do, where the message of AWS does not say it.
const fn hint(class: FailureClass) -> &'static str {
    match class {
        FailureClass::AlreadyExists => {
            " (if the object belongs to this workspace, import it; otherwise remove it or choose another name)"
        }
        _ => "",
    }
}

/// The primary failure of a run: the error with the highest precedence, the first among equals.
pub fn primary_failure(diagnostics: &[Diagnostic]) -> Option<TerraformFailure> {
    let failures = diagnostics.iter().filter(|diagnostic| diagnostic.is_error()).map(classify_diagnostic);
    failures.reduce(|best, next| if next.class.weight() > best.class.weight() { next } else { best })
}

/// Classifies plain text, for a command that failed without a diagnostic.
pub fn classify_text(text: &str) -> TerraformFailure {
    classify_diagnostic(&Diagnostic {
        severity: "error".to_owned(),
        summary: text.to_owned(),
        ..Diagnostic::default()
    })
}

#[cfg(test)]
mod tests;
