//! Where connections come in, and which route that means.

use std::sync::Arc;

use arc_swap::ArcSwap;
use http::StatusCode;

use super::{answer::Refusal, decide::Asked};
use crate::{
    key::Lines,
    table::{Route, ServicePort, Table},
};

/// Where a connection came in.
#[derive(Debug)]
pub(super) enum Origin {
    /// At the listener of one route.
    Port {
        /// The router's own.
        port: u16,
        /// The route as it was last seen: it outlives its place in the table by a while.
        last: ArcSwap<Route>,
    },
    /// At the listener of all routes.
    Front,
}

/// A route, and whether callers should look for it elsewhere.
pub(super) struct Place {
    pub(super) route: Arc<Route>,
    pub(super) is_leaving: bool,
}

impl Origin {
    pub(super) fn port(port: u16, route: &Arc<Route>) -> Self {
        Self::Port { port, last: ArcSwap::new(Arc::clone(route)) }
    }

    /// The service of a listener.
    pub(super) fn service(&self) -> Option<ServicePort> {
        match self {
            Self::Port { last, .. } => Some(last.load().service().clone()),
            Self::Front => None,
        }
    }

    /// What a new table says of this listener.
    pub(super) fn refresh(&self, table: &Table) {
        if let Self::Port { port, last } = self
            && let Some(route) = table.at(*port)
            && route.service() == last.load().service()
        {
            last.store(Arc::clone(route));
        }
    }

    /// The route of bytes that nobody understands.
    pub(super) fn blind(&self, table: &Table) -> Option<Arc<Route>> {
        match self {
            Self::Port { port, last } => {
                let last = last.load_full();
                let now = table.at(*port).filter(|route| route.service() == last.service());
                Some(now.map_or(last, Arc::clone))
            }
            Self::Front => None,
        }
    }

    /// The route of a request.
    pub(super) fn place(&self, table: &Table, asked: &Asked<'_, impl Lines>) -> Result<Place, Refusal> {
        match self {
            Self::Port { port, last } => match table.at(*port) {
                Some(route) if route.service() == last.load().service() => {
                    Ok(Place { route: Arc::clone(route), is_leaving: false })
                }
                // The caller means the service that was here when it connected, never another one.
                _ => Ok(Place { route: last.load_full(), is_leaving: true }),
            },
            Self::Front => {
                let host = asked.host().unwrap_or_default();
                let preview = table.preview(host).map(|(_, route)| route);
                let route = preview.or_else(|| table.named(host)).ok_or_else(|| {
                    let message = format!("no service and no preview is called {host:?}; see /debug/routes");
                    Refusal::new(StatusCode::NOT_FOUND, "no-route", message)
                })?;
                Ok(Place { route: Arc::clone(route), is_leaving: false })
            }
        }
    }
}
