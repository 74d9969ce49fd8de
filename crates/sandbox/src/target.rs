//! The Service behind an endpoint.

use capt_kinds::sandbox::{Endpoint, conditions::reasons};

use crate::rejection::Rejection;

/// The Service behind an endpoint, and its scheme.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointTarget {
    /// `http`, `https` or `grpc`.
    pub scheme: &'static str,
    /// Name of the Service.
    pub service: String,
    /// Its namespace.
    pub namespace: String,
    /// Its port.
    pub port: u16,
}

/// Parses `http://frontend.shop.svc:8080`. The port defaults to that of the scheme.
pub fn parse_target(target: &str) -> Option<EndpointTarget> {
    let (scheme, rest) = target.split_once("://")?;
    let (scheme, usual) = match scheme {
        "http" => ("http", 80),
        "grpc" => ("grpc", 80),
        "https" => ("https", 443),
        _ => return None,
    };
    let (host, port) = match rest.split_once(':') {
        Some((host, port)) => (host, parse_port(port)?),
        None => (rest, usual),
    };
    let mut labels = host.split('.');
    let (service, namespace) = (labels.next()?, labels.next()?);
    if labels.next()? != "svc"
        || labels.next().is_some()
        || !is_dns_label(service)
        || !is_dns_label(namespace)
    {
        return None;
    }
    Some(EndpointTarget { scheme, service: service.to_owned(), namespace: namespace.to_owned(), port })
}

/// Parses the targets of endpoints; rejects the first invalid one.
pub fn parse_targets(endpoints: &[Endpoint]) -> Result<Vec<(&Endpoint, EndpointTarget)>, Rejection> {
    let one = |(index, endpoint): (usize, &'_ Endpoint)| {
        parse_target(&endpoint.target).ok_or_else(|| {
        Rejection::new(
            reasons::INVALID_TARGET,
            format!(
                "endpoints[{index}].target: {:?} is not http, https or grpc ://service.namespace.svc, with or without a port",
                endpoint.target
            ),
        )
    })
    };
    endpoints.iter().enumerate().map(|(index, endpoint)| Ok((endpoint, one((index, endpoint))?))).collect()
}

/// The first label of the preview host of an endpoint.
pub fn preview_label(endpoint: &str, object: &str, namespace: &str) -> String {
    let label = format!("{endpoint}--{object}--{namespace}");
    if label.len() <= 63 {
        return label;
    }
    // A DNS label has at most 63 characters.
    format!("{endpoint}--{}", &crate::digest::sha256(&format!("{object}/{namespace}"))[..16])
}

fn parse_port(text: &str) -> Option<u16> {
    let plain = !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit()) && !text.starts_with('0');
    if plain { text.parse().ok() } else { None }
}

pub(crate) fn is_dns_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&text.len())
        && text.bytes().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("http://frontend.shop.svc:8080", Some(("http", "frontend", "shop", 8080)))]
    #[case("http://frontend.shop.svc", Some(("http", "frontend", "shop", 80)))]
    #[case("https://frontend.shop.svc", Some(("https", "frontend", "shop", 443)))]
    #[case("grpc://cart.shop.svc:50051", Some(("grpc", "cart", "shop", 50051)))]
    #[case("http://frontend.shop.svc.cluster.local:8080", None)]
    #[case("http://frontend.shop", None)]
    #[case("http://frontend", None)]
    #[case("frontend.shop.svc:8080", None)]
    #[case("ftp://frontend.shop.svc", None)]
    #[case("http://frontend.shop.svc:0", None)]
    #[case("http://frontend.shop.svc:65536", None)]
    #[case("http://frontend.shop.svc:", None)]
    #[case("http://frontend.shop.svc:+80", None)]
    #[case("http://frontend.shop.svc/path", None)]
    #[case("http://user@frontend.shop.svc", None)]
    #[case("http://Frontend.shop.svc", None)]
    #[case("http://.shop.svc", None)]
    #[case("http://169.254.169.254", None)]
    #[case("", None)]
    fn a_target_is_the_address_of_a_service(
        #[case] text: &str,
        #[case] expected: Option<(&str, &str, &str, u16)>,
    ) {
        let found = parse_target(text);
        let parts = found.as_ref().map(|it| (it.scheme, it.service.as_str(), it.namespace.as_str(), it.port));
        assert_eq!(parts, expected);
    }
}
