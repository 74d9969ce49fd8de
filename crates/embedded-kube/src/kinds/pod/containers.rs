//! Validates containers, their probes and volumes.

use serde_json::Value;

use super::validation::validate_enum;
use crate::{
    kinds::{
        common::{
            has_path, int_at, list_at, map_at, push_invalid, validate_non_negative, validate_port_number,
            validate_protocol,
        },
        service::validation::{
            validate_port_name as service_port_name, validate_target_port as service_port_number_or_name,
        },
    },
    object::{dns1123_label, dns1123_subdomain, qualified_name, str_at},
    quantity::Quantity,
    status_error::{FieldError, FieldErrorKind},
};

const SOURCES: [&str; 5] = ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];

/// A container, and the volumes it may mount.
pub struct Container<'a, 'b> {
    pub field: &'b str,
    pub value: &'a Value,
    pub volumes: &'b [&'a str],
}

impl<'a> Container<'a, '_> {
    /// Validates a main container.
    pub fn validate(&self, out: &mut Vec<FieldError>, names: &mut Vec<&'a str>) {
        self.validate_common(out);
        self.validate_name(out, names);
        self.validate_probes(out);
    }

    /// Validates an init container; only a sidecar may have probes.
    pub fn validate_init(&self, out: &mut Vec<FieldError>, names: &mut Vec<&'a str>) {
        self.validate_common(out);
        let field = self.field;
        let policy = str_at(self.value, &["restartPolicy"]);
        if has_path(self.value, &["restartPolicy"]) && policy != "Always" {
            let known = ["Always"];
            out.push(FieldError::not_supported(format!("{field}.restartPolicy"), policy, &known));
        }
        self.validate_name(out, names);
        if policy == "Always" {
            self.validate_probes(out);
            return;
        }
        for key in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            if has_path(self.value, &[key]) {
                let detail = "may not be set for init containers without restartPolicy=Always";
                out.push(FieldError::forbidden(format!("{field}.{key}"), detail));
            }
        }
    }

    fn validate_name(&self, out: &mut Vec<FieldError>, names: &mut Vec<&'a str>) {
        let name = str_at(self.value, &["name"]);
        if names.contains(&name) {
            out.push(FieldError::duplicate(format!("{}.name", self.field), name));
        } else {
            names.push(name);
        }
    }

    fn validate_common(&self, out: &mut Vec<FieldError>) {
        let Self { field, value: container, .. } = self;
        let word = |key: &str| str_at(container, &[key]);
        match word("name") {
            "" => out.push(FieldError::required(format!("{field}.name"), "")),
            name => push_invalid(out, &format!("{field}.name"), name, dns1123_label(name)),
        }
        if word("image").is_empty() {
            out.push(FieldError::required(format!("{field}.image"), ""));
        }
        let known = ["File", "FallbackToLogsOnError"];
        validate_enum(
            out,
            &format!("{field}.terminationMessagePolicy"),
            word("terminationMessagePolicy"),
            &known,
        );
        validate_ports(out, &format!("{field}.ports"), list_at(container, &["ports"]));
        for (index, variable) in list_at(container, &["env"]).iter().enumerate() {
            validate_env(out, &format!("{field}.env[{index}]"), variable);
        }
        for (index, source) in list_at(container, &["envFrom"]).iter().enumerate() {
            validate_env_from(out, &format!("{field}.envFrom[{index}]"), source);
        }
        self.validate_mounts(out);
        let known = ["Always", "IfNotPresent", "Never"];
        validate_enum(out, &format!("{field}.imagePullPolicy"), word("imagePullPolicy"), &known);
        if let Some(resources) = container.get("resources") {
            self::validate_resources(out, &format!("{field}.resources"), resources);
        }
    }

    fn validate_mounts(&self, out: &mut Vec<FieldError>) {
        let mut paths = Vec::new();
        for (index, mount) in list_at(self.value, &["volumeMounts"]).iter().enumerate() {
            let field = format!("{}.volumeMounts[{index}]", self.field);
            let (name, path) = (str_at(mount, &["name"]), str_at(mount, &["mountPath"]));
            if name.is_empty() {
                out.push(FieldError::required(format!("{field}.name"), ""));
            }
            if !self.volumes.contains(&name) {
                let value = Some(name.into());
                out.push(FieldError::new(FieldErrorKind::NotFound, format!("{field}.name"), value, ""));
            }
            if path.is_empty() {
                out.push(FieldError::required(format!("{field}.mountPath"), ""));
            }
            if paths.contains(&path) {
                out.push(FieldError::invalid(format!("{field}.mountPath"), path, "must be unique"));
            }
            paths.push(path);
        }
    }

    fn validate_probes(&self, out: &mut Vec<FieldError>) {
        for key in ["postStart", "preStop"] {
            if let Some(hook) = self.value.get("lifecycle").and_then(|cycle| cycle.get(key)) {
                let field = format!("{}.lifecycle.{key}", self.field);
                validate_handler(out, &field, hook, &["exec", "httpGet", "tcpSocket", "sleep"]);
            }
        }
        for key in ["livenessProbe", "readinessProbe", "startupProbe"] {
            let Some(probe) = self.value.get(key).filter(|probe| !probe.is_null()) else { continue };
            let field = format!("{}.{key}", self.field);
            validate_handler(out, &field, probe, &["exec", "httpGet", "tcpSocket", "grpc"]);
            for number in [
                "initialDelaySeconds",
                "timeoutSeconds",
                "periodSeconds",
                "successThreshold",
                "failureThreshold",
            ] {
                validate_non_negative(out, &format!("{field}.{number}"), int_at(probe, &[number]));
            }
            let success = int_at(probe, &["successThreshold"]).unwrap_or(1);
            if key != "readinessProbe" && success != 1 {
                out.push(FieldError::invalid(format!("{field}.successThreshold"), success, "must be 1"));
            }
        }
    }
}

