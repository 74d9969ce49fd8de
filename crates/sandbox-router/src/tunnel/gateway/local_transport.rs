//! The gateway as transport of the proxy.

use std::{io, sync::Arc};

use futures::future::BoxFuture;
use http::Request;
use http_body_util::BodyExt as _;

use super::{super::WorkloadName, Gateway, SessionPhase, TunnelError};
use crate::{
    local_transport::{Duplex, LocalError, LocalResponse, LocalTransport, TunnelStats},
    request_body::RequestBody,
    table::LocalTarget,
};

impl LocalTransport for Arc<Gateway> {
    fn send(
        &self,
        to: &LocalTarget,
        request: Request<RequestBody>,
    ) -> BoxFuture<'static, Result<LocalResponse, LocalError>> {
        let (gateway, workload, port) = (Self::clone(self), workload_name(to), to.port());
        Box::pin(async move {
            let opened = match gateway.reserve_stream(&workload).await {
                Ok(opened) => opened,
                Err(TunnelError::Disconnected) => {
                    return Err(LocalError::Disconnected(Some(Box::new(request))));
                }
                Err(TunnelError::Moved) => return Err(LocalError::Moved(Some(Box::new(request)))),
                Err(failure) => return Err(failure.into()),
            };
            let answer = opened.request(port, request).await?;
            Ok(answer.map(|body| body.map_err(Into::into).boxed_unsync()))
        })
    }

    fn connect(&self, to: &LocalTarget) -> BoxFuture<'static, Result<Box<dyn Duplex>, LocalError>> {
        let (gateway, workload, port) = (Self::clone(self), workload_name(to), to.port());
        Box::pin(async move {
            Ok(Box::new(Gateway::connect(&gateway, &workload, port).await?) as Box<dyn Duplex>)
        })
    }

    fn stats(&self) -> Option<TunnelStats> {
        let mut views = self.sessions();
        views.retain(|it| it.phase == SessionPhase::Connected);
        views.sort_by(|one, other| one.workload.cmp(&other.workload));
        let connected = views.into_iter().map(|it| (it.workload.to_string(), it.rtt)).collect();
        Some(TunnelStats { connected, reconnects: self.reconnects() })
    }
}

fn workload_name(to: &LocalTarget) -> WorkloadName {
    WorkloadName::new(to.namespace(), to.workload())
}

impl From<TunnelError> for LocalError {
    fn from(failure: TunnelError) -> Self {
        match failure {
            TunnelError::Disconnected => Self::Disconnected(None),
            TunnelError::Moved => Self::Moved(None),
            TunnelError::Busy => Self::Busy,
            TunnelError::Reconnecting => Self::Reconnecting,
            TunnelError::NotMapped(_) | TunnelError::Unreachable(_) => {
                Self::Unreachable(io::Error::other(failure))
            }
            TunnelError::Lost => Self::Interrupted(failure.into()),
        }
    }
}
