//! Derived object names, compatible with upstream.
//!
//! A name that is too long or contains invalid characters is truncated and gets a hash of the whole, so that names are
//! deterministic and unique.

use sha2::{Digest as _, Sha256};

use super::patterns;

/// Maximum length of names that are also used as label values.
const MAX_NAME_LENGTH: usize = 63;

/// Name of the `WorkspaceTemplateApply` of a VPC, and of its workspace.
pub fn vpc_apply(cluster: &str) -> String {
    fit_name(&[cluster], "-vpc")
}

/// Name of the `WorkspaceTemplateApply` of an EKS cluster.
pub fn eks_apply(control_plane: &str) -> String {
    fit_name(&[control_plane], "-eks-controlplane-apply")
}

/// Name of the `WorkspaceTemplateApply` of a Fargate profile.
pub fn fargate_apply(control_plane: &str, profile: &str) -> String {
    fit_name(&[control_plane, profile], "-fargate-apply")
}

/// Name of the workspace of a `WorkspaceTemplateApply`.
pub fn workspace_name(apply: &str) -> &str {
    apply.strip_suffix("-apply").unwrap_or(apply)
}

/// Name of the Secret with the outputs of an EKS cluster.
pub fn eks_connection_secret(control_plane: &str) -> String {
    fit_name(&[control_plane], "-eks-connection")
}

/// Name of the Secret with the outputs of a VPC.
pub fn vpc_connection_secret(cluster: &str) -> String {
    fit_name(&[cluster], "-vpc-connection")
}

/// Name of the Secret with a cluster's kubeconfig, as required by Cluster API.
pub fn kubeconfig_secret(cluster: &str) -> String {
    format!("{cluster}-kubeconfig")
}

/// Name of the Secret with a kubeconfig for users, which needs the AWS CLI.
pub fn user_kubeconfig_secret(cluster: &str) -> String {
    format!("{cluster}-user-kubeconfig")
}

/// Name of the Secret with a cluster's CA. Upstream named it after the control plane.
pub fn ca_secret(name: &str) -> String {
    format!("{name}-ca")
}

/// Label value of a Fargate profile; profile names may be longer than label values.
pub fn profile_label(profile: &str) -> String {
    let is_edge = |it: char| it.is_ascii_alphanumeric();
    if profile.len() <= MAX_NAME_LENGTH && profile.ends_with(is_edge) {
        return profile.to_owned();
    }
    let hash = hash6(&[profile]);
    let kept: String = profile.chars().take(MAX_NAME_LENGTH - hash.len() - 1).collect();
    format!("{kept}-{hash}")
}

/// Default name of a cluster's VPC.
pub fn vpc_name(cluster: &str) -> String {
    format!("{cluster}-vpc")
}

fn fit_name(parts: &[&str], suffix: &str) -> String {
    let plain = parts.join("-");
    let whole = format!("{plain}{suffix}");
    // Joined parts can be ambiguous if they contain the separator; kept for compatibility with upstream.
    if whole.len() <= MAX_NAME_LENGTH && patterns::is_object_name(&whole) {
        return whole;
    }
    let hash = hash6(parts);
    let room = MAX_NAME_LENGTH - suffix.len() - hash.len() - 1;
    let kept: String = plain.to_ascii_lowercase().chars().map(legal_char).take(room).collect();
    format!("{}-{hash}{suffix}", kept.trim_matches('-'))
}

fn legal_char(letter: char) -> char {
    if letter.is_ascii_lowercase() || letter.is_ascii_digit() { letter } else { '-' }
}

fn hash6(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.len().to_be_bytes());
        hash.update(part.as_bytes());
    }
    let [first, second, third, ..] = hash.finalize().0;
    format!("{first:02x}{second:02x}{third:02x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_fit_are_upstreams() {
        assert_eq!(vpc_apply("demo"), "demo-vpc");
        assert_eq!(eks_apply("demo-cp"), "demo-cp-eks-controlplane-apply");
        assert_eq!(fargate_apply("demo-cp", "apps"), "demo-cp-apps-fargate-apply");
        assert_eq!(workspace_name("demo-cp-apps-fargate-apply"), "demo-cp-apps-fargate");
        assert_eq!(workspace_name("demo-vpc"), "demo-vpc");
        assert_eq!(eks_connection_secret("demo-cp"), "demo-cp-eks-connection");
    }

    #[test]
    fn a_long_name_is_cut_and_hashed_and_stays_a_legal_name() {
        let long = "a".repeat(80);
        let name = eks_apply(&long);
        assert_eq!(name.len(), MAX_NAME_LENGTH);
        assert!(patterns::is_object_name(&name), "{name}");
        assert!(name.ends_with("-eks-controlplane-apply"));
        assert_ne!(name, eks_apply(&"a".repeat(81)));
        assert_eq!(name, eks_apply(&long));
    }

    #[test]
    fn a_profile_that_is_no_label_gets_one() {
        assert_eq!(profile_label("apps"), "apps");
        assert!(profile_label("apps_").starts_with("apps_-"));
        assert_ne!(profile_label(&"a".repeat(64)), profile_label(&"a".repeat(65)));
        assert_eq!(profile_label(&"a".repeat(100)).len(), MAX_NAME_LENGTH);
    }

    #[test]
    fn profile_names_that_differ_only_in_case_or_underscores_get_different_names() {
        let names = ["Team_A", "team_a", "team-a", "TEAM_A"].map(|profile| fargate_apply("demo", profile));
        for (index, name) in names.iter().enumerate() {
            assert!(patterns::is_object_name(name), "{name}");
            assert!(!names[..index].contains(name), "{names:?}");
        }
    }
}
