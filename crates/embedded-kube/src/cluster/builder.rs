//! Configuration and startup of a cluster.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
};

use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    EmbeddedKube, bootstrap, kubeconfig,
    private_files::{self, FileError},
};
use crate::{
    auth::{self, Auth, EksAuthenticator, KeyError, Signer, StsConfig, TokenAuthenticator},
    clock, controllers, crd,
    fault_injection::{FaultInjector, RequestLog},
    handlers::RequestHandler,
    http_server::{
        HttpServer,
        listen::Listener,
        tls::{CertificateAuthority, TlsError},
    },
    kinds,
    registry::Registry,
    request::User,
    status_error::StatusError,
    store::{HistoryLimits, Store, StoreError, StoreLocation},
};

/// Why a cluster did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The store could not be opened.
    #[error("failed to open the store")]
    Store(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A file in the data directory could not be read or written.
    #[error("failed to read or write a file in the data directory")]
    File(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// TLS setup failed.
    #[error("failed to set up TLS")]
    Tls(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The address could not be bound.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The bootstrap objects could not be created.
    #[error("failed to create the bootstrap objects")]
    Bootstrap(#[source] StatusError),
}

impl From<FileError> for StartError {
    fn from(why: FileError) -> Self {
        Self::File(why.into())
    }
}

impl From<StoreError> for StartError {
    fn from(why: StoreError) -> Self {
        Self::Store(why.into())
    }
}

impl From<TlsError> for StartError {
    fn from(why: TlsError) -> Self {
        Self::Tls(why.into())
    }
}

impl From<KeyError> for StartError {
    fn from(why: KeyError) -> Self {
        Self::File(why.into())
    }
}

/// Listen address and certificate names of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenConfig {
    address: SocketAddr,
    names: Vec<String>,
}

impl ListenConfig {
    /// Listens on a free loopback port.
    pub fn loopback() -> Self {
        Self::at(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0))
    }

    /// Listens on this address; port 0 means a free port.
    pub fn at(address: SocketAddr) -> Self {
        Self { address, names: Vec::new() }
    }

    /// Adds a name or address to the server certificate.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.names.push(name.into());
        self
    }

    fn all_names(&self) -> Vec<String> {
        let mut names: Vec<String> =
            ["localhost", "127.0.0.1", "::1", "kubernetes", "kubernetes.default", "kubernetes.default.svc"]
                .map(str::to_owned)
                .to_vec();
        let ip = self.address.ip();
        if !ip.is_unspecified() {
            names.push(ip.to_string());
        }
        names.extend(self.names.iter().cloned());
        names.sort();
        names.dedup();
        names
    }
}

/// Configuration of a cluster.
#[derive(Debug)]
#[must_use]
pub struct Builder {
    data_dir: Option<PathBuf>,
    listen: Option<ListenConfig>,
    name: String,
    tokens: Vec<(String, User)>,
    sts: Option<StsConfig>,
    controllers: bool,
    history: Option<usize>,
    request_log: bool,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            data_dir: None,
            listen: None,
            name: "embedded-kube".to_owned(),
            tokens: Vec::new(),
            sts: None,
            controllers: true,
            history: None,
            request_log: true,
        }
    }
}

impl Builder {
    /// Keeps all data in memory; it is lost when the cluster stops.
    pub fn in_memory(mut self) -> Self {
        self.data_dir = None;
        self
    }

    /// Stores all data in this directory, which is created if missing. One cluster per directory.
    pub fn data(mut self, directory: impl Into<PathBuf>) -> Self {
        self.data_dir = Some(directory.into());
        self
    }

    /// Serves HTTPS in addition to in-process clients.
    pub fn listen(mut self, listen: ListenConfig) -> Self {
        self.listen = Some(listen);
        self
    }

    /// Cluster name, as used in the kubeconfig.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Adds a static bearer token for this user.
    pub fn token(mut self, token: impl Into<String>, user: User) -> Self {
        self.tokens.push((token.into(), user));
        self
    }

    /// Accepts EKS tokens, verified with this STS.
    pub fn sts(mut self, sts: StsConfig) -> Self {
        self.sts = Some(sts);
        self
    }

    /// Whether the built-in controllers run (garbage collector, namespaces, Deployments, …); true by default.
    pub fn controllers(mut self, run: bool) -> Self {
        self.controllers = run;
        self
    }

    /// Number of past events that are kept for watches.
    pub fn history(mut self, events: usize) -> Self {
        self.history = Some(events);
        self
    }

    /// Whether requests are logged for [`EmbeddedKube::requests`]; true by default. A full log takes a few megabytes,
    /// tens of megabytes if callers send long names: disable it where it is not read.
    pub fn request_log(mut self, keep: bool) -> Self {
        self.request_log = keep;
        self
    }

