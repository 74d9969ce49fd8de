//! The error of a reconcile, with the step that failed.

use std::fmt;

use capt_kube::error::ErrorClass;
use strum::IntoStaticStr;

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

    /// For `map_err`: wraps an error with this step.
    pub fn wrap_error<E>(self) -> impl Fn(E) -> ReconcileError
    where
        E: ClassifiedError + Send + Sync + 'static,
    {
        move |source| ReconcileError { step: self, source: Box::new(source) }
    }
}

/// Why a reconcile failed. The log line adds the object.
#[derive(Debug)]
pub struct ReconcileError {
    /// The failed step.
    pub step: ReconcileStep,
    source: Box<dyn ClassifiedError + Send + Sync>,
}

impl fmt::Display for ReconcileError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.step.message())
    }
}

impl std::error::Error for ReconcileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(self.source.as_ref())
    }
}

impl ReconcileError {
    /// Class of the cause, which selects the requeue delay.
    pub fn class(&self) -> ErrorClass {
        self.source.class()
    }

    /// Name of the step, for logs.
    pub fn category(&self) -> &'static str {
        self.step.into()
    }
}

#[cfg(test)]
mod tests {
    use terraform_driver::workspace::files::FileError;

    use super::*;
    use capt_kube::k8s::{ApiOperation, K8sError};

    #[test]
    fn an_error_names_its_step_and_has_the_class_of_its_cause() {
        let operation = || ApiOperation { verb: "get", target: "Secret team/keys".to_owned() };
        let status: kube::core::Status = serde_json::from_value(serde_json::json!({"code": 503})).unwrap();
        let api = K8sError::Trouble { operation: operation(), source: Box::new(status) };
        let disk = FileError::new("read", "/data".as_ref(), std::io::ErrorKind::NotFound.into());
        let table = [
            (ReconcileStep::Dereference.wrap_error()(api), ErrorClass::Transient, "dereference"),
            (ReconcileStep::Act.wrap_error()(disk), ErrorClass::Terminal, "act"),
        ];
        for (error, class, category) in table {
            assert_eq!((error.class(), error.category()), (class, category));
            assert!(std::error::Error::source(&error).is_some() && !error.to_string().is_empty());
        }
    }
}
