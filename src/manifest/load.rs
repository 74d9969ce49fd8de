//! From files to objects by kind and name.

use std::collections::{BTreeMap, btree_map::Entry};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{
    api::{
        CaptCluster, CaptClusterTemplate, CaptControlPlane, CaptControlPlaneTemplate, CaptIdentity,
        WorkspaceTemplate, WorkspaceTemplateApply, names,
    },
    model::{ObjectKey, Parse as _, references::DEFAULT_NAMESPACE, text::Namespace, text::ObjectName},
};

use super::{
    core::{Cluster, ConfigMap, Secret},
    error::{ManifestError, Origin, Warning},
    parse::{Document, Source, documents},
    typed::{
        Identified,
        Strictness::{self, Foreign, Hidden, Ours},
        typed,
    },
};

/// Our kinds, as messages list them.
const OUR_KINDS: [&str; 7] = [
    "CAPTCluster",
    "CAPTClusterTemplate",
    "CAPTControlPlane",
    "CAPTControlPlaneTemplate",
    "CAPTIdentity",
    "WorkspaceTemplate",
    "WorkspaceTemplateApply",
];

/// An object and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Loaded<T> {
    /// The object.
    pub object: T,
    /// Its document.
    pub origin: Origin,
}

/// Everything that some files say, by kind, namespace and name.
#[derive(Clone, Debug, Default)]
pub struct Manifests {
    /// Clusters of Cluster API.
    pub clusters: BTreeMap<ObjectKey, Loaded<Cluster>>,
    /// Networks.
    pub capt_clusters: BTreeMap<ObjectKey, Loaded<CaptCluster>>,
    /// EKS clusters.
    pub control_planes: BTreeMap<ObjectKey, Loaded<CaptControlPlane>>,
    /// Units of Terraform work that users wrote.
    pub applies: BTreeMap<ObjectKey, Loaded<WorkspaceTemplateApply>>,
    /// Pieces of Terraform.
    pub templates: BTreeMap<ObjectKey, Loaded<WorkspaceTemplate>>,
    /// Templates of networks.
    pub cluster_templates: BTreeMap<ObjectKey, Loaded<CaptClusterTemplate>>,
    /// Templates of EKS clusters.
    pub control_plane_templates: BTreeMap<ObjectKey, Loaded<CaptControlPlaneTemplate>>,
    /// AWS identities, which have no namespace.
    pub identities: BTreeMap<ObjectName, Loaded<CaptIdentity>>,
    /// Secrets.
    pub secrets: BTreeMap<ObjectKey, Loaded<Secret>>,
    /// Config maps.
    pub config_maps: BTreeMap<ObjectKey, Loaded<ConfigMap>>,
    /// What a person should know.
    pub warnings: Vec<Warning>,
}

/// Reads all files, or says everything that is wrong with them.
pub fn load(sources: &[Source]) -> Result<Manifests, Vec<ManifestError>> {
    let mut manifests = Manifests::default();
    let mut errors = Vec::new();
    for source in sources {
        match documents(source) {
            Ok(documents) => {
                for document in documents {
                    if let Err(found) = manifests.take(document) {
                        errors.extend(found);
                    }
                }
            }
            Err(error) => errors.push(*error),
        }
    }
    if errors.is_empty() { Ok(manifests) } else { Err(errors) }
}

impl Manifests {
    pub(super) fn take(&mut self, document: Document) -> Result<(), Vec<ManifestError>> {
        let Document { origin, value } = document;
        let Value::Object(fields) = &value else { return Err(vec![ManifestError::NotAnObject { origin }]) };
        let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        for (field, text) in [("apiVersion", &api_version), ("kind", &kind)] {
            if text.is_empty() {
                return Err(vec![ManifestError::NoType { origin, field }]);
            }
        }
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        let object = describe(&kind, fields.get("metadata"));
        let document = Identified { origin, kind: kind.clone(), object, value };
        match (group, version, kind.as_str()) {
            (names::INFRASTRUCTURE_GROUP, names::VERSION, "CAPTCluster") => {
                add(&mut self.capt_clusters, document, Ours)
            }
            (names::INFRASTRUCTURE_GROUP, names::VERSION, "CAPTClusterTemplate") => {
                add(&mut self.cluster_templates, document, Ours)
            }
            (names::INFRASTRUCTURE_GROUP, names::VERSION, "WorkspaceTemplate") => {
                add(&mut self.templates, document, Ours)
            }
            (names::INFRASTRUCTURE_GROUP, names::VERSION, "WorkspaceTemplateApply") => {
                add(&mut self.applies, document, Ours)
            }
            (names::INFRASTRUCTURE_GROUP, names::VERSION, "CAPTIdentity") => self.add_identity(document),
            (names::CONTROL_PLANE_GROUP, names::VERSION, "CAPTControlPlane") => {
                add(&mut self.control_planes, document, Ours)
            }
            (names::CONTROL_PLANE_GROUP, names::VERSION, "CAPTControlPlaneTemplate") => {
                add(&mut self.control_plane_templates, document, Ours)
            }
            ("cluster.x-k8s.io", "v1beta1" | "v1beta2", "Cluster") => {
                add(&mut self.clusters, document, Foreign)
            }
            ("", "v1", "Secret") => add(&mut self.secrets, document, Hidden),
            ("", "v1", "ConfigMap") => add(&mut self.config_maps, document, Foreign),
            _ if is_misspelt(group, &kind) => Err(vec![unknown_kind(document.origin, api_version, kind)]),
            _ => {
                let message = format!("{} is not a kind of capt and is left out", document.object);
                self.warnings.push(Warning { origin: document.origin, message });
                Ok(())
            }
        }
    }

