//! Reviews over a real socket with TLS.

use std::{sync::atomic::Ordering, time::Duration};

use capt_kube::certificate::{CertificateDirectory, PublishBundle};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::*;

struct Running {
    address: SocketAddr,
    certificates: Arc<Certificates>,
    stop: CancellationToken,
    _dir: tempfile::TempDir,
}

async fn start(now: fn() -> jiff::Timestamp) -> Running {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(CertificateDirectory::new(dir.path().join("webhook")));
    let names = vec!["127.0.0.1".to_owned(), "capt-webhook.capt-system.svc".to_owned()];
    let certificates = Arc::new(Certificates::open_at(store, names, now).await.unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let webhook = Webhook::new(Arc::new(NoLookup), Limits::default());
    let (keeper, token) = (Arc::clone(&certificates), stop.clone());
    tokio::spawn(async move { webhook.serve(listener, &keeper, token).await.unwrap() });
    Running { address, certificates, stop, _dir: dir }
}

async fn connect(address: SocketAddr, ca: &str, name: &'static str) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(ca.as_bytes()) {
        roots.add(certificate.unwrap()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(address).await.unwrap();
    TlsConnector::from(Arc::new(config)).connect(ServerName::try_from(name).unwrap(), stream).await
}

fn certificate(stream: &TlsStream<TcpStream>) -> Vec<u8> {
    stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
}

async fn request(stream: &mut TlsStream<TcpStream>, head: &str, body: &[u8]) -> (u16, Vec<u8>) {
    exchange(stream, head, body).await.expect("an answer")
}

/// Nothing if the connection was reset before the answer arrived.
async fn exchange(stream: &mut TlsStream<TcpStream>, head: &str, body: &[u8]) -> Option<(u16, Vec<u8>)> {
    let length = body.len();
    let head = format!("{head} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    // A body that is refused is not read to its end.
    let _ = stream.write_all(body).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    let end = answer.windows(4).position(|it| it == b"\r\n\r\n")?;
    let status = String::from_utf8_lossy(&answer[9..12]).parse().unwrap();
    Some((status, answer[end + 4..].to_vec()))
}

#[tokio::test]
async fn a_review_over_tls_with_the_made_authority() {
    let running = start(terraform_driver::clock::now).await;
    let ca = running.certificates.ca_bundle();
    for name in ["127.0.0.1", "capt-webhook.capt-system.svc"] {
        let mut stream = connect(running.address, &ca, name).await.unwrap();
        let review = body("CREATE", Some(&template("locals {")), None);
        let (status, answer) = request(&mut stream, "POST /validate", &review).await;
        assert_eq!(status, 200);
        assert!(heard(&answer).refusal.unwrap().contains("does not parse"));
    }
    assert!(connect(running.address, &ca, "other.example").await.is_err(), "a name that it is not for");
    let other = start(terraform_driver::clock::now).await;
    let stranger = other.certificates.ca_bundle();
    assert!(
        connect(running.address, &stranger, "127.0.0.1").await.is_err(),
        "an authority that is not its own"
    );
}

#[tokio::test]
async fn what_is_no_review_is_refused() {
    let running = start(terraform_driver::clock::now).await;
    let ca = running.certificates.ca_bundle();
    for (head, body, expected) in [
        ("POST /validate", b"garbage".to_vec(), 400),
        ("GET /validate", Vec::new(), 405),
        ("POST /", Vec::new(), 404),
    ] {
        let mut stream = connect(running.address, &ca, "127.0.0.1").await.unwrap();
        assert_eq!(request(&mut stream, head, &body).await.0, expected, "{head}");
    }
    // Who still writes when the answer is given may lose it to a reset; then it is asked again.
    let (large, mut answer) = (vec![b' '; MAX_BODY_BYTES + 1], None);
    for _ in 0..10 {
        let mut stream = connect(running.address, &ca, "127.0.0.1").await.unwrap();
        answer = exchange(&mut stream, "POST /validate", &large).await;
        if answer.is_some() {
            break;
        }
    }
    assert_eq!(answer.expect("an answer in ten attempts").0, 413);
}

/// A clock that can be turned: days that are added to today.
static DAYS: std::sync::atomic::AtomicI64 = std::sync::atomic::AtomicI64::new(0);

fn turned() -> jiff::Timestamp {
    terraform_driver::clock::now() + jiff::SignedDuration::from_hours(24 * DAYS.load(Ordering::SeqCst))
}

#[tokio::test]
async fn a_rotation_changes_the_certificate_of_new_connections_and_leaves_the_old_ones() {
    DAYS.store(-61, Ordering::SeqCst);
    let running = start(turned).await;
    let ca = running.certificates.ca_bundle();
    let mut before = connect(running.address, &ca, "127.0.0.1").await.unwrap();
    let same = connect(running.address, &ca, "127.0.0.1").await.unwrap();
    assert_eq!(certificate(&before), certificate(&same));

    DAYS.store(0, Ordering::SeqCst);
    let (keeper, token) = (Arc::clone(&running.certificates), running.stop.clone());
    let publish: PublishBundle = Box::new(|_| ready(Ok(())).boxed());
    tokio::spawn(async move { keeper.renew_until_stopped(publish, token).await });
    let mut after = connect(running.address, &ca, "127.0.0.1").await.unwrap();
    let renewed = async {
        while certificate(&after) == certificate(&before) {
            tokio::time::sleep(Duration::from_millis(50)).await;
            after = connect(running.address, &ca, "127.0.0.1").await.unwrap();
        }
    };
    tokio::time::timeout(Duration::from_mins(2), renewed).await.expect("29 days are left");
    let review = body("CREATE", Some(&template("locals {}")), None);
    assert_eq!(request(&mut before, "POST /validate", &review).await.0, 200);
    assert_eq!(request(&mut after, "POST /validate", &review).await.0, 200);
}
