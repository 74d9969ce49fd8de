//! Generated configuration files: provider and backend.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{
    FileSet, RenderError,
    inspect::RootInspection,
    paths,
    request::{
        AssumeRole, Backend, EffectiveBackend, FileContents, LocalEndpoint, ProviderBlock, RenderRequest,
        RootSource,
    },
};

const PROVIDER_FILE: &str = "capt_provider.tf.json";
const OVERRIDE_FILE: &str = "capt_provider_override.tf.json";
const BACKEND_FILE: &str = "capt_backend.tf.json";

/// Services of the local AWS. The provider would call the real endpoint of a service that is not listed.
const LOCAL_SERVICES: &[&str] = &[
    "acm",
    "autoscaling",
    "cloudwatch",
    "dynamodb",
    "ec2",
    "ecr",
    "eks",
    "elb",
    "elbv2",
    "events",
    "iam",
    "kms",
    "lambda",
    "logs",
    "rds",
    "resourcegroupstaggingapi",
    "route53",
    "s3",
    "secretsmanager",
    "servicequotas",
    "sns",
    "sqs",
    "ssm",
    "sts",
];

/// Whether a file name is reserved for generated files.
pub(super) fn is_reserved(name: &str) -> bool {
    let ours =
        [PROVIDER_FILE, OVERRIDE_FILE, BACKEND_FILE, "terraform.tfvars.json", "upstream.auto.tfvars.json"];
    ours.contains(&name) || name == "varmap.auto.tfvars.json" || name.starts_with("varfile-")
}

// === provider ===

pub(super) fn add_provider(request: &RenderRequest, root: &RootInspection, files: &mut FileSet) {
    let Some(block) = &request.provider else { return };
    // An unfetched remote root is unknown; an unneeded block is harmless.
    let needed = root.uses_aws
        || request.state_uses_aws
        || !root.is_complete
        || matches!(request.source, RootSource::Module(_));
    if !root.aws_providers.contains(&None) && needed {
        let body = with_local_endpoints(provider_body(block), block);
        files.add(PROVIDER_FILE, config_file(request, json!({"provider": {"aws": body}})));
    }
    if block.local.is_some() && !root.aws_providers.is_empty() {
        let overrides: Vec<Value> = root
            .aws_providers
            .iter()
            .map(|alias| {
                let body: Map<_, _> =
                    alias.iter().map(|alias| ("alias".to_owned(), escaped_literal(alias))).collect();
                with_local_endpoints(body, block)
            })
            .collect();
        files.add(OVERRIDE_FILE, config_file(request, json!({"provider": {"aws": overrides}})));
    }
}

fn provider_body(block: &ProviderBlock) -> Map<String, Value> {
    let ProviderBlock {
        region,
        local: _,
        keys_from_environment: _,
        assume_roles,
        default_tags,
        allowed_account_ids,
    } = block;
    let mut body = Map::new();
    body.insert("region".to_owned(), escaped_literal(region));
    if !assume_roles.is_empty() {
        body.insert("assume_role".to_owned(), assume_roles.iter().map(assume_role_block).collect());
    }
    if !default_tags.is_empty() {
        body.insert("default_tags".to_owned(), json!([{ "tags": escaped_map(default_tags) }]));
    }
    if !allowed_account_ids.is_empty() {
        let ids: Vec<Value> = allowed_account_ids.iter().map(|id| escaped_literal(id)).collect();
        body.insert("allowed_account_ids".to_owned(), Value::from(ids));
    }
    body
}

/// One `assume_role` block; the provider assumes the roles in order.
fn assume_role_block(role: &AssumeRole) -> Value {
    let AssumeRole { role_arn, session_name, external_id, duration_seconds, tags } = role;
    let texts = [
        ("role_arn", Some(role_arn)),
        ("session_name", session_name.as_ref()),
        ("external_id", external_id.as_ref()),
    ];
    let set = texts.into_iter().filter_map(|(name, value)| Some((name.to_owned(), escaped_literal(value?))));
    let mut body: Map<_, _> = set.collect();
    if let Some(seconds) = duration_seconds {
        body.insert("duration".to_owned(), Value::from(format!("{seconds}s")));
    }
    if !tags.is_empty() {
        body.insert("tags".to_owned(), Value::from(escaped_map(tags)));
    }
    Value::Object(body)
}

