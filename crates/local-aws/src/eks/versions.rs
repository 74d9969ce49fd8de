//! The Kubernetes versions that EKS offers. A fixed table: a local AWS whose answers change with the calendar
//! would break tests by waiting.

use serde_json::{Value, json};

use super::{
    error::{ApiError, ApiResult},
    page::{Query, page},
};

pub(crate) struct Version {
    pub(crate) minor: u32,
    pub(crate) name: &'static str,
    platform: &'static str,
    patch: &'static str,
    standard: bool,
    /// Release, end of standard support, end of extended support; seconds since 1970.
    dates: [i64; 3],
}

const DEFAULT: &str = "1.34";

#[rustfmt::skip]
pub(crate) const VERSIONS: [Version; 6] = [
    Version { minor: 35, name: "1.35", platform: "eks.4", patch: "1.35.0", standard: true, dates: [1_769_472_000, 1_806_105_600, 1_837_728_000] },
    Version { minor: 34, name: "1.34", platform: "eks.9", patch: "1.34.2", standard: true, dates: [1_759_363_200, 1_796_169_600, 1_827_705_600] },
    Version { minor: 33, name: "1.33", platform: "eks.22", patch: "1.33.6", standard: true, dates: [1_748_476_800, 1_785_283_200, 1_816_819_200] },
    Version { minor: 32, name: "1.32", platform: "eks.29", patch: "1.32.10", standard: false, dates: [1_737_590_400, 1_774_224_000, 1_805_760_000] },
    Version { minor: 31, name: "1.31", platform: "eks.45", patch: "1.31.14", standard: false, dates: [1_727_308_800, 1_764_115_200, 1_795_651_200] },
    Version { minor: 30, name: "1.30", platform: "eks.53", patch: "1.30.14", standard: false, dates: [1_716_422_400, 1_753_228_800, 1_784_764_800] },
];

pub(crate) fn find(name: &str) -> Option<&'static Version> {
    VERSIONS.iter().find(|version| version.name == name)
}

/// The version of a new cluster.
pub(crate) fn for_create(asked: Option<&str>) -> ApiResult<&'static str> {
    let name = asked.unwrap_or(DEFAULT);
    find(name)
        .map(|version| version.name)
        .ok_or_else(|| ApiError::invalid_parameter(format!("unsupported Kubernetes version {name}")))
}

/// The version of an updated cluster: exactly one minor up.
pub(crate) fn for_update(from: &str, to: &str) -> ApiResult<&'static str> {
    let target = find(to)
        .ok_or_else(|| ApiError::invalid_parameter(format!("unsupported Kubernetes version {to}")))?;
    let next = find(from).is_some_and(|current| target.minor == current.minor + 1);
    next.then_some(target.name).ok_or_else(|| {
        ApiError::invalid_parameter(format!(
            "Unsupported Kubernetes minor version update from {from} to {to}"
        ))
    })
}

pub(crate) fn platform_version(name: &str) -> &'static str {
    find(name).map_or("eks.1", |version| version.platform)
}

pub(crate) fn describe(query: Query<'_>) -> ApiResult<Value> {
    let wanted = query.all("clusterVersions");
    let default_only = query.get("defaultOnly").as_deref() == Some("true");
    let status = query.get("versionStatus").or_else(|| {
        let old_name = query.get("status")?;
        Some(old_name.replace('-', "_").to_ascii_uppercase())
    });
    let chosen: Vec<_> = VERSIONS
        .iter()
        .filter(|version| wanted.is_empty() || wanted.iter().any(|name| name == version.name))
        .filter(|version| !default_only || version.name == DEFAULT)
        .filter(|version| status.as_deref().is_none_or(|status| status == status_of(version)))
        // EKS lists the newest first; the page's token wants a growing key.
        .map(|version| (format!("{:03}", 999 - version.minor), view(version)))
        .collect();
    page("clusterVersions", chosen.iter().map(|(key, value)| (key.as_str(), value.clone())), query)
}

fn status_of(version: &Version) -> &'static str {
    if version.standard { "STANDARD_SUPPORT" } else { "EXTENDED_SUPPORT" }
}

fn view(version: &Version) -> Value {
    let [released, standard_end, extended_end] = version.dates;
    json!({
        "clusterVersion": version.name,
        "clusterType": "eks",
        "defaultPlatformVersion": version.platform,
        "defaultVersion": version.name == DEFAULT,
        "releaseDate": released,
        "endOfStandardSupportDate": standard_end,
        "endOfExtendedSupportDate": extended_end,
        "status": if version.standard { "standard-support" } else { "extended-support" },
        "versionStatus": status_of(version),
        "kubernetesPatchVersion": version.patch,
    })
}
