//! Events of both groups: one storage, in the form of the core group.

use serde_json::{Value, json};

use super::{
    columns::{ago, events},
    common::{complain, int, unchanged},
};
use crate::{
    failure::{Answer, FieldError},
    object::{self, Meta, dns1123_subdomain, qualified_name, text},
    registry::{Part, Rules},
};

/// Fields that the two groups call differently: core name first.
const NAMES: [(&str, &str); 6] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

const CONTROLLER: (&str, &str) = ("reportingComponent", "reportingController");

/// An Event of the core group, or of `events.k8s.io`.
pub struct Event {
    pub core: bool,
}

impl Rules for Event {
    fn default(&self, _event: &mut Value) {}

    fn check(&self, event: &Value) -> Vec<FieldError> {
        let event = self.core_form(event);
        let mut out = self.check_legacy(&event);
        if self.core {
            return out;
        }
        check_series(&mut out, &event);
        if text(&event, &["eventTime"]).is_empty() {
            out.push(FieldError::required("eventTime", ""));
        }
        let kind = text(&event, &["type"]);
        if !matches!(kind, "Normal" | "Warning") {
            out.push(FieldError::invalid("type", "", format!("has invalid value: {kind}")));
        }
        let source = ["component", "host"].iter().any(|key| !text(&event, &["source", key]).is_empty());
        let unwanted = [
            ("firstTimestamp", !text(&event, &["firstTimestamp"]).is_empty()),
            ("lastTimestamp", !text(&event, &["lastTimestamp"]).is_empty()),
            ("count", int(&event, &["count"]).unwrap_or_default() != 0),
            ("source", source),
        ];
        let unwanted = unwanted.into_iter().filter(|(_, is_set)| *is_set);
        out.extend(unwanted.map(|(field, _)| FieldError::invalid(field, "", "needs to be unset")));
        out
    }

    fn check_update(&self, _part: Part, event: &Value, old: &Value) -> Vec<FieldError> {
        let (event, old) = (self.core_form(event), self.core_form(old));
        let mut out = self.check_legacy(&event);
        if self.core {
            return out;
        }
        if event.get("series") != old.get("series") {
            check_series(&mut out, &event);
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
            unchanged(&mut out, field, event.get(field), old.get(field));
        }
        unchanged(&mut out, CONTROLLER.1, event.get(CONTROLLER.0), old.get(CONTROLLER.0));
        out
    }

    fn check_name(&self, name: &str, prefix: bool) -> Vec<String> {
        // The core group has never checked the names of its Events.
        if self.core { Vec::new() } else { super::common::subdomain_name(name, prefix) }
    }

    fn is_new_generation(&self, _event: &Value, _old: &Value) -> bool {
        false
    }

    fn cells(&self, event: &Value, now: jiff::Timestamp) -> Option<Vec<Value>> {
        let event = self.core_form(event);
        Some(events(&event, |at| ago(at, now)))
    }

    fn from_storage(&self, event: &mut Value) {
        if !self.core {
            rename(event, |(core, newer)| (core, newer));
            set_type(event, "events.k8s.io/v1");
        }
    }

    fn to_storage(&self, event: &mut Value) -> Answer<()> {
        if !self.core {
            rename(event, |(core, newer)| (newer, core));
            set_type(event, "v1");
        }
        Ok(())
    }
}

impl Event {
    fn core_form(&self, event: &Value) -> Value {
        let mut event = event.clone();
        if !self.core {
            rename(&mut event, |(core, newer)| (newer, core));
        }
        event
    }

    fn check_legacy(&self, event: &Value) -> Vec<FieldError> {
        let mut out = Vec::new();
        let namespace = event.namespace();
        let involved = text(event, &["involvedObject", "namespace"]);
        let stranger =
            FieldError::invalid("involvedObject.namespace", involved, "does not match event.namespace");
        if text(event, &["eventTime"]).is_empty() {
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
            self.check_reporter(&mut out, event);
        }
        complain(&mut out, "namespace", namespace, dns1123_subdomain(namespace));
        out
    }

    fn check_reporter(&self, out: &mut Vec<FieldError>, event: &Value) {
        let field = if self.core { CONTROLLER.0 } else { CONTROLLER.1 };
        let controller = text(event, &[CONTROLLER.0]);
        if controller.is_empty() {
            out.push(FieldError::required(field, ""));
        }
        complain(out, field, controller, qualified_name(controller));
        for (field, most, required) in [
            ("reportingInstance", 128, true),
            ("action", 128, true),
            ("reason", 128, true),
            ("message", 1024, false),
        ] {
            let length = text(event, &[field]).len();
            if required && length == 0 {
                out.push(FieldError::required(field, ""));
            }
            if length > most {
                out.push(FieldError::invalid(field, "", format!("can have at most {most} characters")));
            }
        }
    }
}

fn check_series(out: &mut Vec<FieldError>, event: &Value) {
    let Some(series) = event.get("series").filter(|series| !series.is_null()) else { return };
    if int(series, &["count"]).unwrap_or_default() < 2 {
        out.push(FieldError::invalid("series.count", "", "should be at least 2"));
    }
    if text(series, &["lastObservedTime"]).is_empty() {
        out.push(FieldError::required("series.lastObservedTime", ""));
    }
}

/// Moves fields from one group's names to the other's.
fn rename(
    event: &mut Value,
    direction: impl Fn((&'static str, &'static str)) -> (&'static str, &'static str),
) {
    let Some(map) = event.as_object_mut() else { return };
    for pair in NAMES.into_iter().chain([CONTROLLER]) {
        let (from, to) = direction(pair);
        if let Some(value) = map.shift_remove(from) {
            map.insert(to.to_owned(), value);
        }
    }
}

fn set_type(event: &mut Value, version: &str) {
    if let Some(place) = object::at_mut(event, &["apiVersion"]) {
        *place = json!(version);
    }
}
