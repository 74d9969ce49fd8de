//! Who we are to AWS.

use aws_config::SdkConfig;
use thiserror::Error;

use super::fault::{brief, is_transient};

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
pub enum IdentityError {
    /// No credentials, or some that AWS refuses.
    #[error(
        "AWS does not know us: {said}; log in (`aws sso login`, AWS_PROFILE, AWS_ACCESS_KEY_ID …) \
         or leave `--aws real` out to use the local AWS"
    )]
    Unknown {
        /// What AWS or its SDK says, in one line.
        said: String,
        /// Whether it may know us later: throttling, a broken service, no answer in time.
        transient: bool,
    },
    /// There is no region to ask in.
    #[error("no region is set to ask AWS in who we are; set AWS_REGION, or `region` in the AWS profile")]
    NoRegion,
}

impl IdentityError {
    /// Whether the same may go well later.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unknown { transient: true, .. })
    }
}

/// Asks STS.
pub async fn account(sdk: &SdkConfig) -> Result<Account, IdentityError> {
    if sdk.region().is_none() {
        return Err(IdentityError::NoRegion);
    }
    let answer =
        aws_sdk_sts::Client::new(sdk).get_caller_identity().send().await.map_err(|error| {
            IdentityError::Unknown { said: brief(&error), transient: is_transient(&error) }
        })?;
    Ok(Account {
        id: answer.account().unwrap_or_default().to_owned(),
        arn: answer.arn().unwrap_or_default().to_owned(),
        region: sdk.region().map(ToString::to_string),
    })
}
