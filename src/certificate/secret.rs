//! Certificates in a Secret, for every replica.
//!
//! Nobody overwrites what he has not seen: the first one creates the Secret, a later one replaces the very version that it
//! read. Whoever is too late reads again, and takes what is there.

use std::sync::{Mutex, PoisonError};

use futures::FutureExt as _;
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::core::ObjectMeta;

use super::{Kept, Store, StoreError, StoreFuture};
use crate::k8s::{K8sError, Kube};

/// The Secret, and what it was when it was read last.
#[derive(Debug)]
pub struct SharedSecret {
    kube: Kube,
    /// Its name, its namespace and its labels.
    meta: ObjectMeta,
    seen: Mutex<Option<Secret>>,
}

impl SharedSecret {
    /// The Secret of this name, with this label if it has to be made.
    pub fn new(kube: Kube, (namespace, name): (&str, &str), label: (&str, &str)) -> Self {
        let meta = ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(namespace.to_owned()),
            labels: Some([(label.0.to_owned(), label.1.to_owned())].into()),
            ..ObjectMeta::default()
        };
        Self { kube, meta, seen: Mutex::default() }
    }

    fn seen(&self) -> Option<Secret> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn see(&self, secret: Option<Secret>) {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = secret;
    }

    fn empty(&self) -> Secret {
        Secret { metadata: self.meta.clone(), type_: Some("Opaque".to_owned()), ..Secret::default() }
    }

    async fn read(&self) -> Result<Option<Kept>, StoreError> {
        let found: Option<Secret> = self
            .kube
            .get(self.meta.namespace.as_deref(), self.meta.name.as_deref().unwrap_or_default())
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
