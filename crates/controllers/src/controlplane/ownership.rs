//! Whether an EKS cluster belongs to a control plane. Pure.
//!
//! The name in the spec proves nothing: whoever may create a control plane chooses it. Two facts prove it, of which one is kept
//! by the operator and one by AWS: the ARN is in the state of the workspace, and the cluster has the owner tag with the uid of
//! the control plane. Without proof there is no token, no kubeconfig and no request to the cluster.

use std::collections::BTreeSet;

use capt_engine::aws::{EksCluster, OWNER_TAG};
use capt_kinds::api::{CaptControlPlane, names as words};
use jiff::Timestamp;
use kube::ResourceExt as _;

/// Another control plane that this operator sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OtherControlPlane {
    /// Its uid.
    pub uid: String,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// The EKS cluster that is proven to belong to it.
    pub eks_cluster_arn: Option<String>,
}

impl OtherControlPlane {
    /// Of an object.
    pub(crate) fn new(object: &CaptControlPlane) -> Self {
        Self {
            uid: object.uid().unwrap_or_default(),
            created: object.metadata.creation_timestamp.as_ref().map(|time| time.0),
            eks_cluster_arn: object.status.as_ref().and_then(|status| status.eks_cluster_arn.clone()),
        }
    }

    fn is_older_than(&self, object: &CaptControlPlane) -> bool {
        let me = Self::new(object);
        (self.created, &self.uid) < (me.created, &me.uid)
    }
}

/// Whether the cluster of a control plane is its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ClusterOwnership {
    /// EKS has not reported the cluster. `was_proven`: it was proven earlier.
    Unknown {
        /// Whether an earlier observation proved it.
        was_proven: bool,
    },
    /// It is not proven.
    Unproven(String),
    /// Another control plane has the cluster of this account, region and name.
    NameTaken(String),
    /// It is proven.
    Proven {
        /// ARN of the cluster.
        arn: String,
        /// Whether only the owner tag of a cluster of an older version is missing; the next apply adds it.
        awaits_tag: bool,
    },
}

impl ClusterOwnership {
    /// ARN of the cluster, if it is proven by what EKS reports now.
    pub(crate) fn proven_arn(&self) -> Option<&str> {
        match self {
            Self::Proven { arn, .. } => Some(arn),
            Self::Unknown { .. } | Self::Unproven(_) | Self::NameTaken(_) => None,
        }
    }

    /// Whether it is proven now, or was and EKS has not said anything since.
    pub(crate) fn is_trusted(&self) -> bool {
        matches!(self, Self::Proven { .. } | Self::Unknown { was_proven: true })
    }
}

/// What ownership is derived from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnershipFacts<'a> {
    /// The control plane.
    pub object: &'a CaptControlPlane,
    /// Name of the cluster in EKS.
    pub eks_name: &'a str,
    /// The cluster as EKS reports it.
    pub cluster: Option<&'a EksCluster>,
    /// ARNs of the clusters in the state of the workspace.
    pub state_arns: &'a [String],
    /// ARNs that an administrator has assigned to the namespace.
    pub adopted_arns: &'a BTreeSet<String>,
    /// All other control planes.
    pub others: &'a [OtherControlPlane],
    /// Whether the state must be accompanied by the tag.
    pub requires_tag: bool,
}

/// Derives the ownership.
pub(crate) fn assess_ownership(facts: OwnershipFacts<'_>) -> ClusterOwnership {
    let OwnershipFacts { object, eks_name, cluster, state_arns, adopted_arns, others, requires_tag } = facts;
    let Some(EksCluster { arn, tags, .. }) = cluster.filter(|it| !it.arn.is_empty()) else {
        return ClusterOwnership::Unknown { was_proven: was_proven(facts) };
    };
    let tag = tags.get(OWNER_TAG);
    let is_mine = tag.is_some() && tag == object.metadata.uid.as_ref();
    let has_older =
        others.iter().any(|it| it.eks_cluster_arn.as_ref() == Some(arn) && it.is_older_than(object));
    let is_of_other = tag.is_some_and(|tag| others.iter().any(|it| it.uid == *tag));
    if has_older || is_of_other {
        return ClusterOwnership::NameTaken(format!(
            "EKS cluster {eks_name} in this account and region belongs to another CAPTControlPlane; choose another eksClusterName"
        ));
    }
    if adopted_arns.contains(arn) {
        return ClusterOwnership::Proven { arn: arn.clone(), awaits_tag: false };
    }
    let remedy = format!(
        "choose another eksClusterName, or let an administrator add {arn} to the annotation {} of the namespace",
        words::ADOPT_EKS_CLUSTERS_ANNOTATION
    );
    if !state_arns.contains(arn) {
        return ClusterOwnership::Unproven(format!(
            "EKS cluster {eks_name} exists, but is not in the Terraform state of this control plane; {remedy}"
        ));
    }
    match tag {
        Some(_) if is_mine => ClusterOwnership::Proven { arn: arn.clone(), awaits_tag: false },
        None if !requires_tag => ClusterOwnership::Proven { arn: arn.clone(), awaits_tag: false },
        None if is_of_older_version(object) => {
            ClusterOwnership::Proven { arn: arn.clone(), awaits_tag: true }
        }
        Some(_) | None => ClusterOwnership::Unproven(format!(
            "EKS cluster {eks_name} does not have the tag {OWNER_TAG} with the uid of this object; a template sets it from its \
             variable capt_owner; else {remedy}"
        )),
    }
}

/// Whether the cluster was made by a version of capt that set no owner tag: it was initialized, and never proven since. The
/// built-in module adds the tag with its next apply; nobody knows whether a template does.
fn is_of_older_version(object: &CaptControlPlane) -> bool {
    let status = object.status.as_ref();
    let initialized = status.and_then(|it| it.initialization.as_ref()?.control_plane_initialized);
    let proven = status.is_some_and(|it| it.eks_cluster_arn.is_some());
    initialized == Some(true) && !proven && object.spec.workspace_template_ref.is_none()
}

/// Whether the cluster may be used until EKS reports it.
fn was_proven(facts: OwnershipFacts<'_>) -> bool {
    let OwnershipFacts { object, eks_name, state_arns, .. } = facts;
    let suffix = format!(":cluster/{eks_name}");
    object.status.as_ref().is_some_and(|it| it.eks_cluster_arn.is_some())
        || (is_of_older_version(object) && state_arns.iter().any(|arn| arn.ends_with(&suffix)))
}

/// The ARNs in the annotation of a namespace.
pub(crate) fn parse_adopted_arns(annotation: &str) -> BTreeSet<String> {
    let arns = annotation.split(',').map(str::trim);
    arns.filter(|arn| !arn.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests;
