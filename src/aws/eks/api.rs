//! Questions to EKS. What is not there is an answer, never an error.

use futures::future::BoxFuture;

use super::{AccessEntryView, AddonView, ClusterView, Eks, EksError, ProfileView, found};

/// The answer to a question.
pub type Asked<'a, T> = BoxFuture<'a, Result<T, EksError>>;

/// Somebody who knows how clusters are: EKS, or a test.
pub trait AskEks: Send + Sync {
    /// A cluster.
    fn cluster<'a>(&'a self, name: &'a str) -> Asked<'a, Option<ClusterView>>;

    /// A Fargate profile of a cluster.
    fn profile<'a>(&'a self, cluster: &'a str, profile: &'a str) -> Asked<'a, Option<ProfileView>>;

    /// The names of all Fargate profiles of a cluster, whoever made them. None if there is no such cluster.
    fn profiles<'a>(&'a self, cluster: &'a str) -> Asked<'a, Vec<String>>;

    /// All addons of a cluster. None if there is no such cluster.
    fn addons<'a>(&'a self, cluster: &'a str) -> Asked<'a, Vec<AddonView>>;

    /// How a user or role of IAM is let into a cluster.
    fn access_entry<'a>(&'a self, cluster: &'a str, principal: &'a str)
    -> Asked<'a, Option<AccessEntryView>>;
}

impl AskEks for Eks {
    fn cluster<'a>(&'a self, name: &'a str) -> Asked<'a, Option<ClusterView>> {
        Box::pin(async move {
            let answer = self.client.describe_cluster().name(name).send().await;
            let answer = found(&format!("the cluster {name}"), answer)?;
            Ok(answer.and_then(|answer| answer.cluster).map(Into::into))
        })
    }

    fn profile<'a>(&'a self, cluster: &'a str, profile: &'a str) -> Asked<'a, Option<ProfileView>> {
        Box::pin(async move {
            let ask = self.client.describe_fargate_profile().cluster_name(cluster);
            let answer = ask.fargate_profile_name(profile).send().await;
            let answer = found(&format!("the Fargate profile {profile} of the cluster {cluster}"), answer)?;
            Ok(answer.and_then(|answer| answer.fargate_profile).map(Into::into))
        })
    }

    fn profiles<'a>(&'a self, cluster: &'a str) -> Asked<'a, Vec<String>> {
        Box::pin(async move {
            let what = format!("the Fargate profiles of the cluster {cluster}");
            let ask = self.client.list_fargate_profiles().cluster_name(cluster);
            let mut pages = ask.into_paginator().items().send();
            let mut names = Vec::new();
            while let Some(name) = pages.next().await {
                names.extend(found(&what, name)?);
            }
            Ok(names)
        })
    }

    fn addons<'a>(&'a self, cluster: &'a str) -> Asked<'a, Vec<AddonView>> {
        Box::pin(async move {
            let what = format!("the addons of the cluster {cluster}");
            let mut pages = self.client.list_addons().cluster_name(cluster).into_paginator().items().send();
            let mut addons = Vec::new();
            while let Some(name) = pages.next().await {
                let Some(name) = found(&what, name)? else { break };
                // One that goes in between is not there.
                addons.extend(self.addon(cluster, &name).await?);
            }
            Ok(addons)
        })
    }

    fn access_entry<'a>(
        &'a self,
        cluster: &'a str,
        principal: &'a str,
    ) -> Asked<'a, Option<AccessEntryView>> {
        Box::pin(async move {
            let ask = self.client.describe_access_entry().cluster_name(cluster);
            let answer = ask.principal_arn(principal).send().await;
            let answer = found(&format!("the access entry of {principal} in the cluster {cluster}"), answer)?;
            Ok(answer.and_then(|answer| answer.access_entry).map(Into::into))
        })
    }
}

impl Eks {
    async fn addon(&self, cluster: &str, name: &str) -> Result<Option<AddonView>, EksError> {
        let answer = self.client.describe_addon().cluster_name(cluster).addon_name(name).send().await;
        let answer = found(&format!("the addon {name} of the cluster {cluster}"), answer)?;
        Ok(answer.and_then(|answer| answer.addon).map(Into::into))
    }
}
