//! Validates all objects and reports every problem.

use std::collections::BTreeMap;

use capt_kinds::api::{
    CaptCluster, CaptControlPlane, CaptIdentity, WorkspaceTemplate, WorkspaceTemplateApply,
};

use terraform_driver::source::LocalModules;

use crate::model::{
    Limits, ObjectKey, Problem, cluster_class,
    control_plane::{self, ValidatedControlPlane},
    identity::{self, ValidatedIdentity},
    network::{self, ValidatedNetwork},
    newtypes::{ClusterName, ObjectName, Region},
    overlap::overlaps,
    template::{self, ValidatedTemplate},
    workspace_apply::{self, ValidatedApply},
};

use super::{
    cluster_pairs::pair_clusters,
    cross_checks,
    error::{FieldError, ManifestError, ManifestWarning, Origin},
    foreign_kinds::{ConfigMap, Secret},
    load::{LoadedObject, Manifests},
    parse::Document,
};

/// A validated object.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidatedObject<T, V> {
    /// Its namespace and name.
    pub key: ObjectKey,
    /// The object as written.
    pub object: T,
    /// Its validated spec.
    pub valid: V,
    /// Location of its document.
    pub origin: Origin,
}

/// One cluster: its network, its control plane, or both.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidatedCluster {
    /// Namespace and name of the cluster, whether or not there is a Cluster object.
    pub key: ObjectKey,
    /// Its EKS cluster name.
    pub eks_name: ClusterName,
    /// Its region.
    pub region: Region,
    /// Whether reconciliation is paused.
    pub paused: bool,
    /// Its network.
    pub network: Option<ValidatedObject<CaptCluster, ValidatedNetwork>>,
    /// Its control plane.
    pub control_plane: Option<ValidatedObject<CaptControlPlane, ValidatedControlPlane>>,
}

/// All objects of the manifests, validated.
#[derive(Clone, Debug, Default)]
pub struct ValidatedManifests {
    /// The clusters, by namespace and name.
    pub clusters: Vec<ValidatedCluster>,
    /// `WorkspaceTemplateApply` objects.
    pub applies: BTreeMap<ObjectKey, ValidatedObject<WorkspaceTemplateApply, ValidatedApply>>,
    /// `WorkspaceTemplate` objects.
    pub templates: BTreeMap<ObjectKey, ValidatedObject<WorkspaceTemplate, ValidatedTemplate>>,
    /// `CAPTIdentity` objects.
    pub identities: BTreeMap<ObjectName, (CaptIdentity, ValidatedIdentity)>,
    /// Secrets.
    pub secrets: BTreeMap<ObjectKey, Secret>,
    /// Config maps.
    pub config_maps: BTreeMap<ObjectKey, ConfigMap>,
    /// Warnings for the user.
    pub warnings: Vec<ManifestWarning>,
    /// Permission of the templates to use local modules; the command line grants it.
    pub local_modules: Option<LocalModules>,
}

/// A problem of a document, with its field if known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentProblem {
    /// The field.
    pub path: Option<String>,
    /// Location, problem and remedy in one line.
    pub text: String,
}

/// Validates one document alone. Its references may exist in the cluster, so a problem counts only together with a
/// rejection by the API server; it adds the remedy to it.
pub fn validate_document(document: Document, limits: &Limits) -> Vec<DocumentProblem> {
    let mut manifests = Manifests::default();
    if let Err(errors) = manifests.add_document(document) {
        let objection = |error: ManifestError| DocumentProblem {
            text: error.to_string(),
            path: match error {
                ManifestError::Field { path, .. } => Some(path),
                _ => None,
            },
        };
        return errors.into_iter().map(objection).collect();
    }
    let objection = |error: FieldError| DocumentProblem { text: error.to_string(), path: Some(error.path) };
    validate(&manifests, limits).err().into_iter().flatten().map(objection).collect()
}

