//! Objects from manifest files, for commands that work without an API server. Pure: callers read the files.
//!
//! [`load`] decodes strictly: an unknown field, a wrong type, a missing field or a duplicate object is an error with file,
//! line and path. [`validate`] applies the checks of the API server to each object, and cross-object checks. Both report every
//! problem, one line each.

mod cluster_pairs;
mod cross_checks;
mod decode;
mod error;
mod foreign_kinds;
mod known_fields;
mod load;
mod parse;
mod validate;

pub use error::{FieldError, ManifestError, ManifestWarning, Origin};
pub use foreign_kinds::{Cluster, ClusterSpec, ConfigMap, ObjectRef, Secret, SecretValue};
pub use load::{LoadedObject, Manifests, load};
pub use parse::{Document, ManifestSource, parse_documents};
pub use validate::{
    DocumentProblem, ValidatedCluster, ValidatedManifests, ValidatedObject, validate, validate_document,
};

#[cfg(test)]
mod tests;
