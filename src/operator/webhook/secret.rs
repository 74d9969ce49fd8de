//! The certificates of the webhook in a Secret of our own namespace, for every replica.
//!
//! Nobody overwrites what he has not seen: the first one creates the Secret, a later one replaces the very version that it
//! read. Whoever is too late reads again, and takes what is there.

use std::sync::{Mutex, PoisonError};

use futures::FutureExt as _;
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::core::ObjectMeta;

use crate::{
    api::names,
    k8s::{K8sError, Kube},
    server::webhook::{Kept, Store, StoreError, StoreFuture},
};

/// Its name, also in `deploy/webhook`.
pub(super) const NAME: &str = "capt-webhook-certificates";

/// The Secret, and what it was when it was read last.
#[derive(Debug)]
pub(super) struct SharedSecret {
    kube: Kube,
    namespace: String,
    seen: Mutex<Option<Secret>>,
}

impl SharedSecret {
    pub(super) fn new(kube: Kube, namespace: &str) -> Self {
        Self { kube, namespace: namespace.to_owned(), seen: Mutex::default() }
    }

    fn seen(&self) -> Option<Secret> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn see(&self, secret: Option<Secret>) {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = secret;
    }

    fn empty(&self) -> Secret {
        let provider = (names::PROVIDER_LABEL.to_owned(), "infrastructure-capt".to_owned());
        Secret {
            metadata: ObjectMeta {
                name: Some(NAME.to_owned()),
                namespace: Some(self.namespace.clone()),
                labels: Some([provider].into()),
                ..ObjectMeta::default()
            },
            type_: Some("Opaque".to_owned()),
            ..Secret::default()
        }
    }

    async fn read(&self) -> Result<Option<Kept>, StoreError> {
        let found: Option<Secret> = self
            .kube
            .get(Some(&self.namespace), NAME)
            .await
            .map_err(|error| StoreError::Failed { verb: "read", source: error.into() })?;
        let kept = found.as_ref().map(texts);
        self.see(found);
        Ok(kept)
    }

    async fn write(&self, kept: &Kept) -> Result<(), StoreError> {
        let seen = self.seen();
        let mut secret = seen.clone().unwrap_or_else(|| self.empty());
        let data = kept.reveal().iter().map(|(name, text)| (name.clone(), ByteString(text.clone().into())));
        secret.data = Some(data.collect());
        let written = match seen {
            // With the version that was read in it.
            Some(_) => self.kube.replace(&secret).await,
            None => self.kube.create(&secret).await,
        };
        match written {
            Ok(written) => {
                self.see(Some(written));
                Ok(())
            }
            Err(error) if error.is_conflict() => Err(StoreError::Conflict),
            // Somebody deleted it since.
            Err(K8sError::NotFound { .. }) if self.seen().is_some() => Err(StoreError::Conflict),
            Err(error) => Err(StoreError::Failed { verb: "written", source: error.into() }),
        }
    }
}

/// What is no text makes no sense, and is made anew.
fn texts(secret: &Secret) -> Kept {
    let data = secret.data.iter().flatten();
    let text = |bytes: &ByteString| String::from_utf8(bytes.0.clone()).ok();
    let texts = data.filter_map(|(name, bytes)| Some((name.clone(), text(bytes)?)));
    texts.collect::<std::collections::BTreeMap<_, _>>().into()
}

impl Store for SharedSecret {
    fn load(&self) -> StoreFuture<'_, Option<Kept>> {
        self.read().boxed()
    }

    fn save<'a>(&'a self, kept: &'a Kept) -> StoreFuture<'a, ()> {
        self.write(kept).boxed()
    }
}
