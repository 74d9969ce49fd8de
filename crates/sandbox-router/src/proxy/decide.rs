//! Who answers a request, and why. Pure.

use std::{borrow::Cow, sync::Arc};

use http::{HeaderMap, Uri};

use crate::{
    key::{self, Source},
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
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) headers: &'a HeaderMap,
    pub(super) uri: &'a Uri,
}

impl<'a> Asked<'a> {
    /// The name that the caller used.
    pub(super) fn host(self) -> Option<&'a str> {
        let header = || self.headers.get(http::header::HOST)?.to_str().ok();
        self.uri.authority().map(http::uri::Authority::as_str).or_else(header)
    }
}

/// The key of a request, and its place. A preview's host is the last place that is looked at.
pub(super) fn key_of<'a>(
    asked: Asked<'a>,
    table: &'a Table,
    route: &Route,
) -> Option<(Cow<'a, str>, Source)> {
    if let Some(found) = key::find(asked.headers, asked.uri, route.places()) {
        return Some((found.key, found.source));
    }
    let (preview, to) = table.preview(asked.host()?)?;
    let is_ours = to.service() == route.service();
    is_ours.then(|| (Cow::Borrowed(preview.key().as_str()), Source::Preview))
}

/// Who answers a request that came in for a route.
pub(super) fn decide(asked: Asked<'_>, table: &Table, route: &Route) -> Decision {
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
