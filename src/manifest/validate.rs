//! From objects to validated objects. Every problem of every object is found before anything is said.

use std::collections::BTreeMap;

use crate::{
    api::{CaptCluster, CaptControlPlane, CaptIdentity, WorkspaceTemplate, WorkspaceTemplateApply},
    model::{
        Limits, ObjectKey, Problem,
        apply::{self, ValidatedApply},
        class,
        control_plane::{self, ValidatedControlPlane},
        identity::{self, ValidatedIdentity},
        network::{self, ValidatedNetwork},
        overlap::overlaps,
        template::{self, ValidatedTemplate},
        text::{ClusterName, ObjectName, Region},
    },
};

use super::{
    core::{ConfigMap, Secret},
    error::{FieldError, ManifestError, Origin, Warning},
    load::{Loaded, Manifests},
    pair::pairs,
    parse::Document,
    together,
};

/// An object with what it means.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked<T, V> {
    /// Its namespace and name.
    pub key: ObjectKey,
    /// The object as it was written.
    pub object: T,
    /// What it means.
    pub valid: V,
    /// Its document.
    pub origin: Origin,
}

/// One cluster: its network, its EKS cluster, or both.
#[derive(Clone, Debug, PartialEq)]
pub struct Unit {
    /// Namespace and name of the cluster, whether or not there is a Cluster object.
    pub key: ObjectKey,
    /// Its name in EKS.
    pub eks_name: ClusterName,
    /// Its region.
    pub region: Region,
    /// Whether it is to be left alone.
    pub paused: bool,
    /// Its network.
    pub network: Option<Checked<CaptCluster, ValidatedNetwork>>,
    /// Its EKS cluster.
    pub control_plane: Option<Checked<CaptControlPlane, ValidatedControlPlane>>,
}

/// Everything that some files say, with nothing left to question.
#[derive(Clone, Debug, Default)]
pub struct ValidatedManifests {
    /// The clusters, by namespace and name.
    pub units: Vec<Unit>,
    /// Units of Terraform work that users wrote.
    pub applies: BTreeMap<ObjectKey, Checked<WorkspaceTemplateApply, ValidatedApply>>,
    /// Pieces of Terraform.
    pub templates: BTreeMap<ObjectKey, Checked<WorkspaceTemplate, ValidatedTemplate>>,
    /// AWS identities.
    pub identities: BTreeMap<ObjectName, (CaptIdentity, ValidatedIdentity)>,
    /// Secrets.
    pub secrets: BTreeMap<ObjectKey, Secret>,
    /// Config maps.
    pub config_maps: BTreeMap<ObjectKey, ConfigMap>,
    /// What a person should know.
    pub warnings: Vec<Warning>,
}

/// Something that is wrong with a document, and the field that it is about if that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objection {
    /// The field.
    pub path: Option<String>,
    /// Where, what, and what to do, in one line.
    pub text: String,
}

/// Looks at one document alone. What it refers to may exist elsewhere, so an objection counts only beside that of an
/// API server; it says the remedy, which an API server does not.
pub fn judge(document: Document, limits: &Limits) -> Vec<Objection> {
    let mut manifests = Manifests::default();
    if let Err(errors) = manifests.take(document) {
        let objection = |error: ManifestError| Objection {
            text: error.to_string(),
            path: match error {
                ManifestError::Field { path, .. } => Some(path),
                _ => None,
            },
        };
        return errors.into_iter().map(objection).collect();
    }
    let objection = |error: FieldError| Objection { text: error.to_string(), path: Some(error.path) };
    validate(&manifests, limits).err().into_iter().flatten().map(objection).collect()
}

