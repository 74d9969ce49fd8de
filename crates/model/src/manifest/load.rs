//! Loads manifest files into typed objects by kind and name.

use std::collections::{BTreeMap, btree_map::Entry};

use capt_kinds::api::{
    CaptCluster, CaptClusterTemplate, CaptControlPlane, CaptControlPlaneTemplate, CaptIdentity,
    WorkspaceTemplate, WorkspaceTemplateApply, names,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::model::{
    ObjectKey, Parse as _, newtypes::Namespace, newtypes::ObjectName, references::DEFAULT_NAMESPACE,
};

use super::{
    decode::{
        RawObject,
        Strictness::{self, Foreign, Hidden, Ours},
        decode_object,
    },
    error::{ManifestError, ManifestWarning, Origin},
    foreign_kinds::{Cluster, ConfigMap, Secret},
    parse::{Document, ManifestSource, parse_documents},
};

/// Capt's kinds, for messages.
const OUR_KINDS: [&str; 7] = [
    "CAPTCluster",
    "CAPTClusterTemplate",
    "CAPTControlPlane",
    "CAPTControlPlaneTemplate",
    "CAPTIdentity",
    "WorkspaceTemplate",
    "WorkspaceTemplateApply",
];

/// An object and its location.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadedObject<T> {
    /// The object.
    pub object: T,
    /// Location of its document.
    pub origin: Origin,
}

/// All objects of the files, by kind, namespace and name.
#[derive(Clone, Debug, Default)]
pub struct Manifests {
    /// Clusters of Cluster API.
    pub clusters: BTreeMap<ObjectKey, LoadedObject<Cluster>>,
    /// `CAPTCluster` objects.
    pub capt_clusters: BTreeMap<ObjectKey, LoadedObject<CaptCluster>>,
    /// `CAPTControlPlane` objects.
    pub control_planes: BTreeMap<ObjectKey, LoadedObject<CaptControlPlane>>,
    /// `WorkspaceTemplateApply` objects.
    pub applies: BTreeMap<ObjectKey, LoadedObject<WorkspaceTemplateApply>>,
    /// `WorkspaceTemplate` objects.
    pub templates: BTreeMap<ObjectKey, LoadedObject<WorkspaceTemplate>>,
    /// `CAPTClusterTemplate` objects.
    pub cluster_templates: BTreeMap<ObjectKey, LoadedObject<CaptClusterTemplate>>,
    /// `CAPTControlPlaneTemplate` objects.
    pub control_plane_templates: BTreeMap<ObjectKey, LoadedObject<CaptControlPlaneTemplate>>,
    /// `CAPTIdentity` objects, which are cluster-scoped.
    pub identities: BTreeMap<ObjectName, LoadedObject<CaptIdentity>>,
    /// Secrets.
    pub secrets: BTreeMap<ObjectKey, LoadedObject<Secret>>,
    /// Config maps.
    pub config_maps: BTreeMap<ObjectKey, LoadedObject<ConfigMap>>,
    /// Warnings for the user.
    pub warnings: Vec<ManifestWarning>,
}

