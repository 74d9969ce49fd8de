//! EKS addons.

use capt_kinds::api;

use super::{
    control_plane::ValidatedAddon,
    problem::{FieldPath, Problems},
};

pub(super) fn check_addons(
    path: &FieldPath<'_>,
    addons: &[api::Addon],
    problems: &mut Problems,
) -> Vec<ValidatedAddon> {
    let mut valid = Vec::with_capacity(addons.len());
    for (index, addon) in addons.iter().enumerate() {
        let path = path.index(index);
        if addons[..index].iter().any(|earlier| earlier.name == addon.name) {
            problems.add(
                &path.field("name"),
                format!("{:?} is listed twice", addon.name),
                "remove one of them",
            );
        }
        valid.extend(check_addon(&path, addon, problems));
    }
    valid
}

fn check_addon(path: &FieldPath<'_>, addon: &api::Addon, problems: &mut Problems) -> Option<ValidatedAddon> {
    let api::Addon { name, version, configuration_values, service_account_role_arn } = addon;
    let name = problems.parse(&path.field("name"), name);
    let role_path = path.field("serviceAccountRoleArn");
    let role = problems.parse_option(&role_path, service_account_role_arn.as_deref());
    if let Some(version) = version.as_deref().filter(|version| !is_addon_version(version)) {
        problems.add(
            &path.field("version"),
            format!("{version:?} is not an addon version"),
            "use one such as v1.11.4-eksbuild.2, or omit it for the EKS default",
        );
    }
    if let Some(text) = configuration_values
        && let Err(error) = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(text)
    {
        problems.add(
            &path.field("configurationValues"),
            format!("is not a JSON object: {error}"),
            "use JSON such as '{\"computeType\":\"Fargate\"}'",
        );
    }
    Some(ValidatedAddon {
        name: name?,
        version: version.clone(),
        configuration: configuration_values.clone(),
        role,
    })
}

fn is_addon_version(text: &str) -> bool {
    text.strip_prefix('v').and_then(|rest| rest.bytes().next()).is_some_and(|it| it.is_ascii_digit())
}
