//! Talks to AWS: the only user of its SDK.
//!
//! Terraform makes things; what is asked here is only whether they are well.

mod eks;
mod identity;

use std::error::Error;

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_sts::{
    config::Credentials,
    error::{ProvideErrorMetadata, SdkError},
};
pub use eks::{Eks, EksError, Health};
pub use identity::{Account, IdentityError, account};

/// Which AWS to talk to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cloud {
    /// The local one, at this endpoint.
    Local {
        /// Its address.
        endpoint: String,
    },
    /// The account that the default credential chain leads to.
    Real,
}

/// The access key of the local AWS. It opens nothing.
pub const LOCAL_KEY: &str = "test";

impl Cloud {
    /// Settings of the SDK for one region; none means the one that the chain finds.
    pub async fn sdk(&self, region: Option<&str>) -> SdkConfig {
        let loader = aws_config::defaults(BehaviorVersion::latest());
        let loader = match region {
            Some(region) => loader.region(Region::new(region.to_owned())),
            None => loader,
        };
        match self {
            Self::Local { endpoint } => {
                let keys = Credentials::new(LOCAL_KEY, LOCAL_KEY, None, None, "local");
                loader.endpoint_url(endpoint).credentials_provider(keys).load().await
            }
            Self::Real => loader.load().await,
        }
    }
}

/// An error of the SDK in one line: the message and the code of AWS, or else the innermost cause. What the SDK
/// prints by itself is for its authors: several lines, or the insides of the response.
fn brief<E, R>(error: &SdkError<E, R>) -> String
where
    E: ProvideErrorMetadata + Error + 'static,
    R: std::fmt::Debug,
{
    if let Some(code) = error.code() {
        let message = error.message().unwrap_or("no reason given");
        return format!("{} ({code})", message.trim_end_matches('.'));
    }
    let mut innermost = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        innermost = cause.to_string();
        next = cause.source();
    }
    let line = innermost.lines().next().unwrap_or_default();
    line.trim_end_matches(" Attempted:").trim_end_matches('.').to_owned()
}
