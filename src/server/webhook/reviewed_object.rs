//! The reviewed object, by kind.

use capt_kinds::api::{
    CaptCluster, CaptClusterTemplate, CaptControlPlane, CaptControlPlaneTemplate, CaptIdentity,
    WorkspaceTemplate, WorkspaceTemplateApply,
    names::{CONTROL_PLANE_GROUP, INFRASTRUCTURE_GROUP, VERSION},
};
use kube::core::{DynamicObject, GroupVersionKind, dynamic::ParseDynamicObjectError};

/// A typed object of one of capt's kinds.
#[derive(Debug)]
pub(super) enum ReviewedObject {
    Cluster(Box<CaptCluster>),
    ControlPlane(Box<CaptControlPlane>),
    Template(Box<WorkspaceTemplate>),
    Apply(Box<WorkspaceTemplateApply>),
    Identity(Box<CaptIdentity>),
    ClusterTemplate(Box<CaptClusterTemplate>),
    ControlPlaneTemplate(Box<CaptControlPlaneTemplate>),
}

impl ReviewedObject {
    /// Decodes the object; `None` for kinds that are not reviewed.
    pub(super) fn parse(
        kind: &GroupVersionKind,
        object: DynamicObject,
    ) -> Result<Option<Self>, ParseDynamicObjectError> {
        let GroupVersionKind { group, version, kind } = kind;
        if version != VERSION {
            return Ok(None);
        }
        Ok(Some(match (group.as_str(), kind.as_str()) {
            (INFRASTRUCTURE_GROUP, "CAPTCluster") => Self::Cluster(Box::new(object.try_parse()?)),
            (INFRASTRUCTURE_GROUP, "CAPTClusterTemplate") => {
                Self::ClusterTemplate(Box::new(object.try_parse()?))
            }
            (INFRASTRUCTURE_GROUP, "WorkspaceTemplate") => Self::Template(Box::new(object.try_parse()?)),
            (INFRASTRUCTURE_GROUP, "WorkspaceTemplateApply") => Self::Apply(Box::new(object.try_parse()?)),
            (INFRASTRUCTURE_GROUP, "CAPTIdentity") => Self::Identity(Box::new(object.try_parse()?)),
            (CONTROL_PLANE_GROUP, "CAPTControlPlane") => Self::ControlPlane(Box::new(object.try_parse()?)),
            (CONTROL_PLANE_GROUP, "CAPTControlPlaneTemplate") => {
                Self::ControlPlaneTemplate(Box::new(object.try_parse()?))
            }
            _ => return Ok(None),
        }))
    }
}