/// Loads all files; the error lists every problem.
pub fn load(sources: &[ManifestSource]) -> Result<Manifests, Vec<ManifestError>> {
    let mut manifests = Manifests::default();
    let mut errors = Vec::new();
    for source in sources {
        match parse_documents(source) {
            Ok(documents) => {
                for document in documents {
                    if let Err(found) = manifests.add_document(document) {
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
    pub(super) fn add_document(&mut self, document: Document) -> Result<(), Vec<ManifestError>> {
        let Document { origin, value } = document;
        let Value::Object(fields) = &value else { return Err(vec![ManifestError::NotAnObject { origin }]) };
        let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        for (field, text) in [("apiVersion", &api_version), ("kind", &kind)] {
            if text.is_empty() {
                return Err(vec![ManifestError::MissingField { origin, field }]);
            }
        }
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        let object = describe_object(&kind, fields.get("metadata"));
        let document = RawObject { origin, kind: kind.clone(), object, value };
        match (group, version, kind.as_str()) {
            (names::INFRASTRUCTURE_GROUP, names::VERSION, "CAPTCluster") => {
                add_object(&mut self.capt_clusters, document, Ours)
            }
            (names::INFRASTRUCTURE_GROUP, names::VERSION, "CAPTClusterTemplate") => {
                add_object(&mut self.cluster_templates, document, Ours)
            }
            (names::INFRASTRUCTURE_GROUP, names::VERSION, "WorkspaceTemplate") => {
                add_object(&mut self.templates, document, Ours)
            }
            (names::INFRASTRUCTURE_GROUP, names::VERSION, "WorkspaceTemplateApply") => {
                add_object(&mut self.applies, document, Ours)
            }
            (names::INFRASTRUCTURE_GROUP, names::VERSION, "CAPTIdentity") => self.add_identity(document),
            (names::CONTROL_PLANE_GROUP, names::VERSION, "CAPTControlPlane") => {
                add_object(&mut self.control_planes, document, Ours)
            }
            (names::CONTROL_PLANE_GROUP, names::VERSION, "CAPTControlPlaneTemplate") => {
                add_object(&mut self.control_plane_templates, document, Ours)
            }
            ("cluster.x-k8s.io", "v1beta1" | "v1beta2", "Cluster") => {
                add_object(&mut self.clusters, document, Foreign)
            }
            ("", "v1", "Secret") => add_object(&mut self.secrets, document, Hidden),
            ("", "v1", "ConfigMap") => add_object(&mut self.config_maps, document, Foreign),
            _ if is_misspelt(group, &kind) => Err(vec![unknown_kind(document.origin, api_version, kind)]),
            _ => {
                let message =
                    format!("{} is not of a kind that capt supports and is ignored", document.object);
                self.warnings.push(ManifestWarning { origin: document.origin, message });
                Ok(())
            }
        }
    }

    fn add_identity(&mut self, document: RawObject) -> Result<(), Vec<ManifestError>> {
        let object = document.object.clone();
        let (origin, identity) = decode_object::<CaptIdentity>(document, Strictness::Ours)?;
        if identity.metadata.namespace.is_some() {
            let (message, remedy) =
                ("a CAPTIdentity is cluster-scoped".to_owned(), "remove the namespace".to_owned());
            let path = "metadata.namespace".to_owned();
            return Err(vec![ManifestError::Field { origin, object, path, message, remedy }]);
        }
        let key = key_of(&identity.metadata, &origin, &object)?;
        insert_unique(&mut self.identities, key.name, LoadedObject { object: identity, origin }, object)
    }
}

/// Whether a kind looks like a misspelt or misplaced capt kind.
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
        format!("use apiVersion {group}/{} and kind {ours}", names::VERSION)
    } else if lower.starts_with("captmachine") {
        "capt has Fargate profiles instead of machines; remove the object".to_owned()
    } else {
        format!("supported kinds are {}, and Cluster, Secret and ConfigMap", OUR_KINDS.join(", "))
    };
    ManifestError::UnknownKind { origin, api_version, kind, remedy }
}

fn describe_object(kind: &str, metadata: Option<&Value>) -> String {
    let text = |name: &str| metadata.and_then(|it| it.get(name)).and_then(Value::as_str);
    match (text("namespace"), text("name")) {
        (_, None) => format!("{kind} without a name"),
        (_, Some(name)) if kind == "CAPTIdentity" => format!("{kind} {name}"),
        (namespace, Some(name)) => format!("{kind} {}/{name}", namespace.unwrap_or(DEFAULT_NAMESPACE)),
    }
}

fn add_object<T: DeserializeOwned + HasMetadata>(
    objects: &mut BTreeMap<ObjectKey, LoadedObject<T>>,
    document: RawObject,
    strictness: Strictness,
) -> Result<(), Vec<ManifestError>> {
    let description = document.object.clone();
    let (origin, mut object) = decode_object::<T>(document, strictness)?;
    let key = key_of(object.metadata(), &origin, &description)?;
    object.metadata().namespace = Some(key.namespace.to_string());
    insert_unique(objects, key, LoadedObject { object, origin }, description)
}

fn insert_unique<K: Ord, T>(
    objects: &mut BTreeMap<K, LoadedObject<T>>,
    key: K,
    loaded: LoadedObject<T>,
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
        return Err(vec![ManifestError::MissingField { origin: origin.clone(), field: "metadata.name" }]);
    };
    let namespace = metadata.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE);
    let misfit = |path: &str, malformed: crate::model::MalformedText| ManifestError::Field {
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

/// Mutable access to the metadata.
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
