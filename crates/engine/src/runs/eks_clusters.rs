//! The EKS clusters in a state. Pure.

use terraform_driver::state::State;

/// The addresses of the AWS provider in the registries of both engines. Another provider could report any ARN.
const AWS_PROVIDERS: [&str; 2] =
    ["registry.terraform.io/hashicorp/aws", "registry.opentofu.org/hashicorp/aws"];

/// The ARNs of the managed clusters, sorted.
pub(super) fn cluster_arns(state: &State) -> Vec<String> {
    let clusters = state.resources.iter().filter(|resource| {
        resource.mode == "managed" && resource.kind == "aws_eks_cluster" && is_of_aws(&resource.provider)
    });
    let mut arns: Vec<String> = clusters
        .flat_map(|resource| &resource.instances)
        .filter_map(|instance| instance.string_attribute("arn"))
        .filter(|arn| !arn.is_empty())
        .collect();
    arns.sort_unstable();
    arns.dedup();
    arns
}

/// Whether this is the AWS provider. The address may have the path of a module before it and an alias behind it.
fn is_of_aws(address: &str) -> bool {
    let name = address.split_once("provider[\"").and_then(|(_, rest)| rest.split_once("\"]"));
    name.is_some_and(|(name, _)| AWS_PROVIDERS.contains(&name))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const ARN: &str = "arn:aws:eks:eu-central-1:123456789012:cluster/demo";

    fn arns(resource: &Value) -> Vec<String> {
        let state = json!({"version": 4, "terraform_version": "1.11.4", "serial": 1, "lineage": "x", "outputs": {},
            "resources": [resource]});
        cluster_arns(&State::parse(state.to_string().as_bytes()).unwrap())
    }

    fn cluster(mode: &str, provider: &str) -> Value {
        json!({"mode": mode, "type": "aws_eks_cluster", "name": "this", "provider": provider,
            "instances": [{"schema_version": 0, "attributes": {"arn": ARN}}]})
    }

    #[test]
    fn c2_a_cluster_counts_only_if_the_aws_provider_manages_it() {
        for provider in [
            "provider[\"registry.terraform.io/hashicorp/aws\"]",
            "module.eks.provider[\"registry.terraform.io/hashicorp/aws\"].west",
            "provider[\"registry.opentofu.org/hashicorp/aws\"]",
        ] {
            assert_eq!(arns(&cluster("managed", provider)), [ARN], "{provider}");
        }
        for provider in
            ["provider[\"registry.terraform.io/evil/aws\"]", "provider[\"evil.example/hashicorp/aws\"]", ""]
        {
            assert!(arns(&cluster("managed", provider)).is_empty(), "{provider}");
        }
        // A data source proves nothing: it reads any cluster of the account.
        assert!(arns(&cluster("data", "provider[\"registry.terraform.io/hashicorp/aws\"]")).is_empty());
    }
}
