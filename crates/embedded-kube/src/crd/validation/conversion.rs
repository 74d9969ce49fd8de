//! Validates `spec.conversion`.

use serde_json::Value;

use crate::{
    object::{dns1035_label, dns1123_subdomain, get_path, str_at},
    status_error::FieldError,
};

/// Validates `spec.conversion`. A webhook is accepted, although objects are converted by changing their version only.
pub fn validate_conversion(conversion: Option<&Value>, errors: &mut Vec<FieldError>) {
    let Some(conversion) = conversion.filter(|it| it.is_object()) else { return };
    let strategy = str_at(conversion, &["strategy"]);
    match strategy {
        "" => errors.push(FieldError::required("spec.conversion.strategy", "")),
        "None" | "Webhook" => {}
        other => {
            errors.push(FieldError::not_supported("spec.conversion.strategy", other, &["None", "Webhook"]));
        }
    }
    let config = get_path(conversion, &["webhook", "clientConfig"]).filter(|it| it.is_object());
    let given = get_path(conversion, &["webhook", "conversionReviewVersions"]).and_then(Value::as_array);
    let versions: Vec<&str> = given.into_iter().flatten().filter_map(Value::as_str).collect();
    if strategy == "Webhook" {
        validate_client_config(config, errors);
        validate_review_versions(&versions, errors);
        return;
    }
    let detail = "should not be set when strategy is not set to Webhook";
    if config.is_some() {
        errors.push(FieldError::forbidden("spec.conversion.webhookClientConfig", detail));
    }
    if !versions.is_empty() {
        errors.push(FieldError::forbidden("spec.conversion.conversionReviewVersions", detail));
    }
}

fn validate_client_config(config: Option<&Value>, errors: &mut Vec<FieldError>) {
    let path = "spec.conversion.webhookClientConfig";
    let Some(config) = config else {
        errors.push(FieldError::required(path, "required when strategy is set to Webhook"));
        return;
    };
    let url = config.get("url").and_then(Value::as_str);
    let service = config.get("service").filter(|it| it.is_object());
    match (url, service) {
        (Some(url), None) => validate_url(url, &format!("{path}.url"), errors),
        (None, Some(service)) => validate_service_reference(service, &format!("{path}.service"), errors),
        _ => errors.push(FieldError::required(path, "exactly one of url or service is required")),
    }
}

fn validate_url(url: &str, field: &str, errors: &mut Vec<FieldError>) {
    let form = "; desired format: https://host[/path]";
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    if scheme != "https" {
        let detail = format!("'https' is the only allowed URL scheme{form}");
        errors.push(FieldError::invalid(field, scheme, detail));
    }
    let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = if scheme.is_empty() { "" } else { rest.split('/').next().unwrap_or_default() };
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    if host.is_empty() {
        errors.push(FieldError::invalid(field, "", format!("host must be specified{form}")));
    }
    for (value, detail) in [
        (user, "user information is not permitted in the URL"),
        (fragment, "fragments are not permitted in the URL"),
        (query, "query parameters are not permitted in the URL"),
    ] {
        if !value.is_empty() {
            errors.push(FieldError::invalid(field, value, detail));
        }
    }
}

fn validate_service_reference(service: &Value, path: &str, errors: &mut Vec<FieldError>) {
    for key in ["name", "namespace"] {
        if str_at(service, &[key]).is_empty() {
            errors.push(FieldError::required(format!("{path}.{key}"), ""));
        }
    }
    let port = service.get("port").and_then(Value::as_i64).unwrap_or(443);
    if !(1..=65_535).contains(&port) {
        let detail = "port is not valid: must be between 1 and 65535, inclusive";
        errors.push(FieldError::invalid(format!("{path}.port"), port, detail));
    }
    let given = str_at(service, &["path"]);
    let field = format!("{path}.path");
    if given.is_empty() || given == "/" {
        return;
    }
    if !given.starts_with('/') {
        errors.push(FieldError::invalid(&field, given, "must start with a '/'"));
    }
    let inner = given.get(1..).unwrap_or_default();
    for (index, step) in inner.strip_suffix('/').unwrap_or(inner).split('/').enumerate() {
        if step.is_empty() {
            errors.push(FieldError::invalid(&field, given, format!("segment[{index}] may not be empty")));
            continue;
        }
        for wrong in dns1123_subdomain(step) {
            errors.push(FieldError::invalid(&field, given, format!("segment[{index}]: {wrong}")));
        }
    }
}

fn validate_review_versions(versions: &[&str], errors: &mut Vec<FieldError>) {
    let path = "spec.conversion.conversionReviewVersions";
    if versions.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    for (index, version) in versions.iter().enumerate() {
        let field = format!("{path}[{index}]");
        if versions.iter().take(index).any(|other| other == version) {
            errors.push(FieldError::invalid(field, *version, "duplicate version"));
            continue;
        }
        for wrong in dns1035_label(version) {
            errors.push(FieldError::invalid(&field, *version, wrong));
        }
    }
    if !versions.iter().any(|version| matches!(*version, "v1" | "v1beta1")) {
        let given: Vec<Value> = versions.iter().map(|version| Value::from(*version)).collect();
        errors.push(FieldError::invalid(path, given, "must include at least one of v1, v1beta1"));
    }
}