fn validate_handler(out: &mut Vec<FieldError>, field: &str, handler: &Value, kinds: &[&str]) {
    let given: Vec<&str> = kinds.iter().copied().filter(|kind| has_path(handler, &[kind])).collect();
    if given.is_empty() {
        out.push(FieldError::required(field, "must specify a handler type"));
    }
    for (index, kind) in given.into_iter().enumerate() {
        let path = format!("{field}.{kind}");
        let action = handler.get(kind).unwrap_or(&Value::Null);
        let port = action.get("port").unwrap_or(&Value::Null);
        match kind {
            _ if index > 0 => {
                out.push(FieldError::forbidden(path, "may not specify more than 1 handler type"));
            }
            "exec" if list_at(action, &["command"]).is_empty() => {
                out.push(FieldError::required(format!("{path}.command"), ""));
            }
            "httpGet" => {
                service_port_number_or_name(out, &format!("{path}.port"), port);
                let scheme = str_at(action, &["scheme"]);
                if !matches!(scheme, "HTTP" | "HTTPS") {
                    let known = ["HTTP", "HTTPS"];
                    out.push(FieldError::not_supported(format!("{path}.scheme"), scheme, &known));
                }
            }
            "tcpSocket" | "grpc" => service_port_number_or_name(out, &format!("{path}.port"), port),
            _ => {}
        }
    }
}

fn validate_ports(out: &mut Vec<FieldError>, field: &str, ports: &[Value]) {
    let mut names = Vec::new();
    for (index, port) in ports.iter().enumerate() {
        let field = format!("{field}[{index}]");
        let name = str_at(port, &["name"]);
        if !name.is_empty() {
            let wrong = service_port_name(name);
            if !wrong.is_empty() {
                push_invalid(out, &format!("{field}.name"), name, wrong);
            } else if names.contains(&name) {
                out.push(FieldError::duplicate(format!("{field}.name"), name));
            } else {
                names.push(name);
            }
        }
        match int_at(port, &["containerPort"]).unwrap_or_default() {
            0 => out.push(FieldError::required(format!("{field}.containerPort"), "")),
            number => validate_port_number(out, &format!("{field}.containerPort"), number),
        }
        if let Some(number) = int_at(port, &["hostPort"]).filter(|number| *number != 0) {
            validate_port_number(out, &format!("{field}.hostPort"), number);
        }
        validate_protocol(out, &format!("{field}.protocol"), str_at(port, &["protocol"]));
    }
}

