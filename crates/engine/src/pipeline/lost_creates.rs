//! Creations whose outcome is unknown: provider, gateway or everything was killed before the answer.
//!
//! The object is looked up by its name, if it has one that only it can have, or by its tags. Tags prove that an object is ours
//! if the tag of the workspace is among them.

use provider_gateway::replay::{RecordedChange, ResourceValue};
use serde_json::{Map, Value, json};
use terraform_driver::{planfile::DataSourceValue, render::FileContents};

/// Tag on the resources of the built-in modules: `NAMESPACE/NAME/ID` of their workspace.
pub(super) const WORKSPACE_TAG: &str = "capt.x-k8s.io/workspace";

/// How a lost object can be found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Lookup {
    /// By an import id that follows from its configuration.
    Id(String),
    /// By the tags of its creation, through this data source.
    Tags(TagLookup),
    /// Not at all.
    Impossible,
}

/// A data source that finds objects by their tags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TagLookup {
    source: &'static str,
    /// Attribute with the ids or ARNs.
    attribute: &'static str,
    /// Type in the resource groups tagging API.
    tagged_type: Option<&'static str>,
    tags: Vec<(String, String)>,
}

/// What a lookup by tags found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    /// No object has these tags: it was not created.
    Nothing,
    /// One object, ours.
    One(String),
    /// Objects that may be ours or not.
    Unclear(Vec<String>),
}

/// Data sources of EC2 that take tags; they answer with ids.
const EC2_SOURCES: &[(&str, &str, &str)] = &[
    ("aws_eip", "aws_eips", "allocation_ids"),
    ("aws_nat_gateway", "aws_nat_gateways", "ids"),
    ("aws_route_table", "aws_route_tables", "ids"),
    ("aws_security_group", "aws_security_groups", "ids"),
    ("aws_subnet", "aws_subnets", "ids"),
    ("aws_vpc", "aws_vpcs", "ids"),
];

/// Types of the resource groups tagging API, which answers with ARNs.
const TAGGED_TYPES: &[(&str, &str)] = &[
    ("aws_flow_log", "ec2:vpc-flow-log"),
    ("aws_iam_openid_connect_provider", "iam:oidc-provider"),
    ("aws_internet_gateway", "ec2:internet-gateway"),
    ("aws_kms_key", "kms:key"),
];

impl Lookup {
    /// How to find the object of a creation.
    pub(super) fn of(kind: &str, planned: &ResourceValue) -> Self {
        if let Some(id) = import_id(kind, planned) {
            return Self::Id(id);
        }
        let tags = planned_tags(planned);
        if tags.is_empty() {
            return Self::Impossible;
        }
        let ec2 = EC2_SOURCES.iter().find(|(resource, ..)| *resource == kind);
        let tagged = TAGGED_TYPES.iter().find(|(resource, _)| *resource == kind);
        let (source, attribute, tagged_type) = match (ec2, tagged) {
            (Some((_, source, attribute)), _) => (*source, *attribute, None),
            (None, Some((_, tagged_type))) => {
                ("aws_resourcegroupstaggingapi_resources", "resource_tag_mapping_list", Some(*tagged_type))
            }
            (None, None) => return Self::Impossible,
        };
        Self::Tags(TagLookup { source, attribute, tagged_type, tags })
    }
}

/// Import id of an object whose name follows from its configuration, and belongs to it alone.
fn import_id(kind: &str, planned: &ResourceValue) -> Option<String> {
    let text = |name: &str| planned.text(name);
    let joined = |left: &str, separator: &str, right: &str| {
        Some(format!("{}{separator}{}", text(left)?, text(right)?))
    };
    match kind {
        "aws_cloudwatch_log_group" | "aws_eks_cluster" | "aws_iam_role" | "aws_kms_alias" => {
            text("name").map(str::to_owned)
        }
        "aws_eks_access_entry" => joined("cluster_name", ":", "principal_arn"),
        "aws_eks_access_policy_association" => {
            Some(format!("{}#{}", joined("cluster_name", "#", "principal_arn")?, text("policy_arn")?))
        }
        "aws_eks_addon" => joined("cluster_name", ":", "addon_name"),
        "aws_eks_fargate_profile" => joined("cluster_name", ":", "fargate_profile_name"),
        "aws_iam_role_policy" => joined("role", ":", "name"),
        "aws_iam_role_policy_attachment" => joined("role", "/", "policy_arn"),
        "aws_route" => {
            ["destination_cidr_block", "destination_ipv6_cidr_block", "destination_prefix_list_id"]
                .iter()
                .find_map(|destination| joined("route_table_id", "_", destination))
        }
        "aws_route_table_association" => {
            ["subnet_id", "gateway_id"].iter().find_map(|place| joined(place, "/", "route_table_id"))
        }
        _ => None,
    }
}

