//! The settings of the SDK for each principal and region, kept: with them go the credentials and the connections.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use aws_config::SdkConfig;

use super::{Cloud, Principal};

/// More than there are identities and regions. Credentials that were replaced stay until this is reached.
const MOST: usize = 512;

/// Keeps what [`Cloud::sdk_as`] makes, so that a role is assumed once an hour and not for each look at a cluster.
#[derive(Debug)]
pub struct Sessions {
    cloud: Cloud,
    known: Mutex<BTreeMap<(String, Option<String>), SdkConfig>>,
}

impl Sessions {
    /// For one AWS.
    pub fn new(cloud: Cloud) -> Self {
        Self { cloud, known: Mutex::default() }
    }

    /// Which AWS.
    pub fn cloud(&self) -> &Cloud {
        &self.cloud
    }

    /// Settings of the SDK for a principal in a region; none means the one that the chain finds.
    pub async fn sdk(&self, principal: &Principal, region: Option<&str>) -> SdkConfig {
        let key = (principal.digest(), region.map(str::to_owned));
        if let Some(sdk) = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return sdk.clone();
        }
        let sdk = self.cloud.sdk_as(principal, region).await;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST {
            known.clear();
        }
        // Whoever came first while we were at it: two sets of credentials would be one too many.
        known.entry(key).or_insert(sdk).clone()
    }
}
