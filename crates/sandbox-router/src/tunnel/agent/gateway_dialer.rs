//! How an agent reaches its gateway.

use std::{future::Future, io, pin::Pin, sync::Arc, time::Duration};

use futures::{StreamExt as _, stream::FuturesUnordered};
use tokio::{net::TcpStream, time::sleep};
use tokio_rustls::{
    TlsConnector,
    rustls::{CertificateError, ClientConfig, Error, pki_types::ServerName},
};

use super::BoxIo;

/// Opens a connection to one gateway.
pub trait Dial: Send + Sync + 'static {
    /// A new connection.
    fn dial(&self) -> Pin<Box<dyn Future<Output = io::Result<BoxIo>> + Send + '_>>;

    /// What people call it.
    fn name(&self) -> String;
}

/// A connection, by the first of several attempts that comes to stand. What an attempt sends while the path is away is
/// lost, and sent again after pauses that become longer and longer; so another attempt begins every now and then. One that
/// fails is the last, unless others are under way.
pub(super) async fn first(dial: &dyn Dial, every: Duration) -> io::Result<BoxIo> {
    let mut attempts = FuturesUnordered::new();
    loop {
        attempts.push(dial.dial());
        let next = sleep(every);
        tokio::pin!(next);
        loop {
            tokio::select! {
                Some(ended) = attempts.next() => match ended {
                    Err(error) if !attempts.is_empty() && !is_final(&error) => {}
                    ended => return ended,
                },
                () = &mut next => break,
            }
        }
    }
}

/// Without TLS: for a gateway on this very machine.
#[derive(Debug, Clone)]
pub struct Tcp {
    /// `host:port`.
    pub address: String,
}

impl Dial for Tcp {
    fn dial(&self) -> Pin<Box<dyn Future<Output = io::Result<BoxIo>> + Send + '_>> {
        Box::pin(async move { Ok(Box::new(socket(&self.address).await?) as BoxIo) })
    }

    fn name(&self) -> String {
        self.address.clone()
    }
}

/// With TLS.
#[derive(Clone)]
pub struct Tls {
    /// `host:port`.
    pub address: String,
    /// The name in the certificate.
    pub server: ServerName<'static>,
    /// Whom to trust.
    pub config: Arc<ClientConfig>,
    /// The same in words: where the authority is from.
    pub authority: String,
}

/// Whether a connection did not come about because the other side's certificate is not to be trusted.
pub fn is_distrust(error: &io::Error) -> bool {
    error.get_ref().and_then(|it| it.downcast_ref::<Distrust>()).is_some()
}

/// Somebody on the way says no, and trying again does not help. The words tell what does.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(pub String);

impl From<Refusal> for io::Error {
    fn from(refusal: Refusal) -> Self {
        Self::other(refusal)
    }
}

/// Whether trying again does not help.
pub(super) fn is_final(error: &io::Error) -> bool {
    is_distrust(error) || error.get_ref().and_then(|it| it.downcast_ref::<Refusal>()).is_some()
}

/// The other side is not who it should be.
#[derive(Debug, thiserror::Error)]
#[error(
    "{address} is not to be trusted: its certificate is none for {name} by the authority in {authority} ({why})"
)]
struct Distrust {
    address: String,
    name: String,
    authority: String,
    why: CertificateError,
}

impl Dial for Tls {
    fn dial(&self) -> Pin<Box<dyn Future<Output = io::Result<BoxIo>> + Send + '_>> {
        Box::pin(async move {
            let socket = socket(&self.address).await?;
            let connector = TlsConnector::from(Arc::clone(&self.config));
            let opened = connector.connect(self.server.clone(), socket).await;
            Ok(Box::new(opened.map_err(|error| self.explain(error))?) as BoxIo)
        })
    }

    fn name(&self) -> String {
        self.address.clone()
    }
}

impl Tls {
    fn explain(&self, error: io::Error) -> io::Error {
        let why = error.get_ref().and_then(|it| it.downcast_ref::<Error>());
        let Some(Error::InvalidCertificate(why)) = why else { return error };
        io::Error::other(Distrust {
            address: self.address.clone(),
            name: self.server.to_str().into_owned(),
            authority: self.authority.clone(),
            why: why.clone(),
        })
    }
}

async fn socket(address: &str) -> io::Result<TcpStream> {
    let socket = TcpStream::connect(address).await?;
    socket.set_nodelay(true)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::time::Instant;

    use super::*;

    /// The first attempts are lost on the way.
    struct Away(AtomicUsize);

    impl Dial for Away {
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
        assert!(first(&Away(AtomicUsize::new(3)), second).await.is_ok());
        assert_eq!(since.elapsed().as_secs(), 3, "one a second");
    }

    /// Refuses everybody; with a word only after a while.
    struct Refuses(Option<Duration>);

    impl Dial for Refuses {
        fn dial(&self) -> Pin<Box<dyn Future<Output = io::Result<BoxIo>> + Send + '_>> {
            Box::pin(async {
                let Some(pause) = self.0 else { return Err(io::ErrorKind::ConnectionRefused.into()) };
                sleep(pause).await;
                Err(Refusal("ask for more rights".to_owned()).into())
            })
        }

        fn name(&self) -> String {
            "refuses".to_owned()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_refused_knows_it_at_once() {
        let since = Instant::now();
        let refused = first(&Refuses(None), Duration::from_secs(1)).await.err().unwrap();
        assert_eq!((refused.kind(), since.elapsed()), (io::ErrorKind::ConnectionRefused, Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_is_believed_although_other_attempts_are_under_way() {
        let (since, every) = (Instant::now(), Duration::from_secs(1));
        let refused = first(&Refuses(Some(every * 3 / 2)), every).await.err().unwrap();
        assert_eq!(since.elapsed(), every * 3 / 2);
        assert!(is_final(&refused), "{refused}");
        assert_eq!(refused.to_string(), "ask for more rights");
    }
}
