//! Patterns and bounds of fields, shared by the CRD schema and `sandbox::validate`.

use schemars::{Schema, SchemaGenerator, json_schema};

/// A DNS label: names of sandboxes, forks, endpoints.
pub const DNS_LABEL: &str = "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$";
/// A DNS subdomain, as in `metadata.name`.
pub const DNS_SUBDOMAIN: &str = "^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$";
/// A routing key, or empty.
pub const ROUTING_KEY: &str = "^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)?$";
/// A TTL.
pub const TTL: &str = "^[1-9][0-9]{0,9}[mhdw]$";
/// Zero to ten minutes, in seconds or minutes.
pub const GRACE: &str = "^(0|[0-9]{1,2}s|[1-5][0-9]{2}s|600s|[0-9]m|10m)$";
/// `host:port`; an IPv6 address is in brackets.
pub const HOST_PORT: &str = "^([A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?|\\[[0-9A-Fa-f:.]{2,45}\\]):([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])$";
/// The name of an environment variable, as in Kubernetes.
pub const ENV_NAME: &str = "^[-._A-Za-z][-._A-Za-z0-9]*$";
/// The name of a header in lower case, as in HTTP/2.
pub const HEADER_NAME: &str = "^[a-z0-9!#$%&'*+.^_`|~-]{1,64}$";
/// A header and its value: `sd-override: true`.
pub const HEADER_LINE: &str = "^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}:[ \\t]*[!-~]([ -~]{0,254}[!-~])?$";
/// The name of a query parameter, or empty.
pub const QUERY_PARAM: &str = "^[A-Za-z0-9._~-]{0,64}$";
/// The key of a label, with or without a prefix.
pub const LABEL_KEY: &str =
    "^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$";
/// A label value with the wildcards `*` and `?`.
pub const LABEL_GLOB: &str = "^[A-Za-z0-9*?._-]{0,63}$";
/// A quantity as Kubernetes writes it.
pub const QUANTITY: &str = "^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))))?$";

/// Maximum name length of a sandbox and a route group, which is part of host names and of the names of forks.
pub const MAX_NAME: usize = 30;
/// Maximum forks, local workloads and virtual workloads of a sandbox, each.
pub const MAX_FORKS: usize = 16;
/// Maximum endpoints of an object.
pub const MAX_ENDPOINTS: usize = 16;
/// Maximum clauses of a match, and labels of a clause.
pub const MAX_CLAUSES: usize = 16;
/// Maximum ports of a local workload.
pub const MAX_MAPPINGS: usize = 16;
/// Maximum length of a patch.
pub const MAX_PATCH: usize = 65_536;
/// Maximum length of a variable's value.
pub const MAX_VALUE: usize = 32_768;

/// Resource quantities: numbers, or strings such as `250m`.
pub(super) fn quantities(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 16,
        "additionalProperties": { "x-kubernetes-int-or-string": true, "pattern": QUANTITY }
    })
}

/// Regular expressions on the keys of labels.
pub(super) fn expressions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 16,
        "items": { "type": "string", "minLength": 1, "maxLength": 253 }
    })
}
