//! Shared schema fragments: patterns of AWS names, free-form JSON and bounded maps.
//!
//! A pattern here and the newtype in `model` for the same text must agree on every string; `tests/api_verdicts` checks both.
//! Patterns are preferred to CEL: they use none of the API server's cost budget, and their messages name the field.

use schemars::{Schema, SchemaGenerator, json_schema};

/// An AWS region of any partition: `eu-central-1`, `us-gov-west-1`, `us-isob-east-1`, `eusc-de-east-1`.
pub const REGION: &str = "^[a-z]{2,4}(-[a-z]{2,12}){1,3}-[0-9]{1,2}$";
/// An availability zone inside a region. Local and Wavelength Zones do not match: Fargate does not run there.
pub const ZONE: &str = "^[a-z]{2,4}(-[a-z]{2,12}){1,3}-[0-9]{1,2}[a-z]$";
/// The name of an EKS cluster.
pub const CLUSTER_NAME: &str = "^[0-9A-Za-z][0-9A-Za-z_-]{0,99}$";
/// The name of a Fargate profile; a CEL rule rejects the prefix `eks-`.
pub const PROFILE_NAME: &str = "^[0-9A-Za-z][0-9A-Za-z_-]{0,99}$";
/// The name of an EKS addon.
pub const ADDON_NAME: &str = "^[0-9A-Za-z][0-9A-Za-z_-]{0,99}$";
/// The namespace of a selector: a DNS label with `*` and `?` anywhere.
pub const SELECTOR_NAMESPACE: &str = "^[a-z0-9*?]([a-z0-9*?-]{0,61}[a-z0-9*?])?$";
/// The label value of a selector: a label value with `*` and `?` anywhere.
pub const SELECTOR_LABEL: &str = "^[A-Za-z0-9*?]([A-Za-z0-9*?_.-]{0,253}[A-Za-z0-9*?])?$";
/// The id of a subnet.
pub const SUBNET_ID: &str = "^subnet-[0-9a-f]{8,17}$";
/// The ARN of an IAM role, with any path.
pub const ROLE_ARN: &str = "^arn:aws[a-z-]{0,16}:iam::[0-9]{12}:role/[!-~]{1,512}$";
/// The ARN of a role with path `/`; EKS accepts no other path for pod execution roles.
pub const POD_ROLE_ARN: &str = "^arn:aws[a-z-]{0,16}:iam::[0-9]{12}:role/[0-9A-Za-z+=,.@_-]{1,64}$";
/// The ARN of an IAM user or role.
pub const PRINCIPAL_ARN: &str = "^arn:aws[a-z-]{0,16}:iam::[0-9]{12}:(role|user)/[!-~]{1,512}$";
/// The ARN of an EKS access policy, which AWS owns.
pub const ACCESS_POLICY_ARN: &str = "^arn:aws[a-z-]{0,16}:eks::aws:cluster-access-policy/[0-9A-Za-z]{1,128}$";
/// The ARN of a KMS key.
pub const KEY_ARN: &str = "^arn:aws[a-z-]{0,16}:kms:[a-z0-9-]{1,32}:[0-9]{12}:key/[0-9A-Za-z-]{1,128}$";
/// A valid `metadata.name`.
pub const DNS_SUBDOMAIN: &str = "^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$";
/// A namespace.
pub const DNS_LABEL: &str = "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$";
/// The name of a file without a directory.
pub const FILE_NAME: &str = "^[0-9A-Za-z_-][0-9A-Za-z_.-]{0,127}$";

/// Retention times of `CloudWatch` Logs in days; 0 means for ever.
pub const RETENTION_DAYS: [i32; 23] = [
    0, 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288,
    3653,
];

/// Maximum user tags: AWS allows 50 per resource, and the modules add their own.
pub const MAX_TAGS: usize = 45;
/// Schema bound for the profiles of one cluster. Not the quota (a setting): CEL cost estimation needs a bound.
pub const MAX_PROFILES: usize = 100;
/// Schema bound for the selectors of a profile; see [`MAX_PROFILES`].
pub const MAX_SELECTORS: usize = 50;
/// Schema bound for the labels of a selector; see [`MAX_PROFILES`].
pub const MAX_LABELS: usize = 50;
/// Schema bound for the subnets of one object.
pub const MAX_SUBNETS: usize = 32;

/// Any JSON value.
pub(super) fn anything(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "x-kubernetes-preserve-unknown-fields": true })
}

/// A JSON object with any content.
pub(super) fn any_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// Tags of an AWS resource.
pub(super) fn tags(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": MAX_TAGS,
        "additionalProperties": { "type": "string", "maxLength": 256 },
        "x-kubernetes-validations": [{
            "rule": "self.all(key, size(key) >= 1 && size(key) <= 128 && !key.startsWith('aws:'))",
            "message": "a tag key has 1 to 128 characters and does not start with aws:"
        }]
    })
}

/// Labels of a Fargate selector.
pub(super) fn selector_labels(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": MAX_LABELS,
        "additionalProperties": { "type": "string", "minLength": 1, "maxLength": 255, "pattern": SELECTOR_LABEL },
        "x-kubernetes-validations": [{
            "rule": "self.all(key, size(key) >= 1 && size(key) <= 127)",
            "message": "a label key has 1 to 127 characters"
        }]
    })
}

/// A list of subnet ids without duplicates.
pub(super) fn subnet_ids(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": MAX_SUBNETS,
        "x-kubernetes-list-type": "set",
        "items": { "type": "string", "maxLength": 24, "pattern": SUBNET_ID }
    })
}

/// A number of days that `CloudWatch` Logs accepts.
pub(super) fn retention_days(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "integer", "format": "int32", "enum": RETENTION_DAYS })
}

/// Conditions as upstream copied them from Crossplane: like `metav1.Condition`, but the message is optional.
pub(super) fn workspace_conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["lastTransitionTime", "reason", "status", "type"],
            "properties": {
                "lastTransitionTime": { "type": "string", "format": "date-time" },
                "message": { "type": "string" },
                "observedGeneration": { "type": "integer", "format": "int64" },
                "reason": { "type": "string" },
                "status": { "type": "string" },
                "type": { "type": "string" }
            }
        }
    })
}
