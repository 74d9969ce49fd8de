//! Terraform version constraints: `>= 5.60, < 7`.

use std::{fmt, str::FromStr};

use semver::Version;

/// Invalid version constraint.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{text}` is not a version constraint")]
pub struct ConstraintError {
    text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
    Pessimistic,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    operator: Operator,
    version: Version,
    /// Number of version parts: `~> 5.0` and `~> 5.0.0` differ.
    parts: usize,
}

/// A version constraint: the conjunction of its terms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Constraint {
    text: String,
    terms: Vec<Term>,
}

impl fmt::Display for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Constraint {
    type Err = ConstraintError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let terms = text.split(',').map(|term| parse_term(term.trim())).collect::<Option<Vec<_>>>();
        let text = text.trim().to_owned();
        match terms {
            Some(terms) => Ok(Self { text, terms }),
            None => Err(ConstraintError { text }),
        }
    }
}

fn parse_term(term: &str) -> Option<Term> {
    const OPERATORS: [(&str, Operator); 7] = [
        ("!=", Operator::NotEqual),
        (">=", Operator::GreaterOrEqual),
        ("<=", Operator::LessOrEqual),
        ("~>", Operator::Pessimistic),
        (">", Operator::Greater),
        ("<", Operator::Less),
        ("=", Operator::Equal),
    ];
    let found = OPERATORS.iter().find_map(|(sign, operator)| Some((*operator, term.strip_prefix(sign)?)));
    let (operator, rest) = found.unwrap_or((Operator::Equal, term));
    let rest = rest.trim();
    let parts = rest.split(['-', '+']).next()?.split('.').count();
    let padded = match parts {
        1 => format!("{rest}.0.0"),
        2 => format!("{rest}.0"),
        _ => rest.to_owned(),
    };
    Some(Term { operator, version: Version::parse(&padded).ok()?, parts })
}

impl Constraint {
    /// Whether a version satisfies the constraint. A pre-release does only if it is named exactly, as in terraform.
    pub fn matches(&self, version: &Version) -> bool {
        self.terms.iter().all(|term| term.matches(version))
    }
}

impl Term {
    fn matches(&self, version: &Version) -> bool {
        let exact = *version == self.version;
        if !version.pre.is_empty() {
            return exact && self.operator == Operator::Equal;
        }
        match self.operator {
            Operator::Equal => exact,
            Operator::NotEqual => !exact,
            Operator::Greater => *version > self.version,
            Operator::GreaterOrEqual => *version >= self.version,
            Operator::Less => *version < self.version,
            Operator::LessOrEqual => *version <= self.version,
            Operator::Pessimistic => {
                let same_major = self.parts < 2 || version.major == self.version.major;
                let same_minor = self.parts < 3 || version.minor == self.version.minor;
                *version >= self.version && same_major && same_minor
            }
        }
    }
}
