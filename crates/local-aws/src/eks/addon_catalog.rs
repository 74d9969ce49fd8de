//! The addons that EKS offers, their versions per Kubernetes version and their configuration keys.

use serde_json::{Value, json};

use super::{
    error::{ApiError, ApiResult},
    pagination::{QueryString, paginate},
    versions::{KubernetesVersion, VERSIONS},
};

struct CatalogEntry {
    name: &'static str,
    kind: &'static str,
    namespace: &'static str,
    /// Newest first; the second is the default. `{}` is replaced by the Kubernetes minor version.
    versions: [&'static str; 3],
    /// Allowed top-level keys of the configuration; empty allows any.
    configuration_keys: &'static [&'static str],
    on_fargate: bool,
}

#[rustfmt::skip]
const ADDONS: [CatalogEntry; 10] = [
    CatalogEntry { name: "amazon-cloudwatch-observability", kind: "observability", namespace: "amazon-cloudwatch", versions: ["v4.7.0-eksbuild.1", "v4.6.0-eksbuild.1", "v4.3.1-eksbuild.1"], configuration_keys: &[], on_fargate: false },
    CatalogEntry { name: "aws-ebs-csi-driver", kind: "storage", namespace: "kube-system", versions: ["v1.53.0-eksbuild.1", "v1.52.1-eksbuild.1", "v1.48.0-eksbuild.2"], configuration_keys: &[], on_fargate: false },
    CatalogEntry { name: "aws-efs-csi-driver", kind: "storage", namespace: "kube-system", versions: ["v2.1.15-eksbuild.1", "v2.1.14-eksbuild.1", "v2.1.11-eksbuild.1"], configuration_keys: &[], on_fargate: false },
    CatalogEntry { name: "aws-mountpoint-s3-csi-driver", kind: "storage", namespace: "kube-system", versions: ["v2.2.1-eksbuild.1", "v2.2.0-eksbuild.1", "v2.0.0-eksbuild.1"], configuration_keys: &[], on_fargate: false },
    CatalogEntry { name: "coredns", kind: "networking", namespace: "kube-system", versions: ["v1.12.4-eksbuild.1", "v1.12.3-eksbuild.1", "v1.11.4-eksbuild.24"], configuration_keys: &["affinity", "autoScaling", "computeType", "corefile", "nodeSelector", "podAnnotations", "podDisruptionBudget", "podLabels", "replicaCount", "resources", "tolerations", "topologySpreadConstraints"], on_fargate: true },
    CatalogEntry { name: "eks-node-monitoring-agent", kind: "observability", namespace: "kube-system", versions: ["v1.4.2-eksbuild.1", "v1.4.1-eksbuild.1", "v1.4.0-eksbuild.2"], configuration_keys: &[], on_fargate: false },
    CatalogEntry { name: "eks-pod-identity-agent", kind: "security", namespace: "kube-system", versions: ["v1.3.10-eksbuild.1", "v1.3.9-eksbuild.3", "v1.3.8-eksbuild.2"], configuration_keys: &[], on_fargate: false },
    CatalogEntry { name: "kube-proxy", kind: "networking", namespace: "kube-system", versions: ["v1.{}.3-eksbuild.2", "v1.{}.1-eksbuild.2", "v1.{}.0-eksbuild.2"], configuration_keys: &["ipvs", "mode", "podAnnotations", "podLabels", "resources", "tolerations"], on_fargate: false },
    CatalogEntry { name: "metrics-server", kind: "observability", namespace: "kube-system", versions: ["v0.8.0-eksbuild.3", "v0.8.0-eksbuild.2", "v0.7.2-eksbuild.4"], configuration_keys: &[], on_fargate: true },
    CatalogEntry { name: "vpc-cni", kind: "networking", namespace: "kube-system", versions: ["v1.20.5-eksbuild.1", "v1.20.4-eksbuild.1", "v1.19.6-eksbuild.7"], configuration_keys: &["affinity", "cri", "enableNetworkPolicy", "enableWindowsIpam", "enableWindowsPrefixDelegation", "env", "eniConfig", "init", "livenessProbeTimeoutSeconds", "minimumWindowsIPTarget", "nodeAgent", "podAnnotations", "podLabels", "readinessProbeTimeoutSeconds", "resources", "tolerations", "warmWindowsIPTarget", "warmWindowsPrefixTarget"], on_fargate: false },
];

fn find_entry(name: &str) -> ApiResult<&'static CatalogEntry> {
    ADDONS.iter().find(|addon| addon.name == name).ok_or_else(|| {
        ApiError::invalid_parameter("Addon specified is not supported").with_field("addonName", name)
    })
}

fn version_names(addon: &CatalogEntry, minor: u32) -> [String; 3] {
    addon.versions.map(|version| version.replace("{}", &minor.to_string()))
}

