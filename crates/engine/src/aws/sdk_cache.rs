//! Cache of SDK configurations by principal and region, and thereby of credentials and connections.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use aws_config::SdkConfig;

use super::{Cloud, Principal};

/// Size at which the cache is cleared; above the number of identities times regions. Outdated entries stay until then.
const MAX_ENTRIES: usize = 512;

/// Caches the results of [`Cloud::sdk_config_as`], so that a role is assumed once per session and not on every EKS poll.
#[derive(Debug)]
pub struct SdkConfigCache {
    cloud: Cloud,
    configs: Mutex<BTreeMap<(String, Option<String>), SdkConfig>>,
}

impl SdkConfigCache {
    /// Creates an empty cache.
    pub fn new(cloud: Cloud) -> Self {
        Self { cloud, configs: Mutex::default() }
    }

    /// The AWS that the configurations are for.
    pub fn cloud(&self) -> &Cloud {
        &self.cloud
    }

    /// SDK configuration for a principal and region; `None` is the region of the default chain.
    pub async fn sdk_config(&self, principal: &Principal, region: Option<&str>) -> SdkConfig {
        let key = (principal.digest(), region.map(str::to_owned));
        if let Some(sdk) = self.configs.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return sdk.clone();
        }
        let sdk = self.cloud.sdk_config_as(principal, region).await;
        let mut known = self.configs.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_ENTRIES {
            known.clear();
        }
        // Keep the entry of a concurrent caller, so that all share one set of credentials.
        known.entry(key).or_insert(sdk).clone()
    }
}
