//! Caller identity: the AWS account and ARN of the current credentials.

use aws_config::SdkConfig;
use thiserror::Error;

use super::sdk_error::{is_transient, summarize_sdk_error};

/// Account and ARN of the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallerIdentity {
    /// Account id, twelve digits.
    pub id: String,
    /// ARN of the caller.
    pub arn: String,
    /// Region of the SDK configuration.
    pub region: Option<String>,
}

/// Why the caller identity is unknown.
#[derive(Debug, Error)]
pub enum IdentityError {
    /// No credentials, or AWS rejects them.
    #[error(
        "cannot authenticate to AWS: {reason}; check the credentials \
         (`aws sso login`, AWS_PROFILE, AWS_ACCESS_KEY_ID …)"
    )]
    Unauthenticated {
        /// Error of AWS or the SDK in one line.
        reason: String,
        /// Whether a retry may succeed: throttling, a server error, a timeout.
        transient: bool,
    },
    /// No region is configured.
    #[error("no AWS region is set; set AWS_REGION, or `region` in the AWS profile")]
    NoRegion,
}

impl IdentityError {
    /// Whether a retry may succeed.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unauthenticated { transient: true, .. })
    }
}

/// Calls `GetCallerIdentity` of STS.
pub async fn get_caller_identity(sdk: &SdkConfig) -> Result<CallerIdentity, IdentityError> {
    if sdk.region().is_none() {
        return Err(IdentityError::NoRegion);
    }
    let answer = aws_sdk_sts::Client::new(sdk).get_caller_identity().send().await.map_err(|error| {
        IdentityError::Unauthenticated {
            reason: summarize_sdk_error(&error),
            transient: is_transient(&error),
        }
    })?;
    Ok(CallerIdentity {
        id: answer.account().unwrap_or_default().to_owned(),
        arn: answer.arn().unwrap_or_default().to_owned(),
        region: sdk.region().map(ToString::to_string),
    })
}
