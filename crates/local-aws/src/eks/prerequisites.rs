//! The lookups that an operation needs from other services.

use serde_json::Value;

use super::{
    context::Prerequisites,
    router::{Op, Route},
    state::EksState,
};

/// Derives the lookups from the request. A malformed body needs none, because it is rejected anyway.
pub(crate) fn required_by(route: &Route, body: &Value, state: &EksState, region: &str) -> Prerequisites {
    let mut needs = Prerequisites::default();
    let strings = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(|item| item.as_str().map(str::to_owned)).collect()
    };
    let own_subnets = || {
        let cluster = state.regions.get(region).and_then(|clusters| clusters.get(route.param(0)));
        cluster.map(|cluster| cluster.vpc.subnet_ids.clone()).unwrap_or_default()
    };
    match route.op {
        Op::CreateCluster => {
            needs.caller = true;
            needs.subnets.extend(strings(&body["resourcesVpcConfig"]["subnetIds"]));
            needs.principals.extend(body["roleArn"].as_str().map(str::to_owned));
        }
        Op::UpdateClusterConfig if body["resourcesVpcConfig"].is_object() => {
            needs.subnets.extend(strings(&body["resourcesVpcConfig"]["subnetIds"]));
            needs.subnets.extend(own_subnets());
        }
        Op::CreateFargateProfile => {
            needs.subnets.extend(strings(&body["subnets"]));
            if needs.subnets.is_empty() {
                needs.subnets.extend(own_subnets());
            }
            needs.principals.extend(body["podExecutionRoleArn"].as_str().map(str::to_owned));
        }
        Op::CreateAccessEntry => {
            needs.caller = true;
            needs.principals.extend(body["principalArn"].as_str().map(str::to_owned));
        }
        Op::CreatePodIdentityAssociation | Op::UpdatePodIdentityAssociation => {
            needs.principals.extend(body["roleArn"].as_str().map(str::to_owned));
        }
        Op::CreateAddon | Op::UpdateAddon => {
            let wanted = body["podIdentityAssociations"].as_array().into_iter().flatten();
            needs.principals.extend(wanted.filter_map(|item| item["roleArn"].as_str().map(str::to_owned)));
        }
        _ => {}
    }
    needs
}
