//! The proxy: listeners, connections, requests, answers.
//!
//! Contract: the table is swapped as a whole and a request sees one table. While nobody brings a new one, the last one
//! stays in force. A route that is gone is served for a while, so that callers can learn of it. Stopping ends no request
//! that can end by itself in time.

mod admin;
mod answer;
mod connection;
mod decide;
mod dial;
mod explain;
mod forward;
mod h1;
mod h2;
mod headers;
mod io;
mod local;
mod metrics;
mod origin;
mod plain;
mod pool;
mod settings;
mod sniff;
#[cfg(test)]
mod tests;
mod upgrade;
mod upstream;
mod worker;

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

pub use self::settings::{Limits, Settings};
use self::{
    admin::Health,
    plain::Buffers,
    pool::Pool,
    worker::{Shared, Told, Worker},
};
use crate::{
    locals::Locals,
    table::{Revision, Table},
};

/// Why a proxy does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A port of its own cannot be had.
    #[error("cannot listen at {address}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why not.
        source: IoError,
    },
    /// There is no thread, or no runtime in it.
    #[error("cannot start a worker")]
    Worker(#[source] IoError),
}

/// What became of a table.
#[derive(Debug)]
pub struct Applied {
    /// Of the table.
    pub revision: Revision,
    /// Listeners that could not be opened, and why.
    pub failed: Vec<(u16, IoError)>,
}

/// A running proxy.
pub struct Proxy {
    shared: Arc<Shared>,
    health: Arc<Health>,
    workers: Vec<mpsc::Sender<Told>>,
    threads: Mutex<Vec<thread::JoinHandle<()>>>,
    front: Option<SocketAddr>,
    admin: Option<SocketAddr>,
    stopped: AtomicBool,
}

impl Proxy {
    /// Starts the workers, with an empty table. It is not ready before the first [`Self::apply`].
    ///
    /// To be called inside of a runtime: health, metrics and explanations are served by it.
    pub fn start(settings: Settings, locals: Arc<dyn Locals>) -> Result<Self, StartError> {
        let mut settings = settings;
        let count = settings.workers.max(1);
        // The first of the workers gets a port from the kernel where none was given, and the others share it.
        let mut fronts = Vec::new();
        for _ in 0..count {
            if let Some(address) = settings.front {
                let failed = |source| StartError::Listen { address, source };
                let listener = worker::listen(address).map_err(failed)?;
                settings.front = Some(listener.local_addr().map_err(failed)?);
                fronts.push(listener);
            }
        }
        let front = settings.front;
        let admin = settings.admin;
        let shared = Arc::new(Shared::new(settings, locals));
        let pools = (0..count).map(|_| Pool::new(&shared.settings)).collect::<Vec<_>>();
        let health = Arc::new(Health::new(Arc::clone(&shared), pools.clone()));
        let mut proxy = Self {
            shared,
            health,
            workers: Vec::new(),
            threads: Mutex::default(),
            front,
            admin: None,
            stopped: AtomicBool::new(false),
        };
        if let Some(address) = admin {
            let failed = |source| StartError::Listen { address, source };
            let listener = worker::listen(address).and_then(TcpListener::from_std).map_err(failed)?;
            proxy.admin = Some(listener.local_addr().map_err(failed)?);
            tokio::spawn(admin::serve(listener, Arc::clone(&proxy.health)));
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
        pool: Arc<Pool>,
        front: Option<std::net::TcpListener>,
    ) -> Result<(), StartError> {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(StartError::Worker)?;
        let worker = Arc::new(Worker { shared: Arc::clone(&self.shared), pool, buffers: Buffers::default() });
        let (tell, told) = mpsc::channel(16);
        let work = move || {
            runtime.block_on(async move {
                let front = front.map(TcpListener::from_std).transpose();
                match front {
                    Ok(front) => worker::run(worker, front, told).await,
                    Err(error) => tracing::error!(%error, "a worker did not start"),
                }
            });
        };
        let thread = thread::Builder::new().name(format!("router-{at}")).spawn(work);
        self.threads.lock().push(thread.map_err(StartError::Worker)?);
        self.workers.push(tell);
        Ok(())
    }

    /// The port that goes by `Host`.
    pub fn front(&self) -> Option<SocketAddr> {
        self.front
    }

    /// Where health, metrics and explanations are.
    pub fn admin(&self) -> Option<SocketAddr> {
        self.admin
    }

    /// The table in force.
    pub fn table(&self) -> Arc<Table> {
        self.shared.table.load_full()
    }

    /// Puts a table into force. When this returns, every new request is answered by it.
    pub async fn apply(&self, table: Table) -> Applied {
        table.inherit(&self.shared.table.load());
        let revision = table.revision();
        self.shared.table.store(Arc::new(table));
        self.shared.applied.notify_waiters();
        let mut failed = Vec::new();
        for worker in &self.workers {
            let (done, applied) = oneshot::channel();
            if worker.send(Told::Table(done)).await.is_err() {
                continue;
            }
            // A worker that ends meanwhile has nothing to say.
            failed.extend(applied.await.unwrap_or_default());
        }
        for (port, error) in &failed {
            tracing::error!(port, %error, "a listener of a route cannot be opened");
        }
        self.health.applied();
        Applied { revision, failed }
    }

    /// Tells callers' balancers to send nobody here any more. Requests are answered as before.
    pub fn retire(&self) {
        self.shared.retired.store(true, Ordering::SeqCst);
        self.health.retire();
    }

    /// Accepts nothing more, lets requests end, and stops.
    pub async fn stop(&self) {
        if self.stopped.swap(true, Ordering::SeqCst) {
            return;
        }
        self.retire();
        let limit = tokio::time::Instant::now() + self.shared.settings.drain;
        let mut gone = Vec::new();
        for worker in &self.workers {
            let (done, left) = oneshot::channel();
            if worker.send(Told::Leave(done)).await.is_ok() {
                gone.push(left);
            }
        }
        let all = futures::future::join_all(gone);
        if tokio::time::timeout_at(limit, all).await.is_err() {
            self.shared.end.cancel();
        }
        let threads = std::mem::take(&mut *self.threads.lock());
        let joined = tokio::task::spawn_blocking(move || threads.into_iter().all(|it| it.join().is_ok()));
        if !joined.await.unwrap_or(false) {
            tracing::error!("a worker ended badly");
        }
        self.health.stop();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.leave.cancel();
        self.shared.end.cancel();
        self.health.stop();
    }
}
