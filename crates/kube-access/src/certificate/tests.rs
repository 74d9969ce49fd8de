//! When certificates are renewed, and who gets to know.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use futures::future::{FutureExt as _, ready};

use super::{store::CertificateFiles, *};

/// A Secret that several replicas write.
#[derive(Clone, Debug, Default)]
struct Secret(Arc<Mutex<(u64, Option<CertificateFiles>)>>);

/// One of them.
#[derive(Debug, Default)]
struct Replica {
    secret: Secret,
    seen: Mutex<u64>,
    /// Its first look happens before the other one wrote.
    looked_early: AtomicBool,
}

impl CertificateStore for Replica {
    fn load(&self) -> StoreFuture<'_, Option<CertificateFiles>> {
        if self.looked_early.swap(false, Ordering::SeqCst) {
            return ready(Ok(None)).boxed();
        }
        let (version, kept) = self.secret.0.lock().unwrap().clone();
        *self.seen.lock().unwrap() = version;
        ready(Ok(kept)).boxed()
    }

    fn save<'a>(&'a self, kept: &'a CertificateFiles) -> StoreFuture<'a, ()> {
        let mut secret = self.secret.0.lock().unwrap();
        let mut seen = self.seen.lock().unwrap();
        if secret.0 != *seen {
            return ready(Err(CertificateStoreError::Conflict)).boxed();
        }
        *secret = (secret.0 + 1, Some(kept.clone()));
        *seen = secret.0;
        ready(Ok(())).boxed()
    }
}

fn day(days: i64) -> Timestamp {
    let start: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
    start + jiff::SignedDuration::from_hours(24 * days)
}

fn names() -> Vec<String> {
    vec!["capt-webhook.capt-system.svc".to_owned()]
}

async fn at(store: &Replica, days: i64) -> (String, String) {
    let issued = load_or_renew(store, &names(), day(days)).await.unwrap();
    (issued.certificate.clone(), issued.ca_bundle())
}

#[tokio::test]
async fn a_certificate_is_renewed_when_thirty_days_are_left() {
    let store = Replica::default();
    let (first, ca) = at(&store, 0).await;
    assert_eq!(at(&store, 1).await.0, first);
    assert_eq!(at(&store, 59).await.0, first);
    let (second, same_ca) = at(&store, 60).await;
    assert_ne!(second, first);
    assert_eq!(same_ca, ca, "the authority stays");
    assert_eq!(at(&store, 61).await.0, second);
}

#[tokio::test]
async fn other_names_ask_for_another_certificate_of_the_same_authority() {
    let store = Replica::default();
    let (first, ca) = at(&store, 0).await;
    let other = load_or_renew(&store, &["127.0.0.1".to_owned()], day(0)).await.unwrap();
    assert_ne!(other.certificate, first);
    assert_eq!(other.ca_bundle(), ca);
}

#[tokio::test]
async fn a_new_authority_comes_with_the_old_one() {
    let store = Replica::default();
    let (_, first) = at(&store, 0).await;
    let (_, both) = at(&store, 3650 - 170).await;
    assert_ne!(both, first);
    assert!(both.ends_with(&first), "whoever trusts the new one trusts the old one too");
    let (_, alone) = at(&store, 3650 - 170 + 61).await;
    assert!(!alone.contains(&first) && both.starts_with(&alone), "for a while");
}

#[tokio::test]
async fn the_slower_of_two_replicas_takes_what_the_faster_one_made() {
    let secret = Secret::default();
    let fast = Replica { secret: secret.clone(), ..Replica::default() };
    let slow = Replica { secret, looked_early: true.into(), ..Replica::default() };
    let made = at(&fast, 0).await;
    assert_eq!(at(&slow, 0).await, made);
}

#[tokio::test]
async fn what_makes_no_sense_is_made_anew() {
    let good = Replica::default();
    at(&good, 0).await;
    let kept = good.secret.0.lock().unwrap().1.clone().unwrap();
    for name in ["ca.crt", "ca.key", "tls.crt", "tls.key", "terms.json"] {
        for garbage in [None, Some("garbage")] {
            let mut texts: BTreeMap<String, String> = kept.reveal().clone();
            match garbage {
                None => texts.remove(name),
                Some(text) => texts.insert(name.to_owned(), text.to_owned()),
            };
            let store = Replica::default();
            *store.secret.0.lock().unwrap() = (1, Some(texts.into()));
            let issued = load_or_renew(&store, &names(), day(0)).await.unwrap();
            assert!(certified_key(&issued).is_ok(), "{name} {garbage:?}");
            assert!(issued.ca_bundle().starts_with("-----BEGIN CERTIFICATE"), "{name} {garbage:?}");
        }
    }
}

