//! Validation problems. Validators collect all problems instead of stopping at the first.

use std::fmt;

/// A problem of a field, with its remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Path of the field, such as `spec.additionalFargateProfiles[0].name`.
    pub path: String,
    /// The problem.
    pub message: String,
    /// The remedy.
    pub remedy: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.path, self.message, self.remedy)
    }
}

/// Collects problems during validation.
#[derive(Debug, Default)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// Adds a problem.
    pub fn add(&mut self, path: &FieldPath<'_>, message: impl Into<String>, remedy: impl Into<String>) {
        self.0.push(Problem { path: path.to_string(), message: message.into(), remedy: remedy.into() });
    }

    /// Parses `text`; adds a problem if it is malformed.
    pub fn parse<T: super::newtypes::Parse>(&mut self, path: &FieldPath<'_>, text: &str) -> Option<T> {
        match T::parse(text) {
            Ok(value) => Some(value),
            Err(malformed) => {
                self.add(path, malformed.to_string(), malformed.remedy);
                None
            }
        }
    }

    /// Parses an optional text.
    pub fn parse_option<T: super::newtypes::Parse>(
        &mut self,
        path: &FieldPath<'_>,
        text: Option<&str>,
    ) -> Option<T> {
        text.and_then(|text| self.parse(path, text))
    }

    /// Parses every item of a list; duplicates are problems.
    pub fn parse_set<T: super::newtypes::Parse + PartialEq>(
        &mut self,
        path: &FieldPath<'_>,
        texts: &[String],
    ) -> Vec<T> {
        let mut values = Vec::with_capacity(texts.len());
        for (index, text) in texts.iter().enumerate() {
            let path = path.index(index);
            if let Some(value) = self.parse(&path, text) {
                if values.contains(&value) {
                    self.add(&path, format!("{text:?} is listed twice"), "remove one of them");
                } else {
                    values.push(value);
                }
            }
        }
        values
    }

    /// The value if there are no problems.
    pub fn into_result<T>(self, value: Option<T>) -> Result<T, Vec<Problem>> {
        match value {
            Some(value) if self.0.is_empty() => Ok(value),
            _ => Err(self.0),
        }
    }

    /// Number of problems.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The problems.
    pub fn into_vec(self) -> Vec<Problem> {
        self.0
    }
}

/// A field path that borrows its parents: allocates only when a problem is reported.
#[derive(Clone, Copy, Debug)]
pub struct FieldPath<'a> {
    parent: Option<&'a Self>,
    step: PathStep<'a>,
}

#[derive(Clone, Copy, Debug)]
enum PathStep<'a> {
    Field(&'a str),
    Index(usize),
    Key(&'a str),
}

impl<'a> FieldPath<'a> {
    /// The path of a top-level field.
    pub const fn root(field: &'a str) -> Self {
        Self { parent: None, step: PathStep::Field(field) }
    }

    /// A field below this one.
    #[must_use]
    pub const fn field(&'a self, name: &'a str) -> Self {
        Self { parent: Some(self), step: PathStep::Field(name) }
    }

    /// An item of this list.
    #[must_use]
    pub const fn index(&'a self, index: usize) -> Self {
        Self { parent: Some(self), step: PathStep::Index(index) }
    }

    /// An entry of this map.
    #[must_use]
    pub const fn key(&'a self, key: &'a str) -> Self {
        Self { parent: Some(self), step: PathStep::Key(key) }
    }
}

impl fmt::Display for FieldPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            write!(f, "{parent}")?;
        }
        match self.step {
            PathStep::Field(name) if self.parent.is_some() => write!(f, ".{name}"),
            PathStep::Field(name) => write!(f, "{name}"),
            PathStep::Index(index) => write!(f, "[{index}]"),
            PathStep::Key(key) => write!(f, "[{key:?}]"),
        }
    }
}
