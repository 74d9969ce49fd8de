//! Schemas of custom resources: pruning, defaulting and validation by `openAPIV3Schema`.
//!
//! Each schema is parsed and compiled once per CRD version. Errors carry kube-apiserver's types, paths and texts.
//! Ratcheting: invalid values that an update does not change are accepted.

mod blocking;
mod cel;
mod cel_rules;
mod correlate;
mod defaults;
mod embedded;
pub mod field_path;
mod format;
mod list_validation;
mod number;
mod parse;
mod prune_and_default;
mod shape_conversion;
mod structural;
mod validation_result;
mod value_validation;

#[cfg(test)]
mod tests;

use serde_json::Value;

use self::{cel_rules::CelRules, correlate::CorrelatedValue};
pub use self::{
    format::is_supported as is_supported_format, number::format_float as plain_number, parse::Schema,
    validation_result::display_value,
};
use crate::{
    shape::Shape,
    status_error::{FieldError, FieldErrorKind},
};

/// A compiled schema of one CRD version.
#[derive(Debug)]
pub struct CompiledSchema {
    root: Schema,
    shape: Shape,
    cel_rules: Option<CelRules>,
}

impl CompiledSchema {
    /// Compiles a schema; a schema that is not structural is rejected with all its errors.
    #[cfg(test)]
    pub fn new(schema: &Value) -> Result<Self, Vec<FieldError>> {
        let root = Schema::parse(schema);
        let faults = structural::validate_structural(&root, "openAPIV3Schema");
        if faults.is_empty() { Ok(Self::new_unchecked(root)) } else { Err(faults) }
    }

    /// Validates a schema at `path` in its CRD, except for its CEL rules.
    pub fn schema_errors(root: &Schema, path: &str) -> Vec<FieldError> {
        let found = structural::validate_structural(root, path);
        if !found.is_empty() {
            return found;
        }
        let work = || cel::with_budget(|| defaults::validate_defaults(root, path));
        blocking::on_large_stack(work).unwrap_or_else(work)
    }

    /// Validates the CEL rules of a schema.
    pub fn rule_errors(root: &Schema, path: &str) -> Vec<FieldError> {
        CelRules::compile(root, true).map(|rules| rules.compile_errors(root, path)).unwrap_or_default()
    }

    /// Validates a value against the CEL rules of its own schema.
    fn validate_by_own_rules(schema: &Schema, value: &Value, path: &str) -> Vec<FieldError> {
        let Some(rules) = CelRules::compile(schema, schema.embedded) else { return Vec::new() };
        let found = rules.validate(schema, value, Some(value), path);
        if found.is_empty() { rules.validate(schema, value, None, path) } else { found }
    }

    /// Skips the structural check: for CRDs that were accepted before.
    pub fn new_unchecked(root: Schema) -> Self {
        let shape = shape_conversion::root_shape(&root);
        let cel_rules = CelRules::compile(&root, true);
        Self { root, shape, cel_rules }
    }

    /// Structure, for merging and applying.
    pub fn shape(&self) -> Shape {
        self.shape.clone()
    }

    /// Removes fields that the schema does not declare.
    pub fn prune(&self, object: &mut Value) {
        prune_and_default::prune(object, &self.root);
    }

    /// Sorted paths of fields that the schema does not declare.
    #[cfg(test)]
    pub fn unknown_fields(&self, object: &Value) -> Vec<String> {
        prune_and_default::prune(&mut object.clone(), &self.root)
    }

    /// Drops nulls that are not nullable and sets defaults.
    pub fn set_defaults(&self, object: &mut Value) {
        prune_and_default::drop_nulls(object, Some(&self.root));
        prune_and_default::set_defaults(object, &self.root);
    }

    /// Validates an object; `old` is its previous state on an update.
    #[cfg(test)]
    pub fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = self.validate_values(object, old);
        errors.extend(self.validate_embedded(object));
        errors.extend(self.validate_lists(object, old));
        errors.extend(self.validate_rules(object, old, &errors));
        errors
    }

    /// Validates values against the schema's keywords.
    pub fn validate_values(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let pair = old.map(|old| CorrelatedValue { new: object, old, schema: &self.root });
        value_validation::validate_value(&self.root, object, "", pair).into_field_errors("")
    }

    /// As `validate_values`, for `status` alone.
    pub fn validate_status(&self, object: &Value, old: &Value) -> Vec<FieldError> {
        let (Some(status), Some(schema)) = (object.get("status"), self.root.properties.get("status")) else {
            return Vec::new();
        };
        let pair = CorrelatedValue { new: object, old, schema: &self.root }.key("status");
        value_validation::validate_value(schema, status, "", pair).into_field_errors("status")
    }

    /// Validates embedded resources.
    pub fn validate_embedded(&self, object: &Value) -> Vec<FieldError> {
        embedded::validate_embedded(&self.root, object, "")
    }

    /// Reports duplicates in sets and maps, unless the old object had duplicates too.
    pub fn validate_lists(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let found = list_validation::validate_lists(&self.root, object, "");
        if found.is_empty()
            || old.is_some_and(|old| !list_validation::validate_lists(&self.root, old, "").is_empty())
        {
            return Vec::new();
        }
        found
    }

    /// Evaluates the CEL rules; skipped for an object with structural errors (`so_far`).
    pub fn validate_rules(
        &self,
        object: &Value,
        old: Option<&Value>,
        so_far: &[FieldError],
    ) -> Vec<FieldError> {
        let Some(rules) = &self.cel_rules else { return Vec::new() };
        if so_far.iter().any(blocks_rules) {
            let detail = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
            return vec![FieldError::invalid("<nil>", Value::Null, detail)];
        }
        rules.validate(&self.root, object, old, "")
    }
}

/// Errors that prevent the evaluation of CEL rules.
fn blocks_rules(error: &FieldError) -> bool {
    use FieldErrorKind::{NotSupported, Required, TooLong, TooMany, TypeInvalid};
    matches!(error.kind, NotSupported | Required | TooLong | TooMany | TypeInvalid)
}
