//! From wishes to a running cluster.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    sync::Arc,
};

use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    EmbeddedKube, bootstrap,
    files::{self, FileError},
    kubeconfig,
};
use crate::{
    auth::{self, Auth, Bearers, Eks, KeyError, Signer, Sts},
    clock, controllers, crd,
    failure::Failure,
    faults::{Faults, Requests},
    front::{
        Front,
        listen::Listener,
        tls::{Authority, TlsError},
    },
    kinds,
    registry::Registry,
    request::User,
    store::{Place, Settings, Store, StoreError},
    verbs::Server,
};

/// A cluster did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The store did not open.
    #[error("the store did not open")]
    Store(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A file in the data directory.
    #[error("a file in the data directory is not usable")]
    File(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Certificates.
    #[error("TLS could not be set up")]
    Tls(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The address.
    #[error("cannot listen at {address}")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The objects that every cluster has.
    #[error("the first objects could not be made")]
    Bootstrap(#[source] Failure),
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

/// Where a cluster listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen {
    address: SocketAddr,
    names: Vec<String>,
}

impl Listen {
    /// At a free port of this machine's own interface.
    pub fn loopback() -> Self {
        Self::at(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0))
    }

    /// At this address; port 0 stands for a free one.
    pub fn at(address: SocketAddr) -> Self {
        Self { address, names: Vec::new() }
    }

    /// A further name or address that the certificate is good for.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
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

/// What a cluster is to be like.
#[derive(Debug)]
#[must_use]
pub struct Builder {
    data: Option<PathBuf>,
    listen: Option<Listen>,
    name: String,
    tokens: Vec<(String, User)>,
    sts: Option<Sts>,
    controllers: bool,
    history: Option<usize>,
    request_log: bool,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            data: None,
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
    /// Keeps nothing; gone when it stops.
    pub fn in_memory(mut self) -> Self {
        self.data = None;
        self
    }

    /// Keeps everything in this directory, which is made if it is missing. One cluster per directory.
    pub fn data(mut self, directory: impl Into<PathBuf>) -> Self {
        self.data = Some(directory.into());
        self
    }

    /// Serves HTTPS too, beside the clients in this process.
    pub fn listen(mut self, listen: Listen) -> Self {
        self.listen = Some(listen);
        self
    }

    /// The cluster's name, as the kubeconfig has it.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// A bearer token of this user's, beside the administrator's.
    pub fn token(mut self, token: impl Into<String>, user: User) -> Self {
        self.tokens.push((token.into(), user));
        self
    }

    /// Takes EKS tokens, checked against this STS.
    pub fn sts(mut self, sts: Sts) -> Self {
        self.sts = Some(sts);
        self
    }

    /// Whether the garbage collector, namespaces, Deployments and so on are looked after; they are unless told not to.
    pub fn controllers(mut self, run: bool) -> Self {
        self.controllers = run;
        self
    }

    /// How many past events watches may begin at.
    pub fn history(mut self, events: usize) -> Self {
        self.history = Some(events);
        self
    }

    /// Whether requests are logged for [`EmbeddedKube::requests`]; they are unless told not to. A full log takes some
    /// megabytes, and tens of them if callers send long names: turn it off where nobody reads it.
    pub fn request_log(mut self, keep: bool) -> Self {
        self.request_log = keep;
        self
    }

    /// Starts it. When this returns, it is ready.
    pub async fn start(self) -> Result<EmbeddedKube, StartError> {
        if let Some(data) = &self.data {
            files::directory(data)?;
        }
        // The store first: whoever has its lock, and nobody else, makes the credentials.
        let store = self.open().await?;
        let credentials = Credentials::load(self.data.as_deref())?;
        let registry = Arc::new(Registry::with(kinds::resources()));
        let server = Server::new(store.clone(), Arc::clone(&registry));
        let mut keeper = crd::Keeper::new(store.clone(), Arc::clone(&registry), Arc::new(server.clone()));
        // What was defined before is served from the first request on.
        keeper.load();
        bootstrap::bootstrap(&server).await.map_err(StartError::Bootstrap)?;
        let cancel = CancellationToken::new();
        let requests = if self.request_log { Requests::default() } else { Requests::off() };
        let faults = faults(&store);
        let tokens = self.tokens.iter().cloned().chain([(credentials.token.clone(), auth::admin())]);
        let signer = Signer::of(&credentials.signing_key)?;
        let bearers = Bearers::new(tokens, signer, self.sts.clone().map(Eks::new));
        let auth = Auth::new(bearers, Arc::new(store.clone()));
        let front = Front::new(Arc::new(server), auth, faults.clone(), requests.clone(), cancel.clone());
        let mut kube = EmbeddedKube {
            name: self.name.clone(),
            front,
            faults,
            requests,
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
            let settings = controllers::Settings { ca: Some(credentials.authority.certificate) };
            let running = controllers::start(&kube.client(), &kube.store, &registry, settings, &kube.cancel);
            kube.tasks.spawn(async move { running.wait().await });
        }
        Ok(kube)
    }

    async fn open(&self) -> Result<Store, StoreError> {
        let place = self.data.as_ref().map_or(Place::Memory, |data| Place::Dir(data.join("store")));
        let mut settings = Settings::default();
        if let Some(history) = self.history {
            settings.history = history;
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
        let tls = credentials.authority.server(&listen.all_names(), clock::now())?;
        let listener = Listener::start(kube.front.clone(), address, tls)
            .await
            .map_err(|source| StartError::Listen { address, source })?;
        let mut shown = listener.address();
        if shown.ip().is_unspecified() {
            shown.set_ip(IpAddr::V4(Ipv4Addr::LOCALHOST));
        }
        let text = kubeconfig::kubeconfig(
            &self.name,
            &format!("https://{shown}"),
            &credentials.authority.certificate,
            &credentials.token,
        );
        if let Some(data) = &self.data {
            let path = data.join("kubeconfig");
            files::write(&path, text.as_bytes())?;
            kube.kubeconfig_path = Some(path);
        }
        kube.kubeconfig = Some(text);
        kube.listener = Some(listener);
        Ok(())
    }
}

fn faults(store: &Store) -> Faults {
    let (expiring, reading) = (store.clone(), store.clone());
    Faults::new(move || expiring.expire_history(), move || reading.revision())
}

/// What must stay the same from one start to the next.
struct Credentials {
    authority: Authority,
    signing_key: Vec<u8>,
    token: String,
}

impl Credentials {
    fn load(data: Option<&Path>) -> Result<Self, StartError> {
        let make_token = || format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple());
        let Some(data) = data else {
            return Ok(Self {
                authority: Authority::generate(clock::now())?,
                signing_key: Signer::generate()?,
                token: make_token(),
            });
        };
        let pki = data.join("pki");
        files::directory(&pki)?;
        Ok(Self {
            authority: authority(&pki)?,
            signing_key: files::kept(&pki.join("sa.key"), || Ok::<_, StartError>(Signer::generate()?))?,
            token: text(&files::kept(&data.join("token"), || {
                Ok::<_, StartError>(make_token().into_bytes())
            })?),
        })
    }
}

/// Both halves are in one file, so that they cannot fall apart.
fn authority(pki: &Path) -> Result<Authority, StartError> {
    const MARK: &str = "-----BEGIN PRIVATE KEY-----";
    let both = text(&files::kept(&pki.join("ca.pem"), || {
        let made = Authority::generate(clock::now())?;
        Ok::<_, StartError>(format!("{}{}", made.certificate, made.key).into_bytes())
    })?);
    let (certificate, key) = both.split_at(both.find(MARK).unwrap_or(both.len()));
    Ok(Authority { certificate: certificate.to_owned(), key: key.to_owned() })
}

fn text(bytes: &[u8]) -> String {
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
