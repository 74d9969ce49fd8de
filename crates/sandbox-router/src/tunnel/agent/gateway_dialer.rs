//! Connections from an agent to its gateway.

use std::{future::Future, io, pin::Pin, sync::Arc, time::Duration};

use futures::{StreamExt as _, stream::FuturesUnordered};
use tokio::{net::TcpStream, time::sleep};
use tokio_rustls::{
    TlsConnector,
    rustls::{CertificateError, ClientConfig, Error, pki_types::ServerName},
};

use super::BoxIo;

/// Opens connections to one gateway.
pub trait GatewayDialer: Send + Sync + 'static {
    /// Opens a connection.
    fn dial(&self) -> Pin<Box<dyn Future<Output = io::Result<BoxIo>> + Send + '_>>;

    /// Name for messages.
    fn name(&self) -> String;
}

/// Races several attempts and returns the first connection. Packets sent while the path is down are retransmitted at
/// growing intervals, so a new attempt starts periodically. An error is final if no other attempt is in progress.
pub(super) async fn dial_with_retries(dial: &dyn GatewayDialer, every: Duration) -> io::Result<BoxIo> {
    let mut attempts = FuturesUnordered::new();
    loop {
        attempts.push(dial.dial());
        let next = sleep(every);
        tokio::pin!(next);
        loop {
            tokio::select! {
                Some(ended) = attempts.next() => match ended {
                    Err(error) if !attempts.is_empty() && !is_permanent(&error) => {}
                    ended => return ended,
                },
                () = &mut next => break,
            }
        }
    }
}

/// Plain TCP, for a gateway on the same machine.
#[derive(Debug, Clone)]
pub struct TcpDialer {
    /// `host:port`.
    pub address: String,
}

impl GatewayDialer for TcpDialer {
    fn dial(&self) -> Pin<Box<dyn Future<Output = io::Result<BoxIo>> + Send + '_>> {
        Box::pin(async move { Ok(Box::new(connect_tcp(&self.address).await?) as BoxIo) })
    }

    fn name(&self) -> String {
        self.address.clone()
    }
}

/// TLS.
#[derive(Clone)]
pub struct TlsDialer {
    /// `host:port`.
    pub address: String,
    /// Name in the certificate.
    pub server_name: ServerName<'static>,
    /// Trust anchors.
    pub config: Arc<ClientConfig>,
    /// Where the CA comes from, for messages.
    pub authority: String,
}

/// Whether a connection failed because the certificate is not trusted.
pub fn is_untrusted_certificate(error: &io::Error) -> bool {
    error.get_ref().and_then(|it| it.downcast_ref::<UntrustedCertificate>()).is_some()
}

/// A permanent refusal; the message contains the remedy.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct PermanentDialError(pub String);

impl From<PermanentDialError> for io::Error {
    fn from(refusal: PermanentDialError) -> Self {
        Self::other(refusal)
    }
}

/// Whether retrying is pointless.
pub(super) fn is_permanent(error: &io::Error) -> bool {
    is_untrusted_certificate(error)
        || error.get_ref().and_then(|it| it.downcast_ref::<PermanentDialError>()).is_some()
}

/// The certificate is not trusted.
#[derive(Debug, thiserror::Error)]
#[error(
    "{address} is not trusted: its certificate is not issued for {name} by the authority in {authority} ({why})"
)]
struct UntrustedCertificate {
    address: String,
    name: String,
    authority: String,
    why: CertificateError,
}

impl GatewayDialer for TlsDialer {
    fn dial(&self) -> Pin<Box<dyn Future<Output = io::Result<BoxIo>> + Send + '_>> {
        Box::pin(async move {
            let socket = connect_tcp(&self.address).await?;
            self.connect_over(Box::new(socket)).await
        })
    }

    fn name(&self) -> String {
        self.address.clone()
    }
}

impl TlsDialer {
    /// Authenticates the gateway at the other end of a transport; nothing else is sent before.
    pub async fn connect_over(&self, transport: BoxIo) -> io::Result<BoxIo> {
        let connector = TlsConnector::from(Arc::clone(&self.config));
        let opened = connector.connect(self.server_name.clone(), transport).await;
        Ok(Box::new(opened.map_err(|error| self.explain_tls_error(error))?))
    }

    fn explain_tls_error(&self, error: io::Error) -> io::Error {
        let why = error.get_ref().and_then(|it| it.downcast_ref::<Error>());
        let Some(Error::InvalidCertificate(why)) = why else { return error };
        io::Error::other(UntrustedCertificate {
            address: self.address.clone(),
            name: self.server_name.to_str().into_owned(),
            authority: self.authority.clone(),
            why: why.clone(),
        })
    }
}

async fn connect_tcp(address: &str) -> io::Result<TcpStream> {
    let socket = TcpStream::connect(address).await?;
    socket.set_nodelay(true)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::time::Instant;

    use super::*;

    /// The first attempts hang.
    struct Away(AtomicUsize);

    impl GatewayDialer for Away {
        fn dial(&self) -> Pin<Box<dyn Future<Output = io::Result<BoxIo>> + Send + '_>> {
            let lost =
                self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |it| it.checked_sub(1)).is_ok();
            Box::pin(async move {
                if lost {
                    std::future::pending::<()>().await;
                }
                Ok(Box::new(tokio::io::duplex(1).0) as BoxIo)
            })
        }

        fn name(&self) -> String {
            "away".to_owned()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_attempt_that_was_lost_holds_up_nobody_after_the_path_is_back() {
        let (since, second) = (Instant::now(), Duration::from_secs(1));
        assert!(dial_with_retries(&Away(AtomicUsize::new(3)), second).await.is_ok());
        assert_eq!(since.elapsed().as_secs(), 3, "one a second");
    }

    /// Refuses every attempt, permanently after a delay if one is given.
    struct Refuses(Option<Duration>);

    impl GatewayDialer for Refuses {
        fn dial(&self) -> Pin<Box<dyn Future<Output = io::Result<BoxIo>> + Send + '_>> {
            Box::pin(async {
                let Some(pause) = self.0 else { return Err(io::ErrorKind::ConnectionRefused.into()) };
                sleep(pause).await;
                Err(PermanentDialError("ask for more rights".to_owned()).into())
            })
        }

        fn name(&self) -> String {
            "refuses".to_owned()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_refused_knows_it_at_once() {
        let since = Instant::now();
        let refused = dial_with_retries(&Refuses(None), Duration::from_secs(1)).await.err().unwrap();
        assert_eq!((refused.kind(), since.elapsed()), (io::ErrorKind::ConnectionRefused, Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_is_believed_although_other_attempts_are_under_way() {
        let (since, every) = (Instant::now(), Duration::from_secs(1));
        let refused = dial_with_retries(&Refuses(Some(every * 3 / 2)), every).await.err().unwrap();
        assert_eq!(since.elapsed(), every * 3 / 2);
        assert!(is_permanent(&refused), "{refused}");
        assert_eq!(refused.to_string(), "ask for more rights");
    }
}
