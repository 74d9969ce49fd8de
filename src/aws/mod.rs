//! Talks to AWS: the only user of its SDK.
//!
//! Terraform makes things; what is asked here is only whether they are well.

mod eks;
mod identity;

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_sdk_sts::config::Credentials;
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

/// An error of the SDK in one line: what each of its causes says, each once, without their insides.
fn brief(error: &dyn std::error::Error) -> String {
    let mut said: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(cause) = next {
        let text = cause.to_string();
        if !said.iter().any(|earlier| earlier.contains(&text)) {
            said.push(text);
        }
        next = cause.source();
    }
    said.join(": ")
}
