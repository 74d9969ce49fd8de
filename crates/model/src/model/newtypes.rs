//! Newtypes of validated text: names, regions, ARNs.
//!
//! Each type has an error message with a remedy. `api::schema` contains the same rules as patterns.

use std::fmt;

use serde::Serialize;

use super::patterns;

/// A malformed text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not {expected}")]
pub struct MalformedText {
    /// The text.
    pub text: String,
    /// What was expected.
    pub expected: &'static str,
    /// The remedy.
    pub remedy: &'static str,
}

/// A type that is parsed from a field.
pub trait Parse: Sized {
    /// Parses the text.
    fn parse(text: &str) -> Result<Self, MalformedText>;
}

macro_rules! text_types {
    ($($(#[$meta:meta])* $name:ident: $accepts:path, $expected:literal, $remedy:literal;)*) => {$(
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        pub struct $name(String);

        impl $name {
            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl Parse for $name {
            fn parse(text: &str) -> Result<Self, MalformedText> {
                if $accepts(text) {
                    Ok(Self(text.to_owned()))
                } else {
                    Err(MalformedText { text: text.to_owned(), expected: $expected, remedy: $remedy })
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}

text_types! {
    /// An AWS region of any partition.
    Region: patterns::is_region, "an AWS region", "write one such as eu-central-1 or us-gov-west-1";
    /// An availability zone.
    Zone: patterns::is_zone, "an availability zone", "write one such as eu-central-1a; local and Wavelength zones cannot run Fargate";
    /// The id of a VPC.
    VpcId: patterns::is_vpc_id, "the id of a VPC", "write one such as vpc-0123456789abcdef0";
    /// The name of a VPC.
    VpcName: patterns::is_vpc_name, "a name for a VPC", "use 1 to 100 letters, digits, '-', '_' and '.', and start with a letter or digit";
    /// The id of a subnet.
    SubnetId: patterns::is_subnet_id, "the id of a subnet", "write one such as subnet-0123456789abcdef0";
    /// The name of an EKS cluster.
    ClusterName: patterns::is_eks_name, "a name for an EKS cluster", "use 1 to 100 letters, digits, '-' and '_', and start with a letter or digit";
    /// The name of an EKS addon.
    AddonName: patterns::is_eks_name, "the name of an EKS addon", "write one such as vpc-cni";
    /// The name of a Fargate profile.
    ProfileName: patterns::is_profile_name, "a name for a Fargate profile", "use 1 to 100 letters, digits, '-' and '_', start with a letter or digit, and not with eks-, which AWS reserves";
    /// The namespace of a Fargate selector.
    SelectorNamespace: patterns::is_selector_namespace, "a namespace with wildcards", "use lower-case letters, digits, '-' and the wildcards '*' and '?'";
    /// The key of a label of a Fargate selector.
    SelectorLabelKey: patterns::is_selector_label_key, "a label key with wildcards", "use 1 to 127 letters, digits, '-', '_', '.', one '/' and the wildcards '*' and '?'";
    /// The value of a label of a Fargate selector.
    SelectorLabelValue: patterns::is_selector_label_value, "a label value with wildcards", "use 1 to 255 letters, digits, '-', '_', '.' and the wildcards '*' and '?'";
    /// The ARN of an IAM role.
    RoleArn: patterns::is_role_arn, "the ARN of an IAM role", "write one such as arn:aws:iam::111122223333:role/demo";
    /// The ARN of an IAM role with the path `/`.
    PodRoleArn: patterns::is_pod_role_arn, "the ARN of an IAM role with the path /", "write one such as arn:aws:iam::111122223333:role/demo; EKS takes no other path";
    /// The ARN of an IAM role or user.
    PrincipalArn: patterns::is_principal_arn, "the ARN of an IAM role or user", "write one such as arn:aws:iam::111122223333:role/admin; a session is no principal here";
    /// The ARN of an EKS access policy.
    AccessPolicyArn: patterns::is_access_policy_arn, "the ARN of an EKS access policy", "write one such as arn:aws:eks::aws:cluster-access-policy/AmazonEKSViewPolicy";
    /// The ARN of a KMS key.
    KeyArn: patterns::is_key_arn, "the ARN of a KMS key", "write one such as arn:aws:kms:eu-central-1:111122223333:key/0a1b2c3d; an alias is no key";
    /// A valid `metadata.name`.
    ObjectName: patterns::is_object_name, "a name for an object", "use 1 to 253 lower-case letters, digits, '-' and '.', and begin and end with a letter or digit";
    /// A namespace.
    Namespace: patterns::is_namespace, "a namespace", "use 1 to 63 lower-case letters, digits and '-', and begin and end with a letter or digit";
    /// The name of a file without a directory.
    FileName: patterns::is_file_name, "a file name", "use letters, digits, '-', '_' and '.', and no directory";
}

impl Zone {
    /// The region the zone is in: its name without the last letter.
    pub fn region(&self) -> &str {
        self.0.trim_end_matches(|last: char| last.is_ascii_lowercase())
    }
}

impl Region {
    /// The partition the region is in.
    pub fn partition(&self) -> &'static str {
        match self.0.as_str() {
            region if region.starts_with("us-gov-") => "aws-us-gov",
            region if region.starts_with("cn-") => "aws-cn",
            region if region.starts_with("us-iso-") => "aws-iso",
            region if region.starts_with("us-isob-") => "aws-iso-b",
            region if region.starts_with("eu-isoe-") => "aws-iso-e",
            region if region.starts_with("us-isof-") => "aws-iso-f",
            region if region.starts_with("eusc-") => "aws-eusc",
            _ => "aws",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_knows_its_partition() {
        for (region, partition) in [
            ("eu-central-1", "aws"),
            ("us-gov-west-1", "aws-us-gov"),
            ("cn-north-1", "aws-cn"),
            ("us-iso-east-1", "aws-iso"),
            ("us-isob-east-1", "aws-iso-b"),
            ("eusc-de-east-1", "aws-eusc"),
        ] {
            assert_eq!(Region::parse(region).unwrap().partition(), partition);
        }
    }

    #[test]
    fn a_zone_knows_its_region() {
        assert_eq!(Zone::parse("us-gov-west-1b").unwrap().region(), "us-gov-west-1");
    }

    #[test]
    fn a_message_says_what_was_written_and_what_to_write() {
        let malformed = PodRoleArn::parse("arn:aws:iam::1:role/x").unwrap_err();
        assert_eq!(
            malformed.to_string(),
            "\"arn:aws:iam::1:role/x\" is not the ARN of an IAM role with the path /"
        );
        assert!(malformed.remedy.contains("arn:aws:iam::111122223333:role/demo"));
    }
}
