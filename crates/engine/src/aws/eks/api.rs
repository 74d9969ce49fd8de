//! Read-only EKS API. A missing object is `None` or an empty list, never an error.

use futures::future::BoxFuture;

use super::{
    EksAccessEntry, EksAddon, EksClient, EksCluster, EksError, EksFargateProfile, none_if_not_found,
};

/// Future of an EKS call.
pub type EksFuture<'a, T> = BoxFuture<'a, Result<T, EksError>>;

/// The EKS calls of the controllers; implemented by the SDK client and by a fake for tests.
pub trait EksApi: Send + Sync {
    /// Describes a cluster.
    fn describe_cluster<'a>(&'a self, name: &'a str) -> EksFuture<'a, Option<EksCluster>>;

    /// Describes a Fargate profile of a cluster.
    fn describe_fargate_profile<'a>(
        &'a self,
        cluster: &'a str,
        profile: &'a str,
    ) -> EksFuture<'a, Option<EksFargateProfile>>;

    /// Names of all Fargate profiles of a cluster, including unmanaged ones; empty if the cluster does not exist.
    fn list_fargate_profiles<'a>(&'a self, cluster: &'a str) -> EksFuture<'a, Vec<String>>;

    /// All addons of a cluster; empty if the cluster does not exist.
    fn describe_addons<'a>(&'a self, cluster: &'a str) -> EksFuture<'a, Vec<EksAddon>>;

    /// Access entry of an IAM user or role in a cluster.
    fn describe_access_entry<'a>(
        &'a self,
        cluster: &'a str,
        principal: &'a str,
    ) -> EksFuture<'a, Option<EksAccessEntry>>;
}

impl EksApi for EksClient {
    fn describe_cluster<'a>(&'a self, name: &'a str) -> EksFuture<'a, Option<EksCluster>> {
        Box::pin(async move {
            let answer = self.client.describe_cluster().name(name).send().await;
            let answer = none_if_not_found(&format!("the cluster {name}"), answer)?;
            Ok(answer.and_then(|answer| answer.cluster).map(Into::into))
        })
    }

    fn describe_fargate_profile<'a>(
        &'a self,
        cluster: &'a str,
        profile: &'a str,
    ) -> EksFuture<'a, Option<EksFargateProfile>> {
        Box::pin(async move {
            let ask = self.client.describe_fargate_profile().cluster_name(cluster);
            let answer = ask.fargate_profile_name(profile).send().await;
            let answer = none_if_not_found(
                &format!("the Fargate profile {profile} of the cluster {cluster}"),
                answer,
            )?;
            Ok(answer.and_then(|answer| answer.fargate_profile).map(Into::into))
        })
    }

    fn list_fargate_profiles<'a>(&'a self, cluster: &'a str) -> EksFuture<'a, Vec<String>> {
        Box::pin(async move {
            let what = format!("the Fargate profiles of the cluster {cluster}");
            let ask = self.client.list_fargate_profiles().cluster_name(cluster);
            let mut pages = ask.into_paginator().items().send();
            let mut names = Vec::new();
            while let Some(name) = pages.next().await {
                names.extend(none_if_not_found(&what, name)?);
            }
            Ok(names)
        })
    }

    fn describe_addons<'a>(&'a self, cluster: &'a str) -> EksFuture<'a, Vec<EksAddon>> {
        Box::pin(async move {
            let what = format!("the addons of the cluster {cluster}");
            let mut pages = self.client.list_addons().cluster_name(cluster).into_paginator().items().send();
            let mut addons = Vec::new();
            while let Some(name) = pages.next().await {
                let Some(name) = none_if_not_found(&what, name)? else { break };
                // An addon that is deleted between the two calls is skipped.
                addons.extend(self.describe_addon(cluster, &name).await?);
            }
            Ok(addons)
        })
    }

    fn describe_access_entry<'a>(
        &'a self,
        cluster: &'a str,
        principal: &'a str,
    ) -> EksFuture<'a, Option<EksAccessEntry>> {
        Box::pin(async move {
            let ask = self.client.describe_access_entry().cluster_name(cluster);
            let answer = ask.principal_arn(principal).send().await;
            let answer = none_if_not_found(
                &format!("the access entry of {principal} in the cluster {cluster}"),
                answer,
            )?;
            Ok(answer.and_then(|answer| answer.access_entry).map(Into::into))
        })
    }
}

impl EksClient {
    async fn describe_addon(&self, cluster: &str, name: &str) -> Result<Option<EksAddon>, EksError> {
        let answer = self.client.describe_addon().cluster_name(cluster).addon_name(name).send().await;
        let answer = none_if_not_found(&format!("the addon {name} of the cluster {cluster}"), answer)?;
        Ok(answer.and_then(|answer| answer.addon).map(Into::into))
    }
}
