//! The gateway as the proxy knows it.

use std::{io, sync::Arc};

use futures::future::BoxFuture;
use http::Request;
use http_body_util::BodyExt as _;

use super::{super::Workload, Failure, Gateway, Phase};
use crate::{
    body::Body,
    locals::{Duplex, Figures, LocalAnswer, LocalError, Locals},
    table::Local,
};

impl Locals for Arc<Gateway> {
    fn send(
        &self,
        to: &Local,
        request: Request<Body>,
    ) -> BoxFuture<'static, Result<LocalAnswer, LocalError>> {
        let (gateway, workload, port) = (Self::clone(self), workload(to), to.port());
        Box::pin(async move {
            let opened = match gateway.open(&workload).await {
                Ok(opened) => opened,
                Err(Failure::Disconnected) => return Err(LocalError::Disconnected(Some(Box::new(request)))),
                Err(Failure::Moved) => return Err(LocalError::Moved(Some(Box::new(request)))),
                Err(failure) => return Err(failure.into()),
            };
            let answer = opened.request(port, request).await?;
            Ok(answer.map(|body| body.map_err(Into::into).boxed_unsync()))
        })
    }

    fn connect(&self, to: &Local) -> BoxFuture<'static, Result<Box<dyn Duplex>, LocalError>> {
        let (gateway, workload, port) = (Self::clone(self), workload(to), to.port());
        Box::pin(async move {
            Ok(Box::new(Gateway::connect(&gateway, &workload, port).await?) as Box<dyn Duplex>)
        })
    }

    fn figures(&self) -> Option<Figures> {
        let mut views = self.sessions();
        views.retain(|it| it.phase == Phase::Connected);
        views.sort_by(|one, other| one.workload.cmp(&other.workload));
        let connected = views.into_iter().map(|it| (it.workload.to_string(), it.rtt)).collect();
        Some(Figures { connected, reconnects: self.reconnects() })
    }
}

fn workload(to: &Local) -> Workload {
    Workload::new(to.namespace(), to.workload())
}

impl From<Failure> for LocalError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Disconnected => Self::Disconnected(None),
            Failure::Moved => Self::Moved(None),
            Failure::Busy => Self::Busy,
            Failure::Reconnecting => Self::Waiting,
            Failure::NotMapped(_) | Failure::Unreachable(_) => Self::Unreachable(io::Error::other(failure)),
            Failure::Lost => Self::Broken(failure.into()),
        }
    }
}