/// All tags of a value.
fn planned_tags(value: &ResourceValue) -> Vec<(String, String)> {
    let all = ["tags_all", "tags"].iter().find_map(|name| match value.attribute(name) {
        Some(ResourceValue::Map(map)) if !map.is_empty() => Some(map),
        _ => None,
    });
    let text = |value: &ResourceValue| match value {
        ResourceValue::Scalar(Value::String(text)) => Some(text.clone()),
        _ => None,
    };
    let pairs = all.into_iter().flatten();
    pairs.filter_map(|(key, value)| Some((key.clone(), text(value)?))).collect()
}

/// Whether an imported object is the one that was to be created: it has its tags, and an alias its key.
pub(super) fn is_same(planned: &ResourceValue, imported: &ResourceValue) -> bool {
    let tags = planned_tags(imported);
    let key = planned.text("target_key_id").is_none_or(|key| imported.text("target_key_id") == Some(key));
    key && planned_tags(planned).iter().all(|tag| tags.contains(tag))
}

/// Whether tags prove that an object with them is of this workspace.
pub(super) fn proves_ownership(planned: &ResourceValue, workspace: &str) -> bool {
    let of_workspace = |value: &str| value.strip_prefix(workspace).is_some_and(|id| id.starts_with('/'));
    planned_tags(planned).iter().any(|(key, value)| key == WORKSPACE_TAG && of_workspace(value))
}

/// Name of the data source for a change.
fn source_name(change: &RecordedChange) -> String {
    format!("capt_lookup_{}", change.call)
}

/// A file with the data sources that look for these changes; `None` if no change is looked up by tags.
pub(super) fn lookup_file<'a>(changes: impl Iterator<Item = &'a RecordedChange>) -> Option<FileContents> {
    let mut sources: Map<String, Value> = Map::new();
    for change in changes {
        let Lookup::Tags(lookup) = Lookup::of(&change.kind, &change.planned) else { continue };
        let body = match lookup.tagged_type {
            Some(kind) => json!({
                "resource_type_filters": [kind],
                "tag_filter": lookup.tags.iter().map(|(key, value)| json!({
                    "key": escape(key), "values": [escape(value)] })).collect::<Vec<_>>(),
            }),
            // Tags with characters that mean something in a filter of EC2 are compared exactly by `tags`.
            None => {
                json!({ "tags": lookup.tags.iter().map(|(key, value)| (escape(key), Value::from(escape(value))))
                .collect::<Map<_, _>>() })
            }
        };
        let of_kind = sources.entry(lookup.source).or_insert_with(|| json!({}));
        if let Value::Object(of_kind) = of_kind {
            of_kind.insert(source_name(change), body);
        }
    }
    let text = json!({ "data": sources }).to_string();
    (!sources.is_empty()).then(|| FileContents::plain(text.into_bytes()))
}

/// Terraform evaluates templates in strings of JSON configurations.
pub(super) fn escape(text: &str) -> String {
    text.replace("${", "$${").replace("%{", "%%{")
}

/// The objects that the data source of a change found, without those in the state.
pub(super) fn found_by_tags(
    change: &RecordedChange,
    data: &[DataSourceValue],
    (known, workspace): (&[String], &str),
) -> Option<Found> {
    let Lookup::Tags(lookup) = Lookup::of(&change.kind, &change.planned) else { return None };
    let source = data.iter().find(|source| source.name == source_name(change))?;
    let listed = source.attributes.get(lookup.attribute)?.as_array()?;
    let ids = listed.iter().filter_map(|item| match item {
        Value::String(id) => Some(id.clone()),
        mapping => Some(id_of_arn(&change.kind, mapping.get("resource_arn")?.as_str()?)),
    });
    let ids: Vec<String> = ids.filter(|id| !known.contains(id)).collect();
    Some(match ids.as_slice() {
        [] => Found::Nothing,
        [id] if proves_ownership(&change.planned, workspace) => Found::One(id.clone()),
        _ => Found::Unclear(ids),
    })
}

/// The import id of an object by its ARN.
fn id_of_arn(kind: &str, arn: &str) -> String {
    if kind == "aws_iam_openid_connect_provider" {
        return arn.to_owned();
    }
    arn.rsplit('/').next().unwrap_or(arn).to_owned()
}

#[cfg(test)]
#[path = "lost_creates/tests.rs"]
mod tests;
