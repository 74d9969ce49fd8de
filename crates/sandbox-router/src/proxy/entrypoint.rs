//! Entry points of connections, and the routes they lead to.

use std::sync::Arc;

use arc_swap::ArcSwap;
use http::StatusCode;

use super::{response::ErrorResponse, routing::RequestParts};
use crate::{
    key::HeaderLines,
    table::{Route, RouteTable, ServicePort},
};

/// The listener through which a connection came in.
#[derive(Debug)]
pub(super) enum Entrypoint {
    /// The listener of one route.
    Port {
        /// The router's own port.
        port: u16,
        /// The last known route: connections may outlive its entry in the table.
        last_route: ArcSwap<Route>,
    },
    /// The shared listener that routes by host.
    AllHosts,
}

/// A matched route, and whether its listener is being drained.
pub(super) struct MatchedRoute {
    pub(super) route: Arc<Route>,
    pub(super) is_draining: bool,
}

impl Entrypoint {
    pub(super) fn port(port: u16, route: &Arc<Route>) -> Self {
        Self::Port { port, last_route: ArcSwap::new(Arc::clone(route)) }
    }

    /// The service of a route listener.
    pub(super) fn service(&self) -> Option<ServicePort> {
        match self {
            Self::Port { last_route: last, .. } => Some(last.load().service().clone()),
            Self::AllHosts => None,
        }
    }

    /// Updates the last known route from a new table.
    pub(super) fn refresh(&self, table: &RouteTable) {
        if let Self::Port { port, last_route: last } = self
            && let Some(route) = table.route_at_port(*port)
            && route.service() == last.load().service()
        {
            last.store(Arc::clone(route));
        }
    }

    /// The route of a connection without parsed requests.
    pub(super) fn route_without_request(&self, table: &RouteTable) -> Option<Arc<Route>> {
        match self {
            Self::Port { port, last_route: last } => {
                let last = last.load_full();
                let now = table.route_at_port(*port).filter(|route| route.service() == last.service());
                Some(now.map_or(last, Arc::clone))
            }
            Self::AllHosts => None,
        }
    }

    /// The route of a request.
    pub(super) fn match_route(
        &self,
        table: &RouteTable,
        asked: &RequestParts<'_, impl HeaderLines>,
    ) -> Result<MatchedRoute, ErrorResponse> {
        match self {
            Self::Port { port, last_route: last } => match table.route_at_port(*port) {
                Some(route) if route.service() == last.load().service() => {
                    Ok(MatchedRoute { route: Arc::clone(route), is_draining: false })
                }
                // The caller means the service that was here when it connected, never another one.
                _ => Ok(MatchedRoute { route: last.load_full(), is_draining: true }),
            },
            Self::AllHosts => {
                let host = asked.host().unwrap_or_default();
                let preview = table.preview_by_host(host).map(|(_, route)| route);
                let route = preview.or_else(|| table.route_by_host(host)).ok_or_else(|| {
                    let message =
                        format!("no service or preview has the host name {host:?}; see /debug/routes");
                    ErrorResponse::new(StatusCode::NOT_FOUND, "no-route", message)
                })?;
                Ok(MatchedRoute { route: Arc::clone(route), is_draining: false })
            }
        }
    }
}
