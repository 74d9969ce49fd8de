//! Selects the responder of a request. Pure.

use std::{borrow::Cow, sync::Arc};

use http::{HeaderMap, Uri};

use crate::{
    key::{self, HeaderLines, KeySource},
    table::{Backend, Route, RouteTable, RoutingKey, Target},
};

/// The routing decision for a request.
#[derive(Debug)]
pub(super) struct RoutingDecision {
    /// The selected responder.
    pub(super) responder: Responder,
    /// The key of a preview, which must be injected into the request.
    pub(super) injected_key: Option<RoutingKey>,
    /// The request has a key that the table does not contain.
    pub(super) is_unknown_key: bool,
}

/// The responder of a request.
#[derive(Debug)]
pub(super) enum Responder {
    /// The baseline service.
    Baseline(Arc<Backend>),
    /// An override for the routing key.
    Override(Target),
}

/// The parts of a request that routing depends on.
#[derive(Debug)]
pub(super) struct RequestParts<'a, H = HeaderMap> {
    pub(super) headers: &'a H,
    /// The host of an absolute request target.
    pub(super) authority: Option<&'a str>,
    /// The query string.
    pub(super) query: Option<&'a str>,
}

impl<'a> RequestParts<'a> {
    pub(super) fn from_uri(headers: &'a HeaderMap, uri: &'a Uri) -> Self {
        Self { headers, authority: uri.authority().map(http::uri::Authority::as_str), query: uri.query() }
    }
}

impl<'a, H: HeaderLines> RequestParts<'a, H> {
    /// The host name that the caller used.
    pub(super) fn host(&self) -> Option<&'a str> {
        let header = || std::str::from_utf8(self.headers.header_values("host").next()?).ok();
        self.authority.or_else(header)
    }
}

/// The routing key of a request and its source. The preview host is searched last.
pub(super) fn routing_key<'a>(
    asked: &RequestParts<'a, impl HeaderLines>,
    table: &'a RouteTable,
    route: &Route,
) -> Option<(Cow<'a, str>, KeySource)> {
    if let Some(found) = key::find_key(asked.headers, asked.query, route.extra_key_sources()) {
        return Some((found.key, found.source));
    }
    let (preview, to) = table.preview_by_host(asked.host()?)?;
    let is_ours = to.service() == route.service();
    is_ours.then(|| (Cow::Borrowed(preview.key().as_str()), KeySource::PreviewHost))
}

/// Selects the responder of a request for a route.
pub(super) fn decide(
    asked: &RequestParts<'_, impl HeaderLines>,
    table: &RouteTable,
    route: &Route,
) -> RoutingDecision {
    let Some((key, source)) = routing_key(asked, table, route) else {
        return RoutingDecision {
            responder: Responder::Baseline(Arc::clone(route.baseline())),
            injected_key: None,
            is_unknown_key: false,
        };
    };
    let inject = if source == KeySource::PreviewHost { RoutingKey::parse(&key) } else { None };
    match route.target(&key) {
        Some(target) => RoutingDecision {
            responder: Responder::Override(target.clone()),
            injected_key: inject,
            is_unknown_key: false,
        },
        // A preview's key that overrides only other services is known, just not on this route.
        None => RoutingDecision {
            responder: Responder::Baseline(Arc::clone(route.baseline())),
            injected_key: inject,
            is_unknown_key: !table.has_key(&key),
        },
    }
}
