//! Certificate store in a Secret, shared by all replicas.
//!
//! Writes use optimistic concurrency: the first replica creates the Secret, later writes carry the resourceVersion that was
//! read. On a conflict the Secret is read again.

use std::sync::{Mutex, PoisonError};

use futures::FutureExt as _;
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::core::ObjectMeta;

use super::{CertificateFiles, CertificateStore, CertificateStoreError, StoreFuture};
use crate::k8s::{K8sError, KubeClient};

/// The Secret and its last read version.
#[derive(Debug)]
pub struct CertificateSecret {
    kube: KubeClient,
    /// Name, namespace and labels.
    meta: ObjectMeta,
    last_read: Mutex<Option<Secret>>,
}

impl CertificateSecret {
    /// The Secret of this name; created with this label.
    pub fn new(kube: KubeClient, (namespace, name): (&str, &str), label: (&str, &str)) -> Self {
        let meta = ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(namespace.to_owned()),
            labels: Some([(label.0.to_owned(), label.1.to_owned())].into()),
            ..ObjectMeta::default()
        };
        Self { kube, meta, last_read: Mutex::default() }
    }

    fn last_read(&self) -> Option<Secret> {
        self.last_read.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set_last_read(&self, secret: Option<Secret>) {
        *self.last_read.lock().unwrap_or_else(PoisonError::into_inner) = secret;
    }

    fn empty_secret(&self) -> Secret {
        Secret { metadata: self.meta.clone(), type_: Some("Opaque".to_owned()), ..Secret::default() }
    }

    async fn load_files(&self) -> Result<Option<CertificateFiles>, CertificateStoreError> {
        let found: Option<Secret> = self
            .kube
            .get(self.meta.namespace.as_deref(), self.meta.name.as_deref().unwrap_or_default())
            .await
            .map_err(|error| CertificateStoreError::Failed { verb: "read", source: error.into() })?;
        let kept = found.as_ref().map(decode_files);
        self.set_last_read(found);
        Ok(kept)
    }

    async fn save_files(&self, kept: &CertificateFiles) -> Result<(), CertificateStoreError> {
        let seen = self.last_read();
        let mut secret = seen.clone().unwrap_or_else(|| self.empty_secret());
        let data = kept.reveal().iter().map(|(name, text)| (name.clone(), ByteString(text.clone().into())));
        secret.data = Some(data.collect());
        let written = match seen {
            // Carries the resourceVersion that was read.
            Some(_) => self.kube.replace(&secret).await,
            None => self.kube.create(&secret).await,
        };
        match written {
            Ok(written) => {
                self.set_last_read(Some(written));
                Ok(())
            }
            Err(error) if error.is_conflict() => Err(CertificateStoreError::Conflict),
            // Deleted since it was read.
            Err(K8sError::NotFound { .. }) if self.last_read().is_some() => {
                Err(CertificateStoreError::Conflict)
            }
            Err(error) => Err(CertificateStoreError::Failed { verb: "written", source: error.into() }),
        }
    }
}

/// Skips values that are not UTF-8; the incomplete bundle is then reissued.
fn decode_files(secret: &Secret) -> CertificateFiles {
    let data = secret.data.iter().flatten();
    let text = |bytes: &ByteString| String::from_utf8(bytes.0.clone()).ok();
    let texts = data.filter_map(|(name, bytes)| Some((name.clone(), text(bytes)?)));
    texts.collect::<std::collections::BTreeMap<_, _>>().into()
}

impl CertificateStore for CertificateSecret {
    fn load(&self) -> StoreFuture<'_, Option<CertificateFiles>> {
        self.load_files().boxed()
    }

    fn save<'a>(&'a self, kept: &'a CertificateFiles) -> StoreFuture<'a, ()> {
        self.save_files(kept).boxed()
    }
}
