//! Distinguishes rejections by the API server, which become conditions, from errors that are retried. Pure.

use capt_kinds::sandbox::conditions::reasons;
use capt_kube::k8s::K8sError;
use sandbox::rejection::Rejection;

/// Why an apply failed.
#[derive(Debug)]
pub(super) enum ApplyError {
    /// The API server rejects the object; a retry does not help.
    Rejected(Rejection),
    /// The request failed; it is retried.
    Failed(K8sError),
}

impl From<Rejection> for ApplyError {
    fn from(refusal: Rejection) -> Self {
        Self::Rejected(refusal)
    }
}

impl From<K8sError> for ApplyError {
    fn from(error: K8sError) -> Self {
        Self::Failed(error)
    }
}

impl ApplyError {
    /// Classifies the error of applying `what`. Validation errors, quotas and policies are permanent and keep the server's message.
    /// A 401 is not: the request was never evaluated.
    pub(super) fn classify(what: &str) -> impl Fn(K8sError) -> Self {
        move |error| {
            let (reason, told) = match &error {
                K8sError::Invalid { source, .. } => (reasons::REFUSED_BY_SERVER, &source.message),
                K8sError::Forbidden { source, .. } if source.code == 403 => {
                    (reasons::FORBIDDEN, &source.message)
                }
                _ => return Self::Failed(error),
            };
            Self::Rejected(Rejection::new(reason, format!("the API server rejected {what}: {told}")))
        }
    }

    /// Splits a rejection from an error, for callers that continue after a rejection.
    pub(super) fn split_rejection<T>(outcome: Result<T, Self>) -> Result<Result<T, Rejection>, K8sError> {
        match outcome {
            Ok(done) => Ok(Ok(done)),
            Err(Self::Rejected(refusal)) => Ok(Err(refusal)),
            Err(Self::Failed(error)) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use capt_kube::k8s::ApiOperation;

    fn status(code: u16) -> Box<kube::core::Status> {
        serde_json::from_value(json!({"code": code, "message": "limit exceeded"})).unwrap()
    }

    fn operation() -> ApiOperation {
        ApiOperation { verb: "apply", target: "Deployment shop/cart-pr-1".to_owned() }
    }

    #[test]
    fn what_the_server_finds_wrong_is_told_in_its_own_words() {
        let invalid = K8sError::Invalid { operation: operation(), source: status(422) };
        let ApplyError::Rejected(refusal) = ApplyError::classify("fork cart")(invalid) else {
            panic!("it is refused")
        };
        assert_eq!(refusal.reason, "RefusedByServer");
        assert_eq!(refusal.message, "the API server rejected fork cart: limit exceeded");
        let forbidden = K8sError::Forbidden { operation: operation(), source: status(403) };
        let ApplyError::Rejected(refusal) = ApplyError::classify("fork cart")(forbidden) else {
            panic!("it is refused")
        };
        assert_eq!(refusal.reason, "Forbidden");
    }

    #[test]
    fn what_passes_is_no_refusal() {
        let unknown = K8sError::Forbidden { operation: operation(), source: status(401) };
        let busy = K8sError::Trouble { operation: operation(), source: status(503) };
        for error in [unknown, busy, K8sError::NotFound { operation: operation() }] {
            assert!(matches!(ApplyError::classify("fork cart")(error), ApplyError::Failed(_)));
        }
    }
}
