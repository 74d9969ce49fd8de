//! Validates CRDs, with the order and texts of kube-apiserver's errors.

mod conversion;
mod openapi;
mod version;

use serde_json::{Value, json};

use self::version::SharedParts;
use super::{
    accessors::{self, CrdNames, bool_field, string_list},
    approval,
};
use crate::{
    object::{MetaAccessor, dns1035_label, dns1123_subdomain, get_path, str_at},
    status_error::FieldError,
};

/// Validates a CRD; `old` is its previous state on an update.
pub fn validate_crd(crd: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let required =
        format!("{}.{}", str_at(crd, &["spec", "names", "plural"]), str_at(crd, &["spec", "group"]));
    if old.is_none() && crd.name() != required {
        let detail = r#"must be spec.names.plural+"."+spec.group"#;
        errors.push(FieldError::invalid("metadata.name", crd.name(), detail));
    }
    validate_spec(crd, &mut errors);
    if let Some(old) = old {
        validate_immutable(crd, old, &mut errors);
    }
    errors.extend(validate_crd_status(crd));
    validate_stored_versions(crd, &mut errors);
    errors.extend(approval::validate_approval(crd, old));
    let kept = |crd: &Value| {
        get_path(crd, &["spec", "preserveUnknownFields"]).and_then(Value::as_bool) == Some(true)
    };
    if kept(crd) && !old.is_some_and(kept) {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        errors.push(FieldError::invalid("spec.preserveUnknownFields", true, detail));
    }
    errors
}

/// Validates the status.
pub fn validate_crd_status(crd: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    validate_names(&accessors::accepted_names(crd), "status.acceptedNames", &mut errors);
    errors
}

fn validate_spec(crd: &Value, errors: &mut Vec<FieldError>) {
    validate_group_and_scope(crd, errors);
    let hoisted = SharedParts::from_versions(accessors::versions(crd));
    if !hoisted.schema || accessors::versions(crd).iter().all(|version| schema_of(version).is_none()) {
        for (index, version) in accessors::versions(crd).iter().enumerate() {
            if schema_of(version).is_none() {
                errors
                    .push(FieldError::required(format!("spec.versions[{index}].schema.openAPIV3Schema"), ""));
            }
        }
    }
    for (index, version) in accessors::versions(crd).iter().enumerate() {
        let path = format!("spec.versions[{index}]");
        let name = str_at(version, &["name"]);
        let wrong = dns1035_label(name);
        if !wrong.is_empty() {
            errors.push(FieldError::invalid(format!("{path}.name"), name, wrong.join(",")));
        }
        version::validate_version(version, &path, hoisted, errors);
    }
    validate_version_list(crd, errors);
    validate_first_version(crd, errors);
    let names_wanted = accessors::spec_names(crd);
    for (key, value) in [
        ("plural", &names_wanted.plural),
        ("singular", &names_wanted.singular),
        ("kind", &names_wanted.kind),
        ("listKind", &names_wanted.list_kind),
    ] {
        if value.is_empty() {
            errors.push(FieldError::required(format!("spec.names.{key}"), ""));
        }
    }
    validate_names(&names_wanted, "spec.names", errors);
    if let Some(first) = accessors::versions(crd).first() {
        version::validate_shared(first, hoisted, errors);
    }
    conversion::validate_conversion(get_path(crd, &["spec", "conversion"]), errors);
}

fn schema_of(version: &Value) -> Option<&Value> {
    get_path(version, &["schema", "openAPIV3Schema"]).filter(|schema| schema.is_object())
}

fn validate_group_and_scope(crd: &Value, errors: &mut Vec<FieldError>) {
    let group = str_at(crd, &["spec", "group"]);
    let wrong = dns1123_subdomain(group);
    if group.is_empty() {
        errors.push(FieldError::required("spec.group", ""));
    } else if !wrong.is_empty() {
        errors.push(FieldError::invalid("spec.group", group, wrong.join(",")));
    } else if !group.contains('.') {
        errors.push(FieldError::invalid("spec.group", group, "should be a domain with at least one dot"));
    }
    match str_at(crd, &["spec", "scope"]) {
        "" => errors.push(FieldError::required("spec.scope", "")),
        "Cluster" | "Namespaced" => {}
        other => errors.push(FieldError::not_supported("spec.scope", other, &["Cluster", "Namespaced"])),
    }
}

/// The first version is mirrored in `spec.version`.
fn validate_first_version(crd: &Value, errors: &mut Vec<FieldError>) {
    let name = accessors::versions(crd).first().map(|version| str_at(version, &["name"])).unwrap_or_default();
    let wrong = dns1035_label(name);
    if !name.is_empty() && !wrong.is_empty() {
        errors.push(FieldError::invalid("spec.version", name, wrong.join(",")));
    }
}

