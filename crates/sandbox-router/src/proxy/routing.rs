//! Who answers a request, and why. Pure.

use std::{borrow::Cow, sync::Arc};

use http::{HeaderMap, Uri};

use crate::{
    key::{self, Lines, Source},
    table::{Backend, Key, Route, Table, Target},
};

/// Who answers a request.
#[derive(Debug)]
pub(super) struct Decision {
    /// Who.
    pub(super) to: To,
    /// The key was that of a preview, and the request must be given it.
    pub(super) inject: Option<Key>,
    /// There was a key, and the table does not know it.
    pub(super) unknown: bool,
}

/// Who answers.
#[derive(Debug)]
pub(super) enum To {
    /// The service as it is.
    Baseline(Arc<Backend>),
    /// Somebody else.
    Override(Target),
}

/// The parts of a request that decide.
#[derive(Debug)]
pub(super) struct Asked<'a, H = HeaderMap> {
    pub(super) headers: &'a H,
    /// The host of an address that has one.
    pub(super) authority: Option<&'a str>,
    /// What stands behind the question mark.
    pub(super) query: Option<&'a str>,
}

impl<'a> Asked<'a> {
    pub(super) fn of(headers: &'a HeaderMap, uri: &'a Uri) -> Self {
        Self { headers, authority: uri.authority().map(http::uri::Authority::as_str), query: uri.query() }
    }
}

impl<'a, H: Lines> Asked<'a, H> {
    /// The name that the caller used.
    pub(super) fn host(&self) -> Option<&'a str> {
        let header = || std::str::from_utf8(self.headers.lines("host").next()?).ok();
        self.authority.or_else(header)
    }
}

/// The key of a request, and its place. A preview's host is the last place that is looked at.
pub(super) fn key_of<'a>(
    asked: &Asked<'a, impl Lines>,
    table: &'a Table,
    route: &Route,
) -> Option<(Cow<'a, str>, Source)> {
    if let Some(found) = key::find(asked.headers, asked.query, route.places()) {
        return Some((found.key, found.source));
    }
    let (preview, to) = table.preview(asked.host()?)?;
    let is_ours = to.service() == route.service();
    is_ours.then(|| (Cow::Borrowed(preview.key().as_str()), Source::Preview))
}

/// Who answers a request that came in for a route.
pub(super) fn decide(asked: &Asked<'_, impl Lines>, table: &Table, route: &Route) -> Decision {
    let Some((key, source)) = key_of(asked, table, route) else {
        return Decision { to: To::Baseline(Arc::clone(route.baseline())), inject: None, unknown: false };
    };
    let inject = if source == Source::Preview { Key::parse(&key) } else { None };
    match route.target(&key) {
        Some(target) => Decision { to: To::Override(target.clone()), inject, unknown: false },
        // A preview's key that overrides something further on is known, only not here.
        None => {
            Decision { to: To::Baseline(Arc::clone(route.baseline())), inject, unknown: !table.knows(&key) }
        }
    }
}
