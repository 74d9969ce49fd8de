//! Deletes the load balancers of routers before their cluster is destroyed. AWS creates them for Services, Terraform does not
//! know them, and their network interfaces would block the deletion of the VPC.

use std::{collections::BTreeSet, time::Duration};

use capt_kinds::api::CaptControlPlane;
use capt_kinds::sandbox::names::ROUTER_LABEL;
use capt_kube::k8s::{DeletionPropagation, K8sError, KubeClient, connect_by_token};
use capt_model::model::names;
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt as _;

use super::{
    dereference::RemainingObjects,
    ownership::{OwnershipFacts, assess_ownership},
    validate::recorded_eks_name,
};
use crate::common::{Context, owning_cluster::OwningCluster};

/// Request timeout. The cluster may be gone already.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Router Services of type `LoadBalancer` in all namespaces; none if there is no kubeconfig for the cluster.
pub(super) async fn list_remaining(
    object: &CaptControlPlane,
    remains: &RemainingObjects,
    ctx: &Context,
) -> Result<Vec<Service>, K8sError> {
    // A cluster whose workspace is being destroyed is not queried.
    let is_there = remains.eks_workspace.as_ref().is_some_and(|it| it.metadata.deletion_timestamp.is_none());
    match connect(object, remains, ctx).await? {
        Some(cluster) if is_there => {
            let mut all: Vec<Service> = cluster.list(None, "").await?;
            all.retain(is_router_load_balancer);
            Ok(all)
        }
        _ => Ok(Vec::new()),
    }
}

/// Deletes these Services.
pub(super) async fn delete_services(
    object: &CaptControlPlane,
    remains: &RemainingObjects,
    all: &[Service],
    ctx: &Context,
) -> Result<(), K8sError> {
    let Some(cluster) = connect(object, remains, ctx).await? else { return Ok(()) };
    for one in all {
        cluster.delete(one, DeletionPropagation::Background).await?;
    }
    Ok(())
}

/// A client for the cluster, from its kubeconfig Secret; none for a cluster that is not proven to be the control plane's own.
async fn connect(
    object: &CaptControlPlane,
    remains: &RemainingObjects,
    ctx: &Context,
) -> Result<Option<KubeClient>, K8sError> {
    if !is_cluster_proven(object, remains) {
        return Ok(None);
    }
    let Some(OwningCluster { name, .. }) = OwningCluster::from_metadata(&object.metadata) else {
        return Ok(None);
    };
    let secret = remains.secrets.iter().find(|it| it.name_any() == names::kubeconfig_secret(&name));
    let bytes = secret.and_then(|it| it.data.as_ref()?.get("value"));
    let Some(text) = bytes.and_then(|it| str::from_utf8(&it.0).ok()) else { return Ok(None) };
    Ok(Some(ctx.kube.with_client(connect_by_token(text).await?).with_deadline(REQUEST_TIMEOUT)))
}

/// Whether the cluster was proven before the deletion. EKS is not queried during one.
fn is_cluster_proven(object: &CaptControlPlane, remains: &RemainingObjects) -> bool {
    let Some(eks) = &remains.eks_workspace else { return false };
    let ownership = assess_ownership(OwnershipFacts {
        object,
        eks_name: recorded_eks_name(eks).unwrap_or_default(),
        cluster: None,
        state_arns: eks.status.as_ref().map(|it| it.eks_cluster_arns.as_slice()).unwrap_or_default(),
        adopted_arns: &BTreeSet::new(),
        others: &[],
        requires_tag: true,
    });
    ownership.is_trusted()
}

/// Whether a Service is a load balancer of routers, by its selector; its own labels are not required.
fn is_router_load_balancer(service: &Service) -> bool {
    let Some(spec) = &service.spec else { return false };
    let leads = spec.selector.as_ref().is_some_and(|it| it.contains_key(ROUTER_LABEL));
    leads && spec.type_.as_deref() == Some("LoadBalancer")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn service(spec: &Value) -> Service {
        serde_json::from_value(json!({"metadata": {"name": "x"}, "spec": spec})).unwrap()
    }

    #[test]
    fn a_balancer_of_routers_is_known_by_what_it_selects() {
        let router = json!({ROUTER_LABEL: "router"});
        assert!(is_router_load_balancer(&service(&json!({"type": "LoadBalancer", "selector": router}))));
        assert!(!is_router_load_balancer(&service(&json!({"type": "ClusterIP", "selector": router}))));
        assert!(!is_router_load_balancer(&service(
            &json!({"type": "LoadBalancer", "selector": {"app": "web"}})
        )));
        assert!(!is_router_load_balancer(&service(&json!({"type": "LoadBalancer"}))));
    }
}