fn validate_version_list(crd: &Value, errors: &mut Vec<FieldError>) {
    let versions = accessors::versions(crd);
    let shown = || Value::Array(versions.iter().map(go_version_value).collect());
    let mut seen: Vec<&str> = versions.iter().map(|version| str_at(version, &["name"])).collect();
    seen.sort_unstable();
    seen.dedup();
    if seen.len() != versions.len() {
        errors.push(FieldError::invalid("spec.versions", shown(), "must contain unique version names"));
    }
    if versions.iter().filter(|version| bool_field(version, "storage")).count() != 1 {
        let detail = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid("spec.versions", shown(), detail));
    }
}

/// A version as kube-apiserver prints it, with the field names of its internal type.
fn go_version_value(version: &Value) -> Value {
    json!({
        "Name": str_at(version, &["name"]), "Served": bool_field(version, "served"), "Storage": bool_field(version, "storage"),
        "Deprecated": bool_field(version, "deprecated"), "DeprecationWarning": version.get("deprecationWarning"),
        "Schema": null, "Subresources": null, "AdditionalPrinterColumns": null, "SelectableFields": null,
    })
}

fn validate_names(names: &CrdNames, path: &str, errors: &mut Vec<FieldError>) {
    for (key, value) in [("plural", &names.plural), ("singular", &names.singular)] {
        let wrong = dns1035_label(value);
        if !value.is_empty() && !wrong.is_empty() {
            errors.push(FieldError::invalid(format!("{path}.{key}"), value.as_str(), wrong.join(",")));
        }
    }
    for (key, value) in [("kind", &names.kind), ("listKind", &names.list_kind)] {
        let wrong = dns1035_label(&value.to_lowercase());
        if !value.is_empty() && !wrong.is_empty() {
            let detail = format!("may have mixed case, but should otherwise match: {}", wrong.join(","));
            errors.push(FieldError::invalid(format!("{path}.{key}"), value.as_str(), detail));
        }
    }
    let mut each = |key: &str, list: &[String]| {
        for (index, value) in list.iter().enumerate() {
            let wrong = dns1035_label(value);
            if !wrong.is_empty() {
                errors.push(FieldError::invalid(
                    format!("{path}.{key}[{index}]"),
                    value.as_str(),
                    wrong.join(","),
                ));
            }
        }
    };
    each("shortNames", &names.short_names);
    let ambiguous = !names.kind.is_empty() && names.kind == names.list_kind;
    let detail = "kind and listKind may not be the same";
    if ambiguous {
        errors.push(FieldError::invalid(format!("{path}.listKind"), names.list_kind.as_str(), detail));
    }
    for (index, value) in names.categories.iter().enumerate() {
        let wrong = dns1035_label(value);
        if !wrong.is_empty() {
            errors.push(FieldError::invalid(
                format!("{path}.categories[{index}]"),
                value.as_str(),
                wrong.join(","),
            ));
        }
    }
}

fn validate_immutable(crd: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let mut fields: Vec<&[&str]> = Vec::new();
    if accessors::is_condition_true(old, "Established") {
        fields.extend([&["spec", "scope"][..], &["spec", "names", "kind"]]);
    }
    fields.extend([&["spec", "group"][..], &["spec", "names", "plural"]]);
    for path in fields {
        let (new, old) = (str_at(crd, path), str_at(old, path));
        if new != old {
            errors.push(FieldError::invalid(path.join("."), new, "field is immutable"));
        }
    }
}

fn validate_stored_versions(crd: &Value, errors: &mut Vec<FieldError>) {
    let path = "status.storedVersions";
    let stored = string_list(crd, &["status", "storedVersions"]);
    if stored.is_empty() {
        let given = get_path(crd, &["status", "storedVersions"]).cloned().unwrap_or_default();
        errors.push(FieldError::invalid(path, given, "must have at least one stored version"));
        return;
    }
    for version in accessors::versions(crd).iter().filter(|version| bool_field(version, "storage")) {
        let name = str_at(version, &["name"]);
        if !stored.iter().any(|one| one == name) {
            let detail = format!("must have the storage version {name}");
            errors.push(FieldError::invalid(path, stored.clone(), detail));
        }
    }
    let is_known =
        |name: &str| accessors::versions(crd).iter().any(|version| str_at(version, &["name"]) == name);
    for (index, name) in stored.iter().enumerate().filter(|(_, name)| !is_known(name)) {
        let detail = format!(
            "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
        );
        errors.push(FieldError::invalid(format!("{path}[{index}]"), name.as_str(), detail));
    }
}
