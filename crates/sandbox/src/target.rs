//! The Service behind an endpoint.

use crate::{
    api::{Endpoint, conditions::reasons},
    refusal::Refusal,
};

/// The Service behind an endpoint, and how it is spoken to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// `http`, `https` or `grpc`.
    pub scheme: &'static str,
    /// Name of the Service.
    pub service: String,
    /// Its namespace.
    pub namespace: String,
    /// Its port.
    pub port: u16,
}

/// Reads `http://frontend.shop.svc:8080`. Without a port it is the usual one of the scheme.
pub fn parse(target: &str) -> Option<Target> {
    let (scheme, rest) = target.split_once("://")?;
    let (scheme, usual) = match scheme {
        "http" => ("http", 80),
        "grpc" => ("grpc", 80),
        "https" => ("https", 443),
        _ => return None,
    };
    let (host, port) = match rest.split_once(':') {
        Some((host, port)) => (host, number(port)?),
        None => (rest, usual),
    };
    let mut labels = host.split('.');
    let (service, namespace) = (labels.next()?, labels.next()?);
    if labels.next()? != "svc" || labels.next().is_some() || !is_label(service) || !is_label(namespace) {
        return None;
    }
    Some(Target { scheme, service: service.to_owned(), namespace: namespace.to_owned(), port })
}

/// The targets of endpoints, or what is wrong with the first that is none.
pub fn parse_all(endpoints: &[Endpoint]) -> Result<Vec<(&Endpoint, Target)>, Refusal> {
    let one = |(index, endpoint): (usize, &'_ Endpoint)| {
        parse(&endpoint.target).ok_or_else(|| {
        Refusal::new(
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

/// The first part of the host name of an endpoint.
pub fn preview_label(endpoint: &str, object: &str, namespace: &str) -> String {
    let label = format!("{endpoint}--{object}--{namespace}");
    if label.len() <= 63 {
        return label;
    }
    // A label of a host name has no room for more.
    format!("{endpoint}--{}", &crate::digest::sha256(&format!("{object}/{namespace}"))[..16])
}

fn number(text: &str) -> Option<u16> {
    let plain = !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit()) && !text.starts_with('0');
    if plain { text.parse().ok() } else { None }
}

pub(crate) fn is_label(text: &str) -> bool {
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
        let found = parse(text);
        let parts = found.as_ref().map(|it| (it.scheme, it.service.as_str(), it.namespace.as_str(), it.port));
        assert_eq!(parts, expected);
    }
}