    fn add_identity(&mut self, document: Identified) -> Result<(), Vec<ManifestError>> {
        let object = document.object.clone();
        let (origin, identity) = typed::<CaptIdentity>(document, Strictness::Ours)?;
        if identity.metadata.namespace.is_some() {
            let (message, remedy) =
                ("an identity belongs to no namespace".to_owned(), "remove it".to_owned());
            let path = "metadata.namespace".to_owned();
            return Err(vec![ManifestError::Field { origin, object, path, message, remedy }]);
        }
        let key = key_of(&identity.metadata, &origin, &object)?;
        insert(&mut self.identities, key.name, Loaded { object: identity, origin }, object)
    }
}

/// A kind of one of our groups, or one of ours in a group that is not.
fn is_misspelt(group: &str, kind: &str) -> bool {
    let lower = kind.to_ascii_lowercase();
    OUR_KINDS.iter().any(|ours| ours.to_ascii_lowercase() == lower)
        || (matches!(group, names::INFRASTRUCTURE_GROUP | names::CONTROL_PLANE_GROUP)
            && (lower.starts_with("capt") || lower.starts_with("workspace")))
}

fn unknown_kind(origin: Origin, api_version: String, kind: String) -> ManifestError {
    let lower = kind.to_ascii_lowercase();
    let remedy = if let Some(ours) = OUR_KINDS.iter().find(|ours| ours.to_ascii_lowercase() == lower) {
        let group = if ours.starts_with("CAPTControlPlane") {
            names::CONTROL_PLANE_GROUP
        } else {
            names::INFRASTRUCTURE_GROUP
        };
        format!("write apiVersion {group}/{} and kind {ours}", names::VERSION)
    } else if lower.starts_with("captmachine") {
        "capt makes Fargate profiles, not machines; remove the object".to_owned()
    } else {
        format!("known are {}, and Cluster, Secret and ConfigMap", OUR_KINDS.join(", "))
    };
    ManifestError::UnknownKind { origin, api_version, kind, remedy }
}

fn describe(kind: &str, metadata: Option<&Value>) -> String {
    let text = |name: &str| metadata.and_then(|it| it.get(name)).and_then(Value::as_str);
    match (text("namespace"), text("name")) {
        (_, None) => format!("{kind} without a name"),
        (_, Some(name)) if kind == "CAPTIdentity" => format!("{kind} {name}"),
        (namespace, Some(name)) => format!("{kind} {}/{name}", namespace.unwrap_or(DEFAULT_NAMESPACE)),
    }
}

fn add<T: DeserializeOwned + HasMetadata>(
    objects: &mut BTreeMap<ObjectKey, Loaded<T>>,
    document: Identified,
    strictness: Strictness,
) -> Result<(), Vec<ManifestError>> {
    let description = document.object.clone();
    let (origin, mut object) = typed::<T>(document, strictness)?;
    let key = key_of(object.metadata(), &origin, &description)?;
    object.metadata().namespace = Some(key.namespace.to_string());
    insert(objects, key, Loaded { object, origin }, description)
}

fn insert<K: Ord, T>(
    objects: &mut BTreeMap<K, Loaded<T>>,
    key: K,
    loaded: Loaded<T>,
    object: String,
) -> Result<(), Vec<ManifestError>> {
    match objects.entry(key) {
        Entry::Vacant(free) => {
            free.insert(loaded);
            Ok(())
        }
        Entry::Occupied(taken) => {
            let (first, second) = (taken.get().origin.clone(), loaded.origin);
            Err(vec![ManifestError::Duplicate { object, first, second }])
        }
    }
}

fn key_of(metadata: &ObjectMeta, origin: &Origin, object: &str) -> Result<ObjectKey, Vec<ManifestError>> {
    let Some(name) = metadata.name.as_deref() else {
        return Err(vec![ManifestError::NoType { origin: origin.clone(), field: "metadata.name" }]);
    };
    let namespace = metadata.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE);
    let misfit = |path: &str, malformed: crate::model::Malformed| ManifestError::Field {
        origin: origin.clone(),
        object: object.to_owned(),
        path: path.to_owned(),
        message: malformed.to_string(),
        remedy: malformed.remedy.to_owned(),
    };
    let name = ObjectName::parse(name).map_err(|it| vec![misfit("metadata.name", it)])?;
    let namespace = Namespace::parse(namespace).map_err(|it| vec![misfit("metadata.namespace", it)])?;
    Ok(ObjectKey { namespace, name })
}

/// An object with metadata that can be changed.
trait HasMetadata {
    fn metadata(&mut self) -> &mut ObjectMeta;
}

macro_rules! has_metadata {
    ($($object:ty),*) => {$(
        impl HasMetadata for $object {
            fn metadata(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    )*};
}

has_metadata!(
    CaptCluster,
    CaptClusterTemplate,
    CaptControlPlane,
    CaptControlPlaneTemplate,
    Cluster,
    ConfigMap,
    Secret,
    WorkspaceTemplate,
    WorkspaceTemplateApply
);