fn escaped_map(map: &BTreeMap<String, String>) -> Map<String, Value> {
    map.iter().map(|(key, value)| (escape(key), escaped_literal(value))).collect()
}

/// Adds dummy credentials and the endpoints of the local AWS.
fn with_local_endpoints(mut body: Map<String, Value>, block: &ProviderBlock) -> Value {
    let Some(LocalEndpoint { url }) = &block.local else { return Value::Object(body) };
    let endpoints: Map<_, _> =
        LOCAL_SERVICES.iter().map(|&service| (service.to_owned(), escaped_literal(url))).collect();
    for (name, value) in [
        ("skip_credentials_validation", json!(true)),
        ("skip_metadata_api_check", json!("true")),
        ("skip_region_validation", json!(true)),
        ("s3_use_path_style", json!(true)),
        ("endpoints", json!([endpoints])),
    ] {
        body.insert(name.to_owned(), value);
    }
    if !block.keys_from_environment {
        for name in ["access_key", "secret_key"] {
            body.insert(name.to_owned(), json!("test"));
        }
    }
    Value::Object(body)
}

// === backend ===

pub(super) fn add_backend(
    request: &RenderRequest,
    root: &RootInspection,
    files: &mut FileSet,
) -> Result<EffectiveBackend, RenderError> {
    if let Some(kind) = &root.backend {
        return Ok(EffectiveBackend::Other { kind: kind.clone() });
    }
    let (kind, settings, effective) = match &request.backend {
        Backend::Local { path } => {
            let path = paths::normalize_relative(path)?;
            let place = EffectiveBackend::Local { path: paths::join(&files.root, &path) };
            ("local", [("path".to_owned(), Value::from(path))].into_iter().collect(), place)
        }
        Backend::Other { kind, settings } => {
            (kind.as_str(), settings.clone(), EffectiveBackend::Other { kind: kind.clone() })
        }
    };
    if let Some((name, _)) = settings.iter().find(|(_, value)| has_template(value)) {
        return Err(RenderError::BackendTemplate { name: name.clone() });
    }
    let contents = config_file(request, json!({"terraform": {"backend": {kind: settings}}}));
    // Backend settings may contain credentials.
    let contents = if kind == "local" { contents } else { FileContents::secret(contents.bytes) };
    files.add(BACKEND_FILE, contents);
    Ok(effective)
}

fn has_template(value: &Value) -> bool {
    match value {
        Value::String(text) => escape(text) != *text,
        Value::Array(items) => items.iter().any(has_template),
        Value::Object(map) => map.values().any(has_template),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

// === text ===

/// A string with template sequences escaped, so that terraform reads it literally.
fn escaped_literal(text: &str) -> Value {
    Value::from(escape(text))
}

fn escape(text: &str) -> String {
    text.replace("${", "$${").replace("%{", "%%{")
}

fn config_file(request: &RenderRequest, mut body: Value) -> FileContents {
    let RenderRequest { namespace, name, .. } = request;
    if let Some(map) = body.as_object_mut() {
        let note = format!("Written by capt for the workspace {namespace}/{name}. Changes are lost.");
        map.insert("//".to_owned(), Value::from(note));
    }
    FileContents::plain(to_pretty_json(&body))
}

/// Pretty JSON with sorted keys and a final newline: equal values have equal bytes.
pub(super) fn to_pretty_json(value: &Value) -> Vec<u8> {
    format!("{:#}\n", sort_keys(value)).into_bytes()
}

fn sort_keys(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(sort_keys).collect(),
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(key, _)| key.as_str());
            entries.into_iter().map(|(key, value)| (key.clone(), sort_keys(value))).collect()
        }
        scalar => scalar.clone(),
    }
}
