//! Events of both groups: stored once, in the form of the core group.

use serde_json::{Value, json};

use super::{
    columns::{age_since, event_cells},
    common::{int_at, push_invalid, validate_immutable},
};
use crate::{
    object::{self, MetaAccessor, dns1123_subdomain, qualified_name, str_at},
    registry::{ObjectPart, ResourceStrategy},
    status_error::{ApiResult, FieldError},
};

/// Fields that the two groups name differently: core name first.
const FIELD_NAMES: [(&str, &str); 6] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

const REPORTER_NAMES: (&str, &str) = ("reportingComponent", "reportingController");

/// Strategy of Events of the core group and of `events.k8s.io`.
pub struct EventStrategy {
    pub core: bool,
}

impl ResourceStrategy for EventStrategy {
    fn set_defaults(&self, _event: &mut Value) {}

    fn validate(&self, event: &Value) -> Vec<FieldError> {
        let event = self.to_core_form(event);
        let mut out = self.validate_legacy(&event);
        if self.core {
            return out;
        }
        validate_series(&mut out, &event);
        if str_at(&event, &["eventTime"]).is_empty() {
            out.push(FieldError::required("eventTime", ""));
        }
        let kind = str_at(&event, &["type"]);
        if !matches!(kind, "Normal" | "Warning") {
            out.push(FieldError::invalid("type", "", format!("has invalid value: {kind}")));
        }
        let source = ["component", "host"].iter().any(|key| !str_at(&event, &["source", key]).is_empty());
        let unwanted = [
            ("firstTimestamp", !str_at(&event, &["firstTimestamp"]).is_empty()),
            ("lastTimestamp", !str_at(&event, &["lastTimestamp"]).is_empty()),
            ("count", int_at(&event, &["count"]).unwrap_or_default() != 0),
            ("source", source),
        ];
        let unwanted = unwanted.into_iter().filter(|(_, is_set)| *is_set);
        out.extend(unwanted.map(|(field, _)| FieldError::invalid(field, "", "needs to be unset")));
        out
    }

    fn validate_update(&self, _part: ObjectPart, event: &Value, old: &Value) -> Vec<FieldError> {
        let (event, old) = (self.to_core_form(event), self.to_core_form(old));
        let mut out = self.validate_legacy(&event);
        if self.core {
            return out;
        }
        if event.get("series") != old.get("series") {
            validate_series(&mut out, &event);
        }
        let fixed = [
            "involvedObject",
            "reason",
            "message",
            "source",
            "firstTimestamp",
            "lastTimestamp",
            "count",
            "reason",
            "type",
            "eventTime",
            "action",
            "related",
            "reportingInstance",
        ];
        for field in fixed {
            validate_immutable(&mut out, field, event.get(field), old.get(field));
        }
        validate_immutable(
            &mut out,
            REPORTER_NAMES.1,
            event.get(REPORTER_NAMES.0),
            old.get(REPORTER_NAMES.0),
        );
        out
    }

    fn validate_name(&self, name: &str, prefix: bool) -> Vec<String> {
        // The core group does not validate Event names.
        if self.core { Vec::new() } else { super::common::validate_subdomain_name(name, prefix) }
    }

    fn bumps_generation(&self, _event: &Value, _old: &Value) -> bool {
        false
    }

    fn cells(&self, event: &Value, now: jiff::Timestamp) -> Option<Vec<Value>> {
        let event = self.to_core_form(event);
        Some(event_cells(&event, |at| age_since(at, now)))
    }

    fn from_storage(&self, event: &mut Value) {
        if !self.core {
            rename_fields(event, |(core, newer)| (core, newer));
            set_type(event, "events.k8s.io/v1");
        }
    }

    fn to_storage(&self, event: &mut Value) -> ApiResult<()> {
        if !self.core {
            rename_fields(event, |(core, newer)| (newer, core));
            set_type(event, "v1");
        }
        Ok(())
    }
}

impl EventStrategy {
    fn to_core_form(&self, event: &Value) -> Value {
        let mut event = event.clone();
        if !self.core {
            rename_fields(&mut event, |(core, newer)| (newer, core));
        }
        event
    }

    fn validate_legacy(&self, event: &Value) -> Vec<FieldError> {
        let mut out = Vec::new();
        let namespace = event.namespace();
        let involved = str_at(event, &["involvedObject", "namespace"]);
        let stranger =
            FieldError::invalid("involvedObject.namespace", involved, "does not match event.namespace");
        if str_at(event, &["eventTime"]).is_empty() {
            let matches = match involved {
                "" => matches!(namespace, "" | "default"),
                other => other == namespace,
            };
            if !matches {
                out.push(stranger);
            }
        } else {
            if involved.is_empty() && !matches!(namespace, "default" | "kube-system") {
                out.push(stranger);
            }
            self.validate_reporter(&mut out, event);
        }
        push_invalid(&mut out, "namespace", namespace, dns1123_subdomain(namespace));
        out
    }

    fn validate_reporter(&self, out: &mut Vec<FieldError>, event: &Value) {
        let field = if self.core { REPORTER_NAMES.0 } else { REPORTER_NAMES.1 };
        let controller = str_at(event, &[REPORTER_NAMES.0]);
        if controller.is_empty() {
            out.push(FieldError::required(field, ""));
        }
        push_invalid(out, field, controller, qualified_name(controller));
        for (field, most, required) in [
            ("reportingInstance", 128, true),
            ("action", 128, true),
            ("reason", 128, true),
            ("message", 1024, false),
        ] {
            let length = str_at(event, &[field]).len();
            if required && length == 0 {
                out.push(FieldError::required(field, ""));
            }
            if length > most {
                out.push(FieldError::invalid(field, "", format!("can have at most {most} characters")));
            }
        }
    }
}

fn validate_series(out: &mut Vec<FieldError>, event: &Value) {
    let Some(series) = event.get("series").filter(|series| !series.is_null()) else { return };
    if int_at(series, &["count"]).unwrap_or_default() < 2 {
        out.push(FieldError::invalid("series.count", "", "should be at least 2"));
    }
    if str_at(series, &["lastObservedTime"]).is_empty() {
        out.push(FieldError::required("series.lastObservedTime", ""));
    }
}

/// Renames fields from one group's names to the other's.
fn rename_fields(
    event: &mut Value,
    direction: impl Fn((&'static str, &'static str)) -> (&'static str, &'static str),
) {
    let Some(map) = event.as_object_mut() else { return };
    for pair in FIELD_NAMES.into_iter().chain([REPORTER_NAMES]) {
        let (from, to) = direction(pair);
        if let Some(value) = map.shift_remove(from) {
            map.insert(to.to_owned(), value);
        }
    }
}

fn set_type(event: &mut Value, version: &str) {
    if let Some(place) = object::get_path_mut(event, &["apiVersion"]) {
        *place = json!(version);
    }
}
