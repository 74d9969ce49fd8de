//! Where a reconcile stopped.

use strum::IntoStaticStr;
use thiserror::Error;

use super::policy::Classed;
use crate::{error::Class, k8s::K8sError};

/// The steps of a reconcile that need the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Step {
    /// Reading what the object refers to.
    Dereference,
    /// Setting the finalizer, or taking it off.
    Hold,
    /// Claiming what the object refers to.
    Claim,
    /// Looking after what belongs to the object.
    Act,
    /// Writing the endpoint.
    Endpoint,
    /// Removing what belongs to the object.
    Remove,
    /// Writing the status.
    Status,
    /// Telling what is wrong with an object that cannot be read.
    Unreadable,
}

impl Step {
    const fn sentence(self) -> &'static str {
        match self {
            Self::Dereference => "cannot read what belongs to the object",
            Self::Hold => "cannot hold or release the object",
            Self::Claim => "cannot claim what the object refers to",
            Self::Act => "cannot look after what belongs to the object",
            Self::Endpoint => "cannot write the endpoint of the object",
            Self::Remove => "cannot remove what belongs to the object",
            Self::Status => "cannot write the status of the object",
            Self::Unreadable => "cannot tell what is wrong with the object",
        }
    }

    /// For `map_err`: what the API server said in this step.
    pub fn stopped(self) -> impl Fn(K8sError) -> Stopped {
        move |source| Stopped { step: self, source }
    }
}

/// Why a reconcile stopped. Whose it is stands in the log beside it.
#[derive(Debug, Error)]
#[error("{}", step.sentence())]
pub struct Stopped {
    /// Where.
    pub step: Step,
    #[source]
    source: K8sError,
}

impl From<K8sError> for Stopped {
    fn from(source: K8sError) -> Self {
        Self { step: Step::Unreadable, source }
    }
}

impl Classed for Stopped {
    fn class(&self) -> Class {
        self.source.class()
    }

    fn category(&self) -> &'static str {
        self.step.into()
    }
}
