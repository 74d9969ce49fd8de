//! A local AWS: EKS answered from a model with the rules of the real one, everything else handed to moto.
//!
//! One front door on the loopback interface looks at the `SigV4` scope of each request. `eks` goes to the model in this
//! crate; every other service goes, unchanged and streaming, to a moto server that this crate starts, watches and
//! stops. The admin path `/_capt/…` injects faults and lists what exists. See the README for both.
//!
//! Guarantees: no process outlives the [`LocalAws`], not even when this process is killed with SIGKILL; and memory is
//! never lost in silence. Moto keeps everything in memory, so [`LocalAws::instance`] changes with every start, and if
//! moto ends by itself every AWS call is refused with `LocalAwsLostMemory` from then on.

use std::{
    collections::BTreeSet,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::TcpListener,
    sync::watch,
    task::{JoinHandle, JoinSet},
};
use uuid::Uuid;

mod admin;
mod answers;
mod calls;
mod clock;
mod cloud;
mod config;
mod eks;
mod eks_token;
mod error;
mod faults;
mod front;
mod host;
mod hosts;
mod inventory;
mod keys;
mod moto;
mod place;
mod proxy;
mod service;
mod sigv4;
mod store;
mod text;
mod wire;

pub use crate::{
    config::{Config, Limits, Timing},
    error::Error,
    host::{Admitted, ClusterHost, ClusterSeed, HostError, Hosting, Policy, Work},
};
use crate::{
    eks::context::Settings,
    front::{Activity, Front},
    moto::Moto,
    proxy::Upstream,
};

const CERTIFICATE_AUTHORITY: &str = include_str!("eks/ca.pem");

/// A running local AWS. Dropping it stops it without waiting; [`LocalAws::shutdown`] waits.
#[derive(Debug)]
pub struct LocalAws {
    address: SocketAddr,
    front: Arc<Front>,
    stop: watch::Sender<bool>,
    server: JoinHandle<()>,
}

impl LocalAws {
    /// Starts moto and the front door; when this returns, both answer.
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
            // No signature is checked: whoever reaches the door is in.
            let source =
                std::io::Error::new(std::io::ErrorKind::InvalidInput, "only a loopback address is allowed");
            return Err(Error::Listen { address: listen, source });
        }
        let listener =
            TcpListener::bind(listen).await.map_err(|source| Error::Listen { address: listen, source })?;
        let address = listener.local_addr().map_err(|source| Error::Listen { address: listen, source })?;
        let moto = Moto::start(&python, log.as_deref()).await?;

        let instance = Uuid::new_v4().to_string();
        let upstream = Upstream::new(moto.address);
        let cloud = cloud::Cloud::new(upstream.clone());
        let settings = Settings {
            timing,
            limits,
            endpoint_base,
            hosted: host.is_some(),
            certificate_authority: STANDARD
                .encode(certificate_authority.as_deref().unwrap_or(CERTIFICATE_AUTHORITY)),
        };
        let restored_from = saved.as_ref().map(|saved| saved.instance.clone());
        let mut state = saved.map(|saved| saved.state).unwrap_or_default();
        eks::hosted::reawaken(&mut state, host.is_some());
        let hosts = host.map(|host| hosts::Hosts::new(host, format!("http://{address}")));
        let (stop, stopped) = watch::channel(false);
        let front = Arc::new(Front {
            eks: Arc::new(service::Eks::new(
                state,
                settings,
                cloud.clone(),
                (persist, instance.clone()),
                hosts,
            )),
            instance,
            restored_from,
            cloud,
            upstream,
            moto: (moto.pid, moto.address.port()),
            lost: moto.lost.clone(),
            faults: faults::Faults::default(),
            keys: keys::Keys::default(),
            calls: calls::Calls::default(),
            regions: Mutex::new(BTreeSet::new()),
            started: Instant::now(),
            activity: Activity::new(),
            stop: stop.clone(),
        });
        front.eks.begin_hosting().await;
        let server = tokio::spawn(run(listener, Arc::clone(&front), moto, stopped));
        tracing::info!(%address, moto = front.moto.1, instance = front.instance, "local AWS started");
        Ok(Self { address, front, stop, server })
    }

    /// Where clients find it: `http://127.0.0.1:PORT`.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The address of the front door.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Names this memory. A client that remembers another one remembers resources that are gone.
    pub fn instance(&self) -> &str {
        &self.front.instance
    }

    /// How long ago the last AWS call ended; zero while one runs. Calls of the admin path do not count.
    pub fn idle_for(&self) -> Duration {
        self.front.activity.idle()
    }

    /// Why the memory is gone, if moto ended by itself.
    pub fn lost_memory(&self) -> Option<String> {
        self.front.lost.borrow().clone()
    }

    /// Returns when somebody asked it to stop: [`LocalAws::shutdown`] or `POST /_capt/shutdown`.
    pub async fn stop_requested(&self) {
        let mut stopped = self.stop.subscribe();
        told(&mut stopped).await;
    }

    /// Lets running requests end, stops moto, and returns when both are gone.
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

/// Returns when a stop was asked for, or when nobody is left who could ask.
async fn told(stop: &mut watch::Receiver<bool>) {
    stop.wait_for(|stop| *stop).await.ok();
}

/// How long running requests get at the end.
const DRAIN: Duration = Duration::from_secs(2);

async fn run(listener: TcpListener, front: Arc<Front>, mut moto: Moto, mut stopped: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = told(&mut stopped) => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    stream.set_nodelay(true).ok();
                    connections.spawn(connection(stream, Arc::clone(&front), front.stop.subscribe()));
                }
                // Out of file descriptors, most likely: trying again at once would only burn the CPU.
                Err(error) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "accepting a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
    }
    drop(listener);
    let drained = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(DRAIN, drained).await.is_err() {
        connections.shutdown().await;
    }
    front.eks.end_hosting().await;
    moto.stop().await;
}

async fn connection(stream: tokio::net::TcpStream, front: Arc<Front>, mut stopped: watch::Receiver<bool>) {
    let service = service_fn(move |request| front::serve(Arc::clone(&front), request));
    let serving =
        http1::Builder::new().timer(TokioTimer::new()).serve_connection(TokioIo::new(stream), service);
    let mut serving = std::pin::pin!(serving);
    // How a connection ends is the client's business, or ours when it is dropped on purpose.
    tokio::select! {
        _ = serving.as_mut() => {}
        () = told(&mut stopped) => {
            serving.as_mut().graceful_shutdown();
            serving.await.ok();
        }
    }
}
