//! Summarises SDK errors in one line and classifies them as transient or permanent.

use std::error::Error;

use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_sts::{
    config::http::HttpResponse,
    error::{ProvideErrorMetadata, SdkError},
};
use capt_util::error_chain;
use thiserror::Error;

/// A role could not be assumed. The SDK wraps this error in its own; it is extracted again because its message is the
/// actionable one.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("cannot assume the role {role}: {reason}")]
pub(super) struct AssumeRoleError {
    /// The role.
    pub(super) role: String,
    /// Error of STS.
    pub(super) reason: String,
    /// Whether a retry may succeed.
    pub(super) transient: bool,
}

impl AssumeRoleError {
    /// Finds this error in a source chain.
    pub(super) fn find_in<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Self> {
        error_chain::chain(error).find_map(|cause| cause.downcast_ref())
    }
}

/// An SDK error in one line: message and code of AWS, or else the root cause. The SDK's own text spans several lines or dumps
/// the response.
pub(super) fn summarize_sdk_error<E>(error: &SdkError<E, HttpResponse>) -> String
where
    E: ProvideErrorMetadata + Error + 'static,
{
    match error.code() {
        Some(code) => {
            let message = error.message().unwrap_or("no reason given");
            format!("{} ({code})", message.trim_end_matches('.'))
        }
        None => root_cause(error),
    }
}

/// The root cause in one line, or the role that could not be assumed.
pub(super) fn root_cause(error: &(dyn Error + 'static)) -> String {
    if let Some(session) = AssumeRoleError::find_in(error) {
        return session.to_string();
    }
    let line = error_chain::root_cause(error);
    line.trim_end_matches(" Attempted:").trim_end_matches('.').to_owned()
}

/// Substrings of transient AWS error codes.
const TRANSIENT_CODES: &[&str] = &[
    "Throttl",
    "TooManyRequests",
    "RequestLimitExceeded",
    "SlowDown",
    "ServerException",
    "InternalFailure",
    "InternalError",
    "ServiceUnavailable",
    "RequestTimeout",
    "IDPCommunicationError",
];

/// Whether a retry may succeed without any change.
pub(super) fn is_transient<E>(error: &SdkError<E, HttpResponse>) -> bool
where
    E: ProvideErrorMetadata + Error + 'static,
{
    match error {
        SdkError::ServiceError(answer) => {
            let status = answer.raw().status().as_u16();
            let code = answer.err().code().unwrap_or_default();
            status == 429 || status >= 500 || TRANSIENT_CODES.iter().any(|part| code.contains(part))
        }
        SdkError::TimeoutError(_) | SdkError::ResponseError(_) => true,
        // No connection, or no credentials for the signature.
        SdkError::DispatchFailure(_) => is_transient_cause(error),
        _ => false,
    }
}

/// The same for an error without a response. Credential providers fail transiently like any network service; only missing
/// credentials, invalid configuration and a denied role are permanent.
pub(super) fn is_transient_cause(error: &(dyn Error + 'static)) -> bool {
    if let Some(session) = AssumeRoleError::find_in(error) {
        return session.transient;
    }
    let credentials = error_chain::chain(error).find_map(|cause| cause.downcast_ref::<CredentialsError>());
    !matches!(
        credentials,
        Some(CredentialsError::CredentialsNotLoaded(_) | CredentialsError::InvalidConfiguration(_))
    )
}

#[cfg(test)]
mod tests {
    use aws_sdk_eks::operation::describe_cluster::DescribeClusterError;
    use aws_sdk_sts::error::{ConnectorError, ErrorMetadata};

    use super::*;

    type Answer = SdkError<DescribeClusterError, HttpResponse>;

    fn answer(status: u16, code: &str) -> Answer {
        let raw = HttpResponse::new(status.try_into().unwrap(), "".into());
        let meta = ErrorMetadata::builder().code(code).message("for a reason.").build();
        SdkError::service_error(DescribeClusterError::generic(meta), raw)
    }

    #[test]
    fn throttling_and_broken_services_pass_and_refusals_do_not() {
        for (status, code) in [
            (429, "ThrottlingException"),
            (400, "Throttling"),
            (503, "RequestLimitExceeded"),
            (500, "ServerException"),
            (502, ""),
            (408, "RequestTimeoutException"),
        ] {
            assert!(is_transient(&answer(status, code)), "{status} {code}");
        }
        for (status, code) in [
            (403, "AccessDeniedException"),
            (403, "UnrecognizedClientException"),
            (403, "ExpiredTokenException"),
            (400, "InvalidParameterException"),
        ] {
            assert!(!is_transient(&answer(status, code)), "{status} {code}");
        }
    }

    #[test]
    fn an_answer_is_its_message_and_code() {
        assert_eq!(
            summarize_sdk_error(&answer(403, "AccessDeniedException")),
            "for a reason (AccessDeniedException)"
        );
    }

    fn unsigned(why: CredentialsError) -> Answer {
        SdkError::dispatch_failure(ConnectorError::other(why.into(), None))
    }

    #[test]
    fn a_role_that_is_refused_is_told_through_all_wrappings() {
        let session = AssumeRoleError {
            role: "r".to_owned(),
            reason: "no (AccessDenied)".to_owned(),
            transient: false,
        };
        let error = unsigned(CredentialsError::provider_error(session.clone()));
        assert_eq!(summarize_sdk_error(&error), "cannot assume the role r: no (AccessDenied)");
        assert!(!is_transient(&error));
        let later = AssumeRoleError { transient: true, ..session };
        assert!(is_transient(&unsigned(CredentialsError::provider_error(later))));
    }

    #[test]
    fn no_credentials_do_not_come_by_waiting_and_slow_ones_may() {
        assert!(!is_transient(&unsigned(CredentialsError::not_loaded("none in the chain"))));
        let slow = CredentialsError::provider_timed_out(std::time::Duration::from_secs(5));
        assert!(is_transient(&unsigned(slow)));
    }

    #[test]
    fn a_connection_that_breaks_is_transient() {
        let broken = ConnectorError::io(std::io::Error::other("reset\nby peer").into());
        let error: Answer = SdkError::dispatch_failure(broken);
        assert_eq!(summarize_sdk_error(&error), "reset");
        assert!(is_transient(&error));
        assert!(is_transient(&Answer::timeout_error("late")));
    }
}
