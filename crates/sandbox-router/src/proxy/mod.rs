//! The proxy: listeners, connections, requests, responses.
//!
//! Contract: the table is swapped atomically, and each request sees one table. Without updates the last table stays in
//! force. A removed route is served for a grace period, so that callers can learn of the removal. Stopping drains
//! requests up to a time limit.

mod admin;
mod admin_access;
mod caller_io;
mod connection;
mod connection_budget;
mod entrypoint;
mod explain;
mod fast_path;
mod forward;
mod h1;
mod h2;
mod headers;
mod local;
mod metrics;
mod pod_dialer;
mod pod_pool;
mod premature_resets;
mod response;
mod routing;
mod settings;
mod sniff;
#[cfg(test)]
mod tests;
mod upgrade;
mod upstream;
mod worker;
mod write_progress;

use std::{
    io::Error as IoError,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use parking_lot::Mutex;
use tokio::{
    net::TcpListener,
    sync::{mpsc, oneshot},
};

use self::{
    admin::AdminState,
    fast_path::BufferPool,
    pod_pool::PodPool,
    worker::{ProxyShared, Worker, WorkerCommand},
};
pub use self::{
    admin_access::{AdminAccessError, AdminAccessFuture, AdminAuthorizer},
    settings::{ProxyLimits, ProxySettings},
};
use crate::{
    local_transport::LocalTransport,
    table::{RouteTable, TableRevision},
};

/// A proxy could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A listen address is not available.
    #[error("cannot listen at {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        source: IoError,
    },
    /// A thread or its runtime could not be created.
    #[error("cannot start a worker")]
    Worker(#[source] IoError),
}

/// Result of applying a table.
#[derive(Debug)]
pub struct TableApplyResult {
    /// Revision of the table.
    pub revision: TableRevision,
    /// Listeners that could not be opened.
    pub failed: Vec<(u16, IoError)>,
}

/// A running proxy.
pub struct Proxy {
    shared: Arc<ProxyShared>,
    admin_state: Arc<AdminState>,
    workers: Vec<mpsc::Sender<WorkerCommand>>,
    threads: Mutex<Vec<thread::JoinHandle<()>>>,
    host_listener: Option<SocketAddr>,
    admin: Option<SocketAddr>,
    stopped: AtomicBool,
}

impl Proxy {
    /// Starts the workers with an empty table. The proxy is not ready before the first [`Self::apply`].
    ///
    /// Must be called within a runtime, which serves the admin port.
    pub fn start(settings: ProxySettings, locals: Arc<dyn LocalTransport>) -> Result<Self, StartError> {
        let mut settings = settings;
        let count = settings.workers.max(1);
        // With port 0 the first worker gets a port from the kernel, and the others share it.
        let mut fronts = Vec::new();
        for _ in 0..count {
            if let Some(address) = settings.host_listener {
                let failed = |source| StartError::Listen { address, source };
                let listener = worker::bind_reuseport(address).map_err(failed)?;
                settings.host_listener = Some(listener.local_addr().map_err(failed)?);
                fronts.push(listener);
            }
        }
        let front = settings.host_listener;
        let admin = settings.admin;
        let shared = Arc::new(ProxyShared::new(settings, locals));
        let pools = (0..count).map(|_| PodPool::new(&shared.settings)).collect::<Vec<_>>();
        let health = Arc::new(AdminState::new(Arc::clone(&shared), pools.clone()));
        let mut proxy = Self {
            shared,
            admin_state: health,
            workers: Vec::new(),
            threads: Mutex::default(),
            host_listener: front,
            admin: None,
            stopped: AtomicBool::new(false),
        };
        if let Some(address) = admin {
            let failed = |source| StartError::Listen { address, source };
            let listener = worker::bind_reuseport(address).and_then(TcpListener::from_std).map_err(failed)?;
            proxy.admin = Some(listener.local_addr().map_err(failed)?);
            tokio::spawn(admin::serve(listener, Arc::clone(&proxy.admin_state)));
        }
        let mut fronts = fronts.into_iter();
        for (at, pool) in pools.into_iter().enumerate() {
            proxy.add_worker(at, pool, fronts.next())?;
        }
        Ok(proxy)
    }

    fn add_worker(
        &mut self,
        at: usize,
        pool: Arc<PodPool>,
        front: Option<std::net::TcpListener>,
    ) -> Result<(), StartError> {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(StartError::Worker)?;
        let worker =
            Arc::new(Worker { shared: Arc::clone(&self.shared), pool, buffers: BufferPool::default() });
        let (tell, told) = mpsc::channel(16);
        let work = move || {
            runtime.block_on(async move {
                let front = front.map(TcpListener::from_std).transpose();
                match front {
                    Ok(front) => worker::run(worker, front, told).await,
                    Err(error) => tracing::error!(%error, "worker failed to start"),
                }
            });
        };
        let thread = thread::Builder::new().name(format!("router-{at}")).spawn(work);
        self.threads.lock().push(thread.map_err(StartError::Worker)?);
        self.workers.push(tell);
        Ok(())
    }

    /// Address of the listener that routes by `Host`.
    pub fn host_listener(&self) -> Option<SocketAddr> {
        self.host_listener
    }

    /// Address of the admin port.
    pub fn admin(&self) -> Option<SocketAddr> {
        self.admin
    }

    /// The current table.
    pub fn table(&self) -> Arc<RouteTable> {
        self.shared.table.load_full()
    }

    /// Applies a table. When this returns, every new request uses it.
    pub async fn apply(&self, table: RouteTable) -> TableApplyResult {
        table.inherit_metrics(&self.shared.table.load());
        let revision = table.revision();
        self.shared.table.store(Arc::new(table));
        self.shared.table_changed.notify_waiters();
        let mut failed = Vec::new();
        for worker in &self.workers {
            let (done, applied) = oneshot::channel();
            if worker.send(WorkerCommand::Table(done)).await.is_err() {
                continue;
            }
            // A worker that exits meanwhile reports nothing.
            failed.extend(applied.await.unwrap_or_default());
        }
        for (port, error) in &failed {
            tracing::error!(port, %error, "opening a route listener failed");
        }
        self.admin_state.mark_ready();
        TableApplyResult { revision, failed }
    }

    /// Reports not ready, so that load balancers stop sending traffic. Requests are still served.
    pub fn retire(&self) {
        self.shared.retired.store(true, Ordering::SeqCst);
        self.admin_state.mark_retired();
    }

    /// Stops accepting, drains requests, and stops.
    pub async fn stop(&self) {
        if self.stopped.swap(true, Ordering::SeqCst) {
            return;
        }
        self.retire();
        let limit = tokio::time::Instant::now() + self.shared.settings.drain;
        let mut gone = Vec::new();
        for worker in &self.workers {
            let (done, left) = oneshot::channel();
            if worker.send(WorkerCommand::Drain(done)).await.is_ok() {
                gone.push(left);
            }
        }
        let all = futures::future::join_all(gone);
        if tokio::time::timeout_at(limit, all).await.is_err() {
            self.shared.abort.cancel();
        }
        let threads = std::mem::take(&mut *self.threads.lock());
        let joined = tokio::task::spawn_blocking(move || threads.into_iter().all(|it| it.join().is_ok()));
        if !joined.await.unwrap_or(false) {
            tracing::error!("worker thread panicked");
        }
        self.admin_state.stop();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.drain.cancel();
        self.shared.abort.cancel();
        self.admin_state.stop();
    }
}
