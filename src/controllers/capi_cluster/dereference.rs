//! The two objects that a Cluster refers to, in the version that their kind says to fulfil the contract with.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    ResourceExt as _,
    api::ApiResource,
    core::{GroupVersionKind, PartialObjectMeta},
};

use super::{
    kind::{Cluster, Reference},
    part::{Part, Role, Thing},
};
use crate::{api::names, controllers::common::Context, k8s::K8sError};

/// What a Cluster refers to.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) infrastructure: Part,
    pub(super) control_plane: Part,
}

/// Reads both, always: a Cluster that goes needs them too.
pub(super) async fn look(cluster: &Cluster, ctx: &Context) -> Result<Seen, K8sError> {
    let spec = &cluster.spec;
    Ok(Seen {
        infrastructure: part(cluster, Role::Infrastructure, spec.infrastructure_ref.as_ref(), ctx).await?,
        control_plane: part(cluster, Role::ControlPlane, spec.control_plane_ref.as_ref(), ctx).await?,
    })
}

async fn part(
    cluster: &Cluster,
    role: Role,
    named: Option<&Reference>,
    ctx: &Context,
) -> Result<Part, K8sError> {
    let Some(named) = named else { return Ok(Part::NotNamed) };
    let plural = plural(&named.kind);
    let crd = format!("{plural}.{}", named.api_group);
    let found: Option<PartialObjectMeta<CustomResourceDefinition>> = ctx.kube.get(None, &crd).await?;
    let Some(found) = found else {
        return Ok(Part::Unusable { why: format!("the kind {} ({crd}) is not installed", named.kind) });
    };
    let Some(version) = newest(found.labels().get(names::CONTRACT_LABEL)) else {
        let label = names::CONTRACT_LABEL;
        return Ok(Part::Unusable {
            why: format!("the kind {} has no label {label} with its versions", named.kind),
        });
    };
    let gvk = GroupVersionKind::gvk(&named.api_group, version, &named.kind);
    let kind = ApiResource::from_gvk_with_plural(&gvk, &plural);
    let object = ctx.kube.get_dynamic(&kind, cluster.namespace().as_deref(), &named.name).await?;
    Ok(match object {
        Some(object) => Part::Found(Box::new(Thing { role, kind, object })),
        None => Part::Missing { kind: named.kind.clone() },
    })
}

/// The last of the versions, which is the newest.
fn newest(label: Option<&String>) -> Option<&str> {
    label?.rsplit('_').next().filter(|version| !version.is_empty())
}

/// How the contract makes a plural.
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
        assert_eq!(newest(Some(&"v1alpha1_v1beta1".to_owned())), Some("v1beta1"));
        assert_eq!(newest(Some(&"v1beta1".to_owned())), Some("v1beta1"));
        assert_eq!(newest(Some(&String::new())), None);
        assert_eq!(newest(None), None);
    }
}
