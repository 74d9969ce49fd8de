//! The addons that EKS offers, their versions per Kubernetes version and the shape of their configuration.

use serde_json::{Value, json};

use super::{
    error::{ApiError, ApiResult},
    page::{Query, page},
    versions::{VERSIONS, Version},
};

struct Addon {
    name: &'static str,
    kind: &'static str,
    namespace: &'static str,
    /// Newest first; the second is the default. `{}` is the Kubernetes minor version.
    versions: [&'static str; 3],
    /// Top-level keys of the configuration; empty when any are taken.
    keys: &'static [&'static str],
    on_fargate: bool,
}

#[rustfmt::skip]
const ADDONS: [Addon; 10] = [
    Addon { name: "amazon-cloudwatch-observability", kind: "observability", namespace: "amazon-cloudwatch", versions: ["v4.7.0-eksbuild.1", "v4.6.0-eksbuild.1", "v4.3.1-eksbuild.1"], keys: &[], on_fargate: false },
    Addon { name: "aws-ebs-csi-driver", kind: "storage", namespace: "kube-system", versions: ["v1.53.0-eksbuild.1", "v1.52.1-eksbuild.1", "v1.48.0-eksbuild.2"], keys: &[], on_fargate: false },
    Addon { name: "aws-efs-csi-driver", kind: "storage", namespace: "kube-system", versions: ["v2.1.15-eksbuild.1", "v2.1.14-eksbuild.1", "v2.1.11-eksbuild.1"], keys: &[], on_fargate: false },
    Addon { name: "aws-mountpoint-s3-csi-driver", kind: "storage", namespace: "kube-system", versions: ["v2.2.1-eksbuild.1", "v2.2.0-eksbuild.1", "v2.0.0-eksbuild.1"], keys: &[], on_fargate: false },
    Addon { name: "coredns", kind: "networking", namespace: "kube-system", versions: ["v1.12.4-eksbuild.1", "v1.12.3-eksbuild.1", "v1.11.4-eksbuild.24"], keys: &["affinity", "autoScaling", "computeType", "corefile", "nodeSelector", "podAnnotations", "podDisruptionBudget", "podLabels", "replicaCount", "resources", "tolerations", "topologySpreadConstraints"], on_fargate: true },
    Addon { name: "eks-node-monitoring-agent", kind: "observability", namespace: "kube-system", versions: ["v1.4.2-eksbuild.1", "v1.4.1-eksbuild.1", "v1.4.0-eksbuild.2"], keys: &[], on_fargate: false },
    Addon { name: "eks-pod-identity-agent", kind: "security", namespace: "kube-system", versions: ["v1.3.10-eksbuild.1", "v1.3.9-eksbuild.3", "v1.3.8-eksbuild.2"], keys: &[], on_fargate: false },
    Addon { name: "kube-proxy", kind: "networking", namespace: "kube-system", versions: ["v1.{}.3-eksbuild.2", "v1.{}.1-eksbuild.2", "v1.{}.0-eksbuild.2"], keys: &["ipvs", "mode", "podAnnotations", "podLabels", "resources", "tolerations"], on_fargate: false },
    Addon { name: "metrics-server", kind: "observability", namespace: "kube-system", versions: ["v0.8.0-eksbuild.3", "v0.8.0-eksbuild.2", "v0.7.2-eksbuild.4"], keys: &[], on_fargate: true },
    Addon { name: "vpc-cni", kind: "networking", namespace: "kube-system", versions: ["v1.20.5-eksbuild.1", "v1.20.4-eksbuild.1", "v1.19.6-eksbuild.7"], keys: &["affinity", "cri", "enableNetworkPolicy", "enableWindowsIpam", "enableWindowsPrefixDelegation", "env", "eniConfig", "init", "livenessProbeTimeoutSeconds", "minimumWindowsIPTarget", "nodeAgent", "podAnnotations", "podLabels", "readinessProbeTimeoutSeconds", "resources", "tolerations", "warmWindowsIPTarget", "warmWindowsPrefixTarget"], on_fargate: false },
];

