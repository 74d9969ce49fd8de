//! Hop-by-hop headers, and headers that the proxy adds.

use std::net::IpAddr;

use http::{
    HeaderMap, HeaderName, HeaderValue, Version,
    header::{CONNECTION, HOST, TE, TRANSFER_ENCODING, UPGRADE},
};

use crate::table::RoutingKey;

/// Names the responder.
pub(super) const ROUTE: HeaderName = HeaderName::from_static("x-sandbox-route");
/// Error category of a response of the router.
pub(super) const ERROR: HeaderName = HeaderName::from_static("x-sandbox-error");
/// Marks a request forwarded by a peer router, with the name of the intended router.
pub(super) const HOP: HeaderName = HeaderName::from_static("x-sandbox-hop");
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const HTTP2_SETTINGS: HeaderName = HeaderName::from_static("http2-settings");
const BAGGAGE: HeaderName = HeaderName::from_static("baggage");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// Checks `Host` as RFC 9112 3.2 requires: what reads it differently than we do would answer another request. The error is
/// a message for the caller.
pub(super) fn check_host(version: Version, headers: &HeaderMap) -> Result<(), &'static str> {
    let mut hosts = headers.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(_), Some(_)) => Err("the request has more than one Host header"),
        (Some(host), None) if !is_valid_host(host.as_bytes()) => {
            Err("the Host header of the request is not a host name with an optional port")
        }
        (None, _) if version == Version::HTTP_11 => Err("the request has no Host header"),
        _ => Ok(()),
    }
}

/// Whether all bytes may be in `uri-host [ ":" port ]`. It may be empty.
pub(super) fn is_valid_host(value: &[u8]) -> bool {
    value.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-._~:[]!$&'()*+,;=%".contains(byte))
}

/// Whether a request asks for a protocol upgrade. `h2c` is excluded: it would make all later requests of the connection
/// follow the first.
pub(super) fn wants_upgrade(headers: &HeaderMap) -> bool {
    let Some(to) = headers.get(UPGRADE) else { return false };
    !to.as_bytes().eq_ignore_ascii_case(b"h2c") && is_connection_option(headers, "upgrade")
}

/// Whether `Connection` lists an option.
fn is_connection_option(headers: &HeaderMap, name: &str) -> bool {
    let lines = headers.get_all(CONNECTION).iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).any(|token| token.trim().eq_ignore_ascii_case(name))
}

/// Removes hop-by-hop headers. `keep_upgrade` preserves those needed for an upgrade.
pub(super) fn strip_hop_by_hop(headers: &mut HeaderMap, keep_upgrade: bool) {
    if headers.contains_key(CONNECTION) {
        strip_connection_options(headers, keep_upgrade);
    }
    headers.remove(KEEP_ALIVE);
    headers.remove(PROXY_CONNECTION);
    if !keep_upgrade && headers.remove(UPGRADE).is_some() {
        headers.remove(HTTP2_SETTINGS);
    }
    // The only transfer coding possible here is already decoded.
    headers.remove(TRANSFER_ENCODING);
    if let Some(te) = headers.get(TE)
        && te != "trailers"
    {
        let trailers = te.to_str().is_ok_and(|te| te.split(',').any(|it| it.trim() == "trailers"));
        headers.remove(TE);
        if trailers {
            headers.insert(TE, HeaderValue::from_static("trailers"));
        }
    }
}

/// Removes the headers listed in `Connection`, and `Connection` itself.
fn strip_connection_options(headers: &mut HeaderMap, keep_upgrade: bool) {
    let lines = headers.get_all(CONNECTION).iter().filter_map(|line| line.to_str().ok());
    let tokens = lines.flat_map(|line| line.split(','));
    let names = tokens.filter_map(|token| token.trim().parse::<HeaderName>().ok());
    // These cannot be removed by listing them.
    let kept = [http::header::HOST, http::header::CONTENT_LENGTH, UPGRADE, TE, CONNECTION];
    let gone = names.filter(|name| !kept.contains(name)).collect::<Vec<_>>();
    for name in gone {
        headers.remove(name);
    }
    headers.remove(CONNECTION);
    if keep_upgrade {
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    }
}

/// Appends the caller to `x-forwarded-for`.
pub(super) fn add_forwarded_for(headers: &mut HeaderMap, peer: &HeaderValue) {
    use http::header::Entry;
    match headers.entry(FORWARDED_FOR) {
        Entry::Vacant(vacant) => {
            vacant.insert(peer.clone());
        }
        Entry::Occupied(mut before) => {
            let lines = before.iter().map(HeaderValue::as_bytes).chain([peer.as_bytes()]);
            let all = lines.collect::<Vec<_>>().join(&b", "[..]);
            if let Ok(value) = HeaderValue::from_bytes(&all) {
                before.insert(value);
            }
        }
    }
}

/// An address as header value.
pub(super) fn address_value(peer: IpAddr) -> HeaderValue {
    // IPv4-mapped IPv6 addresses are shown as IPv4.
    let text = peer.to_canonical().to_string();
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("unknown"))
}

/// Injects the key of a preview. Existing members stay. Adds a `traceparent` if missing, because tracers discard
/// `tracestate` without one.
pub(super) fn inject_key(headers: &mut HeaderMap, key: &RoutingKey) {
    let member = format!("sd-routing-key={}", key.as_str());
    let baggage =
        joined_lines(headers, &BAGGAGE).map_or_else(|| member.clone(), |all| format!("{all},{member}"));
    let tracestate = joined_lines(headers, &TRACESTATE)
        .map_or_else(|| member.clone(), |all| prepend_tracestate_member(&member, &all));
    for (name, value) in [(BAGGAGE, baggage), (TRACESTATE, tracestate)] {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(name, value);
        }
    }
    if !headers.contains_key(TRACEPARENT) {
        let (trace, span) = (uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple().to_string());
        // Not sampled.
        if let Ok(value) = HeaderValue::try_from(format!("00-{trace}-{}-00", &span[..16])) {
            headers.insert(TRACEPARENT, value);
        }
    }
}

/// New members go first; at most 32 are allowed.
fn prepend_tracestate_member(member: &str, others: &str) -> String {
    let others = others.split(',').map(str::trim).filter(|it| !it.is_empty());
    [member].into_iter().chain(others).take(32).collect::<Vec<_>>().join(",")
}

/// All lines of a header joined, unless there are none.
fn joined_lines(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let lines = headers.get_all(name).iter().filter_map(|line| line.to_str().ok());
    let all = lines.filter(|line| !line.trim().is_empty()).collect::<Vec<_>>().join(",");
    Some(all).filter(|all| !all.is_empty())
}
