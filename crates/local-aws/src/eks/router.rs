//! Maps method and path to the EKS operation.

use crate::query_string::percent_decode;

macro_rules! operations {
    ($($name:ident $method:literal $path:literal)*) => {
        /// The EKS operations that have a route.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Op { $($name),* }

        impl Op {
            pub(crate) fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name)),* }
            }
        }

        const ROUTES: &[(Op, &str, &str)] = &[$((Op::$name, $method, $path)),*];
    };
}

operations! {
    CreateCluster "POST" "/clusters"
    ListClusters "GET" "/clusters"
    DescribeCluster "GET" "/clusters/{}"
    DeleteCluster "DELETE" "/clusters/{}"
    UpdateClusterVersion "POST" "/clusters/{}/updates"
    ListUpdates "GET" "/clusters/{}/updates"
    DescribeUpdate "GET" "/clusters/{}/updates/{}"
    UpdateClusterConfig "POST" "/clusters/{}/update-config"
    AssociateEncryptionConfig "POST" "/clusters/{}/encryption-config/associate"
    CreateFargateProfile "POST" "/clusters/{}/fargate-profiles"
    ListFargateProfiles "GET" "/clusters/{}/fargate-profiles"
    DescribeFargateProfile "GET" "/clusters/{}/fargate-profiles/{}"
    DeleteFargateProfile "DELETE" "/clusters/{}/fargate-profiles/{}"
    CreateAddon "POST" "/clusters/{}/addons"
    ListAddons "GET" "/clusters/{}/addons"
    DescribeAddon "GET" "/clusters/{}/addons/{}"
    UpdateAddon "POST" "/clusters/{}/addons/{}/update"
    DeleteAddon "DELETE" "/clusters/{}/addons/{}"
    DescribeAddonVersions "GET" "/addons/supported-versions"
    DescribeAddonConfiguration "GET" "/addons/configuration-schemas"
    CreateAccessEntry "POST" "/clusters/{}/access-entries"
    ListAccessEntries "GET" "/clusters/{}/access-entries"
    DescribeAccessEntry "GET" "/clusters/{}/access-entries/{}"
    UpdateAccessEntry "POST" "/clusters/{}/access-entries/{}"
    DeleteAccessEntry "DELETE" "/clusters/{}/access-entries/{}"
    AssociateAccessPolicy "POST" "/clusters/{}/access-entries/{}/access-policies"
    ListAssociatedAccessPolicies "GET" "/clusters/{}/access-entries/{}/access-policies"
    DisassociateAccessPolicy "DELETE" "/clusters/{}/access-entries/{}/access-policies/{}"
    ListAccessPolicies "GET" "/access-policies"
    CreatePodIdentityAssociation "POST" "/clusters/{}/pod-identity-associations"
    ListPodIdentityAssociations "GET" "/clusters/{}/pod-identity-associations"
    DescribePodIdentityAssociation "GET" "/clusters/{}/pod-identity-associations/{}"
    UpdatePodIdentityAssociation "POST" "/clusters/{}/pod-identity-associations/{}"
    DeletePodIdentityAssociation "DELETE" "/clusters/{}/pod-identity-associations/{}"
    ListIdentityProviderConfigs "GET" "/clusters/{}/identity-provider-configs"
    DescribeIdentityProviderConfig "POST" "/clusters/{}/identity-provider-configs/describe"
    AssociateIdentityProviderConfig "POST" "/clusters/{}/identity-provider-configs/associate"
    DisassociateIdentityProviderConfig "POST" "/clusters/{}/identity-provider-configs/disassociate"
    ListNodegroups "GET" "/clusters/{}/node-groups"
    DescribeNodegroup "GET" "/clusters/{}/node-groups/{}"
    CreateNodegroup "POST" "/clusters/{}/node-groups"
    DescribeClusterVersions "GET" "/cluster-versions"
    TagResource "POST" "/tags/{}"
    UntagResource "DELETE" "/tags/{}"
    ListTagsForResource "GET" "/tags/{}"
}

/// A routed request: its operation and the decoded `{}` segments of its path.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) op: Op,
    pub(crate) params: Vec<String>,
}

impl Route {
    /// The n-th path parameter. A route has as many as its operation requires.
    pub(crate) fn param(&self, n: usize) -> &str {
        self.params.get(n).map_or("", String::as_str)
    }
}

/// Finds the route for a method and an undecoded path.
pub(crate) fn route(method: &str, path: &str) -> Option<Route> {
    let path = path.trim_end_matches('/');
    ROUTES.iter().filter(|(_, m, _)| *m == method).find_map(|(op, _, template)| {
        let params = match_path(template, path)?;
        Some(Route { op: *op, params })
    })
}

fn match_path(template: &str, path: &str) -> Option<Vec<String>> {
    // Some clients do not encode the slash of an ARN.
    if let (Some(prefix), Some(rest)) = (template.strip_suffix("{}"), path.strip_prefix("/tags/"))
        && prefix == "/tags/"
    {
        return (!rest.is_empty()).then(|| vec![percent_decode(rest)]);
    }
    let mut wanted = template.split('/');
    let mut given = path.split('/');
    let mut params = Vec::new();
    loop {
        match (wanted.next(), given.next()) {
            (None, None) => return Some(params),
            (Some("{}"), Some(value)) if !value.is_empty() => params.push(percent_decode(value)),
            (Some(want), Some(value)) if want == value => {}
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("GET", "/clusters/", "ListClusters", &[])]
    #[case("DELETE", "/clusters/demo/fargate-profiles/fp%20one", "DeleteFargateProfile", &["demo", "fp one"])]
    #[case("GET", "/clusters/demo/access-entries/arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fx", "DescribeAccessEntry", &["demo", "arn:aws:iam::1:role/x"])]
    #[case("POST", "/tags/arn:aws:eks:r:1:cluster/demo", "TagResource", &["arn:aws:eks:r:1:cluster/demo"])]
    #[case("POST", "/clusters/demo/identity-provider-configs/describe", "DescribeIdentityProviderConfig", &["demo"])]
    fn a_path_names_its_operation(
        #[case] method: &str,
        #[case] path: &str,
        #[case] op: &str,
        #[case] params: &[&str],
    ) {
        let route = route(method, path).unwrap();
        assert_eq!(route.op.name(), op);
        assert_eq!(route.params, params);
    }

    #[rstest]
    #[case("PUT", "/clusters")]
    #[case("GET", "/")]
    #[case("GET", "")]
    #[case("GET", "/clusters//addons")]
    #[case("GET", "/tags/")]
    #[case("GET", "/clusters/a/b/c/d/e/f")]
    fn a_path_that_eks_does_not_know_has_no_route(#[case] method: &str, #[case] path: &str) {
        assert_eq!(route(method, path), None);
    }
}