fn validate_env_name(out: &mut Vec<FieldError>, field: &str, name: &str) {
    if !name.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=') {
        let detail = "a valid environment variable name must consist only of printable ASCII characters other than '='";
        out.push(FieldError::invalid(field, name, detail));
    }
}

fn validate_env(out: &mut Vec<FieldError>, field: &str, variable: &Value) {
    match str_at(variable, &["name"]) {
        "" => out.push(FieldError::required(format!("{field}.name"), "")),
        name => validate_env_name(out, &format!("{field}.name"), name),
    }
    let Some(from) = variable.get("valueFrom").filter(|from| !from.is_null()) else { return };
    let field = format!("{field}.valueFrom");
    let given: Vec<&str> = SOURCES.into_iter().filter(|source| has_path(from, &[source])).collect();
    for source in &given {
        let path = format!("{field}.{source}");
        match *source {
            "fieldRef" => validate_field_ref(out, &path, from.get("fieldRef").unwrap_or(&Value::Null)),
            "configMapKeyRef" | "secretKeyRef" => {
                for key in ["name", "key"] {
                    if str_at(from, &[source, key]).is_empty() {
                        out.push(FieldError::required(format!("{path}.{key}"), ""));
                    }
                }
            }
            _ => {}
        }
    }
    let detail = match given.len() {
        0 => {
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        }
        _ if !str_at(variable, &["value"]).is_empty() => "may not be specified when `value` is not empty",
        1 => return,
        _ => "may not have more than one field specified at a time",
    };
    out.push(FieldError::invalid(field, "", detail));
}

fn validate_field_ref(out: &mut Vec<FieldError>, field: &str, reference: &Value) {
    const KNOWN: [&str; 9] = [
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.serviceAccountName",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
    ];
    let path = str_at(reference, &["fieldPath"]);
    let subscript =
        ["metadata.labels['", "metadata.annotations['"].iter().any(|start| path.starts_with(start));
    if path.is_empty() {
        out.push(FieldError::required(format!("{field}.fieldPath"), ""));
    } else if !KNOWN.contains(&path) && !subscript {
        let detail = format!("error converting fieldPath: field label not supported: {path}");
        out.push(FieldError::invalid(format!("{field}.fieldPath"), path, detail));
    }
}

fn validate_env_from(out: &mut Vec<FieldError>, field: &str, source: &Value) {
    let prefix = str_at(source, &["prefix"]);
    validate_env_name(out, &format!("{field}.prefix"), prefix);
    let given: Vec<&str> =
        ["configMapRef", "secretRef"].into_iter().filter(|key| has_path(source, &[key])).collect();
    for key in &given {
        if str_at(source, &[key, "name"]).is_empty() {
            out.push(FieldError::required(format!("{field}.{key}.name"), ""));
        }
    }
    // kube-apiserver names the list, not the entry.
    let field = field.rsplit_once('[').map_or(field, |(list, _)| list);
    match given.len() {
        0 => out.push(FieldError::invalid(field, "", "must specify one of: `configMapRef` or `secretRef`")),
        1 => {}
        _ => {
            let detail = "may not have more than one field specified at a time";
            out.push(FieldError::invalid(field, "", detail));
        }
    }
}

// === resources ===

fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

fn is_container_resource(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-")
}

/// Resources that cannot be overcommitted: request and limit must be equal.
fn is_non_overcommittable(name: &str) -> bool {
    !is_native(name) || name.starts_with("hugepages-")
}

