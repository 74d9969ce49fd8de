//! Schemas of custom resources: what one version's `openAPIV3Schema` does to an object.
//!
//! Read and compiled once per CRD version, then used by every request: unknown fields are dropped, defaults filled in,
//! values checked. Faults come with the kinds, paths and texts of the real server, and what was wrong before an update
//! and has not changed since is let through.

mod aside;
mod cel;
mod check;
mod correlate;
mod defaults;
mod embedded;
mod fields;
mod format;
mod lists;
mod number;
mod parse;
pub mod paths;
mod rules;
mod shaping;
mod structural;
mod verdict;

#[cfg(test)]
mod tests;

use serde_json::Value;

use self::{correlate::Correlated, rules::Rules};
pub use self::{
    format::is_supported as is_supported_format, number::plain as plain_number, parse::Schema, verdict::shown,
};
use crate::{
    failure::{FieldError, FieldErrorKind},
    shape::Shape,
};

/// One version's schema, ready for use.
#[derive(Debug)]
pub struct Compiled {
    root: Schema,
    shape: Shape,
    rules: Option<Rules>,
}

impl Compiled {
    /// Compiles a schema; one that is not structural is refused with everything that is wrong with it.
    #[cfg(test)]
    pub fn new(schema: &Value) -> Result<Self, Vec<FieldError>> {
        let root = Schema::parse(schema);
        let faults = structural::check(&root, "openAPIV3Schema");
        if faults.is_empty() { Ok(Self::lenient(root)) } else { Err(faults) }
    }

    /// Everything that is wrong with a schema that stands at `path` in its CRD, as far as values are concerned.
    pub fn faults(root: &Schema, path: &str) -> Vec<FieldError> {
        let found = structural::check(root, path);
        if !found.is_empty() {
            return found;
        }
        let work = || cel::metered(|| defaults::check(root, path));
        aside::roomy(work).unwrap_or_else(work)
    }

    /// Rules of a schema that do not compile, and so on.
    pub fn rule_faults(root: &Schema, path: &str) -> Vec<FieldError> {
        Rules::compile(root, true).map(|rules| rules.faults(root, path)).unwrap_or_default()
    }

    /// Faults of a value against the rules of its own schema.
    fn rules_of(schema: &Schema, value: &Value, path: &str) -> Vec<FieldError> {
        let Some(rules) = Rules::compile(schema, schema.embedded) else { return Vec::new() };
        let found = rules.check(schema, value, Some(value), path);
        if found.is_empty() { rules.check(schema, value, None, path) } else { found }
    }

    /// Without asking whether it is structural: for CRDs that were accepted before.
    pub fn lenient(root: Schema) -> Self {
        let shape = shaping::root(&root);
        let rules = Rules::compile(&root, true);
        Self { root, shape, rules }
    }

    /// Structure, for merging and applying.
    pub fn shape(&self) -> Shape {
        self.shape.clone()
    }

    /// Drops what the schema does not know.
    pub fn prune(&self, object: &mut Value) {
        fields::prune(object, &self.root);
    }

    /// Paths of what the schema does not know, sorted.
    #[cfg(test)]
    pub fn unknown_fields(&self, object: &Value) -> Vec<String> {
        fields::prune(&mut object.clone(), &self.root)
    }

    /// Drops nulls that mean nothing and fills in defaults.
    pub fn default(&self, object: &mut Value) {
        fields::drop_nulls(object, Some(&self.root));
        fields::default(object, &self.root);
    }

    /// All faults of an object; `old` is what it was before, on an update.
    #[cfg(test)]
    pub fn check(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = self.check_values(object, old);
        errors.extend(self.check_embedded(object));
        errors.extend(self.check_lists(object, old));
        errors.extend(self.check_rules(object, old, &errors));
        errors
    }

    /// Faults of values against the schema's keywords.
    pub fn check_values(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let pair = old.map(|old| Correlated { new: object, old, schema: &self.root });
        check::check(&self.root, object, "", pair).errors("")
    }

    /// The same for `status` alone, as its own endpoint does it.
    pub fn check_status(&self, object: &Value, old: &Value) -> Vec<FieldError> {
        let (Some(status), Some(schema)) = (object.get("status"), self.root.properties.get("status")) else {
            return Vec::new();
        };
        let pair = Correlated { new: object, old, schema: &self.root }.key("status");
        check::check(schema, status, "", pair).errors("status")
    }

    /// Faults of embedded resources.
    pub fn check_embedded(&self, object: &Value) -> Vec<FieldError> {
        embedded::check(&self.root, object, "")
    }

    /// Duplicates in lists that are sets or maps, unless there were some before.
    pub fn check_lists(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let found = lists::check(&self.root, object, "");
        if found.is_empty() || old.is_some_and(|old| !lists::check(&self.root, old, "").is_empty()) {
            return Vec::new();
        }
        found
    }

    /// Rules in CEL; they are not asked about an object that has coarser faults (`so_far`).
    pub fn check_rules(&self, object: &Value, old: Option<&Value>, so_far: &[FieldError]) -> Vec<FieldError> {
        let Some(rules) = &self.rules else { return Vec::new() };
        if so_far.iter().any(blocks_rules) {
            let detail = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
            return vec![FieldError::invalid("<nil>", Value::Null, detail)];
        }
        rules.check(&self.root, object, old, "")
    }
}

/// Faults that leave rules without a value they can trust.
fn blocks_rules(error: &FieldError) -> bool {
    use FieldErrorKind::{NotSupported, Required, TooLong, TooMany, TypeInvalid};
    matches!(error.kind, NotSupported | Required | TooLong | TooMany | TypeInvalid)
}
