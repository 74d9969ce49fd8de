//! What is wrong with a file, in one line each: where, what, and what to do.

use std::fmt;

use crate::model::Problem;

/// Where a document stands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin {
    /// Name of the file.
    pub file: String,
    /// Which document of the file it is, from 1.
    pub document: usize,
    /// The line it begins on, from 1.
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
    #[error("{file}: the file is empty; write at least one object into it")]
    Empty {
        /// The file.
        file: String,
    },
    /// Neither YAML nor JSON.
    #[error("{file}: line {line}, column {column}: not YAML: {message}; correct the text there")]
    NotYaml {
        /// The file.
        file: String,
        /// The line, from 1.
        line: u64,
        /// The column, from 1.
        column: u64,
        /// What the parser says.
        message: String,
    },
    /// A document that is not an object.
    #[error("{origin}: document {} is not a Kubernetes object; give it apiVersion, kind and metadata", .origin.document)]
    NotAnObject {
        /// The document.
        origin: Origin,
    },
    /// An object that does not say what it is.
    #[error("{origin}: document {} has no {field}; add it", .origin.document)]
    NoType {
        /// The document.
        origin: Origin,
        /// `apiVersion`, `kind` or `metadata.name`.
        field: &'static str,
    },
    /// A kind of our groups that does not exist.
    #[error("{origin}: {api_version} has no kind {kind}; {remedy}")]
    UnknownKind {
        /// The document.
        origin: Origin,
        /// Its group and version.
        api_version: String,
        /// Its kind.
        kind: String,
        /// What to write instead.
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
        /// What is wrong.
        message: String,
        /// What to do.
        remedy: String,
    },
    /// Two documents for one object.
    #[error("{second}: {object} is there twice, first at {first}; rename or remove one of them")]
    Duplicate {
        /// Kind, namespace and name.
        object: String,
        /// The first document.
        first: Origin,
        /// The other one.
        second: Origin,
    },
}

/// Something about an object that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {object}: {path}: {message}; {remedy}", .origin.file)]
pub struct FieldError {
    /// The document.
    pub origin: Origin,
    /// Kind, namespace and name.
    pub object: String,
    /// The field.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub remedy: String,
}

impl FieldError {
    pub(super) fn new(origin: &Origin, object: &str, problem: Problem) -> Self {
        let Problem { path, message, remedy } = problem;
        Self { origin: origin.clone(), object: object.to_owned(), path, message, remedy }
    }
}

/// Something a person should know, and that stops nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The document.
    pub origin: Origin,
    /// What there is to know.
    pub message: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.origin, self.message)
    }
}
