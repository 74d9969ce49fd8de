//! Names that are made from other names, as upstream makes them.
//!
//! A name that would be too long, or that holds what Kubernetes does not allow, keeps its beginning and gets a hash of the
//! whole: two different inputs never meet in one name, and one input always gives the same.

use sha2::{Digest as _, Sha256};

use super::shape;

/// Longest name of an object whose name is also used as a label value.
const MAX: usize = 63;

/// Name of the `WorkspaceTemplateApply` that makes a VPC, and of its workspace.
pub fn vpc_apply(cluster: &str) -> String {
    fit(&[cluster], "-vpc")
}

/// Name of the `WorkspaceTemplateApply` that makes an EKS cluster.
pub fn eks_apply(control_plane: &str) -> String {
    fit(&[control_plane], "-eks-controlplane-apply")
}

/// Name of the `WorkspaceTemplateApply` that makes a Fargate profile.
pub fn fargate_apply(control_plane: &str, profile: &str) -> String {
    fit(&[control_plane, profile], "-fargate-apply")
}

/// Name of the workspace of a `WorkspaceTemplateApply`.
pub fn workspace(apply: &str) -> &str {
    apply.strip_suffix("-apply").unwrap_or(apply)
}

/// Name of the Secret with the outputs of an EKS cluster.
pub fn eks_connection_secret(control_plane: &str) -> String {
    fit(&[control_plane], "-eks-connection")
}

/// Name of the Secret with the outputs of a VPC.
pub fn vpc_connection_secret(cluster: &str) -> String {
    fit(&[cluster], "-vpc-connection")
}

/// Name of the Secret with a cluster's kubeconfig. Cluster API asks for exactly this one.
pub fn kubeconfig_secret(cluster: &str) -> String {
    format!("{cluster}-kubeconfig")
}

/// Name of the Secret with a kubeconfig for people, who have the tools of AWS.
pub fn user_kubeconfig_secret(cluster: &str) -> String {
    format!("{cluster}-user-kubeconfig")
}

/// Name of the Secret with the authority of a cluster's API. Upstream made one by the name of the control plane.
pub fn authority_secret(name: &str) -> String {
    format!("{name}-ca")
}

/// Value of the label that names a Fargate profile. Names of profiles may be longer than a label.
pub fn profile_label(profile: &str) -> String {
    let is_edge = |it: char| it.is_ascii_alphanumeric();
    if profile.len() <= MAX && profile.ends_with(is_edge) {
        return profile.to_owned();
    }
    let hash = hash6(&[profile]);
    let kept: String = profile.chars().take(MAX - hash.len() - 1).collect();
    format!("{kept}-{hash}")
}

/// Name of the VPC of a cluster that names none.
pub fn vpc(cluster: &str) -> String {
    format!("{cluster}-vpc")
}

fn fit(parts: &[&str], suffix: &str) -> String {
    let plain = parts.join("-");
    let whole = format!("{plain}{suffix}");
    // Parts that contain the separator can be joined in two ways, which is upstream's flaw to keep for names that fit.
    if whole.len() <= MAX && shape::object_name(&whole) {
        return whole;
    }
    let hash = hash6(parts);
    let room = MAX - suffix.len() - hash.len() - 1;
    let kept: String = plain.to_ascii_lowercase().chars().map(legal).take(room).collect();
    format!("{}-{hash}{suffix}", kept.trim_matches('-'))
}

fn legal(letter: char) -> char {
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
        assert_eq!(workspace("demo-cp-apps-fargate-apply"), "demo-cp-apps-fargate");
        assert_eq!(workspace("demo-vpc"), "demo-vpc");
        assert_eq!(eks_connection_secret("demo-cp"), "demo-cp-eks-connection");
    }

    #[test]
    fn a_long_name_is_cut_and_hashed_and_stays_a_legal_name() {
        let long = "a".repeat(80);
        let name = eks_apply(&long);
        assert_eq!(name.len(), MAX);
        assert!(shape::object_name(&name), "{name}");
        assert!(name.ends_with("-eks-controlplane-apply"));
        assert_ne!(name, eks_apply(&"a".repeat(81)));
        assert_eq!(name, eks_apply(&long));
    }

    #[test]
    fn a_profile_that_is_no_label_gets_one() {
        assert_eq!(profile_label("apps"), "apps");
        assert!(profile_label("apps_").starts_with("apps_-"));
        assert_ne!(profile_label(&"a".repeat(64)), profile_label(&"a".repeat(65)));
        assert_eq!(profile_label(&"a".repeat(100)).len(), MAX);
    }

    #[test]
    fn profile_names_that_differ_only_in_case_or_underscores_get_different_names() {
        let names = ["Team_A", "team_a", "team-a", "TEAM_A"].map(|profile| fargate_apply("demo", profile));
        for (index, name) in names.iter().enumerate() {
            assert!(shape::object_name(name), "{name}");
            assert!(!names[..index].contains(name), "{names:?}");
        }
    }
}
