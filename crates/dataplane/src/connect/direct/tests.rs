use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Request, Response, StatusCode};
use kube::client::Body;
use parking_lot::Mutex as SyncMutex;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{ServerConfig, pki_types::PrivateKeyDer};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::TlsAcceptor;

use super::*;

const TOKEN: &[u8] = b"Bearer secret";

type Issuer = CertifiedIssuer<'static, KeyPair>;

fn issuer() -> Issuer {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// TLS of a router with a certificate of this issuer.
fn acceptor(issuer: &Issuer, name: &str) -> TlsAcceptor {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, issuer).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        )
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

/// An API server that answers every request with this, and counts them.
fn api_server(code: u16, answer: Value, asked: Arc<AtomicUsize>) -> Client {
    let service = tower::service_fn(move |_: Request<Body>| {
        asked.fetch_add(1, Ordering::SeqCst);
        let body = Body::from(answer.to_string().into_bytes());
        let mut response = Response::new(body);
        *response.status_mut() = StatusCode::from_u16(code).unwrap();
        async { Ok::<_, std::convert::Infallible>(response) }
    });
    Client::new(service, "shop")
}

fn published(issuer: &Issuer) -> Client {
    let map = json!({"metadata": {"name": AUTHORITY}, "data": {AUTHORITY_KEY: issuer.pem()}});
    api_server(200, map, Arc::default())
}

/// The pod that a port-forward leads to.
#[derive(Clone)]
struct Pod {
    /// Without TLS it answers nothing.
    tls: Option<TlsAcceptor>,
    /// Everything it could read.
    learned: Arc<SyncMutex<Vec<u8>>>,
    dials: Arc<AtomicUsize>,
}

impl Pod {
    fn new(tls: Option<TlsAcceptor>) -> Self {
        Self { tls, learned: Arc::default(), dials: Arc::default() }
    }
}

impl GatewayDialer for Pod {
    fn dial(&self) -> Pin<Box<dyn Future<Output = io::Result<BoxIo>> + Send + '_>> {
        self.dials.fetch_add(1, Ordering::SeqCst);
        let (agent, mut pod) = tokio::io::duplex(64 * 1024);
        let (tls, learned) = (self.tls.clone(), Arc::clone(&self.learned));
        tokio::spawn(async move {
            let mut read = vec![0; 1024];
            let Some(tls) = tls else {
                if let Ok(length) = pod.read(&mut read).await {
                    learned.lock().extend_from_slice(&read[..length]);
                }
                return;
            };
            let Ok(mut stream) = tls.accept(pod).await else { return };
            while let Ok(length @ 1..) = stream.read(&mut read).await {
                learned.lock().extend_from_slice(&read[..length]);
            }
        });
        Box::pin(async { Ok(Box::new(agent) as BoxIo) })
    }

    fn name(&self) -> String {
        "a router of shop".to_owned()
    }
}

/// What an agent does: opens a connection, and then sends its token.
async fn send_token(dialer: &impl GatewayDialer) -> io::Result<()> {
    let mut stream = dialer.dial().await?;
    stream.write_all(TOKEN).await?;
    stream.shutdown().await?;
    // The pod still writes when its handshake is done, and reads nothing if it cannot.
    let _closed = stream.read_to_end(&mut Vec::new()).await;
    Ok(())
}

fn learned_token(pod: &Pod) -> bool {
    pod.learned.lock().windows(TOKEN.len()).any(|bytes| bytes == TOKEN)
}

#[tokio::test]
async fn h5_a_router_with_the_certificate_of_its_namespace_gets_the_token() {
    let issuer = issuer();
    let router = Pod::new(Some(acceptor(&issuer, &server_name("shop"))));
    let dialer = PinnedDialer::new(router.clone(), published(&issuer), "shop");
    send_token(&dialer).await.unwrap();
    while !learned_token(&router) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn h5_a_pod_that_merely_carries_the_router_label_learns_nothing() {
    let pod = Pod::new(None);
    let dialer = PinnedDialer::new(pod.clone(), published(&issuer()), "shop");
    assert!(send_token(&dialer).await.is_err());
    // The start of a TLS handshake, and nothing else.
    assert_eq!(pod.learned.lock().first(), Some(&0x16));
    assert!(!learned_token(&pod));
}

#[tokio::test]
async fn h5_a_pod_with_another_certificate_is_refused_for_good_and_learns_nothing() {
    let issuer = issuer();
    let strangers = [
        acceptor(&self::issuer(), &server_name("shop")),
        // A router of another namespace, if both had one CA.
        acceptor(&issuer, &server_name("other")),
    ];
    for stranger in strangers {
        let pod = Pod::new(Some(stranger));
        let dialer = PinnedDialer::new(pod.clone(), published(&issuer), "shop");
        let error = send_token(&dialer).await.unwrap_err();
        assert!(is_untrusted_certificate(&error), "{error}");
        assert!(error.to_string().starts_with("a router of shop is not trusted"), "{error}");
        assert!(pod.learned.lock().is_empty());
    }
}

#[tokio::test]
async fn h5_nothing_is_sent_without_a_published_authority() {
    let asked = Arc::<AtomicUsize>::default();
    let pod = Pod::new(None);
    let absent = json!({"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404});
    let client = api_server(404, absent, Arc::clone(&asked));
    let error = send_token(&PinnedDialer::new(pod.clone(), client, "shop")).await.unwrap_err();
    assert!(error.to_string().contains("have not published a CA"), "{error}");
    assert!(error.get_ref().is_none_or(|it| !it.is::<PermanentDialError>()), "it is published soon");
    assert_eq!((asked.load(Ordering::SeqCst), pod.learned.lock().len()), (1, 0));
}

#[tokio::test]
async fn h5_who_may_not_read_the_authority_is_told_what_to_ask_for() {
    let denied = json!({"kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403,
        "message": "configmaps is forbidden"});
    let pod = Pod::new(None);
    let dialer = PinnedDialer::new(pod.clone(), api_server(403, denied, Arc::default()), "shop");
    let error = send_token(&dialer).await.unwrap_err();
    assert!(
        error.get_ref().is_some_and(|cause| cause.downcast_ref::<PermanentDialError>().is_some()),
        "{error}"
    );
    assert!(error.to_string().contains("`get` on the ConfigMap capt-tunnel-authority"), "{error}");
    assert!(pod.learned.lock().is_empty());
}

#[tokio::test]
async fn h5_a_rotated_authority_is_read_again() {
    let (before, after) = (issuer(), issuer());
    let pod = Pod::new(Some(acceptor(&after, &server_name("shop"))));
    let dialer = PinnedDialer::new(pod.clone(), published(&after), "shop");
    let place = "the ConfigMap shop/capt-tunnel-authority";
    let old = direct_tls("a router", &server_name("shop"), before.pem().as_bytes(), place).unwrap();
    *dialer.trusted.lock().await = Some(old);
    send_token(&dialer).await.unwrap();
    assert_eq!(pod.dials.load(Ordering::SeqCst), 2);
}