#[tokio::test]
async fn parts_that_do_not_belong_together_are_made_anew() {
    let (one, other) = (Replica::default(), Replica::default());
    at(&one, 0).await;
    at(&other, 0).await;
    let texts = |store: &Replica| store.secret.0.lock().unwrap().1.clone().unwrap().reveal().clone();
    let mut mixed = texts(&one);
    for name in ["ca.crt", "ca.key"] {
        mixed.insert(name.to_owned(), texts(&other)[name].clone());
    }
    let certificate = mixed["tls.crt"].clone();
    let store = Replica::default();
    *store.secret.0.lock().unwrap() = (1, Some(mixed.into()));
    assert_ne!(at(&store, 1).await.0, certificate, "no client would accept it");
}

#[tokio::test]
async fn an_authority_outlives_a_process_that_was_away_for_long() {
    let store = Replica::default();
    let (first, ca) = at(&store, 0).await;
    let (second, same_ca) = at(&store, 400).await;
    assert_ne!(second, first);
    assert_eq!(same_ca, ca);
}

#[tokio::test]
async fn a_directory_keeps_it_for_the_next_start_and_for_nobody_else() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("webhook");
    let open =
        || Certificates::open_at(Arc::new(CertificateDirectory::new(path.clone())), names(), || day(0));
    let first = open().await.unwrap().ca_bundle();
    assert_eq!(open().await.unwrap().ca_bundle(), first);
    let file = path.join("webhook-certificates.json");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    std::fs::write(&file, "{ no json").unwrap();
    assert_ne!(open().await.unwrap().ca_bundle(), first, "a garbled file is made anew");
}

#[tokio::test]
async fn the_api_server_is_told_before_a_new_authority_is_served() {
    static DAYS: std::sync::atomic::AtomicI64 = std::sync::atomic::AtomicI64::new(0);
    let store = Arc::new(Replica::default());
    let now = || day(DAYS.load(Ordering::SeqCst));
    let certificates = Arc::new(Certificates::open_at(store, names(), now).await.unwrap());
    let first = certificates.ca_bundle();
    let told = Arc::new(Mutex::new(Vec::new()));
    let (list, served) = (Arc::clone(&told), Arc::clone(&certificates));
    let publish: PublishBundle = Box::new(move |bundle| {
        list.lock().unwrap().push((bundle.clone(), served.ca_bundle()));
        let refused = bundle.len() > 10_000;
        ready(if refused { Err("no".into()) } else { Ok(()) }).boxed()
    });
    for days in [0, 1, 3650 - 170, 3650 - 169] {
        DAYS.store(days, Ordering::SeqCst);
        certificates.refresh(&publish).await.unwrap();
    }
    let told = told.lock().unwrap().clone();
    assert_eq!(told.len(), 4, "at every look: somebody else may have told the API server something else");
    assert_eq!(told[0], (first.clone(), first.clone()));
    assert_eq!(told[1], told[0]);
    assert!(told[2].0.ends_with(&first) && told[2].0 != first);
    assert_eq!(told[2].1, first, "the old one was still served");
    assert_eq!(told[3].0, told[2].0);
    assert_eq!(certificates.ca_bundle(), told[2].0);
}

#[tokio::test]
async fn nobody_is_served_what_the_api_server_could_not_be_told() {
    static DAYS: std::sync::atomic::AtomicI64 = std::sync::atomic::AtomicI64::new(0);
    let now = || day(DAYS.load(Ordering::SeqCst));
    let certificates = Certificates::open_at(Arc::new(Replica::default()), names(), now).await.unwrap();
    let first = certificates.ca_bundle();
    DAYS.store(3650 - 170, Ordering::SeqCst);
    let deaf: PublishBundle = Box::new(|_| ready(Err("nobody there".into())).boxed());
    assert!(matches!(certificates.refresh(&deaf).await, Err(CertificateError::Publish(_))));
    assert_eq!(certificates.ca_bundle(), first);
}

#[test]
fn keys_are_not_shown() {
    let kept = CertificateFiles::from(BTreeMap::from([("tls.key".to_owned(), "hunter2".to_owned())]));
    assert_eq!(format!("{kept:?}"), "{\"tls.key\"}");
}
