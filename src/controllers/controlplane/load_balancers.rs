//! The load balancers of routers in a cluster that goes. AWS makes them for Services; nobody else removes them, and their network
//! interfaces would hold back the network of the cluster.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Secret, Service};
use kube::ResourceExt as _;
use sandbox::api::names::ROUTER_LABEL;

use super::dereference::Remains;
use crate::{
    api::CaptControlPlane,
    controllers::common::{Context, family::Family},
    k8s::{K8sError, Kube, Removal, connect_by_token},
    model::names,
};

/// How long a question may take. The cluster may be gone already.
const DEADLINE: Duration = Duration::from_secs(5);

/// The Services of routers that have a load balancer, in all namespaces; none where there is no way to the cluster.
pub(super) async fn left(
    object: &CaptControlPlane,
    remains: &Remains,
    ctx: &Context,
) -> Result<Vec<Service>, K8sError> {
    // What is being destroyed already is not asked any more.
    let is_there = remains.eks.as_ref().is_some_and(|it| it.metadata.deletion_timestamp.is_none());
    match way(object, &remains.secrets, ctx).await? {
        Some(cluster) if is_there => {
            let mut all: Vec<Service> = cluster.list(None, "").await?;
            all.retain(is_balancer);
            Ok(all)
        }
        _ => Ok(Vec::new()),
    }
}

/// Tells them to go.
pub(super) async fn remove(
    object: &CaptControlPlane,
    remains: &Remains,
    all: &[Service],
    ctx: &Context,
) -> Result<(), K8sError> {
    let Some(cluster) = way(object, &remains.secrets, ctx).await? else { return Ok(()) };
    for one in all {
        cluster.delete(one, Removal::Background).await?;
    }
    Ok(())
}

/// The way to the cluster that the control plane keeps.
async fn way(object: &CaptControlPlane, secrets: &[Secret], ctx: &Context) -> Result<Option<Kube>, K8sError> {
    let Some(Family { name, .. }) = Family::of(&object.metadata) else { return Ok(None) };
    let secret = secrets.iter().find(|it| it.name_any() == names::kubeconfig_secret(&name));
    let bytes = secret.and_then(|it| it.data.as_ref()?.get("value"));
    let Some(text) = bytes.and_then(|it| str::from_utf8(&it.0).ok()) else { return Ok(None) };
    Ok(Some(ctx.kube.towards(connect_by_token(text).await?).with_deadline(DEADLINE)))
}

/// Whether a Service leads from outside to routers. What it selects tells; labels of its own it need not have.
fn is_balancer(service: &Service) -> bool {
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
        assert!(is_balancer(&service(&json!({"type": "LoadBalancer", "selector": router}))));
        assert!(!is_balancer(&service(&json!({"type": "ClusterIP", "selector": router}))));
        assert!(!is_balancer(&service(&json!({"type": "LoadBalancer", "selector": {"app": "web"}}))));
        assert!(!is_balancer(&service(&json!({"type": "LoadBalancer"}))));
    }
}
