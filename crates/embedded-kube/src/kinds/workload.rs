//! Deployments and `ReplicaSet`s.

use serde_json::{Value, json};

use super::{
    columns::replica_cells,
    common::{
        copy_from_old, has_path, int_at, list_at, map_at, restore_other_part, set_default,
        validate_immutable, validate_label_selector, validate_non_negative, validate_subdomain_name,
    },
    pod::{defaults, validation},
};
use crate::{
    object::{self, MetaAccessor, MetaAccessorMut, dns1123_label, str_at},
    registry::{ObjectPart, ResourceStrategy},
    selectors::LabelSelector,
    status_error::{FieldError, FieldErrorKind},
};

/// Strategy of Deployment and `ReplicaSet`.
pub struct WorkloadStrategy {
    pub deployment: bool,
}

impl ResourceStrategy for WorkloadStrategy {
    fn set_defaults(&self, object: &mut Value) {
        let Some(spec) = object.get_mut("spec") else { return };
        if let Some(pod) = spec.get_mut("template").and_then(|template| template.get_mut("spec")) {
            defaults::default_pod_spec(pod);
        }
        set_default(spec, "replicas", 1);
        if !self.deployment {
            return;
        }
        set_default(spec, "strategy", json!({}));
        if let Some(strategy) = spec.get_mut("strategy") {
            set_default(strategy, "type", "RollingUpdate");
            if str_at(strategy, &["type"]) == "RollingUpdate" {
                set_default(strategy, "rollingUpdate", json!({}));
                if let Some(rolling) = strategy.get_mut("rollingUpdate") {
                    set_default(rolling, "maxUnavailable", "25%");
                    set_default(rolling, "maxSurge", "25%");
                }
            }
        }
        set_default(spec, "revisionHistoryLimit", 10);
        set_default(spec, "progressDeadlineSeconds", 600);
    }

    fn prepare_create(&self, object: &mut Value) {
        object.drop_field("status");
        object.set_meta("generation", 1);
    }

    fn prepare_update(&self, part: ObjectPart, object: &mut Value, old: &Value) {
        restore_other_part(part, object, old);
        if part == ObjectPart::Status
            && self.deployment
            && let (Some(new), Some(old)) = (object.get_mut("metadata"), old.get("metadata"))
        {
            copy_from_old(new, old, "labels");
        }
    }

    fn validate(&self, object: &Value) -> Vec<FieldError> {
        let mut out = Vec::new();
        let spec = object.get("spec").unwrap_or(&Value::Null);
        validate_non_negative(&mut out, "spec.replicas", int_at(spec, &["replicas"]));
        if !self.deployment {
            validate_non_negative(&mut out, "spec.minReadySeconds", int_at(spec, &["minReadySeconds"]));
        }
        validate_selector_and_template(&mut out, spec);
        if self.deployment {
            validate_deployment_strategy(&mut out, spec.get("strategy").unwrap_or(&Value::Null));
            validate_non_negative(&mut out, "spec.minReadySeconds", int_at(spec, &["minReadySeconds"]));
            validate_non_negative(
                &mut out,
                "spec.revisionHistoryLimit",
                int_at(spec, &["revisionHistoryLimit"]),
            );
            validate_progress_deadline(&mut out, spec);
        }
        out
    }

    fn validate_update(&self, part: ObjectPart, object: &Value, old: &Value) -> Vec<FieldError> {
        if part == ObjectPart::Status {
            return self.validate_status(object, old);
        }
        let mut out = self.validate(object);
        let selector = |object: &Value| object::get_path(object, &["spec", "selector"]).cloned();
        validate_immutable(&mut out, "spec.selector", selector(object).as_ref(), selector(old).as_ref());
        out
    }

    fn validate_name(&self, name: &str, prefix: bool) -> Vec<String> {
        validate_subdomain_name(name, prefix)
    }

    fn bumps_generation(&self, object: &Value, old: &Value) -> bool {
        let annotations = |object: &Value| object::get_path(object, &["metadata", "annotations"]).cloned();
        // Annotations of a Deployment are copied to its ReplicaSets.
        object.get("spec") != old.get("spec") || (self.deployment && annotations(object) != annotations(old))
    }

    fn warnings(&self, object: &Value) -> Vec<String> {
        let wrong = dns1123_label(object.name());
        if wrong.is_empty() || object.name().is_empty() {
            return Vec::new();
        }
        let why = "this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended";
        vec![format!("metadata.name: {why}: [{}]", wrong.join(" "))]
    }

    fn cells(&self, object: &Value, now: jiff::Timestamp) -> Option<Vec<Value>> {
        Some(replica_cells(object, now, self.deployment))
    }
}

impl WorkloadStrategy {
    fn validate_status(&self, object: &Value, old: &Value) -> Vec<FieldError> {
        let mut out = Vec::new();
        let number = |key: &str| int_at(object, &["status", key]);
        let counted: &[&str] = if self.deployment {
            &[
                "observedGeneration",
                "replicas",
                "updatedReplicas",
                "readyReplicas",
                "availableReplicas",
                "unavailableReplicas",
                "terminatingReplicas",
                "collisionCount",
            ]
        } else {
            &[
                "replicas",
                "fullyLabeledReplicas",
                "readyReplicas",
                "availableReplicas",
                "observedGeneration",
                "terminatingReplicas",
            ]
        };
        for key in counted {
            validate_non_negative(&mut out, &format!("status.{key}"), number(key));
        }
        let first = if self.deployment { "updatedReplicas" } else { "fullyLabeledReplicas" };
        let most = number("replicas").unwrap_or_default();
        for key in [first, "readyReplicas", "availableReplicas"] {
            if let Some(count) = number(key).filter(|count| *count > most) {
                let detail = "cannot be greater than status.replicas";
                out.push(FieldError::invalid(format!("status.{key}"), count, detail));
            }
        }
        let available = number("availableReplicas").unwrap_or_default();
        if available > number("readyReplicas").unwrap_or_default() {
            let detail = "cannot be greater than readyReplicas";
            out.push(FieldError::invalid("status.availableReplicas", available, detail));
        }
        let collisions = |object: &Value| int_at(object, &["status", "collisionCount"]);
        if self.deployment
            && let Some(before) = collisions(old)
            && collisions(object).is_none_or(|now| now < before)
        {
            let now = collisions(object).unwrap_or_default();
            out.push(FieldError::invalid("status.collisionCount", now, "cannot be decremented"));
        }
        out
    }
}

