//! Query parameters that every write has, checked with the texts of the real server.

use serde_json::Value;

use crate::{
    failure::{Answer, Failure, FieldError, FieldErrorKind},
    request::{FieldValidation, Options, Request},
};

/// Longest name of a field manager.
const MANAGER_LIMIT: usize = 128;

/// What the options of a write say.
#[derive(Debug, Clone)]
pub struct WriteOptions {
    pub dry_run: bool,
    pub validation: FieldValidation,
    pub manager: String,
    pub api_version: String,
}

impl WriteOptions {
    /// `kind` is `CreateOptions`, `UpdateOptions` or `PatchOptions`; `extra` are faults that come first.
    pub fn read(request: &Request, kind: &str, extra: Vec<FieldError>) -> Answer<Self> {
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
        refuse(kind, &errors)?;
        Ok(Self {
            dry_run: !options.dry_run.is_empty(),
            validation,
            manager: manager(request),
            api_version: request.resource.api_version(),
        })
    }
}

/// Refuses with the kind of the options, if there is anything to refuse.
pub fn refuse(kind: &str, errors: &[FieldError]) -> Answer<()> {
    if errors.is_empty() { Ok(()) } else { Err(Failure::invalid("meta.k8s.io", kind, "", errors)) }
}

pub fn check_dry_run(options: &Options) -> Vec<FieldError> {
    if options.dry_run.iter().all(|value| value == "All") {
        return Vec::new();
    }
    let given: Vec<Value> = options.dry_run.iter().cloned().map(Value::String).collect();
    vec![FieldError::not_supported("dryRun", Value::Array(given), &["All"])]
}

fn check_manager(manager: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if manager.len() > MANAGER_LIMIT {
        errors.push(FieldError::new(
            FieldErrorKind::TooLong,
            "fieldManager",
            None,
            format!("may not be more than {MANAGER_LIMIT} bytes"),
        ));
    }
    for (place, letter) in manager.char_indices().filter(|(_, letter)| letter.is_control()) {
        let detail = format!("invalid character U+{:04X} (at position {place})", u32::from(letter));
        errors.push(FieldError::invalid("fieldManager", manager, detail));
    }
    errors
}

/// The named manager, else what the client calls itself before the first slash.
fn manager(request: &Request) -> String {
    if !request.options.field_manager.is_empty() {
        return request.options.field_manager.clone();
    }
    let agent = request.agent.split('/').next().unwrap_or_default();
    let printable = agent.chars().filter(|letter| !letter.is_control());
    let mut name = String::new();
    for letter in printable {
        if name.len() + letter.len_utf8() > MANAGER_LIMIT {
            break;
        }
        name.push(letter);
    }
    name
}
