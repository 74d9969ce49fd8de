//! The error of a reconcile, with the step that failed.

use capt_kube::{error::ErrorClass, k8s::K8sError};
use strum::IntoStaticStr;
use thiserror::Error;

use super::error_policy::ClassifiedError;

/// Steps of a reconcile that call the API server. The names are values of the error category in logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum ReconcileStep {
    /// Reading referenced and owned objects.
    Dereference,
    /// Adding or removing the finalizer.
    Hold,
    /// Setting owner references on referenced objects.
    Claim,
    /// Applying owned objects.
    Act,
    /// Writing the control plane endpoint.
    Endpoint,
    /// Deleting owned objects.
    Remove,
    /// Writing the status.
    Status,
    /// Reporting an object that cannot be decoded.
    Unreadable,
}

impl ReconcileStep {
    const fn message(self) -> &'static str {
        match self {
            Self::Dereference => "cannot read referenced or owned objects",
            Self::Hold => "cannot add or remove the finalizer",
            Self::Claim => "cannot set owner references on referenced objects",
            Self::Act => "cannot apply owned objects",
            Self::Endpoint => "cannot write the control plane endpoint",
            Self::Remove => "cannot delete owned objects",
            Self::Status => "cannot write the status",
            Self::Unreadable => "cannot report the invalid object in its status",
        }
    }

    /// For `map_err`: wraps an API error with this step.
    pub fn wrap_error(self) -> impl Fn(K8sError) -> ReconcileError {
        move |source| ReconcileError { step: self, source }
    }
}

/// Why a reconcile failed. The log line adds the object.
#[derive(Debug, Error)]
#[error("{}", step.message())]
pub struct ReconcileError {
    /// The failed step.
    pub step: ReconcileStep,
    #[source]
    source: K8sError,
}

impl From<K8sError> for ReconcileError {
    fn from(source: K8sError) -> Self {
        Self { step: ReconcileStep::Unreadable, source }
    }
}

impl ClassifiedError for ReconcileError {
    fn class(&self) -> ErrorClass {
        self.source.class()
    }

    fn category(&self) -> &'static str {
        self.step.into()
    }
}