fn validate_selector_and_template(out: &mut Vec<FieldError>, spec: &Value) {
    let selector = spec.get("selector").filter(|selector| !selector.is_null());
    match selector {
        None => out.push(FieldError::required("spec.selector", "")),
        Some(selector) => {
            validate_label_selector(out, "spec.selector", selector);
            let is_empty = map_at(selector, &["matchLabels"]).next().is_none()
                && list_at(selector, &["matchExpressions"]).is_empty();
            if is_empty {
                let detail = "empty selector is invalid for deployment";
                out.push(FieldError::invalid("spec.selector", selector.clone(), detail));
            }
        }
    }
    let Ok(parsed) = LabelSelector::from_value(selector) else {
        let shown = selector.cloned().unwrap_or_default();
        out.push(FieldError::invalid("spec.selector", shown, "invalid label selector"));
        return;
    };
    let template = spec.get("template").unwrap_or(&Value::Null);
    let labels = object::get_path(template, &["metadata", "labels"]);
    if !parsed.is_empty() && !parsed.matches(labels.and_then(Value::as_object)) {
        let detail = "`selector` does not match template `labels`";
        let shown = labels.cloned().unwrap_or_default();
        out.push(FieldError::invalid("spec.template.metadata.labels", shown, detail));
    }
    validation::validate_pod_template(out, "spec.template", template);
    let policy = str_at(template, &["spec", "restartPolicy"]);
    if policy != "Always" {
        let field = "spec.template.spec.restartPolicy";
        out.push(FieldError::not_supported(field, policy, &["Always"]));
    }
    if has_path(template, &["spec", "activeDeadlineSeconds"]) {
        let detail = "activeDeadlineSeconds in ReplicaSet is not Supported";
        out.push(FieldError::forbidden("spec.template.spec.activeDeadlineSeconds", detail));
    }
}

fn validate_deployment_strategy(out: &mut Vec<FieldError>, strategy: &Value) {
    let rolling = strategy.get("rollingUpdate").filter(|rolling| !rolling.is_null());
    match str_at(strategy, &["type"]) {
        "Recreate" => {
            if rolling.is_some() {
                let detail = "may not be specified when strategy `type` is 'Recreate'";
                out.push(FieldError::forbidden("spec.strategy.rollingUpdate", detail));
            }
        }
        "RollingUpdate" => validate_rolling_update(out, rolling.unwrap_or(&Value::Null)),
        other => {
            let shown = json!({"Type": other, "RollingUpdate": rolling});
            let detail = "supported values: \"Recreate\", \"RollingUpdate\"";
            let kind = FieldErrorKind::NotSupported;
            out.push(FieldError::new(kind, "spec.strategy", Some(shown), detail));
        }
    }
}

fn validate_rolling_update(out: &mut Vec<FieldError>, rolling: &Value) {
    let field = |key: &str| format!("spec.strategy.rollingUpdate.{key}");
    let amount = |key: &str| rolling.get(key).cloned().unwrap_or_default();
    for key in ["maxUnavailable", "maxSurge"] {
        match amount(key) {
            Value::String(text) if parse_percent(&text).is_none() => {
                let detail = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
                out.push(FieldError::invalid(field(key), text, detail));
            }
            other => validate_non_negative(out, &field(key), other.as_i64()),
        }
    }
    let number = |key: &str| match amount(key) {
        Value::String(text) => parse_percent(&text).unwrap_or_default(),
        other => other.as_i64().unwrap_or_default(),
    };
    if number("maxUnavailable") == 0 && number("maxSurge") == 0 {
        let detail = "may not be 0 when `maxSurge` is 0";
        out.push(FieldError::invalid(field("maxUnavailable"), amount("maxUnavailable"), detail));
    }
    if let Value::String(text) = amount("maxUnavailable")
        && parse_percent(&text).is_some_and(|percent| percent > 100)
    {
        let detail = "must not be greater than 100%";
        out.push(FieldError::invalid(field("maxUnavailable"), text, detail));
    }
}

fn parse_percent(text: &str) -> Option<i64> {
    let digits = text.strip_suffix('%').filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
    if digits.is_empty() { None } else { Some(digits.parse().unwrap_or(i64::MAX)) }
}

fn validate_progress_deadline(out: &mut Vec<FieldError>, spec: &Value) {
    let Some(seconds) = int_at(spec, &["progressDeadlineSeconds"]) else { return };
    validate_non_negative(out, "spec.progressDeadlineSeconds", Some(seconds));
    if seconds <= int_at(spec, &["minReadySeconds"]).unwrap_or_default() {
        let detail = "must be greater than minReadySeconds";
        out.push(FieldError::invalid("spec.progressDeadlineSeconds", seconds, detail));
    }
}
