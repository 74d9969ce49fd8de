//! What is wrong with an object, field by field. Validation collects all of it instead of stopping at the first.

use std::fmt;

/// One thing that is wrong, where it is, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Path of the field, such as `spec.additionalFargateProfiles[0].name`.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub remedy: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.path, self.message, self.remedy)
    }
}

/// Collects problems while an object is walked.
#[derive(Debug, Default)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// Notes a problem.
    pub fn add(&mut self, path: &Path<'_>, message: impl Into<String>, remedy: impl Into<String>) {
        self.0.push(Problem { path: path.to_string(), message: message.into(), remedy: remedy.into() });
    }

    /// Parses `text`; notes why it cannot be parsed.
    pub fn parse<T: super::text::Parse>(&mut self, path: &Path<'_>, text: &str) -> Option<T> {
        match T::parse(text) {
            Ok(value) => Some(value),
            Err(malformed) => {
                self.add(path, malformed.to_string(), malformed.remedy);
                None
            }
        }
    }

    /// Parses a text that may be missing.
    pub fn parse_option<T: super::text::Parse>(&mut self, path: &Path<'_>, text: Option<&str>) -> Option<T> {
        text.and_then(|text| self.parse(path, text))
    }

    /// Parses every item of a list, and notes items that stand there twice.
    pub fn parse_set<T: super::text::Parse + PartialEq>(
        &mut self,
        path: &Path<'_>,
        texts: &[String],
    ) -> Vec<T> {
        let mut values = Vec::with_capacity(texts.len());
        for (index, text) in texts.iter().enumerate() {
            let path = path.index(index);
            if let Some(value) = self.parse(&path, text) {
                if values.contains(&value) {
                    self.add(&path, format!("{text:?} is there twice"), "remove one of them");
                } else {
                    values.push(value);
                }
            }
        }
        values
    }

    /// The value if nothing was wrong.
    pub fn into_result<T>(self, value: Option<T>) -> Result<T, Vec<Problem>> {
        match value {
            Some(value) if self.0.is_empty() => Ok(value),
            _ => Err(self.0),
        }
    }

    /// How many problems there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The problems.
    pub fn into_vec(self) -> Vec<Problem> {
        self.0
    }
}

/// A path to a field, as a chain that borrows its beginning: nothing is allocated until there is something to say.
#[derive(Clone, Copy, Debug)]
pub struct Path<'a> {
    parent: Option<&'a Self>,
    step: Step<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Step<'a> {
    Field(&'a str),
    Index(usize),
    Key(&'a str),
}

impl<'a> Path<'a> {
    /// The path of a field of the object itself.
    pub const fn root(field: &'a str) -> Self {
        Self { parent: None, step: Step::Field(field) }
    }

    /// A field below this one.
    #[must_use]
    pub const fn field(&'a self, name: &'a str) -> Self {
        Self { parent: Some(self), step: Step::Field(name) }
    }

    /// An item of this list.
    #[must_use]
    pub const fn index(&'a self, index: usize) -> Self {
        Self { parent: Some(self), step: Step::Index(index) }
    }

    /// An entry of this map.
    #[must_use]
    pub const fn key(&'a self, key: &'a str) -> Self {
        Self { parent: Some(self), step: Step::Key(key) }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            write!(f, "{parent}")?;
        }
        match self.step {
            Step::Field(name) if self.parent.is_some() => write!(f, ".{name}"),
            Step::Field(name) => write!(f, "{name}"),
            Step::Index(index) => write!(f, "[{index}]"),
            Step::Key(key) => write!(f, "[{key:?}]"),
        }
    }
}
