//! Validates one version of a CRD: schema, subresources, columns, selectable fields.

use serde_json::Value;

use super::openapi;
use crate::{
    object::{get_path, str_at},
    schema::{Schema, field_path},
    status_error::{FieldError, FieldErrorKind},
};

/// Parts that are equal in all versions and therefore validated once, under `spec`.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "the parts are independent")]
pub struct SharedParts {
    pub schema: bool,
    subresources: bool,
    columns: bool,
    selectable: bool,
}

impl SharedParts {
    pub fn from_versions(versions: &[Value]) -> Self {
        let same = |key: &str| {
            let first = versions.first().and_then(|version| version.get(key));
            versions.iter().all(|version| version.get(key) == first)
        };
        Self {
            schema: same("schema"),
            subresources: same("subresources"),
            columns: same("additionalPrinterColumns"),
            selectable: same("selectableFields"),
        }
    }
}

/// Validates the parts specific to this version.
pub fn validate_version(version: &Value, path: &str, hoisted: SharedParts, errors: &mut Vec<FieldError>) {
    validate_deprecation(version, path, errors);
    if !hoisted.schema {
        openapi::validate_schema(
            version,
            has_status(version),
            &format!("{path}.schema.openAPIV3Schema"),
            errors,
        );
    }
    if !hoisted.subresources {
        validate_scale(version, &format!("{path}.subresources"), errors);
    }
    if !hoisted.columns {
        validate_columns(version, &format!("{path}.additionalPrinterColumns"), errors);
    }
    if !hoisted.selectable {
        validate_selectable_fields(version, &format!("{path}.selectableFields"), errors);
    }
}

/// Validates the parts that all versions share.
pub fn validate_shared(version: &Value, hoisted: SharedParts, errors: &mut Vec<FieldError>) {
    if hoisted.schema {
        openapi::validate_schema(version, has_status(version), "spec.validation.openAPIV3Schema", errors);
    }
    if hoisted.subresources {
        validate_scale(version, "spec.subresources", errors);
    }
    if hoisted.columns {
        validate_columns(version, "spec.additionalPrinterColumns", errors);
    }
    if hoisted.selectable {
        validate_selectable_fields(version, "spec.selectableFields", errors);
    }
}

fn has_status(version: &Value) -> bool {
    get_path(version, &["subresources", "status"]).is_some_and(|status| !status.is_null())
}

fn validate_deprecation(version: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let Some(warning) = version.get("deprecationWarning").and_then(Value::as_str) else { return };
    let mut wrong = Vec::new();
    if super::bool_field(version, "deprecated") {
        if warning.len() > 256 {
            wrong.push("must be <= 256 characters long".to_owned());
        }
        if warning.is_empty() {
            wrong.push("must not be an empty string".to_owned());
        }
        if let Some((index, _)) = warning.char_indices().find(|(_, letter)| letter.is_control()) {
            wrong.push(format!(
                "must only contain printable UTF-8 characters; non-printable character found at index {index}"
            ));
        }
    } else {
        wrong.push("can only be set for deprecated versions".to_owned());
    }
    let field = format!("{path}.deprecationWarning");
    errors.extend(wrong.into_iter().map(|detail| FieldError::invalid(&field, warning, detail)));
}

fn validate_scale(version: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let Some(scale) = get_path(version, &["subresources", "scale"]).filter(|scale| scale.is_object()) else {
        return;
    };
    let places = [
        ("specReplicasPath", &[".spec."][..], "should be a json path under .spec", true),
        ("statusReplicasPath", &[".status."], "should be a json path under .status", true),
        (
            "labelSelectorPath",
            &[".spec.", ".status."],
            "should be a json path under either .spec or .status",
            false,
        ),
    ];
    for (key, roots, detail, is_required) in places {
        let field = format!("{path}.scale.{key}");
        let given = str_at(scale, &[key]);
        if given.is_empty() {
            if is_required {
                errors.push(FieldError::required(field, ""));
            }
        } else if !given.starts_with('.') {
            errors.push(FieldError::invalid(field, given, "must be a simple json path starting with ."));
        } else if !roots.iter().any(|root| given.starts_with(root)) {
            errors.push(FieldError::invalid(field, given, detail));
        }
    }
}

fn validate_columns(version: &Value, path: &str, errors: &mut Vec<FieldError>) {
    const KINDS: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
    const FORMATS: [&str; 8] = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
    let list = version.get("additionalPrinterColumns").and_then(Value::as_array);
    for (index, column) in list.into_iter().flatten().enumerate() {
        let path = format!("{path}[{index}]");
        let (kind, format, place) =
            (str_at(column, &["type"]), str_at(column, &["format"]), str_at(column, &["jsonPath"]));
        if str_at(column, &["name"]).is_empty() {
            errors.push(FieldError::required(format!("{path}.name"), ""));
        }
        let one_of = |words: &[&str]| format!("must be one of {}", words.join(","));
        if kind.is_empty() {
            errors.push(FieldError::required(format!("{path}.type"), one_of(&KINDS)));
        } else if !KINDS.contains(&kind) {
            errors.push(FieldError::invalid(format!("{path}.type"), kind, one_of(&KINDS)));
        }
        if !format.is_empty() && !FORMATS.contains(&format) {
            errors.push(FieldError::invalid(format!("{path}.format"), format, one_of(&FORMATS)));
        }
        if place.is_empty() {
            errors.push(FieldError::required(format!("{path}.JSONPath"), ""));
        } else if !place.starts_with('.') {
            let detail = "must be a simple json path starting with .";
            errors.push(FieldError::invalid(format!("{path}.JSONPath"), place, detail));
        }
    }
}

fn validate_selectable_fields(version: &Value, path: &str, errors: &mut Vec<FieldError>) {
    const MOST: usize = 8;
    let fields =
        version.get("selectableFields").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if fields.is_empty() {
        return;
    }
    let Some(schema) = super::schema_of(version) else {
        errors.push(FieldError::invalid(path, "", "may only be set when validations.schema is included"));
        return;
    };
    let schema = Schema::parse(schema);
    let mut seen: Vec<String> = Vec::new();
    for (index, field) in fields.iter().enumerate() {
        let place = format!("{path}[{index}].jsonPath");
        let given = str_at(field, &["jsonPath"]);
        if given.is_empty() {
            errors.push(FieldError::required(place, ""));
            continue;
        }
        let (found, target) = match field_path::resolve_field_path(given, &schema, false) {
            Ok(found) => found,
            Err(why) => {
                errors.push(FieldError::invalid(place, given, format!("is an invalid path: {why}")));
                continue;
            }
        };
        if found.first().is_some_and(|first| first == "metadata") {
            errors.push(FieldError::invalid(&place, given, "must not point to fields in metadata"));
        }
        if !matches!(target.kind.as_str(), "string" | "boolean" | "integer") {
            let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
            errors.push(FieldError::invalid(&place, given, detail));
        }
        let found = field_path::format_path(&found);
        if seen.contains(&found) {
            errors.push(FieldError::duplicate(&place, given));
        } else {
            seen.push(found);
        }
    }
    if seen.len() > MOST {
        let detail = format!("must have at most {MOST} items");
        errors.push(FieldError::new(FieldErrorKind::TooMany, path, Some(seen.len().into()), detail));
    }
}
