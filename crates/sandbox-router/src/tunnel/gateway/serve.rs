//! Listener for agents.

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

/// Maximum number of connections that are not authenticated yet.
const MAX_PENDING_HANDSHAKES: usize = 512;
/// First byte of a TLS record.
const TLS: u8 = 0x16;

impl Gateway {
    /// Accepts agents until `stop`, and returns when all of them are gone.
    ///
    /// TLS is detected by the first byte. Connections without TLS are accepted from this host only: a port-forward
    /// arrives that way, after the TLS of the API server.
    pub async fn serve(
        self: Arc<Self>,
        listener: TcpListener,
        tls: Option<Arc<ServerConfig>>,
        stop: CancellationToken,
    ) {
        let tls = tls.map(TlsAcceptor::from);
        let doorway = Arc::new(Semaphore::new(MAX_PENDING_HANDSHAKES));
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = stop.cancelled() => break,
            };
            match accepted {
                Ok((socket, peer)) => {
                    let Ok(place) = Arc::clone(&doorway).try_acquire_owned() else {
                        warn!(%peer, "too many pending tunnel handshakes; connection dropped");
                        continue;
                    };
                    let (gateway, tls, stop) = (Arc::clone(&self), tls.clone(), stop.clone());
                    self.tasks.spawn(async move {
                        Box::pin(gateway.accept_socket(socket, peer, tls, stop)).await;
                        drop(place);
                    });
                }
                Err(error) => {
                    // Usually out of file descriptors: the next attempt may succeed.
                    warn!(%error, "accepting a tunnel connection failed");
                    sleep(Duration::from_millis(50)).await;
                }
            }
        }
        self.tasks.close();
        self.tasks.wait().await;
    }

    async fn accept_socket(
        self: Arc<Self>,
        socket: TcpStream,
        peer: SocketAddr,
        tls: Option<TlsAcceptor>,
        stop: CancellationToken,
    ) {
        if let Err(error) = socket.set_nodelay(true) {
            debug!(%peer, %error, "tunnel connection closed immediately");
            return;
        }
        let mut first = [0];
        match timeout(self.timeouts.handshake_timeout, socket.peek(&mut first)).await {
            Ok(Ok(1)) => {}
            // Nothing was received.
            Ok(_) | Err(_) => return,
        }
        match (first[0], tls) {
            (TLS, Some(tls)) => match timeout(self.timeouts.handshake_timeout, tls.accept(socket)).await {
                Ok(Ok(io)) => self.accept(io, stop).await,
                Ok(Err(error)) => debug!(%peer, %error, "TLS handshake failed"),
                Err(_) => debug!(%peer, "TLS handshake timed out"),
            },
            (TLS, None) => debug!(%peer, "TLS connection rejected: no certificate is configured"),
            _ if self.allow_remote_plaintext || peer.ip().is_loopback() => self.accept(socket, stop).await,
            _ => warn!(%peer, "plaintext connection from another host rejected"),
        }
    }
}
