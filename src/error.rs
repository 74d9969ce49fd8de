//! What an error means for whoever has to go on: the class decides when it is tried again, exhaustively.

/// What to do about an error. Policies match on this without a wildcard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Class {
    /// Somebody asked for what cannot be. Wait until they change it; trying again changes nothing.
    Invalid,
    /// Something else has to happen first. Not an error at all: no warning, no backoff, a reason in a condition.
    Waiting,
    /// What we knew was old. Read again and try again at once; worth a line at info, not a warning.
    Conflict,
    /// It may well work next time. Try again, with backoff and jitter.
    Transient,
    /// A person has to do something that no object of ours tells: a permission, a broken installation, our bug.
    Terminal,
}

impl Class {
    /// The class as metric label and log field.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Whether trying again without any change may help.
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
        let all = [Class::Invalid, Class::Waiting, Class::Conflict, Class::Transient, Class::Terminal];
        assert_eq!(all.map(Class::as_str), ["invalid", "waiting", "conflict", "transient", "terminal"]);
        assert_eq!(all.map(Class::is_retryable), [false, false, true, true, false]);
    }
}
