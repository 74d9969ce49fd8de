//! What the API server refuses, as something that can be said of a Sandbox. Pure.

use sandbox::{api::conditions::reasons, refusal::Refusal};

use crate::k8s::K8sError;

/// Why something stopped: the Sandbox cannot have what it asks for, or nobody knows yet.
#[derive(Debug)]
pub(super) enum Stop {
    /// It cannot have it.
    Refused(Refusal),
    /// Nobody knows.
    Failed(K8sError),
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<K8sError> for Stop {
    fn from(error: K8sError) -> Self {
        Self::Failed(error)
    }
}

impl Stop {
    /// What it means that `what` was not taken. An object that breaks a rule, a quota and a policy do so the next time, too; they
    /// are told in the server's own words. Whoever is not let in at all was not even listened to.
    pub(super) fn at(what: &str) -> impl Fn(K8sError) -> Self {
        move |error| {
            let (reason, told) = match &error {
                K8sError::Invalid { source, .. } => (reasons::REFUSED_BY_SERVER, &source.message),
                K8sError::Forbidden { source, .. } if source.code == 403 => {
                    (reasons::FORBIDDEN, &source.message)
                }
                _ => return Self::Failed(error),
            };
            Self::Refused(Refusal::new(reason, format!("the API server does not take {what}: {told}")))
        }
    }

    /// As callers want it who go on after a refusal.
    pub(super) fn parted<T>(outcome: Result<T, Self>) -> Result<Result<T, Refusal>, K8sError> {
        match outcome {
            Ok(done) => Ok(Ok(done)),
            Err(Self::Refused(refusal)) => Ok(Err(refusal)),
            Err(Self::Failed(error)) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::k8s::Deed;

    fn status(code: u16) -> Box<kube::core::Status> {
        serde_json::from_value(json!({"code": code, "message": "limit exceeded"})).unwrap()
    }

    fn deed() -> Deed {
        Deed { verb: "apply", what: "Deployment shop/cart-pr-1".to_owned() }
    }

    #[test]
    fn what_the_server_finds_wrong_is_told_in_its_own_words() {
        let invalid = K8sError::Invalid { deed: deed(), source: status(422) };
        let Stop::Refused(refusal) = Stop::at("fork cart")(invalid) else { panic!("it is refused") };
        assert_eq!(refusal.reason, "RefusedByServer");
        assert_eq!(refusal.message, "the API server does not take fork cart: limit exceeded");
        let forbidden = K8sError::Forbidden { deed: deed(), source: status(403) };
        let Stop::Refused(refusal) = Stop::at("fork cart")(forbidden) else { panic!("it is refused") };
        assert_eq!(refusal.reason, "Forbidden");
    }

    #[test]
    fn what_passes_is_no_refusal() {
        let unknown = K8sError::Forbidden { deed: deed(), source: status(401) };
        let busy = K8sError::Trouble { deed: deed(), source: status(503) };
        for error in [unknown, busy, K8sError::NotFound { deed: deed() }] {
            assert!(matches!(Stop::at("fork cart")(error), Stop::Failed(_)));
        }
    }
}
