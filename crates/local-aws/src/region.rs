//! Region and partition of a call, and the names derived from them.

use crate::config::ACCOUNT;

/// A region with its partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Region {
    pub(crate) name: String,
}

impl Region {
    pub(crate) fn new(region: impl Into<String>) -> Self {
        Self { name: region.into() }
    }

    pub(crate) fn partition(&self) -> &'static str {
        match self.name.as_str() {
            r if r.starts_with("cn-") => "aws-cn",
            r if r.starts_with("us-gov-") => "aws-us-gov",
            r if r.starts_with("us-isob-") => "aws-iso-b",
            r if r.starts_with("us-isof-") || r.starts_with("eu-isoe-") => "aws-iso-f",
            r if r.starts_with("us-iso-") => "aws-iso",
            _ => "aws",
        }
    }

    pub(crate) fn dns_suffix(&self) -> &'static str {
        match self.partition() {
            "aws-cn" => "amazonaws.com.cn",
            "aws-iso" => "c2s.ic.gov",
            "aws-iso-b" => "sc2s.sgov.gov",
            "aws-iso-f" => "csp.hci.ic.gov",
            _ => "amazonaws.com",
        }
    }

    /// Signing region of IAM calls in this partition.
    pub(crate) fn iam_region(&self) -> &'static str {
        match self.partition() {
            "aws-cn" => "cn-north-1",
            "aws-us-gov" => "us-gov-west-1",
            "aws-iso" => "us-iso-east-1",
            "aws-iso-b" => "us-isob-east-1",
            "aws-iso-f" => "us-isof-south-1",
            _ => "us-east-1",
        }
    }

    pub(crate) fn eks_arn(&self, resource: &str) -> String {
        format!("arn:{}:eks:{}:{ACCOUNT}:{resource}", self.partition(), self.name)
    }

    pub(crate) fn access_policy_arn(&self, name: &str) -> String {
        format!("arn:{}:eks::aws:cluster-access-policy/{name}", self.partition())
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("eu-west-1", "arn:aws:eks:eu-west-1:123456789012:cluster/demo")]
    #[case("us-gov-west-1", "arn:aws-us-gov:eks:us-gov-west-1:123456789012:cluster/demo")]
    #[case("cn-north-1", "arn:aws-cn:eks:cn-north-1:123456789012:cluster/demo")]
    #[case("us-iso-east-1", "arn:aws-iso:eks:us-iso-east-1:123456789012:cluster/demo")]
    #[case("us-isob-east-1", "arn:aws-iso-b:eks:us-isob-east-1:123456789012:cluster/demo")]
    fn arns_carry_the_partition_of_their_region(#[case] region: &str, #[case] arn: &str) {
        assert_eq!(Region::new(region).eks_arn("cluster/demo"), arn);
    }
}
