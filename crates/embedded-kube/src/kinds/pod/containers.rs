//! Faults of containers, their probes and their volumes.

use serde_json::Value;

use super::check::one_of;
use crate::{
    failure::{FieldError, FieldErrorKind},
    kinds::{
        common::{complain, has, int, list, map, not_negative, port_number, protocol},
        quantity::Quantity,
        service::check::{number_or_name as service_port_number_or_name, port_name as service_port_name},
    },
    object::{dns1123_label, dns1123_subdomain, qualified_name, text},
};

const SOURCES: [&str; 5] = ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];

/// One container, and the volumes it may mount.
pub struct Container<'a, 'b> {
    pub field: &'b str,
    pub value: &'a Value,
    pub volumes: &'b [&'a str],
}

impl<'a> Container<'a, '_> {
    /// A container that runs with the Pod.
    pub fn check(&self, out: &mut Vec<FieldError>, names: &mut Vec<&'a str>) {
        self.check_common(out);
        self.check_name(out, names);
        self.check_probes(out);
    }

    /// A container that runs before; only one that stays may have probes.
    pub fn check_init(&self, out: &mut Vec<FieldError>, names: &mut Vec<&'a str>) {
        self.check_common(out);
        let field = self.field;
        let policy = text(self.value, &["restartPolicy"]);
        if has(self.value, &["restartPolicy"]) && policy != "Always" {
            let known = ["Always"];
            out.push(FieldError::not_supported(format!("{field}.restartPolicy"), policy, &known));
        }
        self.check_name(out, names);
        if policy == "Always" {
            self.check_probes(out);
            return;
        }
        for key in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            if has(self.value, &[key]) {
                let detail = "may not be set for init containers without restartPolicy=Always";
                out.push(FieldError::forbidden(format!("{field}.{key}"), detail));
            }
        }
    }

    fn check_name(&self, out: &mut Vec<FieldError>, names: &mut Vec<&'a str>) {
        let name = text(self.value, &["name"]);
        if names.contains(&name) {
            out.push(FieldError::duplicate(format!("{}.name", self.field), name));
        } else {
            names.push(name);
        }
    }

    fn check_common(&self, out: &mut Vec<FieldError>) {
        let Self { field, value: container, .. } = self;
        let word = |key: &str| text(container, &[key]);
        match word("name") {
            "" => out.push(FieldError::required(format!("{field}.name"), "")),
            name => complain(out, &format!("{field}.name"), name, dns1123_label(name)),
        }
        if word("image").is_empty() {
            out.push(FieldError::required(format!("{field}.image"), ""));
        }
        let known = ["File", "FallbackToLogsOnError"];
        one_of(out, &format!("{field}.terminationMessagePolicy"), word("terminationMessagePolicy"), &known);
        ports(out, &format!("{field}.ports"), list(container, &["ports"]));
        for (index, variable) in list(container, &["env"]).iter().enumerate() {
            env(out, &format!("{field}.env[{index}]"), variable);
        }
        for (index, source) in list(container, &["envFrom"]).iter().enumerate() {
            env_from(out, &format!("{field}.envFrom[{index}]"), source);
        }
        self.check_mounts(out);
        let known = ["Always", "IfNotPresent", "Never"];
        one_of(out, &format!("{field}.imagePullPolicy"), word("imagePullPolicy"), &known);
        if let Some(resources) = container.get("resources") {
            self::resources(out, &format!("{field}.resources"), resources);
        }
    }

    fn check_mounts(&self, out: &mut Vec<FieldError>) {
        let mut paths = Vec::new();
        for (index, mount) in list(self.value, &["volumeMounts"]).iter().enumerate() {
            let field = format!("{}.volumeMounts[{index}]", self.field);
            let (name, path) = (text(mount, &["name"]), text(mount, &["mountPath"]));
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

    fn check_probes(&self, out: &mut Vec<FieldError>) {
        for key in ["postStart", "preStop"] {
            if let Some(hook) = self.value.get("lifecycle").and_then(|cycle| cycle.get(key)) {
                let field = format!("{}.lifecycle.{key}", self.field);
                handler(out, &field, hook, &["exec", "httpGet", "tcpSocket", "sleep"]);
            }
        }
        for key in ["livenessProbe", "readinessProbe", "startupProbe"] {
            let Some(probe) = self.value.get(key).filter(|probe| !probe.is_null()) else { continue };
            let field = format!("{}.{key}", self.field);
            handler(out, &field, probe, &["exec", "httpGet", "tcpSocket", "grpc"]);
            for number in [
                "initialDelaySeconds",
                "timeoutSeconds",
                "periodSeconds",
                "successThreshold",
                "failureThreshold",
            ] {
                not_negative(out, &format!("{field}.{number}"), int(probe, &[number]));
            }
            let success = int(probe, &["successThreshold"]).unwrap_or(1);
            if key != "readinessProbe" && success != 1 {
                out.push(FieldError::invalid(format!("{field}.successThreshold"), success, "must be 1"));
            }
        }
    }
}

fn handler(out: &mut Vec<FieldError>, field: &str, handler: &Value, kinds: &[&str]) {
    let given: Vec<&str> = kinds.iter().copied().filter(|kind| has(handler, &[kind])).collect();
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
            "exec" if list(action, &["command"]).is_empty() => {
                out.push(FieldError::required(format!("{path}.command"), ""));
            }
            "httpGet" => {
                service_port_number_or_name(out, &format!("{path}.port"), port);
                let scheme = text(action, &["scheme"]);
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

fn ports(out: &mut Vec<FieldError>, field: &str, ports: &[Value]) {
    let mut names = Vec::new();
    for (index, port) in ports.iter().enumerate() {
        let field = format!("{field}[{index}]");
        let name = text(port, &["name"]);
        if !name.is_empty() {
            let wrong = service_port_name(name);
            if !wrong.is_empty() {
                complain(out, &format!("{field}.name"), name, wrong);
            } else if names.contains(&name) {
                out.push(FieldError::duplicate(format!("{field}.name"), name));
            } else {
                names.push(name);
            }
        }
        match int(port, &["containerPort"]).unwrap_or_default() {
            0 => out.push(FieldError::required(format!("{field}.containerPort"), "")),
            number => port_number(out, &format!("{field}.containerPort"), number),
        }
        if let Some(number) = int(port, &["hostPort"]).filter(|number| *number != 0) {
            port_number(out, &format!("{field}.hostPort"), number);
        }
        protocol(out, &format!("{field}.protocol"), text(port, &["protocol"]));
    }
}

fn env_name(out: &mut Vec<FieldError>, field: &str, name: &str) {
    if !name.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=') {
        let detail = "a valid environment variable name must consist only of printable ASCII characters other than '='";
        out.push(FieldError::invalid(field, name, detail));
    }
}

fn env(out: &mut Vec<FieldError>, field: &str, variable: &Value) {
    match text(variable, &["name"]) {
        "" => out.push(FieldError::required(format!("{field}.name"), "")),
        name => env_name(out, &format!("{field}.name"), name),
    }
    let Some(from) = variable.get("valueFrom").filter(|from| !from.is_null()) else { return };
    let field = format!("{field}.valueFrom");
    let given: Vec<&str> = SOURCES.into_iter().filter(|source| has(from, &[source])).collect();
    for source in &given {
        let path = format!("{field}.{source}");
        match *source {
            "fieldRef" => field_ref(out, &path, from.get("fieldRef").unwrap_or(&Value::Null)),
            "configMapKeyRef" | "secretKeyRef" => {
                for key in ["name", "key"] {
                    if text(from, &[source, key]).is_empty() {
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
        _ if !text(variable, &["value"]).is_empty() => "may not be specified when `value` is not empty",
        1 => return,
        _ => "may not have more than one field specified at a time",
    };
    out.push(FieldError::invalid(field, "", detail));
}

fn field_ref(out: &mut Vec<FieldError>, field: &str, reference: &Value) {
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
    let path = text(reference, &["fieldPath"]);
    let subscript =
        ["metadata.labels['", "metadata.annotations['"].iter().any(|start| path.starts_with(start));
    if path.is_empty() {
        out.push(FieldError::required(format!("{field}.fieldPath"), ""));
    } else if !KNOWN.contains(&path) && !subscript {
        let detail = format!("error converting fieldPath: field label not supported: {path}");
        out.push(FieldError::invalid(format!("{field}.fieldPath"), path, detail));
    }
}

fn env_from(out: &mut Vec<FieldError>, field: &str, source: &Value) {
    let prefix = text(source, &["prefix"]);
    env_name(out, &format!("{field}.prefix"), prefix);
    let given: Vec<&str> =
        ["configMapRef", "secretRef"].into_iter().filter(|key| has(source, &[key])).collect();
    for key in &given {
        if text(source, &[key, "name"]).is_empty() {
            out.push(FieldError::required(format!("{field}.{key}.name"), ""));
        }
    }
    // The real server names the list, not the entry.
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

fn is_for_containers(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-")
}

/// Amounts that cannot be shared: what is asked for is what is given.
fn is_exact(name: &str) -> bool {
    !is_native(name) || name.starts_with("hugepages-")
}

fn resources(out: &mut Vec<FieldError>, field: &str, resources: &Value) {
    for (name, amount) in map(resources, &["limits"]) {
        resource(out, &format!("{field}.limits[{name}]"), name, amount);
    }
    let mut exact_without_limit = false;
    for (name, amount) in map(resources, &["requests"]) {
        resource(out, &format!("{field}.requests[{name}]"), name, amount);
        let Some(request) = Quantity::of(amount) else { continue };
        let limit = resources.get("limits").and_then(|limits| limits.get(name)).and_then(Quantity::of);
        let path = format!("{field}.requests");
        match limit {
            None => exact_without_limit |= is_exact(name),
            Some(limit) if is_exact(name) && request != limit => {
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

fn resource(out: &mut Vec<FieldError>, field: &str, name: &str, amount: &Value) {
    let wrong = qualified_name(name);
    let is_known = is_for_containers(name);
    let is_malformed = !wrong.is_empty();
    complain(out, field, name, wrong);
    if !is_malformed && !name.contains('/') && !is_known {
        let words = [
            "must be a standard resource type or fully qualified",
            "must be a standard resource for containers",
        ];
        out.extend(words.map(|detail| FieldError::invalid(field, name, detail)));
    }
    let Some(quantity) = Quantity::of(amount) else { return };
    if quantity.is_negative() {
        let detail = "must be greater than or equal to 0";
        out.push(FieldError::invalid(field, quantity.to_string(), detail));
    } else if !is_native(name) && !quantity.is_whole() {
        out.push(FieldError::invalid(field, quantity.to_string(), "must be an integer"));
    }
}

// === volumes ===

/// Checks volumes; gives the names of those that can be mounted.
pub fn volumes<'a>(out: &mut Vec<FieldError>, field: &str, volumes: &'a [Value]) -> Vec<&'a str> {
    let mut names = Vec::new();
    for (index, volume) in volumes.iter().enumerate() {
        let field = format!("{field}[{index}]");
        let mut wrong = Vec::new();
        sources(&mut wrong, &field, volume);
        let name = text(volume, &["name"]);
        if name.is_empty() {
            wrong.push(FieldError::required(format!("{field}.name"), ""));
        } else {
            complain(&mut wrong, &format!("{field}.name"), name, dns1123_label(name));
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

fn sources(out: &mut Vec<FieldError>, field: &str, volume: &Value) {
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
        let value = text(source, &[required]);
        if value.is_empty() {
            out.push(FieldError::required(format!("{path}.{required}"), ""));
        } else if kind == "persistentVolumeClaim" {
            complain(out, &format!("{path}.claimName"), value, dns1123_subdomain(value));
        }
    }
}
