//! A local AWS: EKS from a model that follows the rules of the real service, everything else from moto.
//!
//! The front end listens on the loopback interface and dispatches each request by its `SigV4` scope: `eks` goes to the
//! model in this crate, every other service streams unchanged to a moto server that this crate starts, supervises and
//! stops. The admin API `/_capt/…` injects faults and lists resources. The README documents both.
//!
//! Guarantees: no process outlives the [`LocalAws`], not even if this process is killed with SIGKILL; and state is
//! never lost silently. Moto keeps its state in memory, so [`LocalAws::instance`] changes with every start, and after
//! moto exits unexpectedly every AWS call is rejected with `LocalAwsLostMemory`.

use std::{
    collections::BTreeSet,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use capt_util::clock;
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::TcpListener,
    sync::watch,
    task::{JoinHandle, JoinSet},
};
use uuid::Uuid;

mod access_keys;
mod admin;
mod call_log;
mod cluster_host;
mod cluster_host_sync;
mod config;
mod eks;
mod eks_service;
mod eks_token;
mod error;
mod fault_injection;
mod frontend;
mod inventory;
mod moto;
mod moto_cache;
mod moto_client;
mod moto_proxy;
mod protocol;
mod query_string;
mod region;
mod sigv4;
mod store;

pub use crate::{
    cluster_host::{
        AttachedPolicy, ClusterHost, ClusterPrincipal, ClusterSpec, HostError, HostFuture, HostedEndpoint,
    },
    config::{Config, Limits, Timing},
    error::Error,
};
use crate::{
    eks::context::ModelSettings,
    frontend::{Activity, Frontend},
    moto::MotoProcess,
    moto_proxy::MotoProxy,
};

const CERTIFICATE_AUTHORITY: &str = include_str!("eks/ca.pem");

/// A running local AWS. Dropping it initiates shutdown without waiting; [`LocalAws::shutdown`] waits.
#[derive(Debug)]
pub struct LocalAws {
    address: SocketAddr,
    frontend: Arc<Frontend>,
    stop: watch::Sender<bool>,
    server: JoinHandle<()>,
}

impl LocalAws {
    /// Starts moto and the front end; both accept requests when this returns.
    pub async fn start(config: Config) -> Result<Self, Error> {
        let Config {
            listen,
            python,
            persist,
            timing,
            limits,
            log,
            endpoint_base,
            certificate_authority,
            host,
        } = config;
        let saved = match &persist {
            Some(path) => store::load(path)?,
            None => None,
        };
        if !listen.ip().is_loopback() {
            // Signatures are not checked, so the port must not be reachable from other machines.
            let source =
                std::io::Error::new(std::io::ErrorKind::InvalidInput, "only a loopback address is allowed");
            return Err(Error::Listen { address: listen, source });
        }
        let listener =
            TcpListener::bind(listen).await.map_err(|source| Error::Listen { address: listen, source })?;
        let address = listener.local_addr().map_err(|source| Error::Listen { address: listen, source })?;
        let moto = MotoProcess::start(&python, log.as_deref()).await?;

        let instance = Uuid::new_v4().to_string();
        let upstream = MotoProxy::new(moto.address);
        let cloud = moto_client::MotoClient::new(upstream.clone());
        let settings = ModelSettings {
            timing,
            limits,
            endpoint_base,
            has_host: host.is_some(),
            certificate_authority: STANDARD
                .encode(certificate_authority.as_deref().unwrap_or(CERTIFICATE_AUTHORITY)),
        };
        let restored_from = saved.as_ref().map(|saved| saved.instance.clone());
        let mut state = saved.map(|saved| saved.state).unwrap_or_default();
        eks::cluster_host_state::reset_hosting(&mut state, host.is_some());
        let hosts =
            host.map(|host| cluster_host_sync::ClusterHostSync::new(host, format!("http://{address}")));
        let (stop, stopped) = watch::channel(false);
        let front = Arc::new(Frontend {
            eks: Arc::new(eks_service::EksService::new(
                state,
                settings,
                cloud.clone(),
                (persist, instance.clone()),
                hosts,
            )),
            instance,
            restored_from,
            moto_client: cloud,
            proxy: upstream,
            moto: (moto.pid, moto.address.port()),
            moto_exit: moto.exit.clone(),
            faults: fault_injection::FaultInjector::default(),
            access_keys: access_keys::AccessKeys::default(),
            call_log: call_log::CallLog::default(),
            seen_regions: Mutex::new(BTreeSet::new()),
            started: Instant::now(),
            activity: Activity::new(),
            stop: stop.clone(),
        });
        front.eks.start_hosting().await;
        let server = tokio::spawn(run_server(listener, Arc::clone(&front), moto, stopped));
        tracing::info!(%address, moto = front.moto.1, instance = front.instance, "local AWS started");
        Ok(Self { address, frontend: front, stop, server })
    }

    /// Endpoint URL for clients: `http://127.0.0.1:PORT`.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Listen address of the front end.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Identifies this state. Resources recorded under another instance no longer exist.
    pub fn instance(&self) -> &str {
        &self.frontend.instance
    }

    /// Time since the last AWS call ended; zero while one runs. Admin calls do not count.
    pub fn idle_for(&self) -> Duration {
        self.frontend.activity.idle()
    }

    /// Exit status of moto, if it exited unexpectedly.
    pub fn lost_memory(&self) -> Option<String> {
        self.frontend.moto_exit.borrow().clone()
    }

    /// Returns when a stop is requested by [`LocalAws::shutdown`] or `POST /_capt/shutdown`.
    pub async fn stop_requested(&self) {
        let mut stopped = self.stop.subscribe();
        wait_for_stop(&mut stopped).await;
    }

    /// Drains running requests, stops moto, and returns when both have ended.
    pub async fn shutdown(mut self) {
        self.stop.send_replace(true);
        (&mut self.server).await.ok();
    }
}

impl Drop for LocalAws {
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}

/// Returns when a stop is requested or the sender is dropped.
async fn wait_for_stop(stop: &mut watch::Receiver<bool>) {
    stop.wait_for(|stop| *stop).await.ok();
}

/// Time for running requests to finish at shutdown.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

async fn run_server(
    listener: TcpListener,
    front: Arc<Frontend>,
    mut moto: MotoProcess,
    mut stopped: watch::Receiver<bool>,
) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = wait_for_stop(&mut stopped) => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    stream.set_nodelay(true).ok();
                    connections.spawn(serve_connection(stream, Arc::clone(&front), front.stop.subscribe()));
                }
                // Most likely out of file descriptors: an immediate retry would only burn CPU.
                Err(error) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "accepting a connection failed");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
    }
    drop(listener);
    let drained = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(DRAIN_TIMEOUT, drained).await.is_err() {
        connections.shutdown().await;
    }
    front.eks.stop_hosting().await;
    moto.stop().await;
}

async fn serve_connection(
    stream: tokio::net::TcpStream,
    front: Arc<Frontend>,
    mut stopped: watch::Receiver<bool>,
) {
    let service = service_fn(move |request| frontend::serve(Arc::clone(&front), request));
    let serving =
        http1::Builder::new().timer(TokioTimer::new()).serve_connection(TokioIo::new(stream), service);
    let mut serving = std::pin::pin!(serving);
    // Connection errors are the client's, or intended when a fault drops the connection.
    tokio::select! {
        _ = serving.as_mut() => {}
        () = wait_for_stop(&mut stopped) => {
            serving.as_mut().graceful_shutdown();
            serving.await.ok();
        }
    }
}
