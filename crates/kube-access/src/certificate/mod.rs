//! Serving certificates: self-issued, shared between replicas, renewed before they expire.
//!
//! A private CA signs the serving certificate; clients trust the CA. The serving certificate is valid for 90 days and renewed
//! 30 days before expiry; the CA is valid for ten years and renewed long before a certificate could outlive it. A new CA is
//! published together with the old one before anything signed by it is served.

mod issue;
mod secret;
mod store;

use std::sync::{Arc, PoisonError, RwLock};

use futures::future::BoxFuture;
use issue::{CertificateBundle, Renewal};
use jiff::Timestamp;
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
pub use secret::CertificateSecret;
pub use store::{
    CertificateDirectory, CertificateFiles, CertificateStore, CertificateStoreError, StoreFuture,
};
use tokio_util::sync::CancellationToken;

/// How often renewals, also by other replicas, are checked.
const CHECK_INTERVAL: std::time::Duration = std::time::Duration::from_hours(1);
/// Delay after a failed check.
const RETRY_DELAY: std::time::Duration = std::time::Duration::from_mins(1);
/// Maximum write conflicts per check.
const MAX_CONFLICTS: usize = 5;

/// Why a certificate is not available.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// Issuing failed.
    #[error("cannot issue a certificate")]
    Issue(#[from] rcgen::Error),
    /// rustls rejected it.
    #[error("cannot use the certificate")]
    Use(#[from] rustls::Error),
    /// The stored PEM is invalid.
    #[error("cannot parse the stored certificate")]
    Read(#[from] rustls::pki_types::pem::Error),
    /// Date arithmetic failed.
    #[error("the system clock is out of range")]
    Clock(#[from] jiff::Error),
    /// No names to issue a certificate for.
    #[error("the server has no host name or address to issue a certificate for; configure one")]
    NoNames,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] CertificateStoreError),
    /// Publishing the CA bundle failed.
    #[error("cannot publish the CA bundle to the API server")]
    Publish(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Publishes the CA bundle (PEM) to the API server. Called at every check, because others may have changed it; must not
/// write if nothing differs.
pub type PublishBundle = Box<
    dyn Fn(String) -> BoxFuture<'static, Result<(), Box<dyn std::error::Error + Send + Sync>>> + Send + Sync,
>;

/// The current serving certificate and its renewal.
#[derive(Debug)]
pub struct Certificates {
    store: Arc<dyn CertificateStore>,
    names: Vec<String>,
    served: Arc<ServedCertificate>,
    now: fn() -> Timestamp,
}

/// The certificate that new connections get.
#[derive(Debug)]
struct ServedCertificate(RwLock<CurrentCertificate>);

#[derive(Clone, Debug)]
struct CurrentCertificate {
    key: Arc<CertifiedKey>,
    ca_bundle: String,
    certificate: String,
}

impl ServedCertificate {
    fn current(&self) -> CurrentCertificate {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn swap(&self, current: CurrentCertificate) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = current;
    }
}

impl ResolvesServerCert for ServedCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current().key)
    }
}

impl Certificates {
    /// Loads the stored certificate for these names and addresses, or issues one.
    pub async fn open(
        store: Arc<dyn CertificateStore>,
        names: Vec<String>,
    ) -> Result<Self, CertificateError> {
        Self::open_at(store, names, terraform_driver::clock::now).await
    }

    /// [`Self::open`] with a given clock.
    pub async fn open_at(
        store: Arc<dyn CertificateStore>,
        names: Vec<String>,
        now: fn() -> Timestamp,
    ) -> Result<Self, CertificateError> {
        if names.is_empty() {
            return Err(CertificateError::NoNames);
        }
        let current = certified_key(&load_or_renew(store.as_ref(), &names, now()).await?)?;
        Ok(Self { store, names, served: Arc::new(ServedCertificate(RwLock::new(current))), now })
    }

    /// The CA bundle that clients must trust, as PEM.
    pub fn ca_bundle(&self) -> String {
        self.served.current().ca_bundle
    }

    /// A TLS server configuration; new connections use the current certificate.
    pub fn server_config(&self) -> Result<ServerConfig, CertificateError> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&self.served) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }

    /// Renews the certificate and publishes the CA bundle until `stop` is cancelled.
    pub async fn renew_until_stopped(&self, publish: PublishBundle, stop: CancellationToken) {
        loop {
            let pause = match self.refresh(&publish).await {
                Ok(()) => CHECK_INTERVAL,
                Err(error) => {
                    let source = std::error::Error::source(&error);
                    tracing::warn!(%error, source, "certificate check failed, retrying");
                    RETRY_DELAY
                }
            };
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// One check. Publishes a new CA before serving certificates signed by it.
    async fn refresh(&self, publish: &PublishBundle) -> Result<(), CertificateError> {
        let next = certified_key(&load_or_renew(self.store.as_ref(), &self.names, (self.now)()).await?)?;
        publish(next.ca_bundle.clone()).await.map_err(CertificateError::Publish)?;
        if self.served.current().certificate != next.certificate {
            tracing::info!("serving a new certificate");
        }
        self.served.swap(next);
        Ok(())
    }
}

/// The stored bundle, renewed if due. On a write conflict the other replica's bundle is used.
async fn load_or_renew(
    store: &dyn CertificateStore,
    names: &[String],
    now: Timestamp,
) -> Result<CertificateBundle, CertificateError> {
    let mut conflicts = 0;
    loop {
        let kept = store.load().await?.and_then(|kept| {
            // The store may contain anything; replace an invalid bundle.
            let issued = CertificateBundle::from_files(&kept)
                .filter(|it| certified_key(it).is_ok() && it.is_consistent());
            if issued.is_none() {
                tracing::warn!("the stored certificate is invalid; issuing a new one");
            }
            issued
        });
        let renewed = match CertificateBundle::renew(kept, names, now)? {
            Renewal::Unchanged(kept) => return Ok(kept),
            Renewal::Renewed(renewed) => renewed,
        };
        match store.save(&renewed.to_files()).await {
            Ok(()) => return Ok(renewed),
            Err(CertificateStoreError::Conflict) if conflicts < MAX_CONFLICTS => conflicts += 1,
            Err(error) => return Err(error.into()),
        }
    }
}

fn certified_key(issued: &CertificateBundle) -> Result<CurrentCertificate, CertificateError> {
    let chain: Vec<CertificateDer<'static>> =
        CertificateDer::pem_slice_iter(issued.certificate.as_bytes()).collect::<Result<_, _>>()?;
    let key = PrivateKeyDer::from_pem_slice(issued.key.expose().as_bytes())?;
    let key = CertifiedKey::from_der(chain, key, &rustls::crypto::aws_lc_rs::default_provider())?;
    let (ca_bundle, certificate) = (issued.ca_bundle(), issued.certificate.clone());
    Ok(CurrentCertificate { key: Arc::new(key), ca_bundle, certificate })
}

#[cfg(test)]
mod tests;
