//! Who we are to AWS.

use aws_config::SdkConfig;
use thiserror::Error;

use super::brief;

/// An AWS account and who we are in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Twelve digits.
    pub id: String,
    /// Our ARN.
    pub arn: String,
    /// The region that the chain found.
    pub region: Option<String>,
}

/// Why we do not know.
#[derive(Debug, Error)]
#[error(
    "AWS does not know us: {said}; log in (`aws sso login`, AWS_PROFILE, AWS_ACCESS_KEY_ID …) \
     or leave `--aws real` out to use the local AWS"
)]
pub struct IdentityError {
    said: String,
}

/// Asks STS.
pub async fn account(sdk: &SdkConfig) -> Result<Account, IdentityError> {
    let answer = aws_sdk_sts::Client::new(sdk)
        .get_caller_identity()
        .send()
        .await
        .map_err(|error| IdentityError { said: brief(&error) })?;
    Ok(Account {
        id: answer.account().unwrap_or_default().to_owned(),
        arn: answer.arn().unwrap_or_default().to_owned(),
        region: sdk.region().map(ToString::to_string),
    })
}
