//! Looks whether something listens where the mappings point, so that a silent tunnel is never taken for a working one.

use std::{io, time::Duration};

use futures::future::join_all;
use tokio::{sync::watch, time::sleep};

use super::{
    super::PortReport,
    View,
    local::{Local, Locals},
};

impl Locals {
    /// Looks, without end.
    pub(super) async fn probe(&self, view: &watch::Sender<View>, every: Duration) {
        loop {
            let ports = join_all(self.all.iter().map(look)).await;
            let is_news = self.reports.send_if_modified(|known| {
                let is_news = *known != ports;
                known.clone_from(&ports);
                is_news
            });
            if is_news {
                view.send_modify(|view| view.ports = ports);
            }
            sleep(every).await;
        }
    }
}

async fn look(local: &Local) -> PortReport {
    let failed = local.dial.dial().await.err();
    PortReport {
        port: local.dial.mapping.port,
        to_local: local.dial.mapping.to_local(),
        reachable: failed.is_none(),
        last_error: failed.map(|error| words(&error)),
    }
}

/// An error as people say it.
pub(super) fn words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        io::ErrorKind::TimedOut => "no answer in time".to_owned(),
        _ => error.to_string(),
    }
}
