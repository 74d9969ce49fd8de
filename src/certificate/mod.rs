//! Certificates of servers of ours: made by themselves, kept where every replica finds them, renewed before they end.
//!
//! An authority signs the serving certificate, and clients are given the authority. The serving certificate lives for 90 days
//! and is renewed when 30 are left; the authority lives for ten years and is renewed long before a certificate could outlive
//! it. Clients then get the new authority together with the old one, and get it before anything signed by it is served.

mod issue;
mod secret;
mod store;

use std::sync::{Arc, PoisonError, RwLock};

use futures::future::BoxFuture;
use issue::{Issued, Step};
use jiff::Timestamp;
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
pub use secret::SharedSecret;
pub use store::{Directory, Kept, Store, StoreError, StoreFuture};
use tokio_util::sync::CancellationToken;

/// How often one looks whether there is something to renew, or whether another replica has renewed.
const LOOK: std::time::Duration = std::time::Duration::from_hours(1);
/// How soon after a failure.
const LOOK_AGAIN: std::time::Duration = std::time::Duration::from_mins(1);
/// How often somebody else may be faster in one go.
const MOST_CONFLICTS: usize = 5;

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// Making or signing.
    #[error("a certificate could not be made")]
    Make(#[from] rcgen::Error),
    /// Using.
    #[error("a certificate could not be used")]
    Use(#[from] rustls::Error),
    /// Reading what was kept.
    #[error("a kept certificate could not be read")]
    Read(#[from] rustls::pki_types::pem::Error),
    /// Reckoning dates.
    #[error("the clock is out of range")]
    Clock(#[from] jiff::Error),
    /// Nobody could ever accept it.
    #[error("the server has no name that a certificate could be for; give it a host or an address")]
    NoNames,
    /// Keeping.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Telling clients.
    #[error("the API server could not be told about the authority of our certificates")]
    Publish(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Tells the API server which authorities to trust, as PEM. Called at every look, because others may have told it something
/// else meanwhile; it writes nothing where nothing differs.
pub type Publish = Box<
    dyn Fn(String) -> BoxFuture<'static, Result<(), Box<dyn std::error::Error + Send + Sync>>> + Send + Sync,
>;

/// The current certificate, and the work to keep it current.
#[derive(Debug)]
pub struct Certificates {
    store: Arc<dyn Store>,
    names: Vec<String>,
    served: Arc<Served>,
    now: fn() -> Timestamp,
}

/// What is served at present.
#[derive(Debug)]
struct Served(RwLock<Current>);

#[derive(Clone, Debug)]
struct Current {
    key: Arc<CertifiedKey>,
    ca_bundle: String,
    certificate: String,
}

impl Served {
    fn current(&self) -> Current {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn swap(&self, current: Current) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = current;
    }
}

impl ResolvesServerCert for Served {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current().key)
    }
}

impl Certificates {
    /// Takes what is kept, or makes it, for these names and addresses.
    pub async fn open(store: Arc<dyn Store>, names: Vec<String>) -> Result<Self, CertificateError> {
        Self::open_at(store, names, terraform_driver::clock::now).await
    }

    pub(crate) async fn open_at(
        store: Arc<dyn Store>,
        names: Vec<String>,
        now: fn() -> Timestamp,
    ) -> Result<Self, CertificateError> {
        if names.is_empty() {
            return Err(CertificateError::NoNames);
        }
        let current = usable(&current(store.as_ref(), &names, now()).await?)?;
        Ok(Self { store, names, served: Arc::new(Served(RwLock::new(current))), now })
    }

    /// The authorities that clients have to trust, as PEM.
    pub fn ca_bundle(&self) -> String {
        self.served.current().ca_bundle
    }

    /// A server's configuration. Connections get the certificate that is current when they are made.
    pub fn server_config(&self) -> Result<ServerConfig, CertificateError> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&self.served) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }

    /// Keeps the certificate current, and the API server informed, until it is told to stop.
    pub async fn keep(&self, publish: Publish, stop: CancellationToken) {
        loop {
            let pause = match self.turn(&publish).await {
                Ok(()) => LOOK,
                Err(error) => {
                    let source = std::error::Error::source(&error);
                    tracing::warn!(%error, source, "a certificate was not looked after");
                    LOOK_AGAIN
                }
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// One look. Clients learn of an authority before they meet it.
    async fn turn(&self, publish: &Publish) -> Result<(), CertificateError> {
        let next = usable(&current(self.store.as_ref(), &self.names, (self.now)()).await?)?;
        publish(next.ca_bundle.clone()).await.map_err(CertificateError::Publish)?;
        if self.served.current().certificate != next.certificate {
            tracing::info!("there is a new certificate");
        }
        self.served.swap(next);
        Ok(())
    }
}

/// What is kept, renewed if it is time. If another replica is faster, what it made is taken.
async fn current(store: &dyn Store, names: &[String], now: Timestamp) -> Result<Issued, CertificateError> {
    let mut conflicts = 0;
    loop {
        let kept = store.load().await?.and_then(|kept| {
            // Somebody may have put anything there. A new one is better than none.
            let issued = Issued::read(&kept).filter(|it| usable(it).is_ok() && it.is_whole());
            if issued.is_none() {
                tracing::warn!("the kept certificate cannot be read; a new one is made");
            }
            issued
        });
        let renewed = match Issued::renew(kept, names, now)? {
            Step::Good(kept) => return Ok(kept),
            Step::Renewed(renewed) => renewed,
        };
        match store.save(&renewed.write()).await {
            Ok(()) => return Ok(renewed),
            Err(StoreError::Conflict) if conflicts < MOST_CONFLICTS => conflicts += 1,
            Err(error) => return Err(error.into()),
        }
    }
}

fn usable(issued: &Issued) -> Result<Current, CertificateError> {
    let chain: Vec<CertificateDer<'static>> =
        CertificateDer::pem_slice_iter(issued.certificate.as_bytes()).collect::<Result<_, _>>()?;
    let key = PrivateKeyDer::from_pem_slice(issued.key.expose().as_bytes())?;
    let key = CertifiedKey::from_der(chain, key, &rustls::crypto::aws_lc_rs::default_provider())?;
    let (ca_bundle, certificate) = (issued.ca_bundle(), issued.certificate.clone());
    Ok(Current { key: Arc::new(key), ca_bundle, certificate })
}

#[cfg(test)]
mod tests;
