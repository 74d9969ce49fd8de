//! How an agent reaches its gateway.

use std::{future::Future, io, pin::Pin, sync::Arc};

use tokio::net::TcpStream;
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