/// Looks at every object alone and at all of them together.
pub fn validate(manifests: &Manifests, limits: &Limits) -> Result<ValidatedManifests, Vec<FieldError>> {
    let mut errors = Vec::new();
    let networks = each("CAPTCluster", &manifests.capt_clusters, &mut errors, |key, object| {
        network::validate(&object.spec, &key.namespace)
    });
    let control_planes = each("CAPTControlPlane", &manifests.control_planes, &mut errors, |key, object| {
        control_plane::validate(&object.spec, &key.namespace, limits)
    });
    let applies = each("WorkspaceTemplateApply", &manifests.applies, &mut errors, |key, object| {
        apply::validate(&object.spec, &key.namespace)
    });
    let templates = each("WorkspaceTemplate", &manifests.templates, &mut errors, |_, object| {
        template::validate(&object.spec)
    });
    each("CAPTClusterTemplate", &manifests.cluster_templates, &mut errors, |key, object| {
        class::cluster(&object.spec, &key.namespace)
    });
    each("CAPTControlPlaneTemplate", &manifests.control_plane_templates, &mut errors, |key, object| {
        class::control_plane(&object.spec, &key.namespace, limits)
    });
    let identities = identities(manifests, &mut errors);

    let pairs = pairs(manifests);
    errors.extend(pairs.errors);
    let mut warnings = manifests.warnings.clone();
    warnings.extend(pairs.warnings);
    warnings.extend(control_planes.values().flat_map(shared_pods));
    let found = together::Found { networks, control_planes, applies, templates };
    together::check_references(&found, manifests, &mut errors);
    let units = together::units(&found, pairs.by_cluster, manifests, &mut errors);
    if !errors.is_empty() {
        return Err(errors);
    }
    let plain = |(key, loaded): (&ObjectKey, &Loaded<Secret>)| (key.clone(), loaded.object.clone());
    Ok(ValidatedManifests {
        units,
        applies: found.applies,
        templates: found.templates,
        identities,
        secrets: manifests.secrets.iter().map(plain).collect(),
        config_maps: manifests.config_maps.iter().map(|(key, it)| (key.clone(), it.object.clone())).collect(),
        warnings,
    })
}

fn shared_pods(control_plane: &Checked<CaptControlPlane, ValidatedControlPlane>) -> Vec<Warning> {
    let ValidatedControlPlane { profiles, system_profile, .. } = &control_plane.valid;
    let warning = |it: crate::model::overlap::Overlap| Warning {
        origin: control_plane.origin.clone(),
        message: format!("CAPTControlPlane {}: {it}", control_plane.key),
    };
    overlaps(profiles, *system_profile).into_iter().map(warning).collect()
}

fn each<T: Clone, V>(
    kind: &str,
    objects: &BTreeMap<ObjectKey, Loaded<T>>,
    errors: &mut Vec<FieldError>,
    validate: impl Fn(&ObjectKey, &T) -> Result<V, Vec<Problem>>,
) -> BTreeMap<ObjectKey, Checked<T, V>> {
    let mut valid = BTreeMap::new();
    for (key, Loaded { object, origin }) in objects {
        match validate(key, object) {
            Ok(meaning) => {
                let (object, origin) = (object.clone(), origin.clone());
                valid.insert(key.clone(), Checked { key: key.clone(), object, valid: meaning, origin });
            }
            Err(problems) => {
                let name = format!("{kind} {key}");
                errors.extend(problems.into_iter().map(|it| FieldError::new(origin, &name, it)));
            }
        }
    }
    valid
}

fn identities(
    manifests: &Manifests,
    errors: &mut Vec<FieldError>,
) -> BTreeMap<ObjectName, (CaptIdentity, ValidatedIdentity)> {
    let mut valid = BTreeMap::new();
    for (name, Loaded { object, origin }) in &manifests.identities {
        match identity::validate(&object.spec) {
            Ok(meaning) => {
                valid.insert(name.clone(), (object.clone(), meaning));
            }
            Err(problems) => {
                let name = format!("CAPTIdentity {name}");
                errors.extend(problems.into_iter().map(|it| FieldError::new(origin, &name, it)));
            }
        }
    }
    valid
}
