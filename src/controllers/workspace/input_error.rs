//! Why what goes into a run is not known.

use super::facts::{Inputs, Known, Reason};
use crate::k8s::K8sError;

/// Stops the reading of inputs.
#[derive(Debug)]
pub enum Halt {
    /// Something has to be there first.
    Waiting(Reason),
    /// Something cannot be.
    Invalid(Reason),
    /// The API server did not answer.
    Api(K8sError),
}

impl From<K8sError> for Halt {
    fn from(error: K8sError) -> Self {
        Self::Api(error)
    }
}

impl Halt {
    /// As inputs, or the error that it is.
    pub fn settle(outcome: Result<Known, Self>) -> Result<Inputs, K8sError> {
        match outcome {
            Ok(known) => Ok(Inputs::Known(Box::new(known))),
            Err(Self::Waiting(reason)) => Ok(Inputs::Waiting(reason)),
            Err(Self::Invalid(reason)) => Ok(Inputs::Invalid(reason)),
            Err(Self::Api(error)) => Err(error),
        }
    }
}
