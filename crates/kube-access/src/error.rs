//! Error classes. The class of an error decides whether and when a reconcile is retried.

/// Class of an error. Error policies match on it exhaustively.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum ErrorClass {
    /// The object is invalid. Wait for a change of it; a retry does not help.
    Invalid,
    /// A prerequisite is not met. Not an error: no warning, no backoff, only a reason in a condition.
    Waiting,
    /// The cached object is outdated. Read again and retry immediately; logged at info level.
    Conflict,
    /// A retry may succeed. Retry with backoff and jitter.
    Transient,
    /// Needs manual action that no watched object reports: a missing permission, a broken installation, a bug.
    Terminal,
}

impl ErrorClass {
    /// Metric label and log field.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Whether a retry without any change may succeed.
    pub fn is_retryable(self) -> bool {
        match self {
            Self::Conflict | Self::Transient => true,
            Self::Invalid | Self::Waiting | Self::Terminal => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_lower_case_and_only_two_classes_help_themselves() {
        let all = [
            ErrorClass::Invalid,
            ErrorClass::Waiting,
            ErrorClass::Conflict,
            ErrorClass::Transient,
            ErrorClass::Terminal,
        ];
        assert_eq!(all.map(ErrorClass::as_str), ["invalid", "waiting", "conflict", "transient", "terminal"]);
        assert_eq!(all.map(ErrorClass::is_retryable), [false, false, true, true, false]);
    }
}
