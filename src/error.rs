//! What kind of trouble an error is, and so what happens next.

/// The class of an error decides the retry, and nothing else does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Class {
    /// The object, or what it refers to, says something that cannot be. A change of it is waited for.
    Invalid,
    /// Something else has to happen first. Not an error.
    Waiting,
    /// Somebody else wrote at the same time. Tried again at once.
    Conflict,
    /// It will pass. Tried again with growing pauses.
    Transient,
    /// A person has to look.
    Terminal,
}
