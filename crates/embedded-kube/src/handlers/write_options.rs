//! Validates the query parameters of writes, with kube-apiserver's texts.

use serde_json::Value;

use crate::{
    request::{FieldValidation, Request, RequestOptions},
    status_error::{ApiResult, FieldError, FieldErrorKind, StatusError},
};

/// Maximum length of a field manager name.
const MAX_MANAGER_BYTES: usize = 128;

/// Parsed options of a write.
#[derive(Debug, Clone)]
pub struct WriteOptions {
    pub dry_run: bool,
    pub validation: FieldValidation,
    pub manager: String,
    pub api_version: String,
}

impl WriteOptions {
    /// `kind` is `CreateOptions`, `UpdateOptions` or `PatchOptions`; `extra` contains errors that come first.
    pub fn read(request: &Request, kind: &str, extra: Vec<FieldError>) -> ApiResult<Self> {
        let options = &request.options;
        let mut errors = extra;
        errors.extend(check_manager(&options.field_manager));
        errors.extend(check_dry_run(options));
        let validation = match options.field_validation.as_str() {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                errors.push(FieldError::not_supported(
                    "fieldValidation",
                    other,
                    &["", "Ignore", "Strict", "Warn"],
                ));
                FieldValidation::Warn
            }
        };
        reject_invalid(kind, &errors)?;
        Ok(Self {
            dry_run: !options.dry_run.is_empty(),
            validation,
            manager: field_manager(request),
            api_version: request.resource.api_version(),
        })
    }
}

/// Returns an error with the kind of the options, if there are any errors.
pub fn reject_invalid(kind: &str, errors: &[FieldError]) -> ApiResult<()> {
    if errors.is_empty() { Ok(()) } else { Err(StatusError::invalid("meta.k8s.io", kind, "", errors)) }
}

pub fn check_dry_run(options: &RequestOptions) -> Vec<FieldError> {
    if options.dry_run.iter().all(|value| value == "All") {
        return Vec::new();
    }
    let given: Vec<Value> = options.dry_run.iter().cloned().map(Value::String).collect();
    vec![FieldError::not_supported("dryRun", Value::Array(given), &["All"])]
}

fn check_manager(manager: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if manager.len() > MAX_MANAGER_BYTES {
        errors.push(FieldError::new(
            FieldErrorKind::TooLong,
            "fieldManager",
            None,
            format!("may not be more than {MAX_MANAGER_BYTES} bytes"),
        ));
    }
    for (place, letter) in manager.char_indices().filter(|(_, letter)| letter.is_control()) {
        let detail = format!("invalid character U+{:04X} (at position {place})", u32::from(letter));
        errors.push(FieldError::invalid("fieldManager", manager, detail));
    }
    errors
}

/// The given field manager, or else the `User-Agent` up to the first slash.
fn field_manager(request: &Request) -> String {
    if !request.options.field_manager.is_empty() {
        return request.options.field_manager.clone();
    }
    let agent = request.agent.split('/').next().unwrap_or_default();
    let printable = agent.chars().filter(|letter| !letter.is_control());
    let mut name = String::new();
    for letter in printable {
        if name.len() + letter.len_utf8() > MAX_MANAGER_BYTES {
            break;
        }
        name.push(letter);
    }
    name
}
