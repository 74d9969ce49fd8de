//! Is a CRD well-formed? Faults come in the order and the words of the real server.

mod conversion;
mod openapi;
mod version;

use serde_json::{Value, json};

use self::version::Hoisted;
use super::{
    approval,
    view::{self, Names, flag, words},
};
use crate::{
    failure::FieldError,
    object::{Meta, at, dns1035_label, dns1123_subdomain, text},
};

/// Faults of a CRD; `old` is what it was before, on an update.
pub fn check(crd: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let required = format!("{}.{}", text(crd, &["spec", "names", "plural"]), text(crd, &["spec", "group"]));
    if old.is_none() && crd.name() != required {
        let detail = r#"must be spec.names.plural+"."+spec.group"#;
        errors.push(FieldError::invalid("metadata.name", crd.name(), detail));
    }
    spec(crd, &mut errors);
    if let Some(old) = old {
        immutable(crd, old, &mut errors);
    }
    errors.extend(check_status(crd));
    stored_versions(crd, &mut errors);
    errors.extend(approval::check(crd, old));
    let kept =
        |crd: &Value| at(crd, &["spec", "preserveUnknownFields"]).and_then(Value::as_bool) == Some(true);
    if kept(crd) && !old.is_some_and(kept) {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        errors.push(FieldError::invalid("spec.preserveUnknownFields", true, detail));
    }
    errors
}

/// Faults of the status.
pub fn check_status(crd: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    names(&view::accepted_names(crd), "status.acceptedNames", &mut errors);
    errors
}

fn spec(crd: &Value, errors: &mut Vec<FieldError>) {
    group_and_scope(crd, errors);
    let hoisted = Hoisted::of(view::versions(crd));
    if !hoisted.schema || view::versions(crd).iter().all(|version| schema_of(version).is_none()) {
        for (index, version) in view::versions(crd).iter().enumerate() {
            if schema_of(version).is_none() {
                errors
                    .push(FieldError::required(format!("spec.versions[{index}].schema.openAPIV3Schema"), ""));
            }
        }
    }
    for (index, version) in view::versions(crd).iter().enumerate() {
        let path = format!("spec.versions[{index}]");
        let name = text(version, &["name"]);
        let wrong = dns1035_label(name);
        if !wrong.is_empty() {
            errors.push(FieldError::invalid(format!("{path}.name"), name, wrong.join(",")));
        }
        version::check(version, &path, hoisted, errors);
    }
    version_list(crd, errors);
    first_version(crd, errors);
    let names_wanted = view::spec_names(crd);
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
    names(&names_wanted, "spec.names", errors);
    if let Some(first) = view::versions(crd).first() {
        version::check_hoisted(first, hoisted, errors);
    }
    conversion::check(at(crd, &["spec", "conversion"]), errors);
}

fn schema_of(version: &Value) -> Option<&Value> {
    at(version, &["schema", "openAPIV3Schema"]).filter(|schema| schema.is_object())
}

fn group_and_scope(crd: &Value, errors: &mut Vec<FieldError>) {
    let group = text(crd, &["spec", "group"]);
    let wrong = dns1123_subdomain(group);
    if group.is_empty() {
        errors.push(FieldError::required("spec.group", ""));
    } else if !wrong.is_empty() {
        errors.push(FieldError::invalid("spec.group", group, wrong.join(",")));
    } else if !group.contains('.') {
        errors.push(FieldError::invalid("spec.group", group, "should be a domain with at least one dot"));
    }
    match text(crd, &["spec", "scope"]) {
        "" => errors.push(FieldError::required("spec.scope", "")),
        "Cluster" | "Namespaced" => {}
        other => errors.push(FieldError::not_supported("spec.scope", other, &["Cluster", "Namespaced"])),
    }
}

/// The first version is also known as the version.
fn first_version(crd: &Value, errors: &mut Vec<FieldError>) {
    let name = view::versions(crd).first().map(|version| text(version, &["name"])).unwrap_or_default();
    let wrong = dns1035_label(name);
    if !name.is_empty() && !wrong.is_empty() {
        errors.push(FieldError::invalid("spec.version", name, wrong.join(",")));
    }
}

fn version_list(crd: &Value, errors: &mut Vec<FieldError>) {
    let versions = view::versions(crd);
    let shown = || Value::Array(versions.iter().map(shown_version).collect());
    let mut seen: Vec<&str> = versions.iter().map(|version| text(version, &["name"])).collect();
    seen.sort_unstable();
    seen.dedup();
    if seen.len() != versions.len() {
        errors.push(FieldError::invalid("spec.versions", shown(), "must contain unique version names"));
    }
    if versions.iter().filter(|version| flag(version, "storage")).count() != 1 {
        let detail = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid("spec.versions", shown(), detail));
    }
}

/// A version as the real server shows it: the names are those of its inner type.
fn shown_version(version: &Value) -> Value {
    json!({
        "Name": text(version, &["name"]), "Served": flag(version, "served"), "Storage": flag(version, "storage"),
        "Deprecated": flag(version, "deprecated"), "DeprecationWarning": version.get("deprecationWarning"),
        "Schema": null, "Subresources": null, "AdditionalPrinterColumns": null, "SelectableFields": null,
    })
}

fn names(names: &Names, path: &str, errors: &mut Vec<FieldError>) {
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

fn immutable(crd: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    let mut fields: Vec<&[&str]> = Vec::new();
    if view::is_true(old, "Established") {
        fields.extend([&["spec", "scope"][..], &["spec", "names", "kind"]]);
    }
    fields.extend([&["spec", "group"][..], &["spec", "names", "plural"]]);
    for path in fields {
        let (new, old) = (text(crd, path), text(old, path));
        if new != old {
            errors.push(FieldError::invalid(path.join("."), new, "field is immutable"));
        }
    }
}

fn stored_versions(crd: &Value, errors: &mut Vec<FieldError>) {
    let path = "status.storedVersions";
    let stored = words(crd, &["status", "storedVersions"]);
    if stored.is_empty() {
        let given = at(crd, &["status", "storedVersions"]).cloned().unwrap_or_default();
        errors.push(FieldError::invalid(path, given, "must have at least one stored version"));
        return;
    }
    for version in view::versions(crd).iter().filter(|version| flag(version, "storage")) {
        let name = text(version, &["name"]);
        if !stored.iter().any(|one| one == name) {
            let detail = format!("must have the storage version {name}");
            errors.push(FieldError::invalid(path, stored.clone(), detail));
        }
    }
    let is_known = |name: &str| view::versions(crd).iter().any(|version| text(version, &["name"]) == name);
    for (index, name) in stored.iter().enumerate().filter(|(_, name)| !is_known(name)) {
        let detail = format!(
            "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
        );
        errors.push(FieldError::invalid(format!("{path}[{index}]"), name.as_str(), detail));
    }
}
