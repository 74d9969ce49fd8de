//! AWS access: the only user of the AWS SDK. Knows no Kubernetes kind.
//!
//! Terraform makes all changes. This module only reads EKS objects ([`EksApi`]) and the caller identity ([`account`]), and
//! creates tokens for the APIs of clusters ([`eks_token`]). A [`Principal`] is the acting identity; it is translated here into
//! credentials for both the SDK and terraform.

mod assume_role;
mod eks;
mod identity;
mod principal;
mod sdk_cache;
mod sdk_error;
mod secret_string;
mod static_credentials;
mod token;

use std::time::Duration;

use assume_role::{AssumeRoleProvider, CachedCredentials};
pub use aws_config::SdkConfig;
use aws_config::{BehaviorVersion, ConfigLoader, Region, timeout::TimeoutConfig};
use aws_sdk_sts::config::{Credentials, SharedCredentialsProvider};
pub use eks::{
    EksAccessEntry, EksAddon, EksApi, EksClient, EksCluster, EksError, EksFargateProfile, EksFuture,
    EksHealth, EksIssue, OWNER_TAG,
};
pub use identity::{CallerIdentity, IdentityError, get_caller_identity};
pub use principal::{Principal, PrincipalSource, RoleHop, session_name};
pub use sdk_cache::SdkConfigCache;
pub use secret_string::SecretString;
pub use static_credentials::{StaticCredentialsError, parse_credentials_file, parse_keys};
pub use token::{EksToken, EksTokenError, create_eks_token};

/// The local or the real AWS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cloud {
    /// The local AWS.
    Local {
        /// Endpoint URL.
        endpoint: String,
    },
    /// The real AWS, by default with the default credential chain.
    Real,
}

/// Access key of the local AWS; not a secret.
pub const LOCAL_ACCESS_KEY: &str = "test";

/// Timeout of one attempt; the SDK makes three.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of a call including retries.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

impl Cloud {
    /// SDK configuration for a region; `None` is the region of the default chain.
    pub async fn sdk_config(&self, region: Option<&str>) -> SdkConfig {
        match self {
            Self::Local { .. } => {
                self.sdk_config_with_keys(region, LOCAL_ACCESS_KEY, LOCAL_ACCESS_KEY, None).await
            }
            Self::Real => self.config_loader(region).load().await,
        }
    }

    /// SDK configuration for a principal. It fetches credentials on first use and caches them until shortly before they expire;
    /// reuse it, or use [`SdkConfigCache`].
    pub async fn sdk_config_as(&self, principal: &Principal, region: Option<&str>) -> SdkConfig {
        let Principal { source, role_chain: hops, session_name } = principal;
        let mut sdk = match source {
            PrincipalSource::Default => {
                let sdk = self.sdk_config(region).await;
                let chain = sdk.credentials_provider();
                chain.map_or_else(
                    || sdk.clone(),
                    |chain| with_credentials_provider(&sdk, CachedCredentials::new(chain)),
                )
            }
            PrincipalSource::Static { access_key_id, secret_access_key, session_token } => {
                self.sdk_config_with_keys(region, access_key_id, secret_access_key, session_token.clone())
                    .await
            }
            PrincipalSource::WebIdentity { role_arn, token_file } => {
                let sdk = self.config_loader(region).no_credentials().load().await;
                with_credentials_provider(
                    &sdk,
                    CachedCredentials::new(AssumeRoleProvider::from_web_identity(
                        &sdk,
                        role_arn,
                        token_file,
                        session_name,
                    )),
                )
            }
        };
        for (at, hop) in hops.iter().enumerate() {
            let assume =
                AssumeRoleProvider::from_hop(&sdk, hop, principal.session_duration(at), session_name);
            sdk = with_credentials_provider(&sdk, CachedCredentials::new(assume));
        }
        sdk
    }

    async fn sdk_config_with_keys(
        &self,
        region: Option<&str>,
        id: &str,
        secret: &str,
        token: Option<String>,
    ) -> SdkConfig {
        let keys = Credentials::new(id, secret, token, None, "capt");
        self.config_loader(region).credentials_provider(keys).load().await
    }

    fn config_loader(&self, region: Option<&str>) -> ConfigLoader {
        let deadlines = TimeoutConfig::builder()
            .operation_attempt_timeout(ATTEMPT_TIMEOUT)
            .operation_timeout(CALL_TIMEOUT)
            .build();
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

fn with_credentials_provider(sdk: &SdkConfig, provider: CachedCredentials) -> SdkConfig {
    sdk.to_builder().credentials_provider(SharedCredentialsProvider::new(provider)).build()
}

#[cfg(test)]
mod tests;
