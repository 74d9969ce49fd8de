//! Manifest errors, one line each: location, problem, remedy.

use std::fmt;

use crate::model::Problem;

/// Location of a document.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin {
    /// Name of the file.
    pub file: String,
    /// Number of the document in the file, from 1.
    pub document: usize,
    /// First line, from 1.
    pub line: u64,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: line {}", self.file, self.line)
    }
}

/// A file or document that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// No document at all.
    #[error("{file}: the file is empty; add at least one object")]
    Empty {
        /// The file.
        file: String,
    },
    /// Neither YAML nor JSON.
    #[error("{file}: line {line}, column {column}: invalid YAML: {message}; correct the file there")]
    NotYaml {
        /// The file.
        file: String,
        /// The line, from 1.
        line: u64,
        /// The column, from 1.
        column: u64,
        /// The parser's message.
        message: String,
    },
    /// A document that is not an object.
    #[error("{origin}: document {} is not a Kubernetes object; give it apiVersion, kind and metadata", .origin.document)]
    NotAnObject {
        /// The document.
        origin: Origin,
    },
    /// An object without a required field.
    #[error("{origin}: document {} has no {field}; add it", .origin.document)]
    MissingField {
        /// The document.
        origin: Origin,
        /// `apiVersion`, `kind` or `metadata.name`.
        field: &'static str,
    },
    /// An unknown kind of one of capt's groups.
    #[error("{origin}: {api_version} has no kind {kind}; {remedy}")]
    UnknownKind {
        /// The document.
        origin: Origin,
        /// Its group and version.
        api_version: String,
        /// Its kind.
        kind: String,
        /// The remedy.
        remedy: String,
    },
    /// A field that is unknown, missing or of the wrong type.
    #[error("{origin}: {object}: {path}: {message}; {remedy}")]
    Field {
        /// The document.
        origin: Origin,
        /// Kind, namespace and name.
        object: String,
        /// The field.
        path: String,
        /// The problem.
        message: String,
        /// The remedy.
        remedy: String,
    },
    /// Two documents for one object.
    #[error("{second}: {object} is defined twice, first at {first}; rename or remove one of them")]
    Duplicate {
        /// Kind, namespace and name.
        object: String,
        /// The first document.
        first: Origin,
        /// The other one.
        second: Origin,
    },
}

/// An invalid field of an object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {object}: {path}: {message}; {remedy}", .origin.file)]
pub struct FieldError {
    /// The document.
    pub origin: Origin,
    /// Kind, namespace and name.
    pub object: String,
    /// The field.
    pub path: String,
    /// The problem.
    pub message: String,
    /// The remedy.
    pub remedy: String,
}

impl FieldError {
    pub(super) fn new(origin: &Origin, object: &str, problem: Problem) -> Self {
        let Problem { path, message, remedy } = problem;
        Self { origin: origin.clone(), object: object.to_owned(), path, message, remedy }
    }
}

/// A warning about a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestWarning {
    /// The document.
    pub origin: Origin,
    /// The message.
    pub message: String,
}

impl fmt::Display for ManifestWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.origin, self.message)
    }
}
