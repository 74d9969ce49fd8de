//! What is wrong with fields, one sentence each.

use std::{collections::BTreeSet, sync::LazyLock};

use regex::Regex;

use crate::{
    api::{Endpoint, Mapping, Override, WorkloadRef, conditions::reasons, schema},
    refusal::Refusal,
};

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

/// What is wrong with an object.
#[derive(Debug, Default)]
pub(super) struct Problems(Vec<String>);

impl Problems {
    pub(super) fn add(&mut self, path: &str, what: impl AsRef<str>) {
        self.0.push(format!("{path} {}", what.as_ref()));
    }

    /// A text of `1..=longest` characters that matches.
    pub(super) fn text(&mut self, path: &str, text: &str, (pattern, longest): (&Pattern, usize)) {
        if text.is_empty() {
            self.add(path, "must not be empty");
        } else {
            self.perhaps(path, text, (pattern, longest));
        }
    }

    /// A text that matches, or whatever the pattern says of nothing.
    pub(super) fn perhaps(&mut self, path: &str, text: &str, (pattern, longest): (&Pattern, usize)) {
        self.length(path, text, longest);
        if !pattern.as_ref().is_some_and(|it| it.is_match(text)) {
            self.add(
                path,
                format!("{text:?} does not match {}", pattern.as_ref().map_or("", |it| it.as_str())),
            );
        }
    }

    /// A text of any content.
    pub(super) fn length(&mut self, path: &str, text: &str, longest: usize) {
        if text.chars().count() > longest {
            self.add(path, format!("has more than {longest} characters"));
        }
    }

    /// A list.
    pub(super) fn count(&mut self, path: &str, count: usize, most: usize) {
        if count > most {
            self.add(path, format!("has {count} entries, and {most} is the limit"));
        }
    }

    /// A list whose names must differ.
    pub(super) fn different<'a>(&mut self, path: &str, what: &str, names: impl IntoIterator<Item = &'a str>) {
        let mut seen = BTreeSet::new();
        for name in names {
            if !seen.insert(name) {
                self.add(path, format!("have the {what} {name:?} twice"));
            }
        }
    }

    pub(super) fn endpoints(&mut self, endpoints: &[Endpoint]) {
        self.count("endpoints", endpoints.len(), schema::MAX_ENDPOINTS);
        self.different("endpoints", "name", endpoints.iter().map(|it| it.name.as_str()));
        for (index, endpoint) in endpoints.iter().enumerate() {
            self.text(&format!("endpoints[{index}].name"), &endpoint.name, (&DNS_LABEL, 30));
            self.length(&format!("endpoints[{index}].target"), &endpoint.target, 512);
        }
    }

    pub(super) fn workload(&mut self, path: &str, workload: &WorkloadRef) {
        self.text(&format!("{path}.name"), &workload.name, (&DNS_SUBDOMAIN, 253));
        if let Some(namespace) = &workload.namespace {
            self.text(&format!("{path}.namespace"), namespace, (&DNS_LABEL, 63));
        }
    }

    pub(super) fn mappings(&mut self, path: &str, mappings: &[Mapping]) {
        if mappings.is_empty() {
            self.add(path, "needs at least one mapping");
        }
        self.count(path, mappings.len(), schema::MAX_MAPPINGS);
        let ports: Vec<String> = mappings.iter().map(|it| it.port.to_string()).collect();
        self.different(path, "port", ports.iter().map(String::as_str));
        for (index, mapping) in mappings.iter().enumerate() {
            if !(1..=65_535).contains(&mapping.port) {
                self.add(
                    &format!("{path}[{index}].port"),
                    format!("{} is not between 1 and 65535", mapping.port),
                );
            }
            self.text(&format!("{path}[{index}].toLocal"), &mapping.to_local, (&HOST_PORT, 264));
        }
    }

    pub(super) fn over(&mut self, path: &str, over: &Override) {
        let Override { require_header, except_status } = over;
        if require_header.is_some() == except_status.is_some() {
            self.add(path, "needs exactly one of requireHeader and exceptStatus");
        }
        if let Some(line) = require_header {
            self.text(&format!("{path}.requireHeader"), line, (&HEADER_LINE, 400));
        }
        if let Some(codes) = except_status {
            let path = format!("{path}.exceptStatus");
            if codes.is_empty() {
                self.add(&path, "must not be empty");
            }
            self.count(&path, codes.len(), 32);
            if let Some(code) = codes.iter().find(|it| !(100..=599).contains(*it)) {
                self.add(&path, format!("{code} is not between 100 and 599"));
            }
        }
    }

    /// All that was found.
    pub(super) fn end(self) -> Result<(), Refusal> {
        if self.0.is_empty() {
            return Ok(());
        }
        Err(Refusal::new(reasons::INVALID_SPEC, format!("spec.{}", self.0.join("; spec."))))
    }
}

/// The name of an object that is a part of host names.
pub(super) fn object_name(name: &str, longest: usize) -> Result<(), Refusal> {
    if name.len() > longest {
        let what = format!("metadata.name has at most {longest} characters, and {name:?} has {}", name.len());
        return Err(Refusal::new(reasons::INVALID_SPEC, what));
    }
    if !crate::target::is_label(name) {
        let what =
            format!("metadata.name {name:?} has other characters than small letters, digits and hyphens");
        return Err(Refusal::new(reasons::INVALID_SPEC, what));
    }
    Ok(())
}
