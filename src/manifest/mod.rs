//! Objects from files: what the command line works on where there is no API server.
//!
//! [`load`] turns texts into typed objects, strictly: an unknown field, a wrong type, a missing field or a second document of
//! the same name is an error with its file, line and path. [`validate`] then gives the verdict of an API server on each
//! object, and looks at what several objects must agree on. Both report everything they find, one line each. Reading the
//! files is somebody else's work.

mod core;
mod error;
mod known_fields;
mod load;
mod pair;
mod parse;
mod together;
mod typed;
mod validate;

pub use core::{Cluster, ClusterSpec, ConfigMap, ObjectRef, Secret, SecretValue};
pub use error::{FieldError, ManifestError, Origin, Warning};
pub use load::{Loaded, Manifests, load};
pub use parse::{Document, Source, documents};
pub use validate::{Checked, Objection, Unit, ValidatedManifests, judge, validate};

#[cfg(test)]
mod tests;
