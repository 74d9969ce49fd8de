//! Parses the URL of a Kubernetes API server into host and port. Pure.

use capt_kinds::api::ApiEndpoint;

/// Default port.
const HTTPS_PORT: i32 = 443;

/// Host without scheme, and port. `None` if the text is not an `https` URL or a host.
pub(crate) fn parse(url: &str) -> Option<ApiEndpoint> {
    let rest = url.trim().strip_prefix("https://").unwrap_or_else(|| url.trim());
    let authority = rest.split(['/', '?', '#']).next()?;
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']')?;
            (host, after.strip_prefix(':'))
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    let port = port.map_or(Some(HTTPS_PORT), |port| port.parse().ok())?;
    let is_host =
        !host.is_empty() && host.chars().all(|it| it.is_ascii_alphanumeric() || "-._:".contains(it));
    (is_host && (1..=65535).contains(&port)).then(|| ApiEndpoint { host: host.to_owned(), port })
}

/// The endpoint to write into the spec, if any. An endpoint set by a user stays. A host with a scheme was written by upstream
/// and is repaired.
pub(crate) fn endpoint_update(now: Option<&ApiEndpoint>, url: Option<&str>) -> Option<ApiEndpoint> {
    match now {
        Some(now) if now.host.contains("://") => {
            let repaired = parse(&now.host)?;
            let port = if (1..=65535).contains(&now.port) { now.port } else { repaired.port };
            Some(ApiEndpoint { port, ..repaired })
        }
        Some(now) if !now.host.is_empty() && now.port != 0 => None,
        _ => parse(url?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(host: &str, port: i32) -> ApiEndpoint {
        ApiEndpoint { host: host.to_owned(), port }
    }

    #[test]
    fn the_host_has_no_scheme_and_the_port_is_the_real_one() {
        for (url, expected) in [
            (
                "https://ABC.gr7.eu-west-1.eks.amazonaws.com",
                Some(("ABC.gr7.eu-west-1.eks.amazonaws.com", 443)),
            ),
            ("https://127.0.0.1:40123", Some(("127.0.0.1", 40123))),
            ("https://127.0.0.1:40123/", Some(("127.0.0.1", 40123))),
            ("https://[::1]:6443", Some(("::1", 6443))),
            ("host.example", Some(("host.example", 443))),
            ("", None),
            ("https://", None),
            ("https://host:0", None),
            ("https://host:70000", None),
            ("https://host:x", None),
            ("http://host", None),
            ("not an address", None),
            ("[\"list\"]", None),
        ] {
            assert_eq!(parse(url), expected.map(|(host, port)| endpoint(host, port)), "{url}");
        }
    }

    #[test]
    fn an_endpoint_that_somebody_chose_stays() {
        let url = Some("https://eks.example:8443");
        assert_eq!(endpoint_update(None, url), Some(endpoint("eks.example", 8443)));
        assert_eq!(endpoint_update(Some(&endpoint("", 0)), url), Some(endpoint("eks.example", 8443)));
        assert_eq!(endpoint_update(Some(&endpoint("proxy.example", 443)), url), None);
        assert_eq!(endpoint_update(None, None), None);
    }

    #[test]
    fn the_scheme_that_upstream_left_in_the_host_goes() {
        let old = endpoint("https://eks.example", 443);
        assert_eq!(endpoint_update(Some(&old), None), Some(endpoint("eks.example", 443)));
    }
}
