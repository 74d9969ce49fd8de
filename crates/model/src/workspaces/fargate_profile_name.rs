//! Chooses the name of a Fargate profile in EKS. Pure: no I/O.
//!
//! EKS profiles are immutable except for their tags, and names are unique. A changed profile is therefore created under a new
//! name before the old profile is deleted. The first profile has the plain name; later ones have a suffix that is a hash of
//! the immutable fields and the attempt.

use serde_json::Value;
use sha2::{Digest as _, Sha256};
use terraform_driver::{hex::hex, state::State};

/// Maximum length of a profile name.
const MAX_NAME_LEN: usize = 100;

/// The immutable fields of a profile. Its `Debug` text is hashed into profile names: renaming it or its fields changes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    selectors: Vec<(String, Vec<(String, String)>)>,
    subnets: Vec<String>,
    role: String,
}

/// A profile that exists in the state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExistingProfile {
    name: String,
    shape: Shape,
    tainted: bool,
}

impl Shape {
    /// From selectors, subnets and role in the form of the module's variables. Sorted, because EKS ignores their order.
    pub fn new(selectors: Option<&Value>, subnets: Option<&Value>, role: Option<&Value>) -> Self {
        let list = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut selectors: Vec<_> = list(selectors)
            .iter()
            .map(|selector| {
                let labels = selector.get("labels").and_then(Value::as_object);
                let mut labels: Vec<(String, String)> =
                    labels.into_iter().flatten().map(|(key, value)| (key.clone(), text(value))).collect();
                labels.sort();
                (selector.get("namespace").map(text).unwrap_or_default(), labels)
            })
            .collect();
        selectors.sort();
        let mut subnets: Vec<String> = list(subnets).iter().map(text).collect();
        subnets.sort();
        Self { selectors, subnets, role: role.map(text).unwrap_or_default() }
    }

    fn hash6(&self, attempt: u32) -> String {
        let digest = Sha256::digest(format!("{self:?} {attempt}"));
        hex(&digest[..3])
    }
}

impl ExistingProfile {
    /// Reads the profile from the state of a workspace.
    pub fn from_state(state: &State) -> Option<Self> {
        let object = state
            .managed_objects()
            .find(|object| object.kind == "aws_eks_fargate_profile" && object.instance.deposed.is_none())?;
        let attribute = |name| object.instance.attribute(name);
        Some(Self {
            name: object.instance.string_attribute("fargate_profile_name")?,
            shape: Shape::new(
                attribute("selector").as_ref(),
                attribute("subnet_ids").as_ref(),
                attribute("pod_execution_role_arn").as_ref(),
            ),
            tainted: object.instance.is_tainted(),
        })
    }
}

/// Name of a profile with these fields: the existing name unless the fields differ or the existing profile is tainted.
pub fn choose_profile_name(plain: &str, wanted: &Shape, existing: Option<&ExistingProfile>) -> String {
    let Some(existing) = existing else { return plain.to_owned() };
    if existing.shape == *wanted && !existing.tainted {
        return existing.name.clone();
    }
    let revision = |attempt| {
        let hash = wanted.hash6(attempt);
        let kept: String = plain.chars().take(MAX_NAME_LEN - hash.len() - 1).collect();
        format!("{kept}-{hash}")
    };
    let first = revision(0);
    // Only a failed profile with the same fields has this name already.
    if first == existing.name { revision(1) } else { first }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shape(namespace: &str) -> Shape {
        Shape::new(
            Some(&json!([{"namespace": namespace, "labels": {"b": "2", "a": "1"}}, {"namespace": "z"}])),
            Some(&json!(["subnet-2", "subnet-1"])),
            Some(&json!("arn:role")),
        )
    }

    fn existing(name: &str, namespace: &str, tainted: bool) -> ExistingProfile {
        ExistingProfile { name: name.into(), shape: shape(namespace), tainted }
    }

    #[test]
    fn the_first_profile_has_the_plain_name_and_keeps_it_while_nothing_changes() {
        assert_eq!(choose_profile_name("apps", &shape("x"), None), "apps");
        assert_eq!(choose_profile_name("apps", &shape("x"), Some(&existing("apps", "x", false))), "apps");
        assert_eq!(
            choose_profile_name("apps", &shape("x"), Some(&existing("apps-0a0b0c", "x", false))),
            "apps-0a0b0c"
        );
    }

    #[test]
    fn the_order_of_selectors_labels_and_subnets_means_nothing() {
        let other = Shape::new(
            Some(
                &json!([{"namespace": "z", "labels": {}}, {"namespace": "x", "labels": {"a": "1", "b": "2"}}]),
            ),
            Some(&json!(["subnet-1", "subnet-2"])),
            Some(&json!("arn:role")),
        );
        assert_eq!(other, shape("x"));
    }

    #[test]
    fn another_shape_gets_another_name() {
        let name = choose_profile_name("apps", &shape("y"), Some(&existing("apps", "x", false)));
        assert!(name.starts_with("apps-") && name.len() == "apps-".len() + 6, "{name}");
        let third = choose_profile_name("apps", &shape("w"), Some(&existing(&name, "y", false)));
        assert_ne!(name, third);
    }

    #[test]
    fn a_failed_profile_is_replaced_under_another_name_every_time() {
        let second = choose_profile_name("apps", &shape("x"), Some(&existing("apps", "x", true)));
        let third = choose_profile_name("apps", &shape("x"), Some(&existing(&second, "x", true)));
        assert_ne!(second, "apps");
        assert_ne!(third, second);
        assert_ne!(choose_profile_name("apps", &shape("x"), Some(&existing(&third, "x", true))), third);
    }

    #[test]
    fn a_long_name_stays_within_the_limit() {
        let long = "a".repeat(100);
        assert_eq!(choose_profile_name(&long, &shape("y"), Some(&existing(&long, "x", false))).len(), 100);
    }
}
