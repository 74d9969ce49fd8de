//! Probes whether something listens at the mapped targets, so that a misconfigured mapping is visible.

use std::{io, time::Duration};

use futures::future::join_all;
use tokio::{sync::watch, time::sleep};

use super::{
    super::PortReport,
    AgentStatus,
    local_ports::{LocalPort, LocalPorts},
};

impl LocalPorts {
    /// Probes forever.
    pub(super) async fn run_probes(&self, view: &watch::Sender<AgentStatus>, every: Duration) {
        loop {
            let ports = join_all(self.all.iter().map(probe_port)).await;
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

async fn probe_port(local: &LocalPort) -> PortReport {
    let failed = local.dialer.dial().await.err();
    PortReport {
        port: local.dialer.mapping.port,
        to_local: local.dialer.mapping.to_local(),
        reachable: failed.is_none(),
        last_error: failed.map(|error| describe_io_error(&error)),
    }
}

/// Short message for common I/O errors.
pub(super) fn describe_io_error(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        io::ErrorKind::TimedOut => "timed out".to_owned(),
        _ => error.to_string(),
    }
}