    /// Starts the cluster. It is ready when this returns.
    pub async fn start(self) -> Result<EmbeddedKube, StartError> {
        if let Some(data) = &self.data_dir {
            private_files::create_dir(data)?;
        }
        // The store comes first: only the holder of its lock creates the credentials.
        let store = self.open().await?;
        let credentials = Credentials::load(self.data_dir.as_deref())?;
        let registry = Arc::new(Registry::new(kinds::resources()));
        let server = RequestHandler::new(store.clone(), Arc::clone(&registry));
        let mut keeper =
            crd::CrdController::new(store.clone(), Arc::clone(&registry), Arc::new(server.clone()));
        // Existing CRDs are served from the first request on.
        keeper.load();
        bootstrap::bootstrap(&server).await.map_err(StartError::Bootstrap)?;
        let cancel = CancellationToken::new();
        let requests = if self.request_log { RequestLog::default() } else { RequestLog::disabled() };
        let faults = fault_injector(&store);
        let tokens = self.tokens.iter().cloned().chain([(credentials.token.clone(), auth::admin())]);
        let signer = Signer::from_pkcs8(&credentials.signing_key)?;
        let bearers = TokenAuthenticator::new(tokens, signer, self.sts.clone().map(EksAuthenticator::new));
        let auth = Auth::new(bearers, Arc::new(store.clone()));
        let front = HttpServer::new(Arc::new(server), auth, faults.clone(), requests.clone(), cancel.clone());
        let mut kube = EmbeddedKube {
            name: self.name.clone(),
            http: front,
            faults,
            request_log: requests,
            listener: None,
            certificate_authority: credentials.authority.certificate.clone(),
            kubeconfig: None,
            kubeconfig_path: None,
            store,
            cancel,
            tasks: TaskTracker::new(),
        };
        kube.tasks.spawn(keeper.run(kube.cancel.clone()));
        self.listen_with(&credentials, &mut kube).await?;
        if self.controllers {
            let settings = controllers::ControllerSettings { ca: Some(credentials.authority.certificate) };
            let running = controllers::start(&kube.client(), &kube.store, &registry, settings, &kube.cancel);
            kube.tasks.spawn(async move { running.wait().await });
        }
        Ok(kube)
    }

    async fn open(&self) -> Result<Store, StoreError> {
        let place = self
            .data_dir
            .as_ref()
            .map_or(StoreLocation::Memory, |data| StoreLocation::Dir(data.join("store")));
        let mut settings = HistoryLimits::default();
        if let Some(history) = self.history {
            settings.events = history;
        }
        Store::open(place, settings).await
    }

    async fn listen_with(
        &self,
        credentials: &Credentials,
        kube: &mut EmbeddedKube,
    ) -> Result<(), StartError> {
        let Some(listen) = &self.listen else { return Ok(()) };
        let address = listen.address;
        let tls = credentials.authority.server_config(&listen.all_names(), clock::now())?;
        let listener = Listener::start(kube.http.clone(), address, tls)
            .await
            .map_err(|source| StartError::Listen { address, source })?;
        let mut shown = listener.address();
        if shown.ip().is_unspecified() {
            shown.set_ip(IpAddr::V4(Ipv4Addr::LOCALHOST));
        }
        let text = kubeconfig::render_kubeconfig(
            &self.name,
            &format!("https://{shown}"),
            &credentials.authority.certificate,
            &credentials.token,
        );
        if let Some(data) = &self.data_dir {
            let path = data.join("kubeconfig");
            private_files::write_private(&path, text.as_bytes())?;
            kube.kubeconfig_path = Some(path);
        }
        kube.kubeconfig = Some(text);
        kube.listener = Some(listener);
        Ok(())
    }
}

fn fault_injector(store: &Store) -> FaultInjector {
    let (expiring, reading) = (store.clone(), store.clone());
    FaultInjector::new(move || expiring.expire_history(), move || reading.revision())
}

/// Credentials that persist across restarts.
struct Credentials {
    authority: CertificateAuthority,
    signing_key: Vec<u8>,
    token: String,
}

impl Credentials {
    fn load(data: Option<&Path>) -> Result<Self, StartError> {
        let make_token = || format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple());
        let Some(data) = data else {
            return Ok(Self {
                authority: CertificateAuthority::generate(clock::now())?,
                signing_key: Signer::generate()?,
                token: make_token(),
            });
        };
        let pki = data.join("pki");
        private_files::create_dir(&pki)?;
        Ok(Self {
            authority: load_authority(&pki)?,
            signing_key: private_files::load_or_create(&pki.join("sa.key"), || {
                Ok::<_, StartError>(Signer::generate()?)
            })?,
            token: lossy_text(&private_files::load_or_create(&data.join("token"), || {
                Ok::<_, StartError>(make_token().into_bytes())
            })?),
        })
    }
}

/// Certificate and key share one file, so they cannot get out of sync.
fn load_authority(pki: &Path) -> Result<CertificateAuthority, StartError> {
    const KEY_PEM_HEADER: &str = "-----BEGIN PRIVATE KEY-----";
    let both = lossy_text(&private_files::load_or_create(&pki.join("ca.pem"), || {
        let made = CertificateAuthority::generate(clock::now())?;
        Ok::<_, StartError>(format!("{}{}", made.certificate, made.key).into_bytes())
    })?);
    let (certificate, key) = both.split_at(both.find(KEY_PEM_HEADER).unwrap_or(both.len()));
    Ok(CertificateAuthority { certificate: certificate.to_owned(), key: key.to_owned() })
}

fn lossy_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_start_that_finds_the_directory_in_use_makes_no_credentials() {
        let dir = tempfile::tempdir().unwrap();
        let holder = Builder::default().data(dir.path()).open().await.unwrap();
        let refused = Builder::default().data(dir.path()).start().await;
        assert!(matches!(refused, Err(StartError::Store(_))));
        assert!(!dir.path().join("token").exists());
        assert!(!dir.path().join("pki").exists());
        drop(holder);
    }
}