/// Resolves the version to install: the requested one if it fits the cluster, else the default.
pub(crate) fn resolve_version(
    addon: &str,
    asked: Option<&str>,
    cluster: &KubernetesVersion,
) -> ApiResult<String> {
    let entry = find_entry(addon)?;
    let [newest, default, oldest] = version_names(entry, cluster.minor);
    match asked {
        None => Ok(default),
        Some(asked) if [&newest, &default, &oldest].iter().any(|known| *known == asked) => {
            Ok(asked.to_owned())
        }
        Some(_) => Err(ApiError::invalid_parameter("Addon version specified is not supported")
            .with_field("addonName", addon)),
    }
}

/// Rejects configuration that is not a JSON object or has a top-level key outside the addon's schema.
pub(crate) fn validate_configuration(addon: &str, configuration: Option<&str>) -> ApiResult<()> {
    let Some(text) = configuration.filter(|text| !text.trim().is_empty()) else { return Ok(()) };
    let refuse = |why: String| {
        let message = format!("ConfigurationValue provided in request is not supported: {why}");
        Err(ApiError::invalid_parameter(message).with_field("addonName", addon))
    };
    let Ok(Value::Object(values)) = serde_json::from_str::<Value>(text) else {
        return refuse("Invalid JSON".to_owned());
    };
    let keys = find_entry(addon)?.configuration_keys;
    match values.keys().find(|key| !keys.is_empty() && !keys.contains(&key.as_str())) {
        Some(key) => refuse(format!(
            "Json schema validation failed with error: [$.{key}: is not defined in the schema and the schema does not allow additional properties]"
        )),
        None => Ok(()),
    }
}

pub(crate) fn describe_versions(query: QueryString<'_>) -> ApiResult<Value> {
    let name = query.get("addonName");
    let minor = query.get("kubernetesVersion");
    let kinds = query.get_all("types");
    if let Some(minor) = &minor
        && super::versions::find_version(minor).is_none()
    {
        return Err(ApiError::invalid_parameter(format!("unsupported Kubernetes version {minor}")));
    }
    let chosen = ADDONS
        .iter()
        .filter(|addon| name.as_deref().is_none_or(|name| name == addon.name))
        .filter(|addon| kinds.is_empty() || kinds.iter().any(|kind| kind == addon.kind))
        .map(|addon| (addon.name, entry_json(addon, minor.as_deref())));
    paginate("addons", chosen, query)
}

fn entry_json(addon: &CatalogEntry, only: Option<&str>) -> Value {
    // A version that fits several Kubernetes versions is listed once, with all of them.
    let mut found: Vec<(String, Vec<Value>)> = Vec::new();
    for cluster in VERSIONS.iter().filter(|version| only.is_none_or(|only| only == version.name)) {
        for (rank, name) in version_names(addon, cluster.minor).into_iter().enumerate() {
            let fits = json!({
                "clusterVersion": cluster.name, "platformVersions": ["*"], "defaultVersion": rank == 1,
            });
            match found.iter_mut().find(|(known, _)| *known == name) {
                Some((_, compatibilities)) => compatibilities.push(fits),
                None => found.push((name, vec![fits])),
            }
        }
    }
    let compute: &[&str] = if addon.on_fargate { &["ec2", "fargate", "hybrid"] } else { &["ec2", "hybrid"] };
    let versions: Vec<_> = found
        .into_iter()
        .map(|(name, compatibilities)| {
            json!({
                "addonVersion": name, "architecture": ["amd64", "arm64"], "computeTypes": compute,
                "compatibilities": compatibilities, "requiresConfiguration": false, "requiresIamPermissions": false,
            })
        })
        .collect();
    json!({
        "addonName": addon.name, "type": addon.kind, "owner": "aws", "publisher": "eks",
        "addonVersions": versions, "defaultNamespace": addon.namespace,
    })
}

pub(crate) fn describe_configuration(query: QueryString<'_>) -> ApiResult<Value> {
    let name = query.get("addonName").unwrap_or_default();
    let addon = find_entry(&name)?;
    let asked = query.get("addonVersion").unwrap_or_default();
    if !VERSIONS.iter().any(|version| version_names(addon, version.minor).contains(&asked)) {
        return Err(ApiError::invalid_parameter("Addon version specified is not supported")
            .with_field("addonName", name));
    }
    let properties: serde_json::Map<_, _> =
        addon.configuration_keys.iter().map(|key| ((*key).to_owned(), json!({}))).collect();
    let schema = json!({
        "$schema": "http://json-schema.org/draft-06/schema#", "type": "object",
        "additionalProperties": addon.configuration_keys.is_empty(), "properties": properties,
    });
    Ok(json!({
        "addonName": name, "addonVersion": asked,
        "configurationSchema": schema.to_string(), "podIdentityConfiguration": [],
    }))
}
