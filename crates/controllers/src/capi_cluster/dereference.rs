//! Reads the two objects that a Cluster references, in the version that their CRD's contract label names.

use capt_kinds::api::names;
use capt_kube::k8s::K8sError;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    ResourceExt as _,
    api::ApiResource,
    core::{GroupVersionKind, PartialObjectMeta},
};

use super::{
    cluster_types::{Cluster, ContractVersionedObjectReference},
    referenced_object::{ReferenceRole, ReferencedObject, ResolvedReference},
};
use crate::common::Context;

/// Objects that a Cluster references.
#[derive(Debug, Clone)]
pub(super) struct ClusterReferences {
    pub(super) infrastructure: ResolvedReference,
    pub(super) control_plane: ResolvedReference,
}

/// Reads both references; a deletion needs them too.
pub(super) async fn dereference(cluster: &Cluster, ctx: &Context) -> Result<ClusterReferences, K8sError> {
    let spec = &cluster.spec;
    Ok(ClusterReferences {
        infrastructure: resolve_reference(
            cluster,
            ReferenceRole::Infrastructure,
            spec.infrastructure_ref.as_ref(),
            ctx,
        )
        .await?,
        control_plane: resolve_reference(
            cluster,
            ReferenceRole::ControlPlane,
            spec.control_plane_ref.as_ref(),
            ctx,
        )
        .await?,
    })
}

async fn resolve_reference(
    cluster: &Cluster,
    role: ReferenceRole,
    named: Option<&ContractVersionedObjectReference>,
    ctx: &Context,
) -> Result<ResolvedReference, K8sError> {
    let Some(named) = named else { return Ok(ResolvedReference::NotSet) };
    let plural = plural(&named.kind);
    let crd = format!("{plural}.{}", named.api_group);
    let found: Option<PartialObjectMeta<CustomResourceDefinition>> = ctx.kube.get(None, &crd).await?;
    let Some(found) = found else {
        return Ok(ResolvedReference::UnsupportedKind {
            why: format!("kind {} is not installed (CRD {crd} not found)", named.kind),
        });
    };
    let Some(version) = newest_version(found.labels().get(names::CONTRACT_LABEL)) else {
        let label = names::CONTRACT_LABEL;
        return Ok(ResolvedReference::UnsupportedKind {
            why: format!("the CustomResourceDefinition of kind {} has no label {label}", named.kind),
        });
    };
    let gvk = GroupVersionKind::gvk(&named.api_group, version, &named.kind);
    let kind = ApiResource::from_gvk_with_plural(&gvk, &plural);
    let object = ctx.kube.get_dynamic(&kind, cluster.namespace().as_deref(), &named.name).await?;
    Ok(match object {
        Some(object) => ResolvedReference::Found(Box::new(ReferencedObject { role, resource: kind, object })),
        None => ResolvedReference::Missing { kind: named.kind.clone() },
    })
}

/// The last version in the label, which is the newest.
fn newest_version(label: Option<&String>) -> Option<&str> {
    label?.rsplit('_').next().filter(|version| !version.is_empty())
}

/// Plural of a kind, by the rules of the Cluster API contract.
fn plural(kind: &str) -> String {
    let lower = kind.to_lowercase();
    let ends = |ends: &[&str]| ends.iter().any(|end| lower.ends_with(end));
    match lower.strip_suffix('y') {
        Some(stem) if !ends(&["ay", "ey", "oy", "uy"]) => format!("{stem}ies"),
        _ if ends(&["s", "x", "z", "ch", "sh"]) => format!("{lower}es"),
        _ => format!("{lower}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plurals_are_those_of_the_contract() {
        for (kind, expected) in [
            ("CAPTCluster", "captclusters"),
            ("CAPTControlPlane", "captcontrolplanes"),
            ("SomePolicy", "somepolicies"),
            ("Gateway", "gateways"),
            ("Mesh", "meshes"),
        ] {
            assert_eq!(plural(kind), expected);
        }
    }

    #[test]
    fn the_last_version_is_the_newest() {
        assert_eq!(newest_version(Some(&"v1alpha1_v1beta1".to_owned())), Some("v1beta1"));
        assert_eq!(newest_version(Some(&"v1beta1".to_owned())), Some("v1beta1"));
        assert_eq!(newest_version(Some(&String::new())), None);
        assert_eq!(newest_version(None), None);
    }
}
