//! Collects validation errors of fields.

use std::{collections::BTreeSet, sync::LazyLock};

use capt_kinds::sandbox::{Endpoint, Mapping, Override, WorkloadRef, conditions::reasons, schema};
use regex::Regex;

use crate::rejection::Rejection;

/// A pattern of the schema.
pub(super) type Pattern = LazyLock<Option<Regex>>;

macro_rules! patterns {
    ($($name:ident)*) => {$(
        pub(super) static $name: Pattern = LazyLock::new(|| Regex::new(schema::$name).ok());
    )*};
}

patterns! {
    DNS_LABEL DNS_SUBDOMAIN ROUTING_KEY TTL GRACE HOST_PORT ENV_NAME HEADER_NAME HEADER_LINE QUERY_PARAM LABEL_KEY LABEL_GLOB
    QUANTITY
}

/// The validation errors of an object.
#[derive(Debug, Default)]
pub(super) struct Problems(Vec<String>);

impl Problems {
    pub(super) fn add(&mut self, path: &str, what: impl AsRef<str>) {
        self.0.push(format!("{path} {}", what.as_ref()));
    }

    /// A non-empty string of at most `longest` characters that matches the pattern.
    pub(super) fn check_text(&mut self, path: &str, text: &str, (pattern, longest): (&Pattern, usize)) {
        if text.is_empty() {
            self.add(path, "must not be empty");
        } else {
            self.check_pattern(path, text, (pattern, longest));
        }
    }

    /// A string that matches the pattern; the pattern decides whether it may be empty.
    pub(super) fn check_pattern(&mut self, path: &str, text: &str, (pattern, longest): (&Pattern, usize)) {
        self.check_length(path, text, longest);
        if !pattern.as_ref().is_some_and(|it| it.is_match(text)) {
            self.add(
                path,
                format!("{text:?} does not match {}", pattern.as_ref().map_or("", |it| it.as_str())),
            );
        }
    }

    /// A string of any content.
    pub(super) fn check_length(&mut self, path: &str, text: &str, longest: usize) {
        if text.chars().count() > longest {
            self.add(path, format!("has more than {longest} characters"));
        }
    }

    /// A list of at most `most` entries.
    pub(super) fn check_count(&mut self, path: &str, count: usize, most: usize) {
        if count > most {
            self.add(path, format!("has {count} entries, and {most} is the limit"));
        }
    }

    /// A list with unique names.
    pub(super) fn check_unique<'a>(
        &mut self,
        path: &str,
        what: &str,
        names: impl IntoIterator<Item = &'a str>,
    ) {
        let mut seen = BTreeSet::new();
        for name in names {
            if !seen.insert(name) {
                self.add(path, format!("have the {what} {name:?} twice"));
            }
        }
    }

    pub(super) fn check_endpoints(&mut self, endpoints: &[Endpoint]) {
        self.check_count("endpoints", endpoints.len(), schema::MAX_ENDPOINTS);
        self.check_unique("endpoints", "name", endpoints.iter().map(|it| it.name.as_str()));
        for (index, endpoint) in endpoints.iter().enumerate() {
            self.check_text(&format!("endpoints[{index}].name"), &endpoint.name, (&DNS_LABEL, 30));
            self.check_length(&format!("endpoints[{index}].target"), &endpoint.target, 512);
        }
    }

    pub(super) fn check_workload(&mut self, path: &str, workload: &WorkloadRef) {
        self.check_text(&format!("{path}.name"), &workload.name, (&DNS_SUBDOMAIN, 253));
        if let Some(namespace) = &workload.namespace {
            self.check_text(&format!("{path}.namespace"), namespace, (&DNS_LABEL, 63));
        }
    }

    pub(super) fn check_mappings(&mut self, path: &str, mappings: &[Mapping]) {
        if mappings.is_empty() {
            self.add(path, "needs at least one mapping");
        }
        self.check_count(path, mappings.len(), schema::MAX_MAPPINGS);
        let ports: Vec<String> = mappings.iter().map(|it| it.port.to_string()).collect();
        self.check_unique(path, "port", ports.iter().map(String::as_str));
        for (index, mapping) in mappings.iter().enumerate() {
            if !(1..=65_535).contains(&mapping.port) {
                self.add(
                    &format!("{path}[{index}].port"),
                    format!("{} is not between 1 and 65535", mapping.port),
                );
            }
            self.check_text(&format!("{path}[{index}].toLocal"), &mapping.to_local, (&HOST_PORT, 264));
        }
    }

    pub(super) fn check_override(&mut self, path: &str, over: &Override) {
        let Override { require_header, except_status } = over;
        if require_header.is_some() == except_status.is_some() {
            self.add(path, "needs exactly one of requireHeader and exceptStatus");
        }
        if let Some(line) = require_header {
            self.check_text(&format!("{path}.requireHeader"), line, (&HEADER_LINE, 400));
        }
        if let Some(codes) = except_status {
            let path = format!("{path}.exceptStatus");
            if codes.is_empty() {
                self.add(&path, "must not be empty");
            }
            self.check_count(&path, codes.len(), 32);
            if let Some(code) = codes.iter().find(|it| !(100..=599).contains(*it)) {
                self.add(&path, format!("{code} is not between 100 and 599"));
            }
        }
    }

    /// A rejection with all errors, if any.
    pub(super) fn into_result(self) -> Result<(), Rejection> {
        if self.0.is_empty() {
            return Ok(());
        }
        Err(Rejection::new(reasons::INVALID_SPEC, format!("spec.{}", self.0.join("; spec."))))
    }
}

/// The name of an object, which is part of host names.
pub(super) fn check_object_name(name: &str, longest: usize) -> Result<(), Rejection> {
    if name.len() > longest {
        let what = format!("metadata.name has at most {longest} characters, and {name:?} has {}", name.len());
        return Err(Rejection::new(reasons::INVALID_SPEC, what));
    }
    if !crate::target::is_dns_label(name) {
        let what =
            format!("metadata.name {name:?} has other characters than small letters, digits and hyphens");
        return Err(Rejection::new(reasons::INVALID_SPEC, what));
    }
    Ok(())
}
