//! Extraction of the routing key of a request.
//!
//! Contract: sources are searched in the order of [`Source`]; the first syntactically valid key decides, whether or not
//! the table has it. Malformed values are skipped. A request without a key costs no allocation.

mod member_list;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::percent_decode;

use self::member_list::members;

/// Names of the member that carries the key, in `baggage` and `tracestate`.
pub const MEMBER_NAMES: [&str; 2] = ["sd-routing-key", "sd-sandbox"];

/// Headers of older tracers whose whole value is the key.
pub const LEGACY_HEADERS: [&str; 2] = ["ot-baggage-sd-routing-key", "uberctx-sd-routing-key"];

/// Maximum length of a key: it is also a DNS label.
pub const MAX_KEY_LEN: usize = 63;

/// Bytes of a header that are scanned, over all its lines. W3C requires no more to be propagated.
const MAX_SCAN_BYTES: usize = 8192;

/// Where a key was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeySource {
    /// A member of `baggage`.
    Baggage,
    /// A member of `tracestate`.
    Tracestate,
    /// A header of an older tracer.
    LegacyHeader,
    /// A header configured by a route group.
    CustomHeader,
    /// A query parameter.
    Query,
    /// The host of a preview, which only the route table knows.
    PreviewHost,
}

/// A key and its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundKey<'a> {
    /// The key.
    pub key: Cow<'a, str>,
    /// Where it was found.
    pub source: KeySource,
}

/// Key sources configured by route groups, in addition to the standard ones.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ExtraKeySources {
    /// Headers whose value is the key.
    pub headers: Vec<HeaderName>,
    /// Query parameters whose value is the key.
    pub queries: Vec<String>,
}

/// Header access, independent of the representation of the head.
pub trait HeaderLines {
    /// The values of a header in order. `name` is lower case.
    fn header_values<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a [u8]>;
}

impl HeaderLines for HeaderMap {
    fn header_values<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        self.get_all(name).iter().map(HeaderValue::as_bytes)
    }
}

/// Finds the routing key of a request.
pub fn find_key<'a>(
    headers: &'a impl HeaderLines,
    asked: Option<&'a str>,
    places: &ExtraKeySources,
) -> Option<FoundKey<'a>> {
    find_member(headers, "baggage", percent_decoded)
        .map(|key| FoundKey { key, source: KeySource::Baggage })
        .or_else(|| {
            let key = find_member(headers, "tracestate", |value| Some(Cow::Borrowed(value)))?;
            Some(FoundKey { key, source: KeySource::Tracestate })
        })
        .or_else(|| {
            let key = LEGACY_HEADERS.iter().find_map(|name| find_header_key(headers.header_values(name)))?;
            Some(FoundKey { key, source: KeySource::LegacyHeader })
        })
        .or_else(|| {
            let key = places
                .headers
                .iter()
                .find_map(|name| find_header_key(headers.header_values(name.as_str())))?;
            Some(FoundKey { key, source: KeySource::CustomHeader })
        })
        .or_else(|| {
            Some(FoundKey { key: find_query_key(asked?, &places.queries)?, source: KeySource::Query })
        })
}

/// Whether a text is a valid key: a DNS label, because preview hosts contain it.
pub fn is_key(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=MAX_KEY_LEN).contains(&text.len())
        && text.bytes().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// The first key in a list header. Several header lines form one list.
fn find_member<'a>(
    headers: &'a impl HeaderLines,
    name: &str,
    meaning: impl Fn(&'a str) -> Option<Cow<'a, str>>,
) -> Option<Cow<'a, str>> {
    let mut left = MAX_SCAN_BYTES;
    for line in headers.header_values(name) {
        let seen = &line[..line.len().min(left)];
        // A member that ends exactly at the scan limit is complete.
        let whole = line.get(left).is_none_or(|next| *next == b',');
        let carries = members(seen, whole).filter(|(name, _)| MEMBER_NAMES.contains(name));
        if let Some(key) = carries.filter_map(|(_, value)| meaning(value)).find(|key| is_key(key)) {
            return Some(key);
        }
        // The comma that joins two lines counts too.
        left = left.checked_sub(line.len() + 1)?;
    }
    None
}

/// Percent-decodes the value of a `baggage` member.
fn percent_decoded(value: &str) -> Option<Cow<'_, str>> {
    percent_decode(value.as_bytes()).decode_utf8().ok()
}

/// The first header line that is a valid key.
fn find_header_key<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Option<Cow<'a, str>> {
    let texts = lines.filter_map(|line| std::str::from_utf8(line).ok());
    texts.map(|text| text.trim_matches([' ', '\t'])).find(|text| is_key(text)).map(Cow::Borrowed)
}

/// The first query parameter that is a valid key.
fn find_query_key<'a>(query: &'a str, wanted: &[String]) -> Option<Cow<'a, str>> {
    if wanted.is_empty() {
        return None;
    }
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let ours = pairs.filter(|(name, _)| wanted.iter().any(|it| it == name));
    ours.filter_map(|(_, value)| percent_decoded(value)).find(|key| is_key(key))
}
