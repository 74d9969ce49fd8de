//! Where agents knock.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::{sleep, timeout},
};
use tokio_rustls::{TlsAcceptor, rustls::ServerConfig};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::Gateway;

/// How many may be in the doorway at once: connected, and not yet known to anybody.
const DOORWAY: usize = 512;
/// The first byte of TLS.
const TLS: u8 = 0x16;

impl Gateway {
    /// Accepts agents until `stop`, and returns when all of them are gone.
    ///
    /// TLS and its absence are told apart by the first byte. Without TLS only connections from this very host are taken:
    /// so arrives a port-forward, which has been through the TLS of the API server.
    pub async fn serve(
        self: Arc<Self>,
        listener: TcpListener,
        tls: Option<Arc<ServerConfig>>,
        stop: CancellationToken,
    ) {
        let tls = tls.map(TlsAcceptor::from);
        let doorway = Arc::new(Semaphore::new(DOORWAY));
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = stop.cancelled() => break,
            };
            match accepted {
                Ok((socket, peer)) => {
                    let Ok(place) = Arc::clone(&doorway).try_acquire_owned() else {
                        warn!(%peer, "too many are in the doorway of the tunnel; one was sent away");
                        continue;
                    };
                    let (gateway, tls, stop) = (Arc::clone(&self), tls.clone(), stop.clone());
                    self.tasks.spawn(async move {
                        Box::pin(gateway.greet(socket, peer, tls, stop)).await;
                        drop(place);
                    });
                }
                Err(error) => {
                    // Too many open files, mostly: the next moment may be better.
                    warn!(%error, "the tunnel cannot accept a connection");
                    sleep(Duration::from_millis(50)).await;
                }
            }
        }
        self.tasks.close();
        self.tasks.wait().await;
    }

    async fn greet(
        self: Arc<Self>,
        socket: TcpStream,
        peer: SocketAddr,
        tls: Option<TlsAcceptor>,
        stop: CancellationToken,
    ) {
        if let Err(error) = socket.set_nodelay(true) {
            debug!(%peer, %error, "a connection to the tunnel was gone at once");
            return;
        }
        let mut first = [0];
        match timeout(self.times.handshake, socket.peek(&mut first)).await {
            Ok(Ok(1)) => {}
            // It said nothing.
            Ok(_) | Err(_) => return,
        }
        match (first[0], tls) {
            (TLS, Some(tls)) => match timeout(self.times.handshake, tls.accept(socket)).await {
                Ok(Ok(io)) => self.accept(io, stop).await,
                Ok(Err(error)) => debug!(%peer, %error, "no TLS came about"),
                Err(_) => debug!(%peer, "TLS took too long"),
            },
            (TLS, None) => debug!(%peer, "somebody speaks TLS, and there is no certificate"),
            _ if self.plain_from_anywhere || peer.ip().is_loopback() => self.accept(socket, stop).await,
            _ => warn!(%peer, "a connection without TLS from elsewhere was refused"),
        }
    }
}
