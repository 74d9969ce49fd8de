//! The routing key of a request.
//!
//! Contract: the places are looked at in the order of [`Source`]; the first value that can be a key decides, whether
//! anybody knows that key or not. What does not follow the grammar is skipped and harms nobody. A request without a key
//! costs no allocation.

mod list;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::percent_decode;

use self::list::members;

/// Names of the member that carries the key, in `baggage` and in `tracestate`.
pub const MEMBERS: [&str; 2] = ["sd-routing-key", "sd-sandbox"];

/// Headers of older tracers, whose whole value is the key.
pub const OLDER: [&str; 2] = ["ot-baggage-sd-routing-key", "uberctx-sd-routing-key"];

/// The longest key: it is a label of a host name too.
pub const LONGEST: usize = 63;

/// How much of a header is looked at, all of its lines together. W3C asks nobody to pass on more.
const SCANNED: usize = 8192;

/// Where a key was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// A member of `baggage`.
    Baggage,
    /// A member of `tracestate`.
    Tracestate,
    /// A header of an older tracer.
    Older,
    /// A header that a route group names.
    Custom,
    /// A parameter of the query.
    Query,
    /// The host of a preview. Only a table knows those.
    Preview,
}

/// A key and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found<'a> {
    /// The key.
    pub key: Cow<'a, str>,
    /// Where it was.
    pub source: Source,
}

/// What route groups ask for beside the usual places.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Places {
    /// Headers whose value is the key.
    pub headers: Vec<HeaderName>,
    /// Parameters of the query whose value is the key.
    pub queries: Vec<String>,
}

/// Headers of a request, however they are kept.
pub trait Lines {
    /// The values of a header in their order. Its name is in lower case.
    fn lines<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a [u8]>;
}

impl Lines for HeaderMap {
    fn lines<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        self.get_all(name).iter().map(HeaderValue::as_bytes)
    }
}

/// The key of a request.
pub fn find<'a>(headers: &'a impl Lines, asked: Option<&'a str>, places: &Places) -> Option<Found<'a>> {
    member(headers, "baggage", decoded)
        .map(|key| Found { key, source: Source::Baggage })
        .or_else(|| {
            let key = member(headers, "tracestate", |value| Some(Cow::Borrowed(value)))?;
            Some(Found { key, source: Source::Tracestate })
        })
        .or_else(|| {
            let key = OLDER.iter().find_map(|name| whole(headers.lines(name)))?;
            Some(Found { key, source: Source::Older })
        })
        .or_else(|| {
            let key = places.headers.iter().find_map(|name| whole(headers.lines(name.as_str())))?;
            Some(Found { key, source: Source::Custom })
        })
        .or_else(|| Some(Found { key: query(asked?, &places.queries)?, source: Source::Query }))
}

/// Whether a text can be a key: a label of a host name, because it is one in preview addresses.
pub fn is_key(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=LONGEST).contains(&text.len())
        && text.bytes().all(inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// The first member of a header that carries a key. Several lines are one list.
fn member<'a>(
    headers: &'a impl Lines,
    name: &str,
    meaning: impl Fn(&'a str) -> Option<Cow<'a, str>>,
) -> Option<Cow<'a, str>> {
    let mut left = SCANNED;
    for line in headers.lines(name) {
        let seen = &line[..line.len().min(left)];
        // A member that ends where we stop is a whole one.
        let whole = line.get(left).is_none_or(|next| *next == b',');
        let carries = members(seen, whole).filter(|(name, _)| MEMBERS.contains(name));
        if let Some(key) = carries.filter_map(|(_, value)| meaning(value)).find(|key| is_key(key)) {
            return Some(key);
        }
        // The comma that joins two lines counts too.
        left = left.checked_sub(line.len() + 1)?;
    }
    None
}

/// The value of a member of `baggage`.
fn decoded(value: &str) -> Option<Cow<'_, str>> {
    percent_decode(value.as_bytes()).decode_utf8().ok()
}

/// The first line of a header that is a key.
fn whole<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Option<Cow<'a, str>> {
    let texts = lines.filter_map(|line| std::str::from_utf8(line).ok());
    texts.map(|text| text.trim_matches([' ', '\t'])).find(|text| is_key(text)).map(Cow::Borrowed)
}

/// The first parameter of the query that is a key.
fn query<'a>(query: &'a str, wanted: &[String]) -> Option<Cow<'a, str>> {
    if wanted.is_empty() {
        return None;
    }
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let ours = pairs.filter(|(name, _)| wanted.iter().any(|it| it == name));
    ours.filter_map(|(_, value)| decoded(value)).find(|key| is_key(key))
}