fn find(name: &str) -> ApiResult<&'static Addon> {
    ADDONS.iter().find(|addon| addon.name == name).ok_or_else(|| {
        ApiError::invalid_parameter("Addon specified is not supported").with("addonName", name)
    })
}

fn version_names(addon: &Addon, minor: u32) -> [String; 3] {
    addon.versions.map(|version| version.replace("{}", &minor.to_string()))
}

/// The version to install: the one asked for if it fits the cluster, else the default.
pub(crate) fn version(addon: &str, asked: Option<&str>, cluster: &Version) -> ApiResult<String> {
    let entry = find(addon)?;
    let [newest, default, oldest] = version_names(entry, cluster.minor);
    match asked {
        None => Ok(default),
        Some(asked) if [&newest, &default, &oldest].iter().any(|known| *known == asked) => {
            Ok(asked.to_owned())
        }
        Some(_) => {
            Err(ApiError::invalid_parameter("Addon version specified is not supported")
                .with("addonName", addon))
        }
    }
}

/// Refuses configuration that is no object, or has a top-level key the addon's schema does not know.
pub(crate) fn check_configuration(addon: &str, configuration: Option<&str>) -> ApiResult<()> {
    let Some(text) = configuration.filter(|text| !text.trim().is_empty()) else { return Ok(()) };
    let refuse = |why: String| {
        let message = format!("ConfigurationValue provided in request is not supported: {why}");
        Err(ApiError::invalid_parameter(message).with("addonName", addon))
    };
    let Ok(Value::Object(values)) = serde_json::from_str::<Value>(text) else {
        return refuse("Invalid JSON".to_owned());
    };
    let keys = find(addon)?.keys;
    match values.keys().find(|key| !keys.is_empty() && !keys.contains(&key.as_str())) {
        Some(key) => refuse(format!(
            "Json schema validation failed with error: [$.{key}: is not defined in the schema and the schema does not allow additional properties]"
        )),
        None => Ok(()),
    }
}

pub(crate) fn describe_versions(query: Query<'_>) -> ApiResult<Value> {
    let name = query.get("addonName");
    let minor = query.get("kubernetesVersion");
    let kinds = query.all("types");
    if let Some(minor) = &minor
        && super::versions::find(minor).is_none()
    {
        return Err(ApiError::invalid_parameter(format!("unsupported Kubernetes version {minor}")));
    }
    let chosen = ADDONS
        .iter()
        .filter(|addon| name.as_deref().is_none_or(|name| name == addon.name))
        .filter(|addon| kinds.is_empty() || kinds.iter().any(|kind| kind == addon.kind))
        .map(|addon| (addon.name, info(addon, minor.as_deref())));
    page("addons", chosen, query)
}

fn info(addon: &Addon, only: Option<&str>) -> Value {
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

pub(crate) fn describe_configuration(query: Query<'_>) -> ApiResult<Value> {
    let name = query.get("addonName").unwrap_or_default();
    let addon = find(&name)?;
    let asked = query.get("addonVersion").unwrap_or_default();
    if !VERSIONS.iter().any(|version| version_names(addon, version.minor).contains(&asked)) {
        return Err(
            ApiError::invalid_parameter("Addon version specified is not supported").with("addonName", name)
        );
    }
    let properties: serde_json::Map<_, _> =
        addon.keys.iter().map(|key| ((*key).to_owned(), json!({}))).collect();
    let schema = json!({
        "$schema": "http://json-schema.org/draft-06/schema#", "type": "object",
        "additionalProperties": addon.keys.is_empty(), "properties": properties,
    });
    Ok(json!({
        "addonName": name, "addonVersion": asked,
        "configurationSchema": schema.to_string(), "podIdentityConfiguration": [],
    }))
}
