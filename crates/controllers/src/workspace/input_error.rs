//! Why the inputs of a run cannot be resolved.

use capt_kube::k8s::K8sError;

use super::observation::{ConditionReason, ResolvedInputs, RunInputs};

/// Why resolving the inputs stopped.
#[derive(Debug)]
pub enum InputError {
    /// A referenced object is missing or not ready.
    Waiting(ConditionReason),
    /// The spec or a referenced object is invalid.
    Invalid(ConditionReason),
    /// A request to the API server failed.
    Api(K8sError),
}

impl From<K8sError> for InputError {
    fn from(error: K8sError) -> Self {
        Self::Api(error)
    }
}

impl InputError {
    /// Converts the result into run inputs; only API errors remain errors.
    pub fn into_run_inputs(outcome: Result<ResolvedInputs, Self>) -> Result<RunInputs, K8sError> {
        match outcome {
            Ok(known) => Ok(RunInputs::Resolved(Box::new(known))),
            Err(Self::Waiting(reason)) => Ok(RunInputs::Waiting(reason)),
            Err(Self::Invalid(reason)) => Ok(RunInputs::Invalid(reason)),
            Err(Self::Api(error)) => Err(error),
        }
    }
}