/// Validates every object and the cross-object rules.
pub fn validate(manifests: &Manifests, limits: &Limits) -> Result<ValidatedManifests, Vec<FieldError>> {
    let mut errors = Vec::new();
    let networks = validate_each("CAPTCluster", &manifests.capt_clusters, &mut errors, |key, object| {
        network::validate(&object.spec, &key.namespace)
    });
    let control_planes =
        validate_each("CAPTControlPlane", &manifests.control_planes, &mut errors, |key, object| {
            control_plane::validate(&object.spec, &key.namespace, limits)
        });
    let applies = validate_each("WorkspaceTemplateApply", &manifests.applies, &mut errors, |key, object| {
        workspace_apply::validate(&object.spec, &key.namespace)
    });
    let templates = validate_each("WorkspaceTemplate", &manifests.templates, &mut errors, |_, object| {
        template::validate(&object.spec)
    });
    validate_each("CAPTClusterTemplate", &manifests.cluster_templates, &mut errors, |key, object| {
        cluster_class::validate_cluster_template(&object.spec, &key.namespace)
    });
    validate_each(
        "CAPTControlPlaneTemplate",
        &manifests.control_plane_templates,
        &mut errors,
        |key, object| cluster_class::validate_control_plane_template(&object.spec, &key.namespace, limits),
    );
    let identities = validate_identities(manifests, &mut errors);

    let pairs = pair_clusters(manifests);
    errors.extend(pairs.errors);
    let mut warnings = manifests.warnings.clone();
    warnings.extend(pairs.warnings);
    warnings.extend(control_planes.values().flat_map(overlap_warnings));
    let found = cross_checks::ValidatedObjects { networks, control_planes, applies, templates };
    cross_checks::check_references(&found, manifests, &mut errors);
    let units = cross_checks::validate_clusters(&found, pairs.by_cluster, manifests, &mut errors);
    if !errors.is_empty() {
        return Err(errors);
    }
    let plain = |(key, loaded): (&ObjectKey, &LoadedObject<Secret>)| (key.clone(), loaded.object.clone());
    Ok(ValidatedManifests {
        clusters: units,
        applies: found.applies,
        templates: found.templates,
        identities,
        secrets: manifests.secrets.iter().map(plain).collect(),
        config_maps: manifests.config_maps.iter().map(|(key, it)| (key.clone(), it.object.clone())).collect(),
        warnings,
        local_modules: None,
    })
}

fn overlap_warnings(
    control_plane: &ValidatedObject<CaptControlPlane, ValidatedControlPlane>,
) -> Vec<ManifestWarning> {
    let ValidatedControlPlane { profiles, system_profile, .. } = &control_plane.valid;
    let warning = |it: crate::model::overlap::Overlap| ManifestWarning {
        origin: control_plane.origin.clone(),
        message: format!("CAPTControlPlane {}: {it}", control_plane.key),
    };
    overlaps(profiles, *system_profile).into_iter().map(warning).collect()
}

fn validate_each<T: Clone, V>(
    kind: &str,
    objects: &BTreeMap<ObjectKey, LoadedObject<T>>,
    errors: &mut Vec<FieldError>,
    validate: impl Fn(&ObjectKey, &T) -> Result<V, Vec<Problem>>,
) -> BTreeMap<ObjectKey, ValidatedObject<T, V>> {
    let mut valid = BTreeMap::new();
    for (key, LoadedObject { object, origin }) in objects {
        match validate(key, object) {
            Ok(meaning) => {
                let (object, origin) = (object.clone(), origin.clone());
                valid.insert(
                    key.clone(),
                    ValidatedObject { key: key.clone(), object, valid: meaning, origin },
                );
            }
            Err(problems) => {
                let name = format!("{kind} {key}");
                errors.extend(problems.into_iter().map(|it| FieldError::new(origin, &name, it)));
            }
        }
    }
    valid
}

fn validate_identities(
    manifests: &Manifests,
    errors: &mut Vec<FieldError>,
) -> BTreeMap<ObjectName, (CaptIdentity, ValidatedIdentity)> {
    let mut valid = BTreeMap::new();
    for (name, LoadedObject { object, origin }) in &manifests.identities {
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
