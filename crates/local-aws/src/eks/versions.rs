//! The Kubernetes versions that EKS offers. A fixed table: responses that depend on the date would break tests over
//! time.

use serde_json::{Value, json};

use super::{
    error::{ApiError, ApiResult},
    pagination::{QueryString, paginate},
};

pub(crate) struct KubernetesVersion {
    pub(crate) minor: u32,
    pub(crate) name: &'static str,
    platform: &'static str,
    patch: &'static str,
    standard: bool,
    /// Release, end of standard support, end of extended support; Unix seconds.
    dates: [i64; 3],
}

const DEFAULT_VERSION: &str = "1.34";

#[rustfmt::skip]
pub(crate) const VERSIONS: [KubernetesVersion; 6] = [
    KubernetesVersion { minor: 35, name: "1.35", platform: "eks.4", patch: "1.35.0", standard: true, dates: [1_769_472_000, 1_806_105_600, 1_837_728_000] },
    KubernetesVersion { minor: 34, name: "1.34", platform: "eks.9", patch: "1.34.2", standard: true, dates: [1_759_363_200, 1_796_169_600, 1_827_705_600] },
    KubernetesVersion { minor: 33, name: "1.33", platform: "eks.22", patch: "1.33.6", standard: true, dates: [1_748_476_800, 1_785_283_200, 1_816_819_200] },
    KubernetesVersion { minor: 32, name: "1.32", platform: "eks.29", patch: "1.32.10", standard: false, dates: [1_737_590_400, 1_774_224_000, 1_805_760_000] },
    KubernetesVersion { minor: 31, name: "1.31", platform: "eks.45", patch: "1.31.14", standard: false, dates: [1_727_308_800, 1_764_115_200, 1_795_651_200] },
    KubernetesVersion { minor: 30, name: "1.30", platform: "eks.53", patch: "1.30.14", standard: false, dates: [1_716_422_400, 1_753_228_800, 1_784_764_800] },
];

pub(crate) fn find_version(name: &str) -> Option<&'static KubernetesVersion> {
    VERSIONS.iter().find(|version| version.name == name)
}

/// Resolves the version of a new cluster.
pub(crate) fn version_for_create(asked: Option<&str>) -> ApiResult<&'static str> {
    let name = asked.unwrap_or(DEFAULT_VERSION);
    find_version(name)
        .map(|version| version.name)
        .ok_or_else(|| ApiError::invalid_parameter(format!("unsupported Kubernetes version {name}")))
}

/// Validates a version update: exactly one minor version up.
pub(crate) fn version_for_update(from: &str, to: &str) -> ApiResult<&'static str> {
    let target = find_version(to)
        .ok_or_else(|| ApiError::invalid_parameter(format!("unsupported Kubernetes version {to}")))?;
    let next = find_version(from).is_some_and(|current| target.minor == current.minor + 1);
    next.then_some(target.name).ok_or_else(|| {
        ApiError::invalid_parameter(format!(
            "Unsupported Kubernetes minor version update from {from} to {to}"
        ))
    })
}

pub(crate) fn platform_version(name: &str) -> &'static str {
    find_version(name).map_or("eks.1", |version| version.platform)
}

pub(crate) fn describe(query: QueryString<'_>) -> ApiResult<Value> {
    let wanted = query.get_all("clusterVersions");
    let default_only = query.get("defaultOnly").as_deref() == Some("true");
    let status = query.get("versionStatus").or_else(|| {
        let old_name = query.get("status")?;
        Some(old_name.replace('-', "_").to_ascii_uppercase())
    });
    let chosen: Vec<_> = VERSIONS
        .iter()
        .filter(|version| wanted.is_empty() || wanted.iter().any(|name| name == version.name))
        .filter(|version| !default_only || version.name == DEFAULT_VERSION)
        .filter(|version| status.as_deref().is_none_or(|status| status == support_status(version)))
        // EKS lists the newest first; the pagination token needs an ascending key.
        .map(|version| (format!("{:03}", 999 - version.minor), version_json(version)))
        .collect();
    paginate("clusterVersions", chosen.iter().map(|(key, value)| (key.as_str(), value.clone())), query)
}

fn support_status(version: &KubernetesVersion) -> &'static str {
    if version.standard { "STANDARD_SUPPORT" } else { "EXTENDED_SUPPORT" }
}

fn version_json(version: &KubernetesVersion) -> Value {
    let [released, standard_end, extended_end] = version.dates;
    json!({
        "clusterVersion": version.name,
        "clusterType": "eks",
        "defaultPlatformVersion": version.platform,
        "defaultVersion": version.name == DEFAULT_VERSION,
        "releaseDate": released,
        "endOfStandardSupportDate": standard_end,
        "endOfExtendedSupportDate": extended_end,
        "status": if version.standard { "standard-support" } else { "extended-support" },
        "versionStatus": support_status(version),
        "kubernetesPatchVersion": version.patch,
    })
}
