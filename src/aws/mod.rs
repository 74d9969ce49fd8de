//! Talks to AWS: the only user of its SDK. Knows no kind of ours.
//!
//! Terraform makes things. Asked here is only whether they are well ([`AskEks`]), who somebody is ([`account`]), and
//! for a token that opens a cluster's API ([`eks_token`]). Who acts is a [`Principal`]; what it means for the SDK and
//! for terraform is decided here, for both in the same way.

mod eks;
#[cfg(test)]
pub(crate) mod fake;
mod fault;
mod identity;
mod keys;
mod principal;
mod secret;
mod session;
mod sessions;
mod token;

use std::time::Duration;

pub use aws_config::SdkConfig;
use aws_config::{BehaviorVersion, ConfigLoader, Region, timeout::TimeoutConfig};
use aws_sdk_sts::config::{Credentials, SharedCredentialsProvider};
pub use eks::{
    AccessEntryView, AddonView, AskEks, Asked, ClusterView, Eks, EksError, Health, Issue, ProfileView,
};
pub use identity::{Account, IdentityError, account};
pub use keys::{KeysError, keys, parse_ini};
pub use principal::{Hop, Principal, Source, session_name};
pub use secret::Secret;
use session::{Assume, Cached};
pub use sessions::Sessions;
pub use token::{Token, TokenError, eks_token};

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

/// How long one attempt of a call may take. The SDK makes three.
const ATTEMPT: Duration = Duration::from_secs(10);
/// How long a call may take with all its attempts.
const CALL: Duration = Duration::from_secs(30);

impl Cloud {
    /// Settings of the SDK for one region; none means the one that the chain finds.
    pub async fn sdk(&self, region: Option<&str>) -> SdkConfig {
        match self {
            Self::Local { .. } => self.sdk_with(region, LOCAL_KEY, LOCAL_KEY, None).await,
            Self::Real => self.loader(region).load().await,
        }
    }

    /// Settings of the SDK for a principal. Its credentials are fetched when they are first needed, held, and fetched
    /// again some minutes before they expire; so keep the settings, or let [`Sessions`] keep them.
    pub async fn sdk_as(&self, principal: &Principal, region: Option<&str>) -> SdkConfig {
        let Principal { source, hops, session_name } = principal;
        let mut sdk = match source {
            Source::Default => {
                let sdk = self.sdk(region).await;
                let chain = sdk.credentials_provider();
                chain.map_or_else(|| sdk.clone(), |chain| provided(&sdk, Cached::new(chain)))
            }
            Source::Static { access_key_id, secret_access_key, session_token } => {
                self.sdk_with(region, access_key_id, secret_access_key, session_token.clone()).await
            }
            Source::WebIdentity { role_arn, token_file } => {
                let sdk = self.loader(region).no_credentials().load().await;
                provided(&sdk, Cached::new(Assume::with_token(&sdk, role_arn, token_file, session_name)))
            }
        };
        for (at, hop) in hops.iter().enumerate() {
            let assume = Assume::role(&sdk, hop, principal.duration(at), session_name);
            sdk = provided(&sdk, Cached::new(assume));
        }
        sdk
    }

    async fn sdk_with(
        &self,
        region: Option<&str>,
        id: &str,
        secret: &str,
        token: Option<String>,
    ) -> SdkConfig {
        let keys = Credentials::new(id, secret, token, None, "capt");
        self.loader(region).credentials_provider(keys).load().await
    }

    fn loader(&self, region: Option<&str>) -> ConfigLoader {
        let deadlines =
            TimeoutConfig::builder().operation_attempt_timeout(ATTEMPT).operation_timeout(CALL).build();
        let mut loader = aws_config::defaults(BehaviorVersion::latest()).timeout_config(deadlines);
        if let Some(region) = region {
            loader = loader.region(Region::new(region.to_owned()));
        }
        match self {
            Self::Local { endpoint } => loader.endpoint_url(endpoint),
            Self::Real => loader,
        }
    }
}

fn provided(sdk: &SdkConfig, provider: Cached) -> SdkConfig {
    sdk.to_builder().credentials_provider(SharedCredentialsProvider::new(provider)).build()
}

#[cfg(test)]
mod tests;
