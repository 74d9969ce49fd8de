//! What went wrong in a call of AWS: in one line, and whether the same call may go well later.

use std::error::Error;

use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_sts::{
    config::http::HttpResponse,
    error::{ProvideErrorMetadata, SdkError},
};
use thiserror::Error;

/// Credentials that could not be had from others. The SDK wraps it into its own errors; it is looked for in there,
/// because what it says is what a person can act on.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("cannot assume the role {role}: {said}")]
pub(super) struct SessionError {
    /// The role.
    pub(super) role: String,
    /// What STS said.
    pub(super) said: String,
    /// Whether it may go well later.
    pub(super) transient: bool,
}

impl SessionError {
    /// The one that made this error, if there is one.
    pub(super) fn within<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Self> {
        chain(error).find_map(|cause| cause.downcast_ref())
    }
}

fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

/// An error of the SDK in one line: the message and the code of AWS, or else the innermost cause. What the SDK
/// prints by itself is for its authors: several lines, or the insides of the response.
pub(super) fn brief<E>(error: &SdkError<E, HttpResponse>) -> String
where
    E: ProvideErrorMetadata + Error + 'static,
{
    match error.code() {
        Some(code) => {
            let message = error.message().unwrap_or("no reason given");
            format!("{} ({code})", message.trim_end_matches('.'))
        }
        None => innermost(error),
    }
}

/// The innermost cause in one line, or the role that could not be assumed.
pub(super) fn innermost(error: &(dyn Error + 'static)) -> String {
    if let Some(session) = SessionError::within(error) {
        return session.to_string();
    }
    let text = chain(error).last().map(ToString::to_string).unwrap_or_default();
    let line = text.lines().next().unwrap_or_default();
    line.trim_end_matches(" Attempted:").trim_end_matches('.').to_owned()
}

/// Parts of the codes with which services of AWS say: later.
const LATER: &[&str] = &[
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

/// Whether the same call may go well later, with nobody doing anything about it.
pub(super) fn is_transient<E>(error: &SdkError<E, HttpResponse>) -> bool
where
    E: ProvideErrorMetadata + Error + 'static,
{
    match error {
        SdkError::ServiceError(answer) => {
            let status = answer.raw().status().as_u16();
            let code = answer.err().code().unwrap_or_default();
            status == 429 || status >= 500 || LATER.iter().any(|part| code.contains(part))
        }
        SdkError::TimeoutError(_) | SdkError::ResponseError(_) => true,
        // No connection, or no credentials to sign with.
        SdkError::DispatchFailure(_) => may_pass(error),
        _ => false,
    }
}

/// The same for an error that is not an answer. Where credentials come from is as moody as anything else on a network;
/// only if there are none at all, or somebody was told no, waiting does not help.
pub(super) fn may_pass(error: &(dyn Error + 'static)) -> bool {
    if let Some(session) = SessionError::within(error) {
        return session.transient;
    }
    let credentials = chain(error).find_map(|cause| cause.downcast_ref::<CredentialsError>());
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
        assert_eq!(brief(&answer(403, "AccessDeniedException")), "for a reason (AccessDeniedException)");
    }

    fn unsigned(why: CredentialsError) -> Answer {
        SdkError::dispatch_failure(ConnectorError::other(why.into(), None))
    }

    #[test]
    fn a_role_that_is_refused_is_told_through_all_wrappings() {
        let session =
            SessionError { role: "r".to_owned(), said: "no (AccessDenied)".to_owned(), transient: false };
        let error = unsigned(CredentialsError::provider_error(session.clone()));
        assert_eq!(brief(&error), "cannot assume the role r: no (AccessDenied)");
        assert!(!is_transient(&error));
        let later = SessionError { transient: true, ..session };
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
        assert_eq!(brief(&error), "reset");
        assert!(is_transient(&error));
        assert!(is_transient(&Answer::timeout_error("late")));
    }
}
