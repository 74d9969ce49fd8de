//! Parses request paths as kube-apiserver does. Pure: whether the resource exists is not checked here.

use percent_encoding::percent_decode_str;

/// A parsed path of the form `/api/v1/…` or `/apis/group/version/…`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestInfo {
    /// API group; empty for core.
    pub group: String,
    /// Version.
    pub version: String,
    /// Whether the path has the deprecated `/watch/` prefix.
    pub watch_prefix: bool,
    /// Namespace for authorization: for the path of a namespace object it is that namespace.
    pub namespace: String,
    /// Whether the path continues after `namespaces/NS/`.
    pub in_namespace: bool,
    /// Plural.
    pub resource: String,
    /// Name; empty for collections.
    pub name: String,
    /// Subresource; empty for the object itself.
    pub subresource: String,
    /// Whether the path has more segments than a subresource.
    pub has_extra_segments: bool,
}

/// Decoded path segments; empty ones at both ends are dropped.
fn path_segments(path: &str) -> Vec<String> {
    let path = path.trim_matches('/');
    if path.is_empty() {
        return Vec::new();
    }
    path.split('/').map(|step| percent_decode_str(step).decode_utf8_lossy().into_owned()).collect()
}

/// Group of a path of the form `/apis/GROUP/VERSION`.
pub fn group_of_path(path: &str) -> Option<String> {
    match path_segments(path).as_slice() {
        [apis, group, _] if apis == "apis" => Some(group.clone()),
        _ => None,
    }
}

/// Parses a path; `None` if it does not name a resource.
pub fn parse_path(path: &str) -> Option<RequestInfo> {
    let steps = path_segments(path);
    let mut rest = steps.iter().map(String::as_str);
    let mut address = RequestInfo::default();
    match rest.next()? {
        "api" => {}
        "apis" => rest.next()?.clone_into(&mut address.group),
        _ => return None,
    }
    rest.next()?.clone_into(&mut address.version);
    let mut rest: &[&str] = &rest.collect::<Vec<_>>();
    if let [verb @ ("watch" | "proxy"), more @ ..] = rest {
        address.watch_prefix = *verb == "watch";
        rest = more;
    }
    if let ["namespaces", namespace, more @ ..] = rest {
        (*namespace).clone_into(&mut address.namespace);
        if more.first().is_some_and(|step| !matches!(*step, "status" | "finalize")) {
            address.in_namespace = true;
            rest = more;
        }
    }
    let [resource, more @ ..] = rest else { return None };
    (*resource).clone_into(&mut address.resource);
    let mut more = more.iter();
    (*more.next().unwrap_or(&"")).clone_into(&mut address.name);
    (*more.next().unwrap_or(&"")).clone_into(&mut address.subresource);
    address.has_extra_segments = more.next().is_some();
    Some(address)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn shown(path: &str) -> String {
        let Some(it) = parse_path(path) else { return "none".to_owned() };
        format!(
            "{}/{} watch={} ns={} in={} {} {} {} deeper={}",
            it.group,
            it.version,
            it.watch_prefix,
            it.namespace,
            it.in_namespace,
            it.resource,
            it.name,
            it.subresource,
            it.has_extra_segments
        )
    }

    #[rstest]
    #[case("/api/v1/pods", "/v1 watch=false ns= in=false pods   deeper=false")]
    #[case("/api/v1/namespaces/a/pods/b/status", "/v1 watch=false ns=a in=true pods b status deeper=false")]
    #[case("/api/v1/namespaces/a", "/v1 watch=false ns=a in=false namespaces a  deeper=false")]
    #[case(
        "/api/v1/namespaces/a/finalize",
        "/v1 watch=false ns=a in=false namespaces a finalize deeper=false"
    )]
    #[case("/api/v1/namespaces", "/v1 watch=false ns= in=false namespaces   deeper=false")]
    #[case(
        "/apis/apps/v1/watch/namespaces/a/deployments",
        "apps/v1 watch=true ns=a in=true deployments   deeper=false"
    )]
    #[case(
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
        "rbac.authorization.k8s.io/v1 watch=false ns= in=false clusterroles system:node  deeper=false"
    )]
    #[case("/api/v1/pods/a/b/c", "/v1 watch=false ns= in=false pods a b deeper=true")]
    #[case("/apis/apps/v1", "none")]
    #[case("/api/v1", "none")]
    #[case("/healthz", "none")]
    #[case("/", "none")]
    fn a_path_is_read_as_the_real_server_does(#[case] path: &str, #[case] expected: &str) {
        assert_eq!(shown(path), expected);
    }
}