fn validate_resources(out: &mut Vec<FieldError>, field: &str, resources: &Value) {
    for (name, amount) in map_at(resources, &["limits"]) {
        validate_resource(out, &format!("{field}.limits[{name}]"), name, amount);
    }
    let mut exact_without_limit = false;
    for (name, amount) in map_at(resources, &["requests"]) {
        validate_resource(out, &format!("{field}.requests[{name}]"), name, amount);
        let Some(request) = Quantity::from_value(amount) else { continue };
        let limit =
            resources.get("limits").and_then(|limits| limits.get(name)).and_then(Quantity::from_value);
        let path = format!("{field}.requests");
        match limit {
            None => exact_without_limit |= is_non_overcommittable(name),
            Some(limit) if is_non_overcommittable(name) && request != limit => {
                let detail = format!("must be equal to {name} limit of {limit}");
                out.push(FieldError::invalid(path, request.to_string(), detail));
            }
            Some(limit) if request > limit => {
                let detail = format!("must be less than or equal to {name} limit of {limit}");
                out.push(FieldError::invalid(path, request.to_string(), detail));
            }
            Some(_) => {}
        }
    }
    if exact_without_limit {
        let detail = "Limit must be set for non overcommitable resources";
        out.push(FieldError::required(format!("{field}.limits"), detail));
    }
}

fn validate_resource(out: &mut Vec<FieldError>, field: &str, name: &str, amount: &Value) {
    let wrong = qualified_name(name);
    let is_known = is_container_resource(name);
    let is_malformed = !wrong.is_empty();
    push_invalid(out, field, name, wrong);
    if !is_malformed && !name.contains('/') && !is_known {
        let words = [
            "must be a standard resource type or fully qualified",
            "must be a standard resource for containers",
        ];
        out.extend(words.map(|detail| FieldError::invalid(field, name, detail)));
    }
    let Some(quantity) = Quantity::from_value(amount) else { return };
    if quantity.is_negative() {
        let detail = "must be greater than or equal to 0";
        out.push(FieldError::invalid(field, quantity.to_string(), detail));
    } else if !is_native(name) && !quantity.is_whole() {
        out.push(FieldError::invalid(field, quantity.to_string(), "must be an integer"));
    }
}

// === volumes ===

/// Validates volumes; returns the names of those that can be mounted.
pub fn validate_volumes<'a>(out: &mut Vec<FieldError>, field: &str, volumes: &'a [Value]) -> Vec<&'a str> {
    let mut names = Vec::new();
    for (index, volume) in volumes.iter().enumerate() {
        let field = format!("{field}[{index}]");
        let mut wrong = Vec::new();
        validate_volume_source(&mut wrong, &field, volume);
        let name = str_at(volume, &["name"]);
        if name.is_empty() {
            wrong.push(FieldError::required(format!("{field}.name"), ""));
        } else {
            push_invalid(&mut wrong, &format!("{field}.name"), name, dns1123_label(name));
        }
        if names.contains(&name) {
            wrong.push(FieldError::duplicate(format!("{field}.name"), name));
        }
        if wrong.is_empty() {
            names.push(name);
        }
        out.extend(wrong);
    }
    names
}

fn validate_volume_source(out: &mut Vec<FieldError>, field: &str, volume: &Value) {
    let given =
        volume.as_object().into_iter().flatten().filter(|(key, value)| *key != "name" && !value.is_null());
    for (index, (kind, source)) in given.enumerate() {
        let path = format!("{field}.{kind}");
        if index > 0 {
            out.push(FieldError::forbidden(path, "may not specify more than 1 volume type"));
            continue;
        }
        let required = match kind.as_str() {
            "hostPath" => "path",
            "secret" => "secretName",
            "configMap" => "name",
            "persistentVolumeClaim" => "claimName",
            "csi" => "driver",
            _ => continue,
        };
        let value = str_at(source, &[required]);
        if value.is_empty() {
            out.push(FieldError::required(format!("{path}.{required}"), ""));
        } else if kind == "persistentVolumeClaim" {
            push_invalid(out, &format!("{path}.claimName"), value, dns1123_subdomain(value));
        }
    }
}
