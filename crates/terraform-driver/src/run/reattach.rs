//! Providers that run already, lent to a command.
//!
//! Whoever has them implements [`Lender`]; the driver only puts what it gets into the command's environment. It knows
//! neither what runs the providers nor how.

use std::{future::Future, pin::Pin};

use super::driver::{Job, Phase};

/// The variable that tells terraform where its providers run.
pub(super) const VARIABLE: &str = "TF_REATTACH_PROVIDERS";

/// A provider that is lent for one command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loan {
    /// The lender's name for it.
    pub id: String,
    /// The value of `TF_REATTACH_PROVIDERS`.
    pub reattach: String,
}

/// The provider is not the one that it should be: the command must not run at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refused(pub String);

/// What a lender does, it does while the command waits.
pub type Lending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Lends providers.
pub trait Lender: Send + Sync {
    /// For one command; `None` if terraform shall start its providers itself.
    fn lend<'a>(&'a self, job: &'a Job<'_>, phase: Phase) -> Lending<'a, Result<Option<Loan>, Refused>>;

    /// The command is over.
    fn give_back(&self, loan: Loan) -> Lending<'_, ()>;

    /// Terraform missed the schema of something: from now on it gets all of them. Whether that is news.
    fn lend_everything(&self) -> bool;
}

/// Whether terraform failed because it was given too few schemas.
pub(super) fn misses_a_schema(text: &str) -> bool {
    ["no schema available", "missing schema for", "Missing schema for"].iter().any(|it| text.contains(it))
}
